"""Sums of independent Laplace variables at zero, by their characteristic function.

For one group with c_i = |b_i|λ_i the density of Σ b_i X_i at 0 is

    f(0) = (1/π) ∫₀^∞ Π_i (1 + c_i² t²)⁻¹ dt.

With q_i = c_i/|c|, h = max q_i² and t = sinh(w)/(√h |c|) every pole of the integrand lies π/2 from
the real axis and the integrand is at most cosh(w)^{1−2/h}, so the trapezoid rule converges
geometrically. Under the law of ω whose density is proportional to the
integrand the cells are independent (numerics.md, §5), so the same nodes give every moment.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views._segments import Segments

MOST_NODES = 240  # w up to 40 in steps of 1/6: one dominant cell


def node_count(c: Any, segments: Segments) -> int:
    """Nodes that reach rounding for these concrete c (n,): few where no cell dominates."""
    c = np.asarray(c, dtype=np.float64)
    labels, count = np.asarray(segments.labels), segments.count
    largest, square = np.zeros(count + 1), np.zeros(count + 1)
    np.maximum.at(largest, labels, c)
    np.add.at(square, labels, c * c)
    share = np.max(
        (largest[:count] ** 2 / square[:count])[np.asarray(segments.sizes) > 1], initial=0.0
    )
    return int(np.clip(math.ceil(6 * float(_reach(np.float64(share)))), 24, MOST_NODES))


def equal_log_density_at_zero(c: Array, sizes: Array) -> Array:
    """log f(0) for m equal c, ½ C(2m−2, m−1) 4^{1−m} / c: (…, G), without cancelling gammas."""
    m = jnp.maximum(sizes - 1, 0).astype(c.dtype)
    far = m > 30
    big, small = jnp.where(far, m, 31), jnp.where(far, 0, m)
    # log Γ(m+½)/Γ(m+1)
    series = -0.5 * jnp.log(big) - 1 / (8 * big) + 1 / (192 * big**3) - 1 / (640 * big**5)
    gammas = jax.lax.lgamma(small + 0.5) - jax.lax.lgamma(small + 1)
    return jnp.where(far, series, gammas) - 0.5 * math.log(math.pi) - math.log(2) - jnp.log(c)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def log_density_at_zero(c: Array, segments: Segments, nodes: int = MOST_NODES) -> Array:
    """log f(0) of every group for c = |b|λ (…, n), zero for cells in no group: (…, G)."""
    norm, h, step = _grid(c, segments, nodes)
    mass, _ = _integrate(c, segments, nodes, lambda _: jnp.zeros(()))
    many = jnp.log(mass * step) - jnp.log(math.pi * norm * jnp.sqrt(h))
    return jnp.where(segments.sizes == 1, -jnp.log(2 * norm), many)


@log_density_at_zero.defjvp
def _(nodes: int, primals: Any, tangents: Any) -> Any:
    (c, segments), (dc, _) = primals, tangents
    mass, total = _integrate(c, segments, nodes, lambda t: -2 * c * t * t / (1 + (c * t) ** 2))
    slope = total / jnp.where(segments.member, segments.spread(mass), 1)
    alone = segments.spread((segments.sizes == 1).astype(c.dtype)) > 0
    slope = jnp.where(alone, -1 / jnp.where(alone, c, 1), slope)
    return log_density_at_zero(c, segments, nodes), segments.sum(dc * slope)


def average(c: Array, segments: Segments, nodes: int, function: Callable[[Array], Array]) -> Array:
    """E function(ω), cell by cell, under the law ∝ Π(1 + c_i²ω²)⁻¹ of each cell's group.

    `function` maps the group's ω ≥ 0 spread over cells (…, n) to (…, n) and must be even in ω.
    """
    mass, total = _integrate(c, segments, nodes, function)
    return total / jnp.where(segments.member, segments.spread(mass), 1)


def _reach(h: Any) -> Any:
    """w where cosh(w)^{1−2/h} has fallen to e^{−40}."""
    xp: Any = np if isinstance(h, np.generic) else jnp
    h = xp.asarray(h)
    over = xp.expm1(40 * h / (2 - h))
    return xp.log1p(over + xp.sqrt(over * (2 + over)))


def _grid(c: Array, segments: Segments, nodes: int) -> tuple[Array, Array, Array]:
    norm = jnp.sqrt(segments.sum(c * c))
    h = (segments.max(c) / norm) ** 2
    return norm, h, _reach(h) / nodes


def _integrate(
    c: Array, segments: Segments, nodes: int, function: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Σ_k g(w_k) and Σ_k g(w_k)·function(t_k), one node at a time so that memory stays O(n)."""
    norm, h, step = _grid(c, segments, nodes)

    def add(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], None]:
        mass, total = carry
        w = step * k
        t = segments.spread(jnp.sinh(w) / (jnp.sqrt(h) * norm))
        log_g = jnp.log(jnp.cosh(w)) - segments.sum(jnp.log1p((c * t) ** 2))
        g = jnp.exp(log_g) * jnp.where(k == 0, 0.5, 1.0)
        return (mass + g, total + segments.spread(g) * function(t)), None

    start = (jnp.zeros_like(norm), jnp.zeros_like(c))
    k = jnp.arange(nodes + 1, dtype=c.dtype)
    (mass, total), _ = lax.scan(add, start, k)
    return mass, total
