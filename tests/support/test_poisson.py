"""The Poisson law between whole numbers: its mass, its agreement with the Poisson, its slopes."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

import cdp_views as cdp


@pytest.mark.parametrize("rate", [1e-3, 0.1, 1.0, 2.0, 5.0, 20.0, 300.0])
def test_it_integrates_to_one(rate):
    with jax.enable_x64(True):
        law = cdp.ContinuousPoisson(rate)
        at_zero = float(law.log_prob(0.0))

    def density(x):
        return np.exp(at_zero + x * np.log(rate) - gammaln(x + 1))

    points = [max(rate, 0.5), 3 * rate + 5, 10 * rate + 60]
    parts = [quad(density, a, b, epsabs=1e-12)[0] for a, b in zip([0, *points], points)]  # noqa: B905
    np.testing.assert_allclose(sum(parts), 1.0, rtol=1e-9)


def test_at_whole_counts_it_is_the_poisson_times_one_factor(precision):
    x, rate = np.arange(12.0), np.array([[0.5], [4.0], [60.0]])
    ratio = np.asarray(cdp.ContinuousPoisson(rate).log_prob(x) - dist.Poisson(rate).log_prob(x))
    np.testing.assert_allclose(ratio, ratio[:, :1] + np.zeros(12), atol=1e-5)
    assert 0 < ratio[2, 0] + 1e-5 < 1e-4 and ratio[0, 0] > 0.1
    assert np.isneginf(cdp.ContinuousPoisson(1.0).log_prob(-0.5))


def test_the_slope_in_the_rate():
    with jax.enable_x64(True):
        for rate in (0.3, 3.0, 30.0):
            f = lambda r: cdp.ContinuousPoisson(r).log_prob(2.5)  # noqa: E731
            by_steps = (f(rate + 1e-5) - f(rate - 1e-5)) / 2e-5
            np.testing.assert_allclose(jax.grad(f)(rate), by_steps, rtol=1e-6)


def test_a_starting_point_lies_in_the_support(key):
    draws = np.asarray(cdp.ContinuousPoisson(np.array([0.1, 3.0])).sample(key, (200,)))
    assert draws.shape == (200, 2) and draws.min() >= 0
    with pytest.raises(ValueError, match="rate"):
        cdp.ContinuousPoisson(-1.0, validate_args=True)
