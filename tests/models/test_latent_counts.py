"""The model of a latent true table against its exact posterior, by dense algebra on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.stats import halfnorm, multivariate_normal, norm

import cdp_views as cdp
from cdp_views.models import latent_counts

VIEWS = ["max-entropy", "conditioned", "imaged"]
SCALE = np.array([5.0, 10.0, 15.0, 10.0, 5.0, 15.0, 10.0, 10.0])
TYPICAL = 100.0


def two_groups():
    return cdp.totals(["a"] * 4 + ["b"] * 4)


def evidence(released, covariance, mu, tau):
    """p(y, totals | mu, tau): q + X with q ~ N(mu, tau²) independent and X ~ N(0, Σ), at y."""
    n = len(released)
    return multivariate_normal(np.full(n, mu), tau**2 * np.eye(n) + covariance).logpdf(released)


def on_grid(released, covariance):
    """Posterior mean and sd of (mu, tau) by the trapezoid rule, in the eigenbasis of Σ."""
    mu, tau = np.linspace(20, 180, 161)[:, None], np.linspace(0.5, 120, 240)
    noise, basis = np.linalg.eigh(covariance)
    centre, ones = basis.T @ released, basis.T @ np.ones(len(released))
    log_p = norm(TYPICAL, TYPICAL).logpdf(mu) + halfnorm(scale=TYPICAL).logpdf(tau)
    for variance, y, one in zip(noise, centre, ones, strict=True):
        log_p = log_p + norm(mu * one, np.sqrt(tau**2 + max(variance, 0.0))).logpdf(y)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    moments = {}
    for name, x in [("mu", mu), ("tau", tau)]:
        mean = np.sum(x * p)
        moments[name] = mean, np.sqrt(np.sum((x - mean) ** 2 * p))
    return moments


@pytest.mark.parametrize("view", VIEWS)
def test_the_joint_density_integrates_to_the_evidence(view, key):
    """log joint − log evidence is the posterior of the noise: Normal, so its peak is known."""
    inv = two_groups()
    with jax.enable_x64(True):
        _, released = latent_counts.simulate(key, inv, SCALE, mean=100.0, spread=20.0, view=view)
        law = latent_counts.noise_law(0.0, SCALE, inv, view)
        covariance = np.asarray(law.covariance_matrix)
        mu, tau = 90.0, 25.0
        gain = covariance @ np.linalg.inv(tau**2 * np.eye(8) + covariance)
        peak = jnp.asarray(gain @ (np.asarray(released) - mu))
        values = {"mu": jnp.asarray(mu), "tau": jnp.asarray(tau), "noise": peak}
        joint, _ = log_density(
            latent_counts.model, (released, inv, SCALE), {"typical": TYPICAL, "view": view}, values
        )
    spread = np.linalg.eigvalsh(covariance - gain @ covariance)[2:]  # two totals: d = 6
    log_peak = -0.5 * np.sum(np.log(2 * np.pi * spread))
    prior = norm(TYPICAL, TYPICAL).logpdf(mu) + halfnorm(scale=TYPICAL).logpdf(tau)
    expected = prior + evidence(np.asarray(released), covariance, mu, tau) + log_peak
    np.testing.assert_allclose(joint, expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_nuts_finds_the_posterior_and_keeps_the_totals(view, key):
    inv = two_groups()
    to_simulate, to_fit = jax.random.split(key)
    with jax.enable_x64(True):
        truth, released = latent_counts.simulate(
            to_simulate, inv, SCALE, mean=100.0, spread=20.0, view=view
        )
        mcmc = latent_counts.fit(
            to_fit, released, inv, SCALE, typical=TYPICAL, view=view, num_samples=1000
        )
        draws = {name: np.asarray(values) for name, values in mcmc.get_samples().items()}
        law = latent_counts.noise_law(0.0, SCALE, inv, view)
        exact = on_grid(np.asarray(released), np.asarray(law.covariance_matrix))
        off = np.asarray(inv.evaluate(draws["truth"]) / inv.evaluate(truth) - 1)
    assert np.max(np.abs(off)) < 1e-12
    for name, (mean, sd) in exact.items():
        # 1000 draws of NUTS are worth at least 150 independent ones here: 5 standard errors
        assert abs(draws[name].mean() - mean) < 5 * sd / np.sqrt(150), name


def test_an_unknown_view_is_named():
    with pytest.raises(ValueError, match="`view` must be one of max-entropy, conditioned, imaged"):
        latent_counts.noise_law(0.0, 1.0, two_groups(), "projected")  # pyright: ignore
