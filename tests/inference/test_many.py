"""Many chains at once, against posteriors that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy import integrate, stats

from cdp_views.inference import run_many
from tests.inference import conjugate


def poisson_behind_laplace(y):
    """θ ~ Gamma(25, 1), s ~ Poisson(θ), y = s + Laplace(5): s is summed out."""
    theta = numpyro.sample("theta", dist.Gamma(25.0, 1.0))
    s = jnp.arange(100)
    terms = dist.Poisson(theta).log_prob(s) + dist.Laplace(s, 5.0).log_prob(y)
    numpyro.factor("y", jax.scipy.special.logsumexp(terms))


def gamma_poisson_moments(released, scale):
    """Mean and sd of θ by quadrature; `scale=None`: released taken for s itself."""
    s = np.arange(100)

    def density(theta):
        prior = stats.gamma.pdf(theta, 25)
        if scale is None:
            return prior * np.exp(-theta + released * np.log(theta))
        return prior * (stats.poisson.pmf(s, theta) @ stats.laplace.pdf(released, s, scale))

    z, m1, m2 = (
        integrate.quad(lambda t, k=k: t**k * density(t), 1e-9, 90, points=[20, 35, 50])[0]
        for k in range(3)
    )
    return m1 / z, np.sqrt(m2 / z - (m1 / z) ** 2)


def test_the_private_posterior_of_a_poisson_rate(key):
    mean, sd = gamma_poisson_moments(37.4, 5.0)
    assert (round(mean, 4), round(sd, 4)) == (28.5763, 4.7339)  # oracles.md
    data = jnp.full(20, 37.4)
    found, _ = run_many(key, poisson_behind_laplace, data, draws=400, warmup=100)
    chains = np.asarray(found["theta"], dtype=np.float64)
    error = chains.mean(axis=1).std(ddof=1) / np.sqrt(20)
    assert error < 0.15
    assert abs(chains.mean() - mean) < 5 * error
    spreads = chains.std(axis=1)
    assert abs(spreads.mean() - sd) < 5 * spreads.std(ddof=1) / np.sqrt(20) + 0.02
    # Negative control: who takes the released number for the count itself is elsewhere.
    naive = gamma_poisson_moments(37.4, None)[0]
    assert round(naive, 3) == 31.2
    assert abs(chains.mean() - naive) > 5 * error


def test_the_log_density_is_that_of_dense_algebra():
    """The posterior is normal in orthonormal coordinates: one Newton step is exact, to 1e-6."""
    y = np.array([12.0, 18.0, 14.0, 9.0, 33.0])

    def energy(z):
        noise = conjugate.INVARIANT.embed(z)
        return -log_density(conjugate.model, (y,), {}, {"q_noise": noise})[0]

    with jax.enable_x64(True):
        z = jnp.array([1.0, -2.0, 0.5])
        slope, H = jax.jit(lambda z: (jax.grad(energy)(z), jax.hessian(energy)(z)))(z)
        H = np.asarray(H)
        K = np.asarray(jax.vmap(conjugate.INVARIANT.embed)(jnp.eye(3))).T
        best = np.asarray(z) - np.linalg.solve(H, np.asarray(slope))
    mean, covariance = conjugate.posterior(y)
    np.testing.assert_allclose(y - K @ best, mean, rtol=1e-6)
    np.testing.assert_allclose(K @ np.linalg.inv(H) @ K.T, covariance, atol=1e-6)


def test_an_unknown_site_is_named_before_anything_runs(key):
    with pytest.raises(ValueError, match="`sites` has no r in the model; it has"):
        run_many(key, conjugate.model, jnp.zeros((2, 5)), draws=2, warmup=1, sites=["r"])
