"""ω of overlapping totals: the k numbers given which a conditioned Laplace table is independent.

With ΛAᵀ = Q T (thin QR) and η = Tω the cells' characteristic numbers are a = Qη and

    η ~ Π_i (1 + a_i²)⁻¹   on R^k.

h = max_i |q_i|² bounds it: Σ log(1 + (q_i·η)²) ≥ (1/h) log(1 + h|η|²), concave against its chord,
so η from the multivariate t ∝ (1 + h|η|²)^{−1/h} (2/h − k > 0 degrees of freedom) is accepted with
the ratio, and the mean ratio is the normaliser (numerics.md, §5).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.linalg import solve_triangular
from scipy import special
from scipy.stats import qmc

_RANDOMISATIONS, _POINTS = 16, 2**12


def accepted(key: Array, q: Array, h: Array, count: int, chance: float) -> Array:
    """`count` independent draws of a = Qη, by rejection: (count, n); NaN if the cap is reached.

    Args:
        key: a typed JAX key.
        q: Q (n, k), orthonormal columns.
        h: its largest squared row norm, below 2/k.
        count: how many.
        chance: about the mean ratio; it sets how many proposals are made at once.
    """
    n, k = q.shape
    wide = min(max(math.ceil(1.1 * count / max(chance, 1e-3)), 64), max(2**24 // n, 64))
    most = math.ceil(20 * count / (chance * wide)) + 20
    df = 2 / h - k

    def more(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, pool, filled, rounds = state
        key, one, two, three = jax.random.split(key, 4)
        z = jax.random.normal(one, (wide, k), q.dtype)
        # √(df/χ²) z/√(h·df) = z/√(hχ²)
        square = jnp.sum(z * z, -1)
        chi2 = 2 * jnp.exp(jax.random.loggamma(two, df / 2, (wide,), q.dtype))
        chi2 = jnp.maximum(chi2, jnp.finfo(q.dtype).tiny)
        a = (z / jnp.sqrt(h * chi2)[:, None]) @ q.T
        ratio = jnp.log1p(square / chi2) / h - jnp.sum(jnp.log1p(a * a), -1)
        u = jax.random.uniform(three, (wide,), q.dtype, minval=jnp.finfo(q.dtype).tiny)
        keep = jnp.log(u) <= ratio
        place = jnp.where(keep, filled + jnp.cumsum(keep) - 1, count)
        return (
            key,
            pool.at[place].set(a, mode="drop"),
            filled + jnp.sum(keep),
            rounds + 1,
        )

    def short(state: tuple[Array, ...]) -> Array:
        return (state[2] < count) & (state[3] < most)

    start = (key, jnp.full((count, n), jnp.nan, q.dtype), jnp.asarray(0), jnp.asarray(0))
    return lax.while_loop(short, more, start)[1]


def acceptance(q: np.ndarray) -> tuple[float, float]:
    """The mean ratio and its standard error, from 65,536 scrambled Sobol points: on the host."""
    k = q.shape[1]
    h = float(np.max(np.sum(q * q, 1)))
    means = []
    for seed in range(_RANDOMISATIONS):
        u = np.clip(
            qmc.Sobol(k + 1, rng=np.random.default_rng(seed)).random(_POINTS), 1e-12, 1 - 1e-12
        )
        z = special.ndtri(u[:, :k])
        chi2 = 2 * special.gammaincinv((2 / h - k) / 2, u[:, k])
        chi2 = np.maximum(chi2, np.finfo(float).tiny)
        a = (z / np.sqrt(h * chi2)[:, None]) @ q.T
        ratio = np.log1p(np.sum(z * z, 1) / chi2) / h - np.sum(np.log1p(a * a), 1)
        means.append(np.mean(np.exp(np.minimum(ratio, 0))))
    mean = float(np.mean(means))
    return mean, float(np.std(means, ddof=1) / math.sqrt(_RANDOMISATIONS))


def log_density_at_zero(q: np.ndarray, triangle: np.ndarray, chance: float) -> float:
    """log of the density of A X at 0, from the mean ratio: on the host.

    (2π)^{−k} |det T|⁻¹ (π/h)^{k/2} Γ(1/h − k/2)/Γ(1/h) · E[ratio].
    """
    k = q.shape[1]
    h = float(np.max(np.sum(q * q, 1)))
    gammas = special.gammaln(1 / h - k / 2) - special.gammaln(1 / h)
    volume = float(np.sum(np.log(np.abs(np.diag(triangle)))))
    spread = k / 2 * math.log(math.pi / h) - k * math.log(2 * math.pi)
    return float(spread - volume + gammas + math.log(chance))


def gibbs(key: Array, q: Array, count: int, sweeps: int) -> tuple[Array, Array]:
    """a = Qη after `sweeps` of η | s, s | η in `count` chains, and a trace of each: MCMC.

    η | s ~ N(0, (Qᵀ diag(s²) Q)⁻¹), s_i² = 2e_i/(1 + a_i²) with e_i ~ Exp(1).

    Returns:
        a (count, n), and log |Qᵀ diag(s²) Q| (sweeps, count), to see whether chains have mixed.
    """
    n, k = q.shape
    floor = jnp.finfo(q.dtype).eps ** 2

    def sweep(a: Array, key: Array) -> tuple[Array, Array]:
        one, two = jax.random.split(key)
        e = jnp.maximum(jax.random.exponential(one, (count, n), q.dtype), floor)
        square = 2 * e / (1 + a * a)
        root = jnp.linalg.cholesky(jnp.einsum("nk,cn,nl->ckl", q, square, q))
        z = jax.random.normal(two, (count, k), q.dtype)
        eta = solve_triangular(root, z[..., None], lower=True, trans=1)[..., 0]
        diagonal = jnp.diagonal(root, axis1=-2, axis2=-1)
        return eta @ q.T, 2 * jnp.sum(jnp.log(diagonal), -1)

    return lax.scan(sweep, jnp.zeros((count, n), q.dtype), jax.random.split(key, sweeps))


def mixed(trace: Any) -> tuple[float, float]:
    """Split R-hat and the effective sample size of chains (sweeps, chains): on the host."""
    x = np.asarray(trace, np.float64)
    half = len(x) // 2
    x = np.concatenate([x[:half], x[half : 2 * half]], axis=1)
    within = np.mean(np.var(x, axis=0, ddof=1))
    whole = (half - 1) / half * within + np.var(np.mean(x, axis=0), ddof=1)
    centred = x - np.mean(x, axis=0)
    time = 1.0
    for lag in range(1, half):  # Geyer: until a pair of autocorrelations is no longer positive
        rho = [np.mean(centred[: half - j] * centred[j:]) / whole for j in (lag, lag + 1)]
        if sum(rho) <= 0 or lag + 1 >= half:
            break
        time += 2 * max(rho[0], 0)
    return float(np.sqrt(whole / within)), float(x.size / time)
