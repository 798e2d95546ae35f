"""A draw of the maximum-entropy Gaussian whose scales are drawn as well: one solve per draw.

Solved and shaped where noise lies in rows (`Lanes`), in units of each group's largest scale: with
p_i = c_i/c_m, x = 1/u and w_i = R_i/u = √((1−x)² + (1−p²)x(2−x)) the equation of `scalar` is
Σ_{i≠m} p_i²x/(1 + w_i) = 1 and θ_i = (1 + w_i)/2, a few vectorised passes over the cells.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views._lanes import Lanes
from cdp_views._segments import once
from cdp_views.precision.scalar import Moments, newton, pieces_of


# run eagerly, every operation would be compiled by itself, and the loop again at every call
@jax.jit
def balanced_noise(lanes: Lanes, c: Array, z: Array) -> Array:
    """The Gaussian with standard deviations c that sums to 0 in every group, from normals z.

    Args:
        lanes: the groups; cells of none get c z.
        c: (…, width, R) at their places, each group's in balance or all equal, 0 where no cell is.
        z: (…, width, R) independent standard normals.

    Returns:
        (…, width, R), any number where no cell is.
    """
    c = once(c)
    top, *pivot = lanes.max(c)
    first = once(lanes.marked(*pivot))
    next_top, *second = lanes.max(c, first)
    other = once(lanes.marked(*second))
    several = lanes.sizes > 1
    other = jnp.where(lanes.rows.spread(several.astype(jnp.int32)) > 0, other, -1)
    member = lanes.rows.member
    unit = jnp.where(member, lanes.rows.spread(top), 1)[..., None, :]
    named = (lanes.lane == first[..., None, :]) | (lanes.lane == other[..., None, :])
    p = once(jnp.where(named, 0, c / unit))
    largest = jnp.where(several, next_top / top, 0)
    u = _root(lanes, p, largest)
    x = 1 / u
    # the pivot takes minus the sum of the others, the second largest is shaped group by group
    theta = 1 - 0.5 / u
    last = (largest, pieces_of(largest, u).root_over_u, lanes.at(z, *second))
    own_q = last[0] * jnp.sqrt(2 / (1 + last[1]))
    q = once(_q(p, lanes.spread(x)))
    s = lanes.sum(_square, (q,)) + own_q * own_q
    # u ≥ ½ means ν_m ≥ 0, and nothing cancels in 1 + ν_m s
    kappa = jnp.where(2 * u >= 1, 1 + theta * s, 2 * u)
    root = jnp.sqrt(kappa)
    pull = theta / (root * (1 + root)) * (lanes.sum(jnp.multiply, (q, z)) + own_q * last[2])
    own = _rest(own_q, last[2], pull)
    rest = -lanes.sum(_rest, (q, z), (pull,)) - own
    y = _rest(q, z, lanes.spread(pull))
    y = jnp.where(lanes.lane == first[..., None, :], lanes.spread(rest), y)
    y = jnp.where(lanes.lane == other[..., None, :], lanes.spread(own), y)
    return unit * y


def _root(lanes: Lanes, p: Array, largest: Array) -> Array:
    """u of every group; implicit derivatives through `custom_root`."""
    sizes = lanes.sizes
    regular, fixed = sizes > 2, jnp.where(sizes == 1, 0.5, 1.0).astype(p.dtype)

    def total(p: Array, u: Array) -> Array:
        return lanes.sum(_g, (p,), (1 / u,))

    def excess(u: Array) -> Array:
        return jnp.where(
            regular,
            total(p, u) - pieces_of(largest, u).one_minus_g,
            jnp.broadcast_to(fixed, u.shape) - u,
        )

    def solve(_: Any, start: Array) -> tuple[Array, Array]:
        still, last = lax.stop_gradient((p, largest))
        even = [lanes.sum(partial(_power, k), (still,)) + last**k for k in (1, 2, 4, 6, 8)]
        moments = Moments(*even)

        def value_and_slope(u: Array, done: Array) -> tuple[Array, Array]:
            g, slope = lanes.sums_of_some((_g, _slope), still, 1 / u, ~done)
            return g, slope

        return newton(value_and_slope, moments, last, sizes, regular, start)

    start = jnp.broadcast_to(fixed, largest.shape)
    u, _ = lax.custom_root(excess, start, solve, lambda g, y: y / g(jnp.ones_like(y)), has_aux=True)
    return u


def _w(p: Array, x: Array) -> Array:
    """R/u of a cell but the two largest, as 1 + p²x(x − 2) where x > 2: nothing cancels."""
    far = x > 2
    b = x * (2 - x)
    flat, side = jnp.where(far, 1, (1 - x) * (1 - x)), jnp.where(far, -b, b)
    return jnp.sqrt(flat + jnp.where(far, p * p, (1 - p) * (1 + p)) * side)


def _g(p: Array, x: Array) -> Array:
    return p * p * x / (1 + _w(p, x))


def _slope(p: Array, x: Array) -> Array:
    """−dg/du."""
    w, a = _w(p, x), p * p * x
    return (
        a * x * jnp.maximum(w + 1 - a, 0) / (jnp.maximum(w, jnp.finfo(w.dtype).tiny) * (1 + w) ** 2)
    )


def _power(k: int, p: Array) -> Array:
    return p**k


def _q(p: Array, x: Array) -> Array:
    """1/√ν in units of the group's largest scale: p/√θ."""
    return p * jnp.sqrt(2 / (1 + _w(p, x)))


def _square(q: Array) -> Array:
    return q * q


def _rest(q: Array, z: Array, pull: Array) -> Array:
    """x_r = z_r/√ν_r − pull/ν_r."""
    return q * (z - pull * q)
