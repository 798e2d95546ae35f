"""Gibbs chains for conditioned scale mixtures on any totals, and whether they have mixed: MCMC.

With ΛAᵀ = Q T, standardised noise z = Λ⁻¹x and M = Qᵀ diag(s²) Q: scales s given Qᵀz = ρ. At ρ = 0
ω is a partner that mixes faster than the noise (numerics.md, §5); elsewhere the noise is.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.linalg import cho_solve, solve_triangular

Squares = Callable[[Array, Array], Array]


def by_omega(
    key: Array, q: Array, count: int, sweeps: int, squares: Squares
) -> tuple[Array, Array]:
    """s² after `sweeps` of η | s ~ N(0, M⁻¹), s | a = Qη in `count` chains, and a trace of each.

    Args:
        key: a typed JAX key.
        q: Q (n, k), orthonormal columns.
        count: chains.
        sweeps: of each.
        squares: (key, a) ↦ draws of s² given a, elementwise.

    Returns:
        s² (count, n), and log |M| (sweeps, count), to see whether chains have mixed.
    """
    n, k = q.shape

    def sweep(a: Array, key: Array) -> tuple[Array, Array]:
        one, two = jax.random.split(key)
        root = _root(q, squares(one, a))
        z = jax.random.normal(two, (count, k), q.dtype)
        eta = solve_triangular(root, z[..., None], lower=True, trans=1)[..., 0]
        return eta @ q.T, _logdet(root)

    key, last = jax.random.split(key)
    start = jnp.zeros((count, n), q.dtype)
    a, trace = lax.scan(sweep, start, jax.random.split(key, sweeps))
    return squares(last, a), trace


def by_noise(
    key: Array,
    q: Array,
    rho: Array,
    count: int,
    sweeps: int,
    squares: Squares,
    *,
    apart: bool = False,
) -> tuple[Array, Array]:
    """s² after `sweeps` of s | z, z | s, Qᵀz = ρ in `count` chains, and a trace of each.

    Args:
        key, q, count, sweeps: as for `by_omega`.
        rho: ρ (k,).
        squares: (key, z) ↦ draws of s² given z, elementwise.
        apart: start every chain with a few cells of its own that take up ρ, for the diagnostics:
            of heavy tails each such start is a mode, which chains never leave. (float64)

    Returns:
        as `by_omega`.
    """
    n, _ = q.shape

    def sweep(z: Array, key: Array) -> tuple[Array, Array]:
        one, two = jax.random.split(key)
        square = squares(one, z)
        free = jnp.sqrt(square) * jax.random.normal(two, (count, n), q.dtype)
        root = _root(q, square)
        return free + pull(q, square, root, rho - free @ q), _logdet(root)

    key, last = jax.random.split(key)
    start = jnp.zeros((count, n), q.dtype)
    if apart:
        key, one = jax.random.split(key)
        wild = jnp.minimum(jax.random.exponential(one, (count, n), q.dtype) ** -8, 1e12)
        start = pull(q, wild, _root(q, wild), jnp.broadcast_to(rho, (count, len(rho))))
    z, trace = lax.scan(sweep, start, jax.random.split(key, sweeps))
    return squares(last, z), trace


def pull(q: Array, square: Array, root: Array, rho: Array) -> Array:
    """diag(s²) Q M⁻¹ ρ, what brings Qᵀz to ρ with the least Σ z²/s²: (…, n)."""
    return square * (cho_solve((root, True), rho[..., None])[..., 0] @ q.T)


def _root(q: Array, square: Array) -> Array:
    return jnp.linalg.cholesky(jnp.einsum("nk,...n,nl->...kl", q, square, q))


def _logdet(root: Array) -> Array:
    return 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), -1)


def mixed(trace: Any) -> tuple[float, float]:
    """Split R-hat and the effective sample size of chains (sweeps, chains): on the host."""
    x = np.asarray(trace, np.float64)
    half = len(x) // 2
    x = np.concatenate([x[:half], x[half : 2 * half]], axis=1)
    within = np.mean(np.var(x, axis=0, ddof=1))
    whole = (half - 1) / half * within + np.var(np.mean(x, axis=0), ddof=1)
    centred = x - np.mean(x, axis=0)
    time = 1.0
    for lag in range(1, half - 1):  # Geyer: until a pair of autocorrelations is no longer positive
        # what chains differ by counts as memory that never ends
        along = [np.mean(centred[: half - j] * centred[j:]) for j in (lag, lag + 1)]
        rho = [1 - (within - own) / whole for own in along]
        if sum(rho) <= 0:
            break
        time += 2 * max(rho[0], 0)
    return float(np.sqrt(whole / within)), float(x.size / time)
