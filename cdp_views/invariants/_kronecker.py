"""The algebra of a table's margins: tensor products of averages, one axis at a time."""

from collections.abc import Iterable
from itertools import chain, combinations
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

Axes = tuple[int, ...]


def largest(keep: Iterable[Axes]) -> tuple[Axes, ...]:
    """The margins that are not margins of another one of `keep`."""
    sets = dict.fromkeys(frozenset(axes) for axes in keep)
    return tuple(tuple(sorted(s)) for s in sets if not any(s < other for other in sets))


def interactions(keep: Iterable[Axes]) -> list[Axes]:
    """All sets of axes that lie in some kept margin: the terms of its log-linear model."""
    found = {s for axes in keep for s in _subsets(axes)}
    return sorted(found, key=lambda s: (len(s), s))


def fixed_coefficients(shape: tuple[int, ...], keep: Iterable[Axes]) -> np.ndarray:
    """Which coefficients of `reflect` the kept margins fix: a mask (*shape).

    Coefficient (i₁, …) belongs to the interaction of the axes with i_a > 0.
    """
    terms = interactions(keep)
    mask = np.zeros(shape, dtype=bool)
    for term in terms:
        mask[tuple(slice(1, None) if a in term else 0 for a in range(len(shape)))] = True
    return mask


def reflect(table: Array) -> Array:
    """The table's coefficients in an orthonormal basis of interactions; its own inverse.

    Each axis is reflected so that e₁ ↦ −1/√m: coefficient 0 is then its (scaled) mean. Leading
    axes beyond the table's are batches: call it through `jnp.reshape(x, (…, *shape))`.
    """
    for axis in range(1, table.ndim):
        m = table.shape[axis]
        w = np.full(m, 1 / np.sqrt(m))
        w[0] += 1
        w = jnp.asarray(w, table.dtype).reshape((m,) + (1,) * (table.ndim - 1 - axis))
        table = table - w * (
            jnp.sum(w * table, axis, keepdims=True) * (np.sqrt(m) / (1 + np.sqrt(m)))
        )
    return table


def average_out(table: Array, axes: Axes) -> Array:
    """Means over all axes of the table but `axes`, kept as axes of length 1; axis 0 is a batch."""
    gone = tuple(a + 1 for a in range(table.ndim - 1) if a not in axes)
    return jnp.mean(table, gone, keepdims=True) if gone else table


def squared_projection(shape: tuple[int, ...], keep: Iterable[Axes]) -> dict[Axes, float]:
    """h with (P ∘ P) = Σ_T h_T ⊗_a (I if a ∈ T else 11ᵀ), P the projection on the kernel.

    P_ij depends only on the set E of axes on which cells i and j agree, as P does; squaring it
    there and inverting over subsets gives the squared entries in the same algebra.
    """
    every = tuple(range(len(shape)))
    terms = interactions(keep)

    def part(term: Axes, agree: Axes) -> float:
        """An entry of the projection on one interaction, of cells that agree on those axes."""
        centred = [float(a in agree) - 1 / shape[a] for a in term]
        return float(np.prod(centred + [1 / shape[a] for a in every if a not in term]))

    def entry(agree: Axes) -> float:
        return float(agree == every) - sum(part(term, agree) for term in terms)

    squares = {agree: entry(agree) ** 2 for agree in _subsets(every)}
    return {t: sum((-1.0) ** (len(t) - len(u)) * squares[u] for u in _subsets(t)) for t in squares}


def _subsets(axes: Axes) -> list[Axes]:
    ordered = sorted(axes)
    return list(chain.from_iterable(combinations(ordered, r) for r in range(len(ordered) + 1)))


def rows_of_margin(shape: tuple[int, ...], axes: Axes) -> np.ndarray:
    """For each cell (C order), which number of the margin it adds to: (n,)."""
    index: Any = np.indices(shape, sparse=True)
    place = np.zeros(shape, dtype=np.int64)
    for a in axes:
        place = place * shape[a] + index[a]
    return place.ravel()
