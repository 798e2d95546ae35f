"""Whole-number noise: mass, moments and draws against sums over the integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from cdp_views.noise.discrete import DiscreteLaplace, DiscreteNormal

SCALES = [0.05, 0.3, 0.49, 0.51, 1.0, 3.7, 40.0]
SHAPE_OF = {
    DiscreteLaplace: lambda k, scale: np.exp(-np.abs(k) / scale),
    DiscreteNormal: lambda k, scale: np.exp(-(k**2) / (2 * scale**2)),
}
K = np.arange(-2000, 2001).astype(float)


def mass(kind, scale):
    shape = SHAPE_OF[kind](K, scale)
    return shape / shape.sum()


@pytest.fixture(params=SHAPE_OF, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def test_mass_and_moments(kind, precision):
    tol = 1e-12 if precision == jnp.float64 else 2e-5
    law = kind(3, np.array(SCALES)[:, None])
    k = np.arange(-6, 7)
    want = np.stack([mass(kind, scale)[2000 + k] for scale in SCALES])
    assert_allclose(np.exp(law.log_prob(k + 3)), want, rtol=50 * tol, atol=1e-30)
    assert np.all(law.log_prob(k + 2.5) == -np.inf)
    assert_allclose(
        law.variance[:, 0], [mass(kind, s) @ K**2 for s in SCALES], rtol=tol, atol=1e-40
    )
    assert_allclose(law.mean, 3.0)


def test_draws_have_the_law(kind, key, precision):
    draws = np.asarray(kind(-2, np.array([0.3, 1.0, 3.7])).sample(key, (40_000,)))
    assert np.issubdtype(draws.dtype, np.integer)
    for column, scale in zip(draws.T, (0.3, 1.0, 3.7), strict=True):
        assert chi2(column + 2, mass(kind, scale)) > 1e-5
        assert chi2(column + 2, mass(kind, 1.1 * scale)) < 1e-5  # a scale 10 % off is seen


def chi2(draws, p):
    """p-value of Pearson's test over cells of at least ten expected draws."""
    inside = np.flatnonzero(p * len(draws) >= 10) - 2000
    seen = np.array([np.sum(draws == k) for k in inside])
    expected = p[2000 + inside] * len(draws)
    seen = np.append(seen, len(draws) - seen.sum())
    expected = np.append(expected, len(draws) - expected.sum())
    kept = expected > 1
    statistic = np.sum((seen - expected)[kept] ** 2 / expected[kept])
    return scipy.stats.chi2.sf(statistic, kept.sum() - 1)


def test_under_jit_vmap_and_with_gradients(kind, key):
    scale = jnp.array([0.4, 2.0, 9.0])
    found = jax.jit(jax.vmap(lambda s: kind(0, s).log_prob(2)))(scale)
    assert_allclose(found, [kind(0, float(s)).log_prob(2) for s in scale], rtol=1e-5)
    with jax.enable_x64(True):
        slope = jax.grad(lambda s: kind(0, s).log_prob(3))(2.0)
        step = 1e-6
        up, down = kind(0, 2 + step).log_prob(3), kind(0, 2 - step).log_prob(3)
        assert_allclose(slope, float(up - down) / (2 * step), rtol=1e-7)
    assert kind(jnp.arange(4), 2.0).sample(key, (3,)).shape == (3, 4)
