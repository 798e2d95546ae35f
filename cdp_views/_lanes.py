"""Cells laid out group by group in rows of a few lanes, so that sums over groups are vectorised.

Noise is exchangeable before it knows its cell: it may be drawn, summed and shaped in this order,
and is moved to its cells once, at the end. (A scatter of 5·10⁶ cells takes as long as several
passes over rows.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._segments import Segments, once

_FEW = 4096  # fewer cells stay where they are
_WIDTHS = (16, 8, 4, 2)
_WASTE = 1.08  # places per cell at most
_FEW_ROWS = 4  # a fourth of the rows are worth picking out


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["rows", "sizes", "cell", "place", "used"],
    meta_fields=["width"],
)
@dataclass(frozen=True)
class Lanes:
    """`width` lanes of `rows.n` places each; the places of one row belong to one group.

    Attributes:
        rows: which row is in which group.
        sizes: (G,) cells of each group.
        cell: (width, R) the cell at each place, any where there is none; None: places are cells.
        place: (n,) each cell's place in the flattened lanes.
        used: (R,) how many lanes of each row hold a cell.
    """

    rows: Segments
    sizes: Array
    cell: Array | None
    place: Array | None
    used: Array | None
    width: int

    @staticmethod
    def of(segments: Segments) -> "Lanes":
        """For these groups, on the host; one lane of all cells where labels are traced or few."""
        plain = Lanes(segments, segments.sizes, None, None, None, 1)
        if segments.n < _FEW or not _checks.is_concrete(segments):
            return plain
        sizes = np.bincount(np.asarray(segments.labels), minlength=segments.count + 1)
        for width in _WIDTHS:
            if width * np.sum(-(-sizes // width)) <= _WASTE * segments.n:
                return _laid_out(segments, sizes, width)
        return plain

    def shape(self, batch: tuple[int, ...]) -> tuple[int, ...]:
        """Of numbers at places: (*batch, width, R)."""
        return (*batch, self.width, self.rows.n)

    def taken(self, x: Any) -> Array:
        """Numbers of cells, at their places: (…, n) or (…, 1) → (…, width, R) or (…, 1, 1)."""
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] == 1 or self.cell is None:
            return x if x.ndim == 0 else x[..., None, :]
        return x.at[..., self.cell].get(mode="promise_in_bounds", wrap_negative_indices=False)

    def given(self, x: Array) -> Array:
        """Numbers at places, at their cells: (…, width, R) → (…, n)."""
        x = x.reshape(*x.shape[:-2], -1)
        if self.place is None:
            return x
        # computed in order first: XLA else computes each number where it is wanted, out of order
        return (
            once(x).at[..., self.place].get(mode="promise_in_bounds", wrap_negative_indices=False)
        )

    def kept(self, x: Array) -> Array:
        """`x` (…, width, R), 0 at places without a cell."""
        return x if self.used is None else jnp.where(self.lane < self.used, x, 0)

    @property
    def lane(self) -> Array:
        """The number of each lane, (width, 1)."""
        return jnp.arange(self.width, dtype=jnp.int32)[:, None]

    def sum(
        self, function: Callable[..., Array], cells: tuple[Array, ...], groups: tuple[Any, ...] = ()
    ) -> Array:
        """Σ over each group of function(cells…, groups…), which must be 0 where no cell is.

        Elementwise in cells (…, width, R) and groups (…, G), with one result and nothing shared
        with other sums: XLA vectorises only such a loop, where 5·10⁶ cells take 4 ms instead of 30.
        """
        cells, groups = once((cells, groups))
        rows = [self.rows.spread(g) for g in groups]
        parts = [function(*(_lane(c, k) for c in cells), *rows) for k in range(self.width)]
        return self.rows.sum(sum(parts[1:], parts[0]))

    def sums_of_some(
        self, functions: tuple[Callable[..., Array], ...], x: Array, t: Array, wanted: Array
    ) -> tuple[Array, ...]:
        """`sum` of each function(x, t), right for the wanted groups; fast where they are few."""

        def all_rows() -> tuple[Array, ...]:
            return tuple(self.sum(f, (x,), (t,)) for f in functions)

        if x.ndim > 2 or self.cell is None:
            return all_rows()
        here, few = self.rows.spread(wanted), self.rows.n // _FEW_ROWS

        def some_rows() -> tuple[Array, ...]:
            chosen = jnp.nonzero(here, size=few, fill_value=self.rows.n)[0]
            labels = self.rows.labels.at[chosen].get(mode="fill", fill_value=self.rows.count)
            rows = Segments(labels, self.rows.sizes, few, self.rows.count)
            part = Lanes(rows, self.sizes, None, None, None, self.width)
            columns = x.at[..., chosen].get(mode="fill", fill_value=0)
            return tuple(part.sum(f, (columns,), (t,)) for f in functions)

        return jax.lax.cond(jnp.sum(here) <= few, some_rows, all_rows)

    def max(self, x: Array, without: Array | None = None) -> tuple[Array, Array, Array]:
        """Largest x ≥ 0 of each group, and its row and lane: (…, G); rows may leave a lane out."""
        parts = [_lane(x, k) for k in range(self.width)]
        if without is not None:
            parts = [jnp.where(without == k, 0, part) for k, part in enumerate(parts)]
        best = parts[0]
        for part in parts[1:]:
            best = jnp.maximum(best, part)
        top = self.rows.max(best)
        row = self.rows.place((best == self.rows.spread(top)) & self.rows.member)
        columns = _at(x, row[..., None, :])
        if without is not None:
            columns = jnp.where(_at(without, row)[..., None, :] == self.lane, 0, columns)
        return top, row, jnp.argmax(columns, -2).astype(jnp.int32)

    def marked(self, row: Array, lane: Array) -> Array:
        """The lane of each group's one place in the row that holds it, −1 elsewhere: (…, R)."""
        index = jnp.arange(self.rows.n, dtype=jnp.int32)
        here = (self.rows.spread(row) == index) & self.rows.member
        return jnp.where(here, self.rows.spread(lane), -1)

    def at(self, x: Array, row: Array, lane: Array) -> Array:
        """x of each group's one place: (…, width, R) → (…, G)."""
        return _at(x.reshape(*x.shape[:-2], -1), lane * self.rows.n + row)

    def spread(self, t: Array) -> Array:
        """Each group's number at its places, zero elsewhere: (…, G) → (…, 1, R)."""
        return self.rows.spread(t)[..., None, :]


def _lane(x: Array, k: int) -> Array:
    return x[..., k if x.shape[-2] > 1 else 0, :]


def _at(x: Array, index: Array) -> Array:
    """x[…, index] along the last axis, for in-bounds indices with or without the same batch."""
    if index.size == index.shape[-1]:
        flat = index.reshape(-1)
        return x.at[..., flat].get(mode="promise_in_bounds", wrap_negative_indices=False)
    shape = jnp.broadcast_shapes(x.shape[:-1], index.shape[:-1])
    x, index = (jnp.broadcast_to(a, (*shape, a.shape[-1])) for a in (x, index))
    return jnp.take_along_axis(x, index, axis=-1)


def _laid_out(segments: Segments, sizes: np.ndarray, width: int) -> Lanes:
    n, count, labels = segments.n, segments.count, np.asarray(segments.labels, np.int32)
    rows = -(-sizes // width)
    first_row = np.cumsum(rows) - rows
    # a counting sort: the cells of one group after the other
    ones, cells = np.ones(n, np.int8), np.arange(n, dtype=np.int32)
    order = sparse.csr_array((ones, (labels, cells)), shape=(count + 1, n)).indices
    # by turns over the group's rows: neighbouring cells keep neighbouring places
    rank = cells - np.repeat((np.cumsum(sizes) - sizes).astype(np.int32), sizes)
    lane, turn = np.divmod(rank, np.repeat(rows.astype(np.int32), sizes))
    total = int(rows.sum())
    at = lane * total + turn + np.repeat(first_row.astype(np.int32), sizes)
    cell, place = np.zeros(width * total, np.int32), np.empty(n, np.int32)
    cell[at], place[order] = order, at
    index = np.arange(total) - np.repeat(first_row, rows)
    used = -((index - np.repeat(sizes, rows)) // np.repeat(rows, rows))
    return Lanes(
        Segments.of(np.repeat(np.arange(count + 1), rows), count),
        segments.sizes,
        jnp.asarray(cell.reshape(width, total)),
        jnp.asarray(place),
        jnp.asarray(used, jnp.int32),
        width,
    )
