"""A table whose posterior is known: a normal prior, normal noise that keeps plain totals.

q ~ N(m, τ²) cell by cell, y = q + σ P z. Given y, and so A q, on the subspace V = ker A:
E[q | y] = y − P(y − m) σ²/(τ² + σ²), Cov[q | y] = P τ²σ²/(τ² + σ²).
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import cdp_views as cdp

GROUPS = ["a", "b", "a", "b", "b"]
INVARIANT = cdp.totals(GROUPS)
PRIOR = np.array([10.0, 20.0, 15.0, 10.0, 30.0])
TAU, SIGMA = 3.0, 1.0


def simulate(key):
    of_truth, of_noise = jax.random.split(key)
    q = PRIOR + TAU * jax.random.normal(of_truth, (5,))
    noise = SIGMA * INVARIANT.project(jax.random.normal(of_noise, (5,)))
    return {"q": q}, q + noise


def model(y):
    noise = numpyro.sample("q_noise", cdp.Conditioned(dist.Normal(0.0, SIGMA), INVARIANT))
    q = numpyro.deterministic("q", y - noise)
    numpyro.factor("prior", dist.Normal(jnp.asarray(PRIOR), TAU).log_prob(q).sum())
    numpyro.deterministic("total", jnp.sum(q))


def naive(y):
    """Independent noise: the totals could be anything."""
    q = numpyro.sample("q", dist.Normal(jnp.asarray(PRIOR), TAU).to_event(1))
    numpyro.sample("y", dist.Normal(q, SIGMA).to_event(1), obs=y)


def posterior(y):
    """Mean (…, 5) and covariance (5, 5), by dense algebra."""
    A = np.array([[g == "a" for g in GROUPS], [g == "b" for g in GROUPS]], float)
    P = np.eye(5) - A.T @ np.linalg.inv(A @ A.T) @ A
    weight = SIGMA**2 / (TAU**2 + SIGMA**2)
    return y - (y - PRIOR) @ P * weight, P * TAU**2 * weight
