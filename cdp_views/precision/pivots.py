"""Scales of a conditioned scale mixture by pivot cells: exact rejection for few totals.

With ΛAᵀ = Q T the scales given that A X = 0 have the law ∝ Π h(s_i) · det(Qᵀ diag(s²) Q)^{−½}. By
Cauchy and Binet det(Qᵀ diag(w) Q) = Σ_J det(Q_J)² Π_J w, an average of products over k cells, so by
Jensen det(Qᵀ diag(s²) Q)^{−½} ≤ det(Qᵀ diag(1/s) Q). The right-hand side is drawn: cells J by their
volume det(Q_J)², their scales from h(s)/s, the others' from h. The mean ratio is at least
(E s²)^{−k/2} (E 1/s)^{−k}: π^{−k/2} for Laplace, whatever the totals.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views._float64 import float64, in_float64

Draw = Callable[[Array, tuple[int, ...]], Array]
_PILOT, _BLOCKS = 2**12, 16


def propose(key: Array, q: Array, wide: int, plain: Draw, pivot: Draw) -> tuple[Array, Array]:
    """`wide` proposals of s² (wide, n), and the log of their chance to be kept (wide,).

    Args:
        key: a typed JAX key.
        q: Q (n, k), orthonormal columns.
        wide: how many.
        plain: draws of s² with s from h.
        pivot: draws of s² with s from the law ∝ h(s)/s.
    """
    one, two, three = jax.random.split(key, 3)
    shape = (wide, q.shape[0])
    chosen = _cells_by_volume(one, q, wide)
    square = jnp.where(chosen, pivot(two, shape), plain(three, shape))
    left = _logdet(q, square)
    right = _logdet(q, 1 / jnp.sqrt(square))
    return square, -left / 2 - right


def _cells_by_volume(key: Array, q: Array, wide: int) -> Array:
    """k cells J with probability det(Q_J)², one by one: (wide, n), true for the chosen."""
    n, k = q.shape
    left = jnp.broadcast_to(jnp.sum(q * q, -1), (wide, n))
    chosen = jnp.zeros((wide, n), bool)
    basis: list[Array] = []
    for step, one in enumerate(jax.random.split(key, k)):
        ladder = jnp.cumsum(jnp.where(chosen, 0, jnp.maximum(left, 0)), -1)
        u = jax.random.uniform(one, (wide, 1), q.dtype) * ladder[:, -1:]
        cell = jnp.minimum(jnp.sum(ladder <= u, -1), n - 1)
        chosen = chosen.at[jnp.arange(wide), cell].set(True)
        if step + 1 == k:
            break
        row = q[cell]
        for _ in range(2):  # once more: what rounding left of the earlier directions
            for e in basis:
                row = row - jnp.sum(row * e, -1, keepdims=True) * e
        row = row / jnp.linalg.norm(row, axis=-1, keepdims=True)
        basis.append(row)
        left = left - (row @ q.T) ** 2
    return chosen


def _logdet(q: Array, weight: Array) -> Array:
    root = jnp.linalg.cholesky(jnp.einsum("nk,...n,nl->...kl", q, weight, q))
    return 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), -1)


@in_float64
def acceptance(q: np.ndarray, plain: Draw, pivot: Draw) -> tuple[float, float]:
    """The mean ratio and its standard error, from 65,536 proposals: on the host."""

    def block(key: Array) -> Array:
        ratio = jnp.exp(propose(key, float64(q), _PILOT, plain, pivot)[1])
        return jnp.stack([jnp.mean(ratio), jnp.mean(ratio**2)])

    keys = jax.random.split(jax.random.key(0), _BLOCKS)
    first, second = np.mean(np.asarray(jax.jit(lambda k: lax.map(block, k))(keys)), 0)
    draws = _PILOT * _BLOCKS
    return float(first), math.sqrt(max(float(second - first**2), 0.0) / draws)


def log_density_at_zero(k: int, inverse: float, chance: float) -> float:
    """log of the density of Qᵀz at 0, from E 1/s and the mean ratio."""
    return k * (math.log(inverse) - 0.5 * math.log(2 * math.pi)) + math.log(chance)
