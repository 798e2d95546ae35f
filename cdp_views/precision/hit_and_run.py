"""Markov chains for Gaussians with diagonal precision on a polyhedron {A x = 0, B x ≥ c}: MCMC.

Every move is along a direction v of ker A: given the rest, x + t v has t normal with precision
Σ ν v² and mean −Σ ν v x/Σ ν v², cut off where the first bound is met. t is drawn by slices: any
height below the density at the present t, then uniformly where the density is higher, three times
over. (Smith 1984; Neal 2003.)
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

_SLICES = 3


def cut_normal(key: Array, mean: Array, precision: Array, low: Array, high: Array) -> Array:
    """A step from t = 0 that leaves N(mean, 1/precision) on [low, high] ∋ 0 as it is."""
    root = jnp.sqrt(precision)
    start = -mean * root
    low = jnp.minimum((low - mean) * root, start)
    high = jnp.maximum((high - mean) * root, start)

    def slice_(w: Array, key: Array) -> tuple[Array, None]:
        one, two = jax.random.split(key)
        reach = jnp.sqrt(w * w + 2 * jax.random.exponential(one, w.shape, w.dtype))
        first, last = jnp.maximum(low, -reach), jnp.minimum(high, reach)
        u = jax.random.uniform(two, w.shape, w.dtype)
        return first + u * jnp.maximum(last - first, 0), None

    w, _ = lax.scan(slice_, start, jax.random.split(key, _SLICES))
    return jnp.clip(w, low, high) / root + mean


def along(key: Array, x: Array, v: Array, nu: Array, rows: Array | None, room: Array) -> Array:
    """x moved along v (…, n), with bounds rows x ≥ −room (…, m); `None`: rows are the cells."""
    precision = jnp.sum(nu * v * v, -1)
    safe = jnp.where(precision > 0, precision, 1)
    slope = v if rows is None else v @ rows.T
    slack = (x if rows is None else x @ rows.T) + room
    end = -jnp.maximum(slack, 0) / jnp.where(slope == 0, 1, slope)
    low = jnp.max(jnp.where(slope > 0, end, -jnp.inf), -1, initial=-jnp.inf)
    high = jnp.min(jnp.where(slope < 0, end, jnp.inf), -1, initial=jnp.inf)
    t = cut_normal(key, -jnp.sum(nu * v * x, -1) / safe, safe, low, high)
    return x + jnp.where(precision > 0, t, 0)[..., None] * v


def pairs(key: Array, x: Array, nu: Array, seg: Any, b: Array, room: Array, *, free: bool) -> Array:
    """All cells of every group in random pairs, each moved along e_i/b_i − e_j/b_j, and free cells.

    Bounds are x ≥ −room, cell by cell; `free` says whether some cells are in no group.
    """
    one, two, three = jax.random.split(key, 3)
    n = x.shape[-1]
    order = jnp.lexsort((jax.random.uniform(one, (n,)), seg.labels))
    labels = seg.labels[order]
    sizes = seg.sizes.astype(jnp.int32)
    first = (jnp.cumsum(sizes) - sizes)[jnp.minimum(labels, max(seg.count - 1, 0))]
    even = (jnp.arange(n) - first) % 2 == 0
    paired = even & (labels < seg.count) & (jnp.roll(labels, -1) == labels)
    paired = paired.at[-1].set(False)
    y, precision, space = (jnp.broadcast_to(a, x.shape)[..., order] for a in (x, nu, room))
    weight = jnp.where(labels < seg.count, jnp.broadcast_to(b, (n,))[order], 1)
    v, w = 1 / weight, -1 / jnp.roll(weight, -1)
    other, precision_of_other, space_of_other = (
        jnp.roll(a, -1, axis=-1) for a in (y, precision, space)
    )
    total = precision * v * v + precision_of_other * w * w
    mean = -(precision * v * y + precision_of_other * w * other) / total
    ends = [(v, -jnp.maximum(y + space, 0) / v), (w, -jnp.maximum(other + space_of_other, 0) / w)]
    low, high = jnp.full_like(y, -jnp.inf), jnp.full_like(y, jnp.inf)
    for slope, end in ends:
        low = jnp.maximum(low, jnp.where(slope > 0, end, -jnp.inf))
        high = jnp.minimum(high, jnp.where(slope < 0, end, jnp.inf))
    t = jnp.where(paired, cut_normal(two, mean, total, low, high), 0)
    back = jnp.roll(jnp.where(paired, t * w, 0), 1, axis=-1)
    moved = y + t * v + back
    if free:
        low = -jnp.maximum(y + space, 0)
        alone = cut_normal(three, -y, precision, low, jnp.full_like(y, jnp.inf))
        moved = moved + jnp.where(labels < seg.count, 0, alone)
    return moved[..., jnp.argsort(order)]
