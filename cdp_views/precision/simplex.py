"""The closest point with given (weighted) totals and cells above their bounds."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax


def project_to_simplex(y: Array, weights: Array, total: Array, seg: Any) -> Array:
    """argmin Σ (z_i − y_i)² with z ≥ 0 and Σ_g b z = total_g, for positive weights b.

    z = max(y − τ_g b, 0). The τ of the cells that are positive so far never decreases, and cells
    that it turns negative stay at 0 (Michelot 1986): finitely many rounds, each O(n), exact.

    Args:
        y: (…, n); weights: (n,), positive in groups, anything outside.
        total: (…, G), at least 0; a negative one, which no such z has, gives NaN.
        seg: `Segments` of the groups; cells outside them become max(y, 0).
    """
    member = seg.member
    b = jnp.where(member, weights, 0)

    def threshold(active: Array) -> Array:
        mass = jnp.where(active, b, 0)
        square = seg.sum(mass * b)
        return (seg.sum(mass * y) - total) / jnp.where(square > 0, square, 1)

    def changed(state: tuple[Array, Array]) -> Array:
        return state[1]

    def shrink(state: tuple[Array, Array]) -> tuple[Array, Array]:
        active, _ = state
        kept = active & (y - seg.spread(threshold(active)) * b > 0)
        return kept, jnp.any(kept != active)

    start = jnp.broadcast_to(member, y.shape), jnp.asarray(True)
    active, _ = lax.while_loop(changed, shrink, start)
    inside = jnp.where(active, y - seg.spread(threshold(active)) * b, 0)
    possible = seg.spread((total >= 0).astype(y.dtype)) > 0
    inside = jnp.where(possible, jnp.maximum(inside, 0), jnp.nan)
    return jnp.where(member, inside, jnp.maximum(y, 0))
