"""The model of a latent true table against formulas and its exact posterior on a grid."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import halfnorm, lognorm, multivariate_normal, norm

import cdp_views as cdp
from cdp_views.models import fitting, latent_counts

VIEWS = ["max-entropy", "conditioned", "imaged"]
SCALE = np.array([5.0, 10.0, 15.0, 10.0, 5.0, 15.0, 10.0, 10.0])
TYPICAL = 100.0
TRUE = np.array([60.0, 110, 90, 130, 85, 100, 140, 75])


def two_groups():
    return cdp.totals(["a"] * 4 + ["b"] * 4)


def seen_by(view: Any, noise: Any = "normal", scale: float | np.ndarray = SCALE, seed=1):
    """A released table and the covariance of its noise."""
    with jax.enable_x64(True):
        mechanism = cdp.Mechanism(view, noise, scale, two_groups())
        law: Any = mechanism.law(TRUE)
        released = np.asarray(law.sample(jax.random.key(seed)))
        covariance = np.asarray(law.covariance_matrix)
    return cdp.Observed(mechanism, released), covariance


def on_grid(released, covariance):
    """Posterior mean and sd of (mu, tau) by the trapezoid rule, in the eigenbasis of Σ."""
    mu, tau = np.linspace(20, 180, 161)[:, None], np.linspace(0.5, 120, 240)
    noise, basis = np.linalg.eigh(covariance)
    centre, ones = basis.T @ released, basis.T @ np.ones(len(released))
    log_p = norm.logpdf(mu, TYPICAL, TYPICAL) + halfnorm.logpdf(tau, scale=TYPICAL)
    for variance, y, one in zip(noise, centre, ones, strict=True):
        log_p = log_p + norm.logpdf(y, mu * one, np.sqrt(tau**2 + max(variance, 0.0)))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    moments = {}
    for name, x in [("mu", mu), ("tau", tau)]:
        mean = np.sum(x * p)
        moments[name] = mean, np.sqrt(np.sum((x - mean) ** 2 * p))
    return moments


@pytest.mark.parametrize("view", VIEWS)
def test_a_normal_prior_has_the_posterior_of_dense_algebra(view, joint):
    """log joint = log evidence + log posterior, Normal with gain Σ(τ² + Σ)⁻¹, at every point."""
    seen, covariance = seen_by(view)
    mu, tau = 90.0, 25.0
    inverse = np.linalg.inv(tau**2 * np.eye(8) + covariance)
    peak = covariance @ inverse @ (seen.released - mu)
    spread = covariance - covariance @ inverse @ covariance
    law: Any = (np.full(8, mu), tau**2 * np.eye(8) + covariance)
    evidence = multivariate_normal.logpdf(seen.released, *law)
    step = np.array([3.0, -2, -1, 0, 4, 1, -5, 0])
    for noise, square in ((peak, 0.0), (peak + step, step @ np.linalg.pinv(spread) @ step)):
        log_spread = np.log(2 * np.pi * np.linalg.eigvalsh(spread)[2:]).sum()  # d = 6
        expected = evidence - 0.5 * (square + log_spread)
        found = joint(latent_counts.model, {"q_noise": noise}, seen, prior=dist.Normal(mu, tau))
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_positive_counts_two_releases_and_laplace_noise(joint):
    """Differences of the log joint, where normalisers cancel."""
    seen, _ = seen_by("conditioned", "laplace", 6.0)
    again, _ = seen_by("imaged", "normal", 9.0, seed=2)
    found, wanted = [], []
    for q, level, spread in (
        (TRUE, 4.5, 0.3),
        (TRUE + np.array([4.0, -4, 1, -1, 0, 2, -5, 3]), 4.7, 0.5),
    ):
        values = {"q": q, "level": level, "spread": spread}
        found.append(joint(latent_counts.model, values, seen, again, typical=TYPICAL))
        log_p = norm.logpdf(level, np.log(TYPICAL), 1)
        log_p += lognorm.logpdf(spread, 0.5, scale=0.5)
        log_p += lognorm.logpdf(q, spread, scale=np.exp(level)).sum()
        log_p -= np.abs(seen.released - q).sum() / 6.0
        wanted.append(log_p - 0.5 * np.sum((again.released - q) ** 2) / 9.0**2)
    np.testing.assert_allclose(found[0] - found[1], wanted[0] - wanted[1], rtol=1e-9)


def test_simulated_counts_are_whole_where_the_noise_is(key):
    inv = two_groups()
    mechanism = cdp.Mechanism("conditioned", "discrete-laplace", 4.0, inv)
    truth, released = latent_counts.simulate(key, mechanism, typical=TYPICAL)
    for table in (truth["q"], released):
        assert table.shape == (8,) and np.all(np.asarray(table) == np.rint(table))
    assert np.all(inv.evaluate(released) == inv.evaluate(truth["q"]))


@pytest.mark.slow
def test_nuts_finds_the_posterior_and_keeps_the_totals(key):
    seen, covariance = seen_by("max-entropy")

    def model():
        mu = numpyro.sample("mu", dist.Normal(TYPICAL, TYPICAL))
        tau = numpyro.sample("tau", dist.HalfNormal(TYPICAL))
        seen.latent("q", dist.Normal(mu, tau))

    with jax.enable_x64(True):
        mcmc = fitting.fit(key, model, num_samples=1000)
        draws = {name: np.asarray(x) for name, x in mcmc.get_samples().items()}
        off = np.asarray(two_groups().evaluate(jnp.asarray(draws["q"] - seen.released)))
        diverging = int(mcmc.get_extra_fields()["diverging"].sum())
    assert diverging == 0 and np.max(np.abs(off)) < 1e-10
    for name, (mean, sd) in on_grid(seen.released, covariance).items():
        # 2000 draws of NUTS are worth at least 150 independent ones here: 5 standard errors
        assert abs(draws[name].mean() - mean) < 5 * sd / np.sqrt(150), name


def test_structural_zeros_leave_the_model():
    """q is 0 there in every draw, and a prior on the real line too asks only the rest."""
    zeros = [1, 6]
    counts = np.rint(TRUE)
    counts[zeros] = 0
    inv = cdp.structural_zeros(two_groups(), zeros)
    made = cdp.release(
        counts, inv, view="conditioned", epsilon=0.5, neighbours=cdp.relocations(inv), zeros=zeros
    )
    assert "8 cells, 2 that can only be 0, 2 exact totals" in repr(made)
    with jax.enable_x64(True):
        fitted = fitting.fit(
            jax.random.key(0),
            latent_counts.model,
            made,
            num_warmup=20,
            num_samples=20,
            num_chains=1,
        )
        q = np.asarray(fitted.get_samples()["q"])
        normal = cdp.Observed(made.mechanism, made.released, zeros=made.observed.zeros)
        values = {"q_noise": np.zeros(8)}
        found = [
            float(numpyro.infer.util.log_density(
                lambda loc=loc: normal.latent("q", dist.Normal(loc, 9.0)), (), {}, values
            )[0])
            for loc in (50.0, 90.0)
        ]  # fmt: skip
    assert (q[:, zeros] == 0).all() and (np.delete(q, zeros, 1) > 0).all()
    sums = np.asarray(two_groups().evaluate(counts))
    np.testing.assert_allclose(q @ two_groups().matrix.T, np.tile(sums, (len(q), 1)))
    y = np.delete(made.released, zeros)
    wanted = [norm.logpdf(y, loc, 9.0).sum() for loc in (50.0, 90.0)]
    np.testing.assert_allclose(found[1] - found[0], wanted[1] - wanted[0], rtol=1e-9)
