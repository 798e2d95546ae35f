"""The maximum-entropy precisions of weighted totals: one increasing equation per group.

For one total with weights b and scales σ put c_i = |b_i|σ_i, m the cell of the largest c (the
*pivot*), p_i = c_i/c_m and α_i = p_i² for the others. With R_i(u) = √(u² − 2α_i u + α_i) the
equation

    G(u) = Σ_{i≠m} g_i(u) = 1,      g_i(u) = α_i / (u + R_i(u)),      u > 0,

has a root iff Σ_{i≠m} c_i > c_m: a constructive proof of Corollary 1 of the maximum-entropy
paper. Then θ = νσ² is θ_i = (1 + R_i/u)/2, θ_m = 1 − 1/(2u), and 1 + ν_m Σ F_i²/ν_i = 2u.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views._segments import Segments

_ITERATIONS = 14  # 10 reach rounding in float64, 8 in float32; the loop stops when all groups have


class Balance(NamedTuple):
    """The solution of every group: θ = νσ² (…, n), u (…, G), its pivot mask, and feasibility."""

    theta: Array
    u: Array
    pivot: Array
    feasible: Array
    gap: Array
    iterations: Array


class Moments(NamedTuple):
    """Σ p^k over the cells of a group but the largest, k = 1, 2, 4, 6, 8: (…, G) each."""

    s1: Array
    s2: Array
    s4: Array
    s6: Array
    s8: Array


class Pieces(NamedTuple):
    """Cellwise parts of the equation, each free of cancellation and overflow at any p."""

    g: Array
    slope: Array  # −dg/du
    one_minus_g: Array  # only meaningful for the largest p
    root_over_u: Array  # R/u


@jax.jit
def balance_totals(c: Array, segments: Segments) -> Balance:
    """Solve every group's equation for c = |b|σ (…, n); cells outside all groups get θ = 1.

    Differentiable to any order by the implicit function theorem. Where a group is infeasible
    its numbers are those of equal scales and `feasible` is false, so that traced code can answer
    −inf without a NaN in the gradient.
    """
    c = jnp.asarray(c)
    seg, eps = segments, jnp.finfo(jnp.result_type(c)).eps
    pivot = seg.last_argmax(c)
    largest = seg.sum(jnp.where(pivot, c, 0.0))  # not max, whose derivative splits among ties
    rest = seg.sum(jnp.where(pivot, 0.0, c))
    gap = rest / largest - 1.0
    single, pair = seg.sizes == 1, seg.sizes == 2
    rounding = 4 * eps * jnp.sqrt(seg.sizes.astype(c.dtype))
    feasible = single | jnp.where(pair, jnp.abs(gap) <= 8 * eps, gap > rounding)
    c = jnp.where(seg.spread((feasible & ~pair).astype(c.dtype)) > 0, c, 1.0)
    largest = seg.sum(jnp.where(pivot, c, 0.0))
    p = jnp.where(pivot | ~seg.member, 0.0, c / jnp.where(seg.member, seg.spread(largest), 1.0))
    regular = ~(single | pair)
    u, iterations = _root(p, regular, jnp.where(single, 0.5, 1.0), pivot, seg)
    pieces = pieces_of(p, seg.spread(u))
    theta = jnp.where(
        pivot, 1.0 - 0.5 / jnp.where(pivot, seg.spread(u), 1.0), (1.0 + pieces.root_over_u) / 2
    )
    theta = jnp.where(seg.member, theta, 1.0)
    return Balance(theta, u, pivot, feasible, gap, iterations)


def pieces_of(p: Array, u: Array) -> Pieces:
    """g, −dg/du, 1 − g and R/u of cells p ≥ 0 at u > 0; g = 0 and R/u = 1 where p = 0."""
    inside = p > 0
    safe_p = jnp.where(inside, p, 1.0)
    t = jnp.where(inside, u, 1.0) / safe_p
    far = t > 1e15
    t_near = jnp.where(far, 1.0, t)
    beta = (1 - safe_p) * (1 + safe_p)
    e = jnp.where(safe_p > 0.7, ((u - 1) + beta) / safe_p, t_near - safe_p)
    e = jnp.where(far | ~inside, 1.0, e)
    square = e * e + beta
    h = jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0)
    falling = e < 0
    h_plus_e = jnp.where(falling, beta / jnp.where(falling, h - e, 1.0), h + e)
    h, h_plus_e = jnp.where(far, t, h), jnp.where(far, 2 * t, h_plus_e)
    whole = t + h
    g = jnp.where(inside, safe_p / whole, 0.0)
    slope = jnp.where(inside, h_plus_e / (jnp.where(h > 0, h, 1.0) * whole**2), 0.0)
    return Pieces(g, slope, h_plus_e / whole, jnp.where(inside, h / t, 1.0))


def _value_and_slope(p: Array, u: Array) -> tuple[Array, Array]:
    pieces = pieces_of(p, u)
    return pieces.g, pieces.slope


def _root(
    p: Array, regular: Array, fixed: Array, pivot: Array, seg: Segments
) -> tuple[Array, Array]:
    """u of every regular group, `fixed` elsewhere; implicit derivatives through `custom_root`."""
    second = seg.last_argmax(jnp.where(pivot, -1.0, p)) & ~pivot
    largest, others = seg.sum(jnp.where(second, p, 0.0)), jnp.where(second, 0.0, p)

    def excess(u: Array) -> Array:
        """G(u) − 1 without the subtraction: the largest term's 1 − g is exact near a tie."""
        total = seg.sum(pieces_of(others, seg.spread(u)).g) - pieces_of(largest, u).one_minus_g
        return jnp.where(regular, total, fixed - u)

    solve = partial(
        _iterate,
        others=lax.stop_gradient(others),
        largest=lax.stop_gradient(largest),
        regular=regular,
        seg=seg,
    )
    start = jnp.broadcast_to(fixed, (*p.shape[:-1], seg.count)).astype(p.dtype)
    return lax.custom_root(
        excess, start, lambda _, u: solve(u), lambda g, y: y / g(jnp.ones_like(y)), has_aux=True
    )


def _iterate(
    start: Array, *, others: Array, largest: Array, regular: Array, seg: Segments
) -> tuple[Array, Array]:
    powers = [seg.sum(others**k) + largest**k for k in (1, 2, 4, 6, 8)]

    def value_and_slope(u: Array, _: Array) -> tuple[Array, Array]:
        return seg.accumulate(_value_and_slope, (others,), (u,))

    return newton(value_and_slope, Moments(*powers), largest, seg.sizes, regular, start)


def newton(
    value_and_slope: Callable[[Array, Array], tuple[Array, Array]],
    moments: Moments,
    largest: Array,
    sizes: Array,
    regular: Array,
    start: Array,
) -> tuple[Array, Array]:
    """Safeguarded Newton on 1/G, or on the equation with the largest other cell eliminated.

    Args:
        value_and_slope: Σ g and −Σ dg/du of the cells but the two largest, (…, G), from u and
            the groups that are done, whose answer does not matter.
        moments: of the cells but the largest.
        largest: the largest p among them.
        sizes: cells of each group.
        regular: which groups to solve.
        start: what the others' answer is.

    Returns:
        u (…, G), and the number of steps taken.
    """
    eps, tiny = jnp.finfo(start.dtype).eps, jnp.finfo(start.dtype).tiny * 1e4
    alpha1, beta1 = largest**2, (1 - largest) * (1 + largest)
    s1, s2 = moments.s1, moments.s2
    # Brackets are widened: one that is exact to rounding makes the safeguard bisect at ties.
    low = jnp.where(
        s2 >= 1, 0.45 * s2, 0.9 * jnp.maximum((s1 - 1) / jnp.maximum(sizes - 1, 1), tiny)
    )
    high = jnp.where(s2 >= 1, 2 * s2, 1.0)
    low = jnp.minimum(low, 0.9 * high)
    u = jnp.where(regular, jnp.clip(_guess(moments, low), low, high), start)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        u, low, high, done, count = state
        total, slopes = value_and_slope(u, done)
        last = pieces_of(largest, u)
        total_slope = -slopes
        excess = total - last.one_minus_g
        low = jnp.where(excess >= 0, jnp.maximum(low, u), low)
        high = jnp.where(excess < 0, jnp.minimum(high, u), high)
        slope = total_slope - last.slope
        reciprocal = u - excess * (1 + excess) / jnp.where(slope < 0, slope, -1.0)
        t = jnp.where((total < 0.9) & (total > 0), total, 0.5)
        phi = u - 0.5 * (1 + alpha1 / (1 - t) - beta1 / t)
        phi_slope = 1 - 0.5 * total_slope * (alpha1 / (1 - t) ** 2 + beta1 / t**2)
        new = jnp.where(total < 0.9, u - phi / phi_slope, reciprocal)
        # A converged step may leave the bracket by a rounding error; it is not thrown away.
        small = jnp.abs(new - u) <= jnp.sqrt(eps) * u
        new = jnp.where(((new >= low) & (new <= high)) | small, new, jnp.sqrt(low) * jnp.sqrt(high))
        exact = jnp.abs(excess) <= 4 * eps * jnp.maximum(total, last.one_minus_g)
        new = jnp.where(done | exact, u, new)
        # Newton squares its error, so after a step this small only rounding is left; for u > 2
        # 1/G is nearly linear.
        settled = jnp.abs(new - u) <= jnp.where(u > 2, 0.3, 0.01) * jnp.sqrt(eps) * u
        return new, low, high, done | settled | exact, count + 1

    def unfinished(state: tuple[Array, ...]) -> Array:
        return (state[4] < _ITERATIONS) & ~jnp.all(state[3])

    done = jnp.broadcast_to(~regular, u.shape)
    low, high = jnp.broadcast_to(low, u.shape), jnp.broadcast_to(high, u.shape)
    u, _, _, _, count = lax.while_loop(
        unfinished, step, (u, low, high, done, jnp.zeros((), jnp.int32))
    )
    return u, count


def _guess(moments: Moments, low: Array) -> Array:
    """The root of G's series in x = 1/u to x⁴; exact for equal scales and u ≫ 1."""
    _, s2, s4, s6, s8 = moments
    safe = jnp.where(s2 > 0, s2, 1.0)
    near = (s2 + s4 / safe) / 2
    x = 1 / jnp.where(near > 0, near, 1.0)
    for _ in range(4):
        y = 2 - x
        value = s2 * x / 2 + s4 * x**2 * y / 8 + s6 * x**3 * y**2 / 16 + 5 * s8 * x**4 * y**3 / 128
        slope = (
            s2 / 2
            + s4 * x * (4 - 3 * x) / 8
            + s6 * x**2 * y * (6 - 5 * x) / 16
            + 5 * s8 * x**3 * y**2 * (8 - 7 * x) / 128
        )
        x = x - (value - 1) / jnp.where(slope > 0, slope, 1.0)
    series = (s2 > 2) & (x > 0) & (x < 1)
    return jnp.where(series, 1 / jnp.where(series, x, 1.0), jnp.where(s2 > 0.8, near, low))
