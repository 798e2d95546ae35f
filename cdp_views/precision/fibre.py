"""Integrals of a product of Laplace densities along a line, group by group.

The image of a Laplace noise under a projection has density ∫ Π exp(−r_i |x_i + s u_i|) ds: minus
its log-integrand F(s) is convex and piecewise linear. Sorting the breakpoints −x_i/u_i leaves one
closed-form piece between neighbours: O(n log n) for any number of groups.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views._segments import Segments


def log_fibre_integral(x: Array, u: Array, rate: Array, segments: Segments) -> Array:
    """log ∫ exp(−Σ_{i∈g} r_i |x_i + s u_i|) ds for every group g: (…, n) → (…, G).

    `u` is the direction (not 0 inside groups) and `rate` r > 0.
    """
    x, u, rate = jnp.broadcast_arrays(x, u, rate)
    place = jnp.where(segments.member, -x / jnp.where(segments.member, u, 1), 0)
    labels = jnp.broadcast_to(segments.labels, x.shape)
    _, place, weight = lax.sort((labels, place, jnp.abs(u) * rate), num_keys=2)
    seg = replace(segments, labels=jnp.sort(segments.labels))
    change = seg.labels[1:] != seg.labels[:-1]
    first, last = jnp.append(True, change), jnp.append(change, True)

    whole = seg.spread(seg.sum(weight))
    gap = jnp.where(last, 0, jnp.append(place[..., 1:], place[..., -1:], -1) - place)
    rise = (2 * segmented_cumsum(weight, first) - whole) * gap  # F(next) − F(here)
    before = jnp.append(jnp.zeros_like(rise[..., :1]), rise[..., :-1], -1)
    height = segmented_cumsum(jnp.where(first, 0, before), first)  # F − F at the first breakpoint
    # F − F at one lowest point: the same one in both of its terms, and others to its left or right
    # by their order, or slopes are lost where points are equally low or lie on each other
    low = height + seg.spread(seg.max(-height)) == 0
    chosen = low & (segmented_cumsum(1.0 * low, first) == 1)
    height = height - seg.spread(seg.sum(jnp.where(chosen, height, 0)))
    bottom = seg.sum(jnp.where(chosen, place, 0))
    side = jnp.where(chosen, 0, 2 * segmented_cumsum(1.0 * chosen, first) - 1)
    lowest = seg.sum(weight * side * (place - seg.spread(bottom)))

    # ∫ over one piece, from its lower end: gap · e^{−F} (1 − e^{−size})/size, size = |rise| with a
    # slope at 0 too
    size = jnp.where(rise >= 0, rise, -rise)
    flat = size < 1e-4
    fall = jnp.where(flat, 1 - size / 2 + size**2 / 6, -jnp.expm1(-size) / jnp.where(flat, 1, size))
    pieces = gap * jnp.exp(-jnp.where(rise >= 0, height, height + rise)) * fall
    ends = jnp.exp(-height) / jnp.where(seg.member, whole, 1) * (1.0 * first + last)
    return jnp.log(seg.sum(pieces + ends)) - lowest


@jax.jit  # outside a trace the scan would be compiled step by step
def segmented_cumsum(x: Array, first: Array) -> Array:
    """Running sums along the last axis that start again wherever `first` (n,) is true."""

    def join(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])

    return lax.associative_scan(join, (jnp.broadcast_to(first, x.shape), x), axis=x.ndim - 1)[1]
