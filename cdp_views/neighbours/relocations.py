"""One record moves between two cells of a group."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, overload, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours._arguments import records_of, totals_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes, alike, alike_in, pairs_of_kinds
from cdp_views.neighbours.contributions import Contributions, contributed
from cdp_views.neighbours.largest import two_largest
from cdp_views.neighbours.units import UnitRelocations, unit_relocations

_MOST_PAIRS = 4_000_000


@dataclass(frozen=True, eq=False)
class Relocations(Neighbours):
    """v = records · (e_i − e_j) for two cells of one block; see `relocations`."""

    by_block: ClassVar[bool] = True

    size: int
    cells: np.ndarray = field(repr=False)
    """(c,) the cells that share their block with another."""
    labels: np.ndarray = field(repr=False)
    """(c,) their blocks, numbered 0, 1, … without gaps."""
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return self.size

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) one difference per block: between its two cells of largest exposure.

        Ties go to the first cells. O(n) time, nothing n × n.
        """
        exposure = check_exposure(exposure, self.n)
        cells, labels, values = self.cells, self.labels, exposure[self.cells]
        first, second = two_largest(labels, values)
        return self._rows(cells[first], cells[second])

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """One relocation for every two exposures in every kind of group."""
        exposure = check_exposure(exposure, self.n)
        own, cells = exposure[self.cells], self.cells
        if inv is None:
            apart = None if apart is None else apart[cells]
            kind = alike_in(self.labels, np.ones(len(cells)), own, apart)
        else:
            kind = alike(exposure, inv, apart)[cells]
        first, second, beyond = pairs_of_kinds(self.labels, kind, own, most)
        rows = self._rows(cells[first], cells[second])
        return Classes.of(rows, exposure, most=most, beyond=self.records * beyond)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) all pairs of cells of one block that the query weighs differently.

        One cell stands for all of its block with the same column of W.
        """
        columns = sparse.csc_array(query)[:, self.cells]
        columns.sort_indices()
        kinds: dict[tuple[int, bytes, bytes], int] = {}
        for k, label in enumerate(self.labels.tolist()):
            part = slice(columns.indptr[k], columns.indptr[k + 1])
            key = (label, columns.indices[part].tobytes(), columns.data[part].tobytes())
            kinds.setdefault(key, k)
        chosen = np.array(sorted(kinds.values()))
        order = chosen[np.argsort(self.labels[chosen], kind="stable")]
        _, counts = np.unique(self.labels[order], return_counts=True)
        if np.sum(counts.astype(float) ** 2) > _MOST_PAIRS:
            raise UnsupportedError(
                f"`query` weighs {len(order):,} kinds of cells differently, too many pairs to try. "
                "Ask about all cells (no query), which bounds every query, or state differences(V)."
            )
        ends = np.cumsum(counts)
        pairs = [
            np.stack(np.triu_indices(c, 1), 1) + e - c for c, e in zip(counts, ends, strict=True)
        ]
        pair = order[np.concatenate(pairs)]
        if len(pair) == 0:  # the query sees no relocation at all: any one of them shows loss 0
            pair = np.array([np.flatnonzero(self.labels == 0)[:2]])
        return self._rows(*self.cells[pair].T)

    @override
    def require(self, inv: Any) -> None:
        block = np.asarray(inv.blocks)[self.cells]
        if np.any(block != block[_firsts(self.labels)]):
            raise ValueError(
                "`neighbours` moves records between cells whose totals are published apart, so "
                "epsilon would be infinite. Build them from the view's own invariant: "
                "relocations(view.invariant)."
            )

    def _rows(self, first: np.ndarray, second: np.ndarray) -> sparse.csr_array:
        """records · (e_first − e_second), (m, n)."""
        m, columns = len(first), np.stack([first, second], axis=1)
        entries = np.tile([float(self.records), -float(self.records)], m)
        starts = np.arange(0, 2 * m + 1, 2)
        return sparse.csr_array((entries, columns.ravel(), starts), shape=(m, self.n))

    def block_of(self, rows: sparse.csr_array) -> np.ndarray:
        """(m,) the label of the block that each of these relocations (m, n) moves within."""
        label = np.full(self.n, -1)
        label[self.cells] = self.labels
        return label[rows.indices[rows.indptr[:-1]]]

    def all_of(self, inv: Any) -> bool:
        """Whether these are all relocations that leave the totals of `inv` alone."""
        own = relocations(inv, records=self.records)
        same_cells = np.array_equal(self.cells, own.cells)
        return same_cells and np.array_equal(_firsts(self.labels), _firsts(own.labels))

    @override
    def describe(self) -> str:
        where = "between two cells without changing a published total (relocation)"
        if self.records == 1:
            return f"one record moves {where}"
        return f"{self.records} records move together {where}"


@overload
def relocations(
    inv: Any, *, records: int = 1, unit: Literal["record"] = "record"
) -> Relocations: ...


@overload
def relocations(
    inv: Any, *, records: int = 1, unit: Literal["total", "whole"]
) -> UnitRelocations: ...


@overload
def relocations(inv: Any, *, records: int = 1, contribution: Any) -> Contributions: ...


def relocations(
    inv: Any,
    *,
    records: int = 1,
    unit: Literal["record", "total", "whole"] = "record",
    contribution: Any = None,
) -> Relocations | UnitRelocations | Contributions:
    """Neighbours that differ by one record having moved between two cells of one group.

    v = records · (e_i − e_j), i and j in one block of `inv.blocks`: a group, or within a weighted
    group the cells of equal weight, because only such a move leaves every total as it is. With
    `unit` cells of different weights b also exchange: one unit of the total, e_i/b_i − e_j/b_j, or
    whole records, (b_j e_i − b_i e_j)/gcd(b_i, b_j). With `contribution` M cells are places ×
    columns, a person of kind t adds M_tc in each column c of a place, and moves with all of it:
    v = Σ_c (M_sc e_jc − M_tc e_ic), s = t, or another kind where all totals stay. Three columns
    then cost ‖v‖ = √6, where one costs √2.

    Args:
      inv: an invariant; its `blocks` (n,) label the cells between which a record can move.
      records: how many records (or units) one person may move at once.
      unit: what moves: a "record", one unit of the "total", or a "whole" number of records from
        and to cells of any weights in a group (whole weights only).
      contribution: (kinds, columns) what one person of each kind adds in each column of the table,
        cells being places × columns in C order; (columns,) for one kind.

    Returns:
      Relocations, which finds the worst pair of each block from the exposure of the cells; with
      another unit UnitRelocations, which finds the worst of all groups.

    Raises:
      ValueError: `records` is not a positive integer, or no record can move at all.
      UnsupportedError: another unit, and totals that overlap.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.relocations(cdp.totals(["IL", "IL", "IL", "WI", "WI"]))
      >>> nb.shortlist([1.0, 3.0, 2.0, 1.0, 1.0]).toarray().astype(int).tolist()
      [[0, 1, -1, 0, 0], [0, 0, 0, 1, -1]]

    Reference: docs/notation.md, "relocation"; [L] §3 has the two-record exchange instead.
    """
    inv = totals_of(inv)
    if contribution is not None:
        if unit != "record":
            raise ValueError(
                f'`unit` must be "record" where contribution= is given; got {unit!r}. Give one of '
                "them."
            )
        return contributed(inv, contribution, records)
    if unit != "record":
        return unit_relocations(inv, unit, records)
    records = records_of(records)
    blocks = np.asarray(inv.blocks)
    inside = np.flatnonzero(blocks >= 0)
    _, label, sizes = np.unique(blocks[inside], return_inverse=True, return_counts=True)
    shared = sizes > 1
    if not shared.any():
        raise ValueError(
            "`inv` must leave some record free to move; got none that can without changing a "
            "total. Use coarser groups, exchanges(inv), or state differences(V) yourself."
        )
    movable = shared[label]
    renumber = np.cumsum(shared) - 1
    return Relocations(len(blocks), inside[movable], renumber[label[movable]], records)


def _firsts(labels: np.ndarray) -> np.ndarray:
    """Position of the first cell that has each cell's label: (c,)."""
    first = np.empty(labels.max() + 1, dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]  # of repeated writes the last one stays
    return first[labels]
