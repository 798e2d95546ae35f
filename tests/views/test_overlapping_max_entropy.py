"""Maximum entropy of Normal noise on totals that overlap, as NumPyro sees it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
import scipy.stats
from numpy.testing import assert_allclose

import cdp_views as cdp

A = np.array([[1.0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
SIGMA = np.array([1, 2, 1.5, 0.7, 1.2, 1.1])  # the precision of cell 1 is negative
LOC = np.array([10.0, 20, 30, 40, 50, 60])
DRAWS = 100_000


@pytest.fixture(scope="module")
def inv():
    return cdp.linear(A)


def test_law(inv, key):
    with jax.enable_x64(True):
        view = cdp.MaxEntropy(dist.Normal(LOC, SIGMA), inv)
        C = np.asarray(view.covariance_matrix)
        assert_allclose(view.variance, SIGMA**2, rtol=1e-12)
        assert_allclose(np.diag(C), SIGMA**2, rtol=1e-12)
        assert_allclose(A @ C, 0, atol=1e-14)
        draws = view.sample(key, (DRAWS,))
        assert_allclose((draws - LOC) @ A.T, 0, atol=1e-13)
        # sample covariance within 5 standard errors: Var = (C_ii C_jj + C_ij²)/draws
        noise = np.asarray(draws) - LOC
        error = 5 * np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / DRAWS)
        assert np.all(np.abs(noise.T @ noise / DRAWS - C) < error)
        conditioned = cdp.Conditioned(dist.Normal(LOC, SIGMA), inv).covariance_matrix
        assert np.any(np.abs(noise.T @ noise / DRAWS - conditioned) > error)  # negative control
        K = scipy.linalg.null_space(A)
        flat = scipy.stats.multivariate_normal(np.zeros(4), K.T @ C @ K)
        singular = scipy.stats.multivariate_normal(LOC, C, allow_singular=True)
        few = np.asarray(draws[:5])
        assert_allclose(view.log_prob(few), flat.logpdf((few - LOC) @ K), rtol=1e-10)
        assert_allclose(view.log_prob(few), singular.logpdf(few), rtol=1e-8)
        assert_allclose(view.entropy(), flat.entropy(), rtol=1e-12)
        assert np.isneginf(view.log_prob(few[0] + np.eye(6)[0]))


def test_privacy_and_usefulness(inv):
    """μ² = vᵀΣ⁺v, and errors of queries, from dense algebra; the same with JAX in float32."""
    differences = np.array([[1.0, -1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 0], [0, 0, 0, 0, 1, -1]])
    view = cdp.MaxEntropy(dist.Normal(jnp.asarray(LOC), SIGMA), inv)
    loss = cdp.privacy_loss(view, cdp.differences(differences))
    with jax.enable_x64(True):
        C = np.asarray(cdp.MaxEntropy(dist.Normal(LOC, SIGMA), inv).covariance_matrix)
    want = np.sqrt(np.einsum("ri,ij,rj->r", differences, np.linalg.pinv(C), differences)).max()
    assert loss.mu == pytest.approx(want, rel=1e-10) and loss.mu >= want * (1 - 1e-14)


@pytest.mark.slow
def test_gradient_of_the_log_density(inv):
    with jax.enable_x64(True):
        x = LOC + np.asarray(inv.project(np.arange(6.0)))

        def density(log_sigma):
            return cdp.MaxEntropy(dist.Normal(LOC, jnp.exp(log_sigma)), inv).log_prob(x)

        at = np.log(SIGMA)
        gradient = jax.jit(jax.grad(density))(at)
        value = jax.jit(density)
        h = 1e-5
        steps = [(value(at + h * e) - value(at - h * e)) / (2 * h) for e in np.eye(6)]
        assert_allclose(gradient, steps, rtol=1e-7, atol=1e-8)
        far = np.where(np.arange(6) == 5, np.log(50.0), at)
        assert np.isneginf(value(far)) and np.all(np.isfinite(jax.jit(jax.grad(density))(far)))


def test_a_batch_in_single_precision(inv, key):
    with jax.enable_x64(False):
        scales = jnp.stack([jnp.asarray(SIGMA), jnp.ones(6)])
        view = cdp.MaxEntropy(dist.Normal(jnp.zeros(6), scales), inv)
        assert view.batch_shape == (2,)
        draws = view.sample(key, (1000,))
        assert draws.shape == (1000, 2, 6) and draws.dtype == jnp.float32
        assert_allclose(draws @ A.T.astype(np.float32), 0, atol=1e-5)
        assert np.all(np.isfinite(view.log_prob(draws)))
        assert_allclose(view.variance, scales**2, rtol=1e-5)


def test_refused_with_a_proof_in_one_line(inv):
    scale = np.where(np.arange(6) == 5, 50.0, SIGMA)
    with pytest.raises(cdp.InfeasibleError, match=r"Σ w·variance ≥ 0.*scale of cell 5") as told:
        cdp.MaxEntropy(dist.Normal(LOC, scale), inv)
    assert "\n" not in str(told.value)
    with pytest.raises(cdp.InfeasibleError, match="lies on the boundary"):
        cdp.MaxEntropy(
            dist.Normal(0.0, np.ones(6)), cdp.linear([[3, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]])
        )
