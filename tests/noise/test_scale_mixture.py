"""ScaleMixture as NumPyro sees it, against quadrature."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

import cdp_views as cdp


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def make(scale=2.0, loc=0.0):
    return cdp.ScaleMixture(dist.Gamma(4.0, 2.0), loc, scale=scale)


def test_density_and_its_error(key):
    base = make(np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.0, -3.0]))
    x = np.array([1.0, 5.0, 9.0])

    def density(x, loc, scale):
        def inner(s):
            return stats.norm.pdf(x, loc, scale * s) * stats.gamma.pdf(s, 4, scale=0.5)

        return integrate.quad(inner, 0, np.inf, epsabs=1e-14)[0]

    want = [density(*a) for a in zip(x, base.loc, base.scale, strict=True)]
    assert_allclose(base.log_prob(x), np.log(want), rtol=1e-7)
    assert np.all(base.quadrature_error(x) < 1e-9)
    # a law with an edge inside says that its error is larger
    wild = cdp.ScaleMixture(dist.Uniform(0.5, 1.5))
    assert 1e-9 < wild.quadrature_error(1.0) < 1e-3
    draws = np.asarray(make().sample(key, (40_000,)))

    def law(x):
        return integrate.quad(
            lambda s: stats.norm.cdf(x / (2 * s)) * stats.gamma.pdf(s, 4, scale=0.5), 0, 30
        )[0]

    grid = np.linspace(-40, 40, 401)
    place = np.interp(draws, grid, [law(x) for x in grid])
    assert stats.kstest(place, "uniform").pvalue > 1e-4
    assert_allclose(make().variance, 4 * 5.0, rtol=1e-9)
    assert_allclose(make().mean, 0)


def test_numpyro_contract(key):
    base = make(np.array([1.0, 2.0, 0.5]))
    x = base.sample(key, (4,))
    assert x.shape == (4, 3) == base.log_prob(x).shape
    again = pickle.loads(pickle.dumps(base))
    assert_allclose(again.log_prob(x), base.log_prob(x))
    one = jax.jit(lambda b, x: b.log_prob(x))(base, x)
    assert_allclose(one, base.log_prob(x), rtol=1e-12)
    assert base.expand((2, 3)).sample(key).shape == (2, 3)
    assert base.to_event(1).log_prob(x).shape == (4,)

    def density(s):
        return make(s).log_prob(1.3)

    slope = (density(2.0 + 1e-5) - density(2.0 - 1e-5)) / 2e-5
    assert_allclose(jax.grad(density)(2.0), slope, rtol=1e-7)
    batch = cdp.ScaleMixture(dist.Gamma(np.array([2.0, 4.0]), 2.0), 0.0)
    assert batch.batch_shape == (2,)
    assert batch.sample(key, (3,)).shape == (3, 2) == batch.log_prob(jnp.zeros((3, 2))).shape


@pytest.mark.parametrize(
    ("mixing", "error", "message"),
    [
        (1.0, TypeError, r"`mixing` must be a NumPyro distribution on \(0, ∞\)"),
        (dist.Normal(0.0, 1.0), ValueError, "`mixing` must live on positive numbers; got Normal"),
        (dist.Uniform(-1.0, 1.0), ValueError, "`mixing` must live on positive numbers"),
        (dist.Poisson(3.0), cdp.UnsupportedError, "`mixing` must have a density; got a discrete"),
        (dist.Delta(1.0), cdp.UnsupportedError, "`mixing` must have a density"),
        (
            dist.Gamma(np.ones(3), 1.0).to_event(1),
            ValueError,
            r"a law of one number; got event shape \(3,\)",
        ),
    ],
)
def test_bad_mixing_laws_are_named(mixing, error, message):
    with pytest.raises(error, match=message):
        cdp.ScaleMixture(mixing)
