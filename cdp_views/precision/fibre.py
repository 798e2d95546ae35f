"""Integrals of a product of Laplace densities along a line, group by group.

The image of a Laplace noise under a projection has density ∫ Π exp(−r_i |x_i + s u_i|) ds: minus
its log-integrand F(s) is convex and piecewise linear. Sorting the breakpoints −x_i/u_i leaves one
closed-form piece between neighbours: O(n log n) for any number of groups.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from cdp_views._segments import Segments


@jax.jit
def log_fibre_integral(x: Array, u: Array, rate: Array, segments: Segments) -> Array:
    """log ∫ exp(−Σ_{i∈g} r_i |x_i + s u_i|) ds for every group g: (…, n) → (…, G).

    `u` is the direction (not 0 inside groups) and `rate` r > 0.
    """
    x, u, rate = jnp.broadcast_arrays(x, u, rate)
    return _by_group(*breakpoints(x, u, rate, segments), segments)


def breakpoints(x: Array, u: Array, rate: Array, segments: Segments) -> tuple[Array, Array]:
    """t_i = −x_i/u_i and w_i = |u_i| r_i, of which cells of no group have neither."""
    plain = u.shape[-1] == 1
    return -x / (u if plain else jnp.where(segments.member, u, 1)), jnp.abs(u) * rate


@jax.custom_jvp
def _by_group(place: Array, weight: Array, segments: Segments) -> Array:
    return _integrate(place, weight, segments)[0]


@partial(_by_group.defjvp, symbolic_zeros=True)
def _(primals: tuple[Array, Array, Segments], tangents: tuple[Any, Any, Any]) -> Any:
    (place, weight, segments), (dplace, dweight, _) = primals, tangents
    value, left = _integrate(place, weight, segments)
    slope = jnp.zeros_like(value)
    if not isinstance(dplace, SymbolicZero):
        # ∂/∂t_i = w_i E sign(s − t_i), s with density ∝ exp(−F); by its steps rounding adds up
        slope = slope + segments.sum(weight * (1 - 2 * left) * dplace)
    if not isinstance(dweight, SymbolicZero):
        by_weight = partial(_integrate, place, segments=segments)
        slope = slope + jax.jvp(lambda w: by_weight(w)[0], (weight,), (dweight,))[1]
    return value, slope


def _integrate(place: Array, weight: Array, segments: Segments) -> tuple[Array, Array]:
    """log ∫ exp(−F(s)) ds, F(s) = Σ_{i∈g} w_i |s − t_i|: (…, G), and P(s < t_i): (…, n)."""
    order = _order_within(place, segments)
    place, weight = _take(place, order), _take(weight, order)
    seg = replace(segments, labels=jnp.sort(segments.labels))
    change = seg.labels[1:] != seg.labels[:-1]
    first, last = jnp.append(True, change), jnp.append(change, True)

    whole = seg.spread(seg.sum(weight))
    gap = jnp.where(last, 0, jnp.append(place[..., 1:], place[..., -1:], -1) - place)
    rise = (2 * segmented_cumsum(weight, first) - whole) * gap  # F(next) − F(here)
    height = segmented_cumsum(jnp.where(first, 0, _before(rise)), first)  # F − F(first breakpoint)
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
    end = jnp.exp(-height) / jnp.where(seg.member, whole, 1)  # a half-line, at first and last
    total = seg.sum(pieces + end * (1.0 * first + last))
    left = segmented_cumsum(jnp.where(first, end, _before(pieces)), first)
    left = left / jnp.where(seg.member, seg.spread(total), 1)
    return jnp.log(total) - lowest, _put_back(left, order)


def _order_within(place: Array, segments: Segments) -> Array:
    """Indices (…, n) of the cells sorted by group and then by `place`; they have no slope."""
    labels = jnp.broadcast_to(segments.labels, place.shape)
    index = lax.broadcasted_iota(jnp.int32, place.shape, place.ndim - 1)
    return lax.sort((labels, lax.stop_gradient(place), index), num_keys=2)[2]


def _before(x: Array) -> Array:
    """Each cell's predecessor's number."""
    return jnp.append(jnp.zeros_like(x[..., :1]), x[..., :-1], -1)


def _take(x: Array, order: Array) -> Array:
    return jnp.take_along_axis(x, order, -1, mode="promise_in_bounds")


def _put_back(x: Array, order: Array) -> Array:
    """x (…, n) of sorted cells, at the cells."""
    zeros = jnp.zeros_like(x)
    return jnp.put_along_axis(zeros, order, x, -1, inplace=False, mode="promise_in_bounds")


@jax.jit  # outside a trace the scan would be compiled step by step
def segmented_cumsum(x: Array, first: Array) -> Array:
    """Running sums along the last axis that start again wherever `first` (n,) is true."""

    def join(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])

    return lax.associative_scan(join, (jnp.broadcast_to(first, x.shape), x), axis=x.ndim - 1)[1]
