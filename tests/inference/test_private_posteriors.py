"""Private posteriors known in closed form or by quadrature, through what a user writes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density

import cdp_views as cdp
from cdp_views.models import fitting
from tests.inference.test_many import gamma_poisson_moments

ONE = cdp.totals([None], missing="free")


def poisson_rate():
    """θ ~ Gamma(25, 1), a Poisson count of it released with Laplace(5) noise as 37.4."""
    seen = cdp.Observed(cdp.Mechanism("independent", "laplace", 5.0, ONE), np.array([37.4]))
    theta = numpyro.sample("theta", dist.Gamma(25.0, 1.0))
    seen.latent("s", cdp.ContinuousPoisson(theta))


def test_the_rate_behind_a_noisy_count():
    """The model's own joint density on a grid; oracles.md, 28.57633 and 4.73388."""
    theta, s = np.linspace(8, 62, 109), np.linspace(0.1, 90, 451)
    with jax.enable_x64(True):

        def joint(theta, s):
            return log_density(poisson_rate, (), {}, {"theta": theta, "s": s[None]})[0]

        rows = jax.jit(jax.vmap(jax.vmap(joint, (None, 0)), (0, None)))
        p = np.exp(np.asarray(rows(jnp.asarray(theta), jnp.asarray(s)))).sum(1)
    p /= p.sum()
    mean = theta @ p
    wanted = gamma_poisson_moments(37.4, 5.0)
    np.testing.assert_allclose([mean, np.sqrt((theta - mean) ** 2 @ p)], wanted, atol=0.01)


@pytest.mark.slow
def test_nuts_draws_that_rate(key):
    with jax.enable_x64(True):
        mcmc = fitting.fit(key, poisson_rate, num_samples=3000)
    found = cdp.summarise(cdp.to_datatree(mcmc, cells=()), ["theta"]).iloc[0]
    mean, sd = gamma_poisson_moments(37.4, 5.0)
    assert abs(found["mean"] - mean) < 5 * found["mean_mcse"]
    assert abs(found["sd"] - sd) < 5 * sd / np.sqrt(found["ess_bulk"])
    assert abs(found["mean"] - gamma_poisson_moments(37.4, None)[0]) > 5 * found["mean_mcse"]


def test_the_mean_behind_a_noisy_mean():
    """y_i ~ N(θ, 1), n = 100, θ ~ N(0, 4), mean + N(0, 1/9): sd .342858, mean .970611 released."""
    released = 1.3
    seen = cdp.Observed(cdp.Mechanism("independent", "normal", 1 / 3, ONE), np.array([released]))

    def model():
        theta = numpyro.sample("theta", dist.Normal(0.0, 2.0))
        seen.latent("average", dist.Normal(theta, 0.1))

    with jax.enable_x64(True):

        def energy(z: Any):
            values = {"theta": z[0], "average_noise": z[1:]}
            return -log_density(model, (), {}, values)[0]

        at = jnp.array([0.3, 0.1])
        slope, H = jax.grad(energy)(at), np.asarray(jax.hessian(energy)(at))
        best = np.asarray(at) - np.linalg.solve(H, np.asarray(slope))
    np.testing.assert_allclose(best[0], released * 4 / (4 + 0.01 + 1 / 9), rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.linalg.inv(H)[0, 0]), 0.342858, atol=5e-7)
