"""Integrals of a product of any unimodal densities along a line, group by group.

The image of independent noise under a projection has density ∫ Π p_i(x_i + s u_i) ds. Each cell has
a place c_i = −x_i/u_i and a width δ_i, the distance to which its log-density is analytic around c_i
in units of s. The line is cut at the places of up to 32 cells; from each cut Gauss's rule runs to
the middle of the piece in w, s = c + δ sinh w, δ now the distance to the nearest of all c_i ± iδ_i:
there a bump of width δ and the gap of any length beside it are both smooth on the scale of one.
Cells narrower than a bump need no cut of their own.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from cdp_views._checks import is_concrete
from cdp_views._segments import Segments

_CUTS, _ALL = 16, 32  # of a large group; a group of up to 32 cells is cut at every place
_KEPT = 42.0  # nats below the peak: e^{−42} is below rounding in float64
_SCANS, _SCANNED, _BLOCK = 4, 10, 16


def log_integral_along(
    log_density: Callable[[Array], Array],
    x: Array,
    u: Array,
    width: Any,
    segments: Segments,
    *,
    nodes: int = 40,
) -> Array:
    """log ∫ Π_{i∈g} p_i(x_i + s u_i) ds for every group g: (…, n) → (…, G).

    Differentiable in everything that `log_density` depends on, in x and in u; the nodes are held
    fixed, so derivatives are integrals of derivatives by the same rule. Checked against SciPy's
    adaptive quadrature: relative error ≤ 1e-9 in float64.

    Args:
        log_density: log p_i of every cell, (…, n) → (…, n); each p_i unimodal around 0. A pytree,
            so a `jax.tree_util.Partial`: what is compiled then serves all of one shape.
        x: (…, n).
        u: the direction (…, n), not 0 inside groups.
        width: how far every p_i is analytic, in the units of x, (…, n): √df·scale of a Student-t;
            tiny for a density with a kink or a pole at 0.
        segments: the groups; cells in none are left out.
        nodes: of each half of a piece; 80 for tiny widths.
    """
    largest = segments.width or segments.n - segments.count + 1
    if is_concrete(segments.sizes):
        largest = int(np.max(np.asarray(segments.sizes), initial=1))
    return _integral(log_density, x, u, width, segments, largest=largest, nodes=nodes)


@partial(jax.jit, static_argnames=("largest", "nodes"))
def _integral(
    log_density: Callable[[Array], Array],
    x: Array,
    u: Array,
    width: Any,
    segments: Segments,
    *,
    largest: int,
    nodes: int,
) -> Array:
    x, u, width = jnp.broadcast_arrays(x, u, jnp.asarray(width, x.dtype))
    u = jnp.where(segments.member, u, 1)

    @jax.checkpoint
    def along(s: Array) -> Array:  # (…, G) → (…, G)
        value = log_density(x + segments.spread(s) * u)
        return segments.sum(jnp.where(segments.member, value, 0))

    place, reach = lax.stop_gradient((-x / u, width / jnp.abs(u)))
    cuts, sizes = _cuts(place, reach, segments, largest)
    far = 60.0 if x.dtype == jnp.float64 else 25.0
    span = jnp.max(jnp.where(jnp.isfinite(sizes), sizes, 0), -1) * np.sinh(far)
    low, high = cuts[..., 0] - span, cuts[..., -1] + span
    sizes = _clear(cuts, sizes)
    for _ in range(_SCANS):
        s, _ = _rule(cuts, sizes, low, high, *_even(_SCANNED, x.dtype))
        low, high = _window(s, lax.stop_gradient(_over(along, s)), low, high)
    s, weight = lax.stop_gradient(_rule(cuts, sizes, low, high, *_gauss(nodes, x.dtype)))
    value = _over(along, s)
    return logsumexp(jnp.where(weight > 0, value, -jnp.inf), 0, b=weight)


def _over(along: Callable[[Array], Array], s: Array) -> Array:
    return lax.map(along, s, batch_size=_BLOCK)


def _cuts(place: Array, reach: Array, segments: Segments, largest: int) -> tuple[Array, Array]:
    """The cuts (…, G, K) of every group in order, and the width around each.

    All places of a small group; of a large one quantiles, and the places of its narrowest cells.
    """
    few = largest if largest <= _ALL else _CUTS
    sizes = segments.sizes.astype(jnp.int32)
    start = jnp.cumsum(sizes) - sizes
    labels = jnp.broadcast_to(segments.labels, place.shape)
    _, by_place, its_reach = lax.sort((labels, place, reach), num_keys=2)
    k = jnp.arange(few)
    quantile = (sizes[:, None] * (2 * k + 1)) // (2 * few)
    index = jnp.where(sizes[:, None] <= few, jnp.minimum(k, sizes[:, None] - 1), quantile)
    index = start[:, None] + jnp.maximum(index, 0)
    cuts, width = by_place[..., index], its_reach[..., index]
    if largest > few:
        _, narrow, narrow_place = lax.sort((labels, reach, place), num_keys=2)
        half = start[:, None] + jnp.minimum(jnp.arange(few // 2), sizes[:, None] - 1)
        # every second quantile gives way where a group has more places than cuts
        large = sizes[:, None] > few
        cuts = cuts.at[..., ::2].set(jnp.where(large, narrow_place[..., half], cuts[..., ::2]))
        width = width.at[..., ::2].set(jnp.where(large, narrow[..., half], width[..., ::2]))
        cuts, width = lax.sort((cuts, width), num_keys=1)
    return cuts, width


def _clear(cuts: Array, widths: Array) -> Array:
    """How far the integrand is analytic around every cut: to the nearest of all c_i ± iδ_i."""
    gap = cuts[..., :, None] - cuts[..., None, :]
    return jnp.min(jnp.hypot(gap, widths[..., None, :]), -1)


def _rule(
    cuts: Array, widths: Array, low: Array, high: Array, node: Array, weight: Array
) -> tuple[Array, Array]:
    """Nodes (N, …, G) in order and weights on [low, high], cut at the cuts inside it.

    `node` in (0, 1) and its weight are the rule on each half piece.
    """
    ends = jnp.concatenate(
        [
            low[..., None],
            jnp.clip(cuts, low[..., None], high[..., None]),
            high[..., None],
        ],
        -1,
    )
    # nothing happens beside the two outer ends, however far away they are
    outside = (high - low)[..., None]
    inner = jnp.where((cuts >= low[..., None]) & (cuts <= high[..., None]), widths, outside)
    size = jnp.concatenate([outside, inner, outside], -1)
    half = (ends[..., 1:] - ends[..., :-1]) / 2

    def graded(size: Array, t: Array, w: Array) -> tuple[Array, Array]:
        safe = jnp.where(size > 0, size, 1)
        top = jnp.arcsinh(half / safe)[..., None]
        return safe[..., None] * jnp.sinh(top * t), safe[..., None] * jnp.cosh(top * t) * top * w

    up, up_weight = graded(size[..., :-1], node, weight)
    down, down_weight = graded(size[..., 1:], node[::-1], weight[::-1])
    s = jnp.concatenate([ends[..., :-1, None] + up, ends[..., 1:, None] - down], -1)
    w = jnp.concatenate([up_weight, down_weight], -1)
    flat = (*s.shape[:-2], -1)
    return jnp.moveaxis(s.reshape(flat), -1, 0), jnp.moveaxis(w.reshape(flat), -1, 0)


def _window(s: Array, value: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The part of the line within 42 nats of the peak, with a node to spare on both sides.

    By height, not by mass: between two places that nearly coincide a piece holds next to nothing.
    """
    value = jnp.where(jnp.isnan(value), -jnp.inf, value)
    kept = value > jnp.max(value, 0) - _KEPT
    first = jnp.min(jnp.where(kept, s, jnp.inf), 0)
    last = jnp.max(jnp.where(kept, s, -jnp.inf), 0)
    below = jnp.max(jnp.where(s < first, s, -jnp.inf), 0)
    above = jnp.min(jnp.where(s > last, s, jnp.inf), 0)
    return jnp.maximum(below, low), jnp.minimum(above, high)


def _gauss(count: int, dtype: Any) -> tuple[Array, Array]:
    node, weight = np.polynomial.legendre.leggauss(count)
    return jnp.asarray((node + 1) / 2, dtype), jnp.asarray(weight / 2, dtype)


def _even(count: int, dtype: Any) -> tuple[Array, Array]:
    node = (np.arange(count) + 0.5) / count
    return jnp.asarray(node, dtype), jnp.full((count,), 1 / count, dtype)


def kept_apart(segments: Segments, u: Array) -> Segments:
    """The groups without their cells of direction 0, which the integral leaves as they are."""
    moving = segments.member & (u != 0)
    labels = jnp.where(moving, segments.labels, segments.count)
    sizes = segments.sum(moving.astype(jnp.int32))
    width = segments.width
    return replace(segments, labels=labels, sizes=sizes, width=width if width == 1 else None)
