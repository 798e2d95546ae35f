"""One record is replaced by any other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours._arguments import cells_of, records_of
from cdp_views.neighbours.additions import changes_totals, distinct_columns
from cdp_views.neighbours.additive import order_of, size_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes, alike, alike_in, pairs_of_kinds
from cdp_views.neighbours.groups import group_of, rows_of
from cdp_views.neighbours.largest import compact, largest, pairs_within, two_largest

_FEW = 20_000
_MOST = 1_000_000


@dataclass(frozen=True, eq=False)
class Replacements(Neighbours):
    """v = records · (e_i − e_j) for any two cells; see `replacements`."""

    keeps_totals: ClassVar[bool] = False

    size: int
    block: np.ndarray = field(repr=False)
    """(n,) cells of one block are ordered by exposure; labels 0, 1, … without gaps."""
    group: np.ndarray = field(repr=False)
    """(n,) cells of different groups have independent noise; a block lies in one group."""
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return self.size

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) the two most exposed cells of every block, and the first of every two blocks."""
        first, second = self._within(exposure)
        top = self._top(exposure)
        self._check(len(top) * (len(top) - 1) // 2)
        i, j = np.triu_indices(len(top), 1)
        return self._rows(np.append(first, top[i]), np.append(second, top[j]))

    @override
    def worst(
        self, exposure: np.ndarray, law: Callable[[sparse.csr_array], Any]
    ) -> sparse.csr_array:
        """As `shortlist`, but O(n) where losses add up over groups: then two of them tell.

        Where the worst depends on ε, one pair of every kind.
        """
        first, second = self._within(exposure)
        top = self._top(exposure)
        if order_of(law, self._rows(np.array([0]), np.array([1]))) == "profile":
            return self.every_class(exposure, self.block)
        if len(top) * (len(top) - 1) // 2 <= _FEW:
            return self.shortlist(exposure)
        cells = (np.full(len(top), float(self.records)), top, np.arange(len(top) + 1))
        loss = size_of(law, sparse.csr_array(cells, shape=(len(top), self.n)))
        if loss is None:
            return self.shortlist(exposure)
        i, j = pairs_within(self.group[top], "replacements")
        first, second = np.append(first, top[i]), np.append(second, top[j])
        order = np.argsort(-loss, kind="stable")
        apart = np.flatnonzero(self.group[top[order]] != self.group[top[order[0]]])
        if apart.size:
            first = np.append(first, top[order[0]])
            second = np.append(second, top[order[apart[0]]])
        return self._rows(first, second)

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """One for every two exposures in every group and in every two groups.

        Groups of like cells may lie at other distances from totals fixed in advance: unless `apart`
        tells which do, each stands for itself.
        """
        exposure, group = check_exposure(exposure, self.n), self.group
        if inv is None:
            kind = alike_in(group, np.ones(self.n), exposure, apart)
        else:
            kind = alike(exposure, inv, group if apart is None else apart)
        first, second, beyond = _inside(group, kind, exposure, most)
        one, two, also = _across(group, kind, exposure, most)
        rows = self._rows(np.append(first, one), np.append(second, two))
        beyond = self.records * max(beyond, also)
        return Classes.of(rows, exposure, most=most, beyond=beyond)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) every two cells that the query weighs differently."""
        cells = distinct_columns(query)
        self._check(len(cells) * (len(cells) - 1) // 2)
        if len(cells) == 1:  # it sees no replacement at all: any one of them shows loss 0
            return self._rows(np.array([0]), np.array([1]))
        i, j = np.triu_indices(len(cells), 1)
        return self._rows(cells[i], cells[j])

    @override
    def require(self, inv: Any) -> None:
        A = sparse.csc_array(rows_of(inv))
        if A.nnz and not np.array_equal(inv.blocks, np.full(self.n, inv.blocks[0])):
            raise changes_totals("replacements", "replaces a record by any other")

    @override
    def describe(self) -> str:
        what = "one record is" if self.records == 1 else f"{self.records} records of one cell are"
        return f"{what} replaced by any other, the totals being fixed in advance (replacement)"

    def _within(self, exposure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return two_largest(self.block, check_exposure(exposure, self.n))

    def _top(self, exposure: np.ndarray) -> np.ndarray:
        """The most exposed cell of every block."""
        return largest(self.block, check_exposure(exposure, self.n))

    def _rows(self, first: np.ndarray, second: np.ndarray) -> sparse.csr_array:
        m, columns = len(first), np.stack([first, second], axis=1)
        entries = np.tile([float(self.records), -float(self.records)], m)
        return sparse.csr_array(
            (entries, columns.ravel(), np.arange(0, 2 * m + 1, 2)), shape=(m, self.n)
        )

    def _check(self, pairs: int) -> None:
        if pairs > _MOST:
            raise UnsupportedError(
                f"`replacements` would have to try {pairs:,} pairs of cells. Build them from the "
                "view's own invariant, replacements(inv), or state differences(V)."
            )


def replacements(n: Any, *, records: int = 1) -> Replacements:
    """Neighbours that differ by one record having been replaced by any other.

    v = records · (e_i − e_j) for any two cells i, j: the number of records stays, but not the total
    of a group that the record leaves. Like `additions` this is for totals *fixed in advance* (a
    view with `total=`); where they are computed from the data, ε is infinite unless one total
    covers all, and `relocations` is the relation to state.

    Args:
      n: number of cells; or the view's invariant, with which the worst pair is found in O(n)
        instead of by trying all pairs.
      records: how many records one person may have, all in one cell.

    Returns:
      Replacements, which finds the worst pair from the exposure of the cells.

    Raises:
      ValueError: `n` or `records` is not a positive integer, or there is one cell only.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.replacements(cdp.totals(["a", "a", "b"]))
      >>> nb.shortlist([1.0, 3.0, 2.0]).toarray().astype(int).tolist()
      [[-1, 1, 0], [0, 1, -1]]

    Reference: Dwork and Roth 2014, §2.3 (bounded neighbours); [TV] §1, data sets of fixed size.
    """
    size, inv = cells_of(n)
    if size < 2:
        raise ValueError("`n` must be at least 2 cells; got 1. A record has nowhere to go.")
    alone = np.arange(size)
    if inv is None:
        return Replacements(size, alone, np.zeros(size, dtype=np.int64), records_of(records))
    block, group = _blocks(inv)
    return Replacements(size, block, group, records_of(records))


def _blocks(inv: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) block of cells that exposure orders, and group of cells, of each cell.

    For disjoint totals of weights of one sign, cells of equal weight: a cell of larger exposure
    then loses more against any other cell, in all three views. With signs that differ, or totals
    that overlap, that is not so and every cell is its own block.
    """
    A = sparse.csc_array(rows_of(inv))
    n, totals, weight = inv.n, np.diff(A.indptr), np.zeros(inv.n)
    once = totals == 1
    weight[once] = A.data[A.indptr[:-1][once]]
    # cells under no total are independent of all, and ordered by exposure: one label serves
    group = compact(group_of(inv) + 1)
    low, high = np.full(group.max() + 1, np.inf), np.full(group.max() + 1, -np.inf)
    np.minimum.at(low, group, np.where(totals > 1, -1, weight))
    np.maximum.at(high, group, np.where(totals > 1, 1, weight))
    label, alone = np.asarray(inv.blocks, dtype=np.int64), (low * high < 0)[group]
    alone |= label < 0
    return compact(np.where(alone, label.max(initial=0) + 1 + np.arange(n), label)), group


def _inside(
    group: np.ndarray, kind: np.ndarray, exposure: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Kinds of pairs that share a group."""
    if len(np.unique(group)) == len(group):
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, -np.inf
    return pairs_of_kinds(group, kind, exposure, most)


def _across(
    group: np.ndarray, kind: np.ndarray, exposure: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Kinds of pairs in different groups."""
    order = np.lexsort((group, kind))
    _, start, size = np.unique(kind[order], return_index=True, return_counts=True)
    head, last = order[start], order[start + size - 1]  # of different groups if any are
    top = np.argsort(-exposure[head], kind="stable")
    deep = int(np.ceil(np.sqrt(2 * most))) + 1
    beyond = exposure[head[top[0]]] + exposure[head[top[deep]]] if len(top) > deep else -np.inf
    i, j = np.triu_indices(min(len(top), deep))
    i, j = top[i], top[j]
    first, second = head[i], np.where(group[head[i]] != group[head[j]], head[j], last[j])
    turn = group[first] == group[second]  # the group of i's head holds all of j
    first, second = np.where(turn, last[i], first), np.where(turn, head[j], second)
    apart = group[first] != group[second]
    return first[apart], second[apart], float(beyond)
