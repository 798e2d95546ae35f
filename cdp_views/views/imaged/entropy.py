"""Entropy of imaged noise where at most two cells of every group move: integrals on a line.

−log p(x) = −Σ log p_i(x_i) over the cells that stay − Σ_g log g(x) − Σ_g log (b·u/|b|), with g the
integral over the fibre x + s u of the cells that move. One such cell gives g = 1/|u|. Two show of
themselves only T = u₂X₁ − u₁X₂, which the fibre leaves alone, and g is the density of T.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import Partial

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views._segments import Segments
from cdp_views.precision.along import log_integral_along

# t = exp(π/2 sinh v): equal steps in v suit kinks and poles at 0 and tails alike
_V, _STEP = np.linspace(-4.4, 3.54, 501, retstep=True)
_LOST, _WRONG, _BLOCK = 1e-8, 1e-7, 16


class Standard(NamedTuple):
    """A base's cells of scale 1: what tells their laws apart, and the NumPyro law for it."""

    shape: np.ndarray  # (…, n) or (1,), such as df
    law: Callable[[Array], Any]
    width: Callable[[Array], Array]  # how far the density is analytic around 0
    nodes: int


@in_float64
def exact_entropy(view: Any) -> np.ndarray | None:
    """H (…), or None where more than two cells of a group move or the integrals are too rough."""
    groups, standard = view.invariant.disjoint_groups, view.standard_cells
    known = _checks.is_concrete(view.invariant, view.scale, view._push.law)
    if groups is None or standard is None or not known:
        return None
    labels, u = np.asarray(groups.segments.labels), view.fibre(groups)
    moving = (labels < groups.rank) & (u != 0)
    sizes = np.bincount(labels[moving], minlength=groups.rank)
    if np.any(sizes > 2):
        return None
    batch = (*view.batch_shape, view.invariant.n)
    scale = np.broadcast_to(np.asarray(view.scale, np.float64), batch)
    shape = np.broadcast_to(standard.shape, batch)

    b = np.ones(groups.n) if groups.weights is None else np.asarray(groups.weights, np.float64)
    inside = labels < groups.rank
    along = np.bincount(labels[inside], (b * u)[inside], groups.rank)
    norm = np.bincount(labels[inside], (b * b)[inside], groups.rank)
    value = np.sum(np.log(scale[..., ~moving]), -1) - np.sum(np.log(along) - np.log(norm) / 2)

    cells = np.flatnonzero(moving)
    cells = cells[np.argsort(labels[cells], kind="stable")]
    single = sizes[labels[cells]] == 1
    value = value + np.sum(np.log(np.abs(u[cells[single]])))
    first, second = cells[~single].reshape(-1, 2).T
    one = np.abs(u[second]) * scale[..., first]  # T = one·S₁ − two·S₂
    two = np.abs(u[first]) * scale[..., second]
    value = value + np.sum(np.log(np.maximum(one, two)), -1)
    swap = two > one
    larger = np.where(swap, shape[..., second], shape[..., first])
    smaller = np.where(swap, shape[..., first], shape[..., second])
    pairs = np.stack([np.minimum(one, two) / np.maximum(one, two), larger, smaller], -1)
    added = [_added(pairs, lambda row: _difference(standard, row))]
    added.append(_added(shape[..., ~moving, None], lambda row: _cell(standard, row)))
    value = value + sum(added)
    return value if np.all(np.isfinite(value)) else None


def _added(rows: np.ndarray, log_density: Callable[[Array], Callable[[Array], Array]]) -> Any:
    """Σ of the entropies of even densities, each told by a row (…, m, r), one for equal rows."""
    if rows.shape[-2] == 0:
        return 0.0
    flat, which = np.unique(rows.reshape(-1, rows.shape[-1]), axis=0, return_inverse=True)
    run = jax.jit(lambda rows: lax.map(lambda r: _entropy(log_density(r)), rows, batch_size=_BLOCK))
    return np.sum(np.asarray(run(float64(flat)))[which.ravel()].reshape(rows.shape[:-1]), -1)


def _entropy(log_density: Callable[[Array], Array]) -> Array:
    """−2 ∫₀^∞ f log f, NaN where mass is lost or half the nodes give another number."""
    v = jnp.asarray(_V)
    t = jnp.exp(math.pi / 2 * jnp.sinh(v))
    value = log_density(t)
    p = 2 * _STEP * jnp.exp(value) * t * (math.pi / 2) * jnp.cosh(v)
    height = jnp.where(p > 0, -p * value, 0)
    whole, half = jnp.sum(height), 2 * jnp.sum(height[::2])
    wrong = (jnp.abs(jnp.sum(p) - 1) > _LOST) | (jnp.abs(whole - half) > _WRONG)
    return jnp.where(wrong, jnp.nan, whole)


def _cell(standard: Standard, row: Array) -> Callable[[Array], Array]:
    """The log-density of a cell of this shape."""
    return standard.law(row[0]).log_prob


def _difference(standard: Standard, row: Array) -> Callable[[Array], Array]:
    """The log-density of S₁ − r S₂, cells of two shapes."""
    ratio, shapes = row[0], row[1:]
    law, together = standard.law(shapes), Segments.of(np.zeros(2, int), 1)
    u = jnp.stack([ratio, jnp.ones_like(ratio)])
    width = jnp.broadcast_to(standard.width(shapes), (2,))

    def at(t: Array) -> Array:
        x = jnp.stack([t, jnp.zeros_like(t)], -1)
        density = Partial(type(law).log_prob, law)
        return log_integral_along(density, x, u, width, together, nodes=standard.nodes)[..., 0]

    return at
