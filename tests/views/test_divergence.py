"""KL between Gaussian views, against dense algebra."""

import itertools

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions.kl import kl_divergence
from scipy.linalg import null_space

import cdp_views as cdp

SCALE = np.array([1.0, 2.0, 2.5, 1.5, 1.5])
INV = cdp.totals([0, 0, 0, 1, 1])
VIEWS = {
    "conditioned": lambda loc, scale: cdp.Conditioned(dist.Normal(loc, scale), INV),
    "imaged": lambda loc, scale: cdp.Imaged(dist.Normal(loc, scale), INV),
    "imaged, weighted": lambda loc, scale: cdp.Imaged(
        dist.Normal(loc, scale), INV, weights=np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    ),
    "max-entropy": lambda loc, scale: cdp.MaxEntropy(dist.Normal(loc, scale), INV),
}


@pytest.mark.parametrize(("one", "two"), list(itertools.product(VIEWS, repeat=2)))
def test_divergence_is_that_of_the_coordinates(one, two):
    with jax.enable_x64(True):
        p = VIEWS[one](np.zeros(5), SCALE)
        q = VIEWS[two](np.array([1.0, -1, 0, 0.5, -0.5]), 1.3 * SCALE)
        K = null_space(INV.matrix.toarray())
        P, Q = (K.T @ np.asarray(v.covariance_matrix) @ K for v in (p, q))
        m = K.T @ (np.asarray(p.mean) - np.asarray(q.mean))
        inverse = np.linalg.inv(Q)
        expected = 0.5 * (
            np.trace(inverse @ P)
            - 3
            + m @ inverse @ m
            + np.linalg.slogdet(Q)[1]
            - np.linalg.slogdet(P)[1]
        )
        np.testing.assert_allclose(kl_divergence(p, q), expected, rtol=1e-10)
        assert float(kl_divergence(p, p)) == pytest.approx(0, abs=1e-12)


def test_divergence_between_different_totals():
    p, q = (VIEWS["conditioned"](loc, SCALE) for loc in (np.zeros(5), np.ones(5)))
    assert np.isposinf(kl_divergence(p, q))
    other = cdp.Conditioned(dist.Normal(np.zeros(5), SCALE), cdp.totals([0] * 5))
    with pytest.raises(ValueError, match="two views of the same totals"):
        kl_divergence(p, other)
