"""A person who is counted in several columns moves from one place to another."""

from dataclasses import dataclass, field
from typing import Any, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours._arguments import records_of
from cdp_views.neighbours.additive import Law, node_sizes, order_of, power_of, sums_of_pairs
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes, alike, alike_in, codes, pairs_of_kinds
from cdp_views.neighbours.groups import rows_of
from cdp_views.neighbours.largest import compact, largest, pairs_within, two_largest

_FEW = 20_000


@dataclass(frozen=True, eq=False)
class Contributions(Neighbours):
    """v = Σ_c (M_sc e_jc − M_tc e_ic), a person of kind t in i becoming one of kind s in j."""

    contribution: np.ndarray
    """M (kinds, columns)."""
    place: np.ndarray = field(repr=False)
    """(N,) the place of each record: a kind of person somewhere, who can be elsewhere or other."""
    kind: np.ndarray = field(repr=False)
    """(N,) its kind."""
    block: np.ndarray = field(repr=False)
    """(N,) label 0, 1, …: records of one block add the same to every total."""
    apart: bool
    """Whether every total counts one column alone, and no cell is under two."""
    size: int
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return self.size

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) between the two most exposed places of every block and kind, and every two kinds.

        Exposure of a record is Σ_c |M_tc| · exposure_c: exact for a loss of that form, and for
        every view where the same two places are the most exposed in all columns, if these have
        totals of their own.
        """
        exposure = check_exposure(exposure, self.n)
        if self._pairs <= _FEW:
            return self._rows(*self._every(np.arange(len(self.place))))
        return self._between(exposure, 1)

    @override
    def worst(self, exposure: np.ndarray, law: Law) -> sparse.csr_array:
        """As `shortlist`, once it is seen to hold the worst; else refused where pairs are many.

        Seen from the law: a sum of powers of exposures over cells, or of parts of records that are
        solved for; or from the exposures: the same two places lead in all columns.
        """
        exposure = check_exposure(exposure, self.n)
        if self.apart and self._led_by_two(exposure):
            return self._between(exposure, 1)
        if self._pairs <= _FEW or order_of(law, self.shortlist(exposure)[[0]]) == "unknown":
            return self.shortlist(exposure)
        label = self._label
        movable = np.flatnonzero(np.bincount(label)[label] > 1)
        own = compact(label[movable])

        def pairs(i: np.ndarray, j: np.ndarray) -> sparse.csr_array:
            return self._rows(movable[i], movable[j])

        power = power_of(exposure, law, sums_of_pairs(own, pairs)[0]) if movable.size else 1
        if power is not None:
            return self._between(exposure, power)
        if np.array_equal(compact(self.block), compact(label)):  # nobody changes kind
            u = node_sizes(law, own, pairs)
            if u is not None:
                return pairs(*two_largest(own, u))
        raise UnsupportedError(
            f"`relocations(inv, contribution=)` has {self._pairs:,.0f} moves, too many to try "
            "where the loss of this view is not a sum over cells. Use equal scales in all columns, "
            "or state the differences that matter with differences(V)."
        )

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """One move for every two kinds of records where nobody changes kind; else all, if few."""
        exposure = check_exposure(exposure, self.n)
        if self._pairs <= _FEW:
            return Classes.of(self.shortlist(exposure), exposure, most=most)
        if inv is None or not np.array_equal(compact(self.block), compact(self._label)):
            rows = self._between(exposure, 1)
            return Classes.of(rows, exposure, most=most, beyond=np.max(abs(rows) @ exposure))
        columns = self.contribution.shape[1]
        cell = alike(exposure, inv, apart).reshape(-1, columns)[self.place]
        code = self.kind
        for c in range(columns):  # cells in which the person is not counted do not matter
            code = codes(
                code * (self.n + 1)
                + np.where(self.contribution[self.kind, c] != 0, cell[:, c], self.n)
            )
        kind = alike_in(self.block, np.ones(len(code)), code.astype(float))
        i, j, beyond = pairs_of_kinds(self.block, kind, self._exposed(exposure, 1), most)
        return Classes.of(self._rows(i, j), exposure, most=most, beyond=self.records * beyond)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) every two records of one block that the query tells apart."""
        seen = (self._matrix @ sparse.csr_array(query).T).toarray()
        table = np.column_stack([self.block, seen])
        first = np.unique(table, axis=0, return_index=True)[1]
        i, j = self._every(np.sort(first))
        if not len(i):  # the query sees no move at all: any one shows loss 0
            i, j = self._every(np.flatnonzero(self.block == self.block[0])[:3])
            i, j = i[:1], j[:1]
        return self._rows(i, j)

    @override
    def require(self, inv: Any) -> None:
        added = sparse.csr_array(self._matrix @ rows_of(inv).T)
        head = largest(self.block, np.zeros(len(self.block)))[self.block]
        changed = abs(added - added[head])
        if changed.nnz and changed.max() > 1e-12 * abs(added).max():
            raise ValueError(
                "`neighbours` moves people between places whose totals are published apart, so "
                "epsilon would be infinite. Build them from the view's own invariant: "
                "relocations(view.invariant, contribution=...)."
            )

    @override
    def describe(self) -> str:
        who = "one person" if self.records == 1 else f"{self.records} people together"
        kinds, columns = self.contribution.shape
        changes = len(np.unique(self._label)) > len(np.unique(self.block))
        also = ", or becomes one of another kind," if changes else ""
        return (
            f"{who}, counted in up to {int(np.max(np.sum(self.contribution != 0, axis=1)))} of "
            f"{columns} columns, moves between two places{also} without changing a published "
            f"total (relocation, {kinds} kind{'s' * (kinds > 1)} of contribution)"
        )

    def _between(self, exposure: np.ndarray, power: int) -> sparse.csr_array:
        """Between the two leading records of every block and kind, and between every two kinds."""
        size, kinds = self._exposed(exposure, power), len(self.contribution)
        label = self._label
        first, second = two_largest(label, size)
        node = np.append(largest(label, size), second)
        i, j = [first], [second]
        for t in range(kinds):
            for s in range(t + 1, kinds):
                a, b = node[self.kind[node] == t], node[self.kind[node] == s]
                for x, y in _joined(self.block, a, b):
                    i.append(x)
                    j.append(y)
                x, y = self._same_place(t, s, exposure, power)
                i.append(x)
                j.append(y)
        i, j = np.concatenate(i), np.concatenate(j)
        rows = self._rows(i, j)
        moved = np.flatnonzero(np.diff(rows.indptr))
        return sparse.csr_array(rows[moved])

    def _same_place(
        self, t: int, s: int, exposure: np.ndarray, power: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The most exposed place of every block in which a person of kind t may become one of s."""
        one, two = np.flatnonzero(self.kind == t), np.flatnonzero(self.kind == s)
        _, a, b = np.intersect1d(self.place[one], self.place[two], return_indices=True)
        one, two = one[a], two[b]
        kept = self.block[one] == self.block[two]
        one, two = one[kept], two[kept]
        if not one.size:
            return one, two
        change = np.abs(self.contribution[t] - self.contribution[s]) ** power
        cells = exposure.reshape(-1, len(change))[self.place[one]] ** power
        at = largest(compact(self.block[one]), cells @ change)
        return one[at], two[at]

    def _led_by_two(self, exposure: np.ndarray) -> bool:
        """Whether in every block and kind two places are the most exposed in all of its columns."""
        label, size = self._label, self._exposed(exposure, 1)
        first, second = two_largest(label, size)
        lead = np.zeros(len(label), dtype=bool)
        lead[first] = lead[second] = True
        cells = exposure.reshape(-1, self.contribution.shape[1])[self.place]
        for c in range(cells.shape[1]):
            counted = self.contribution[self.kind, c] != 0
            least = np.full(label.max() + 1, np.inf)
            np.minimum.at(least, label[lead], cells[lead, c])
            if np.any((cells[:, c] > least[label]) & counted & ~lead):
                return False
        return True

    def _exposed(self, exposure: np.ndarray, power: int) -> np.ndarray:
        """(N,) Σ_c (|M_tc| · exposure_ic)^power of every record."""
        columns = self.contribution.shape[1]
        cells = exposure.reshape(-1, columns)[self.place]
        return np.sum((np.abs(self.contribution)[self.kind] * cells) ** power, axis=1)

    def _every(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Every two of the chosen records in one block that are not the same people."""
        i, j = pairs_within(self.block[chosen], "relocations")
        i, j = chosen[i], chosen[j]
        same = self.place[i] == self.place[j]
        equal = (self.contribution[self.kind[i]] == self.contribution[self.kind[j]]).all(axis=1)
        return i[~(same & equal)], j[~(same & equal)]

    def _rows(self, i: np.ndarray, j: np.ndarray) -> sparse.csr_array:
        rows = sparse.csr_array(float(self.records) * (self._record(i) - self._record(j)))
        rows.eliminate_zeros()
        return rows

    def _record(self, at: np.ndarray) -> sparse.csr_array:
        """What each of these records adds to the table: (m, n)."""
        columns = self.contribution.shape[1]
        cells = self.place[at][:, None] * columns + np.arange(columns)
        entries = self.contribution[self.kind[at]]
        starts = np.arange(0, cells.size + 1, columns)
        return sparse.csr_array((entries.ravel(), cells.ravel(), starts), shape=(len(at), self.n))

    @property
    def _matrix(self) -> sparse.csr_array:
        return self._record(np.arange(len(self.place)))

    @property
    def _label(self) -> np.ndarray:
        """(N,) label of each record's block and kind."""
        return compact(self.block * len(self.contribution) + self.kind)

    @property
    def _pairs(self) -> float:
        return float(np.sum(np.bincount(self.block).astype(float) ** 2) / 2)


def contributed(inv: Any, contribution: Any, records: Any) -> Contributions:
    """From the arguments of `relocations`."""
    M = _matrix_of(contribution, inv.n)
    kinds, columns = M.shape
    places = inv.n // columns
    place, kind = np.divmod(np.arange(places * kinds), kinds)
    A = rows_of(inv)
    apart = _counts_columns_apart(A, columns)
    whole = Contributions(M, place, kind, np.zeros(place.size, dtype=np.int64), apart, inv.n)
    added = sparse.csr_array(whole._matrix @ A.T)
    block = _same_rows(added)
    # a block without a change: one record, or several that are the same people
    movable = np.zeros(block.max() + 1, dtype=bool)
    _, same = np.unique(M, axis=0, return_inverse=True)
    who = place * kinds + same.ravel()[kind]
    head = who[largest(block, np.zeros(block.size))]
    movable[block[who != head[block]]] = True
    kept = np.flatnonzero(movable[block])
    if not kept.size:
        raise ValueError(
            "`inv` must leave some person free to move; got none that can with this contribution "
            "without changing a total. Use coarser groups, or state differences(V) yourself."
        )
    return Contributions(
        M, place[kept], kind[kept], compact(block[kept]), apart, inv.n, records_of(records)
    )


def _matrix_of(contribution: Any, n: int) -> np.ndarray:
    try:
        M = np.atleast_2d(np.asarray(contribution, dtype=float))
    except (TypeError, ValueError):
        M = np.zeros((0, 0))
    if M.ndim != 2 or M.size == 0 or not np.isfinite(M).all():
        raise ValueError(
            "`contribution` must be a numeric matrix (kinds, columns), finite: what one person of "
            "each kind adds in each column."
        )
    empty = np.flatnonzero(~M.any(axis=1))
    if empty.size:
        raise ValueError(
            f"`contribution` must count every kind somewhere; got only zeros in row {empty[0]}. "
            "Drop the row: such a person is in no column."
        )
    if n % M.shape[1]:
        raise ValueError(
            f"`contribution` must have as many columns as the table; got {M.shape[1]}, which does "
            f"not divide its {n} cells. Cells are places × columns, in C order."
        )
    return M


def _counts_columns_apart(A: sparse.csr_array, columns: int) -> bool:
    column = A.indices % columns
    first = column[A.indptr[:-1][np.diff(A.indptr) > 0]]
    alone = np.array_equal(column, np.repeat(first, np.diff(A.indptr)[np.diff(A.indptr) > 0]))
    return alone and int(np.bincount(A.indices, minlength=1).max()) <= 1


def _same_rows(rows: sparse.csr_array) -> np.ndarray:
    """(m,) labels 0, 1, …, equal where rows are."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rng = np.random.default_rng(0)
    mark = rng.integers(0, 2**64, rows.shape[1] + 1, dtype=np.uint64)
    bits = (rows.data + 0.0).view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (bits ^ mark[rows.indices]) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    total = np.zeros(len(rows.indptr) - 1, dtype=np.uint64)  # a hash: sums modulo 2⁶⁴
    np.add.at(total, np.repeat(np.arange(total.size), np.diff(rows.indptr)), mixed)
    return np.unique(total, return_inverse=True)[1].ravel()


def _joined(
    block: np.ndarray, one: np.ndarray, two: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """All pairs of an element of `one` and one of `two`, at most two of each in every block."""
    found = []
    for a in _first_and_second(block, one):
        for b in _first_and_second(block, two):
            _, x, y = np.intersect1d(block[a], block[b], return_indices=True)
            found.append((a[x], b[y]))
    return found


def _first_and_second(block: np.ndarray, some: np.ndarray) -> list[np.ndarray]:
    some = some[np.argsort(block[some], kind="stable")]
    again = np.diff(block[some], prepend=-1) == 0
    return [some[~again], some[again]]
