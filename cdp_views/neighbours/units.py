"""Under weighted totals: one unit of the total moves, or the smallest whole numbers of records."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError, choice
from cdp_views.neighbours._arguments import records_of
from cdp_views.neighbours.additions import distinct_columns
from cdp_views.neighbours.additive import Law, node_sizes, order_of, size_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.best_pair import best_pair
from cdp_views.neighbours.classes import Classes, alike_in, pairs_of_kinds
from cdp_views.neighbours.groups import rows_of
from cdp_views.neighbours.largest import compact, largest, pairs_within, two_largest

_FEW = 200_000
_TRIED = 64
_AGREE = 1e-9


@dataclass(frozen=True, eq=False)
class UnitRelocations(Neighbours):
    """v = e_i/b_i − e_j/b_j, or (b_j e_i − b_i e_j)/gcd; see `relocations`."""

    size: int
    unit: Literal["total", "whole"]
    cells: np.ndarray = field(repr=False)
    """(c,) the cells that a total counts."""
    group: np.ndarray = field(repr=False)
    """(c,) label 0, 1, … of that total."""
    weight: np.ndarray = field(repr=False)
    """(c,) b."""
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return self.size

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) the worst pairs of all noise whose worst pair is known.

        Of one unit of the total: the two largest exposures/|b| where the loss is a sum over cells,
        and the best pair of projected Normal and of projected Laplace noise. Of whole moves: the
        two most exposed cells of every |b| in every group, and the first of every two |b|.
        """
        own = check_exposure(exposure, self.n)[self.cells]
        if self.unit == "whole":
            return self._rows(*self._by_weight(own))
        return self._rows(*self._candidates(own))

    @override
    def worst(self, exposure: np.ndarray, law: Law) -> sparse.csr_array:
        """As `shortlist`, once the law is seen to be one of those; else every pair, if few.

        Where the worst depends on ε, one pair of every kind.
        """
        own = check_exposure(exposure, self.n)[self.cells]
        i, j = self._by_weight(own) if self.unit == "whole" else self._candidates(own)
        order = order_of(law, self._rows(i[:1], j[:1]))
        if order == "profile":
            apart = np.zeros(self.n, dtype=np.int64)
            apart[self.cells] = self.group
            return self.every_class(exposure, apart)
        if self.unit == "whole" or order == "unknown":
            return self._rows(i, j)
        if self._is_known(own, i, j, law):
            return self._rows(i, j)
        movable = np.flatnonzero(np.bincount(self.group)[self.group] > 1)
        if not movable.size <= _FEW:
            raise self._too_many()
        group = compact(self.group[movable])
        u = node_sizes(law, group, lambda i, j: self._rows(movable[i], movable[j]))
        if u is not None:
            i, j = two_largest(group, u)
            return self._rows(movable[i], movable[j])
        i, j = self._every(np.arange(len(self.cells)))
        return self._rows(i, j)

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """One pair for every two exposures and weights in every kind of group."""
        exposure = check_exposure(exposure, self.n)
        own, b = exposure[self.cells], np.abs(self.weight)
        kind = alike_in(self.group, b, own, None if apart is None else apart[self.cells])
        if self.unit == "total":
            i, j, beyond = pairs_of_kinds(self.group, kind, own / b, most)
            return Classes.of(self._rows(i, j), exposure, most=most, beyond=self.records * beyond)
        i, j, beyond = pairs_of_kinds(self.group, kind, own, _FEW)
        if beyond > -np.inf:
            raise self._too_many()
        return Classes.of(self._rows(i, j), exposure, most=most)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) every two cells of one group that the query or their weights tell apart."""
        columns = sparse.csc_array(query)[:, self.cells]
        marks = sparse.csr_array(np.stack([self.group + 1.0, self.weight]))
        first = distinct_columns(sparse.vstack([marks, columns]))
        i, j = self._every(np.sort(first))
        rows = self._rows(i, j) if len(i) else None
        if rows is None or not abs(rows @ sparse.csr_array(query).T).nnz:
            a, b = two_largest(self.group, np.zeros(len(self.cells)))
            return self._rows(a[:1], b[:1])
        return rows

    @override
    def require(self, inv: Any) -> None:
        A = rows_of(inv)
        head = largest(self.group, np.zeros(len(self.cells)))[self.group]
        rest = np.flatnonzero(head != np.arange(len(head)))
        rows = self._rows(head[rest], rest)  # all others are combinations of these
        changed = abs(rows @ A.T)
        if changed.nnz and changed.max() > 1e-12 * abs(rows).max() * abs(A).max():
            raise ValueError(
                "`neighbours` moves units between cells that a total weighs otherwise, so epsilon "
                "would be infinite. Build them from the view's own invariant: "
                f'relocations(view.invariant, unit="{self.unit}").'
            )

    @override
    def describe(self) -> str:
        many = "" if self.records == 1 else f"{self.records} times "
        what = (
            "one unit of a weighted total"
            if self.unit == "total"
            else "the smallest whole number of records that keeps a weighted total"
        )
        return f"{many}{what} moves between two cells of a group (relocation of a {self.unit})"

    def _models(
        self, own: np.ndarray
    ) -> list[tuple[np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]]]:
        """Losses of one unit: a bound x_i + x_j, and the loss itself of each model."""
        b = np.abs(self.weight)
        x, omega = own / b, own**2
        p = x**2
        whole = np.bincount(self.group, b * b * omega)[self.group]
        rate = np.bincount(self.group, b * own)[self.group]

        def projected_normal(i: np.ndarray, j: np.ndarray) -> np.ndarray:
            return p[i] + p[j] - (omega[i] - omega[j]) ** 2 / whole[i]

        def projected_laplace(i: np.ndarray, j: np.ndarray) -> np.ndarray:
            one, two = rate[i] / b[i] ** 2, rate[j] / b[j] ** 2
            least = np.minimum(one + x[j] - x[i], two + x[i] - x[j])
            return np.minimum(x[i] + x[j], least)

        return [
            (x, lambda i, j: x[i] + x[j]),
            (p, lambda i, j: p[i] + p[j]),
            (p, projected_normal),
            (x, projected_laplace),
        ]

    def _candidates(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best pair of each model; that of the first two is one, as p orders as x does."""
        models = self._models(own)[1:]
        i, j = np.array(sorted({best_pair(x, self.group, value) for x, value in models})).T
        return i, j

    def _is_known(self, own: np.ndarray, i: np.ndarray, j: np.ndarray, law: Law) -> bool:
        """Whether the law is one of `_models`, on the candidates i, j and on pairs at random."""
        order = np.argsort(self.group, kind="stable")
        beside = np.flatnonzero(np.diff(self.group[order]) == 0)
        at = np.random.default_rng(0).choice(beside, min(_TRIED, len(beside)), replace=False)
        i, j = np.append(i, order[at]), np.append(j, order[at + 1])
        models = self._models(own)
        size = size_of(law, self._rows(i, j))
        if size is None:
            return False
        return any(
            np.allclose(size, self.records**power * value(i, j), rtol=_AGREE, atol=0)
            for (_, value), power in zip(models, (1, 2, 2, 1), strict=True)
        )

    def _by_weight(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = np.abs(self.weight)
        order = np.lexsort((b, self.group))
        new = (np.diff(self.group[order], prepend=-1) != 0) | (np.diff(b[order], prepend=-1) != 0)
        label = np.empty(len(b), dtype=np.int64)
        label[order] = np.cumsum(new) - 1
        first, second = two_largest(label, own)
        top = largest(label, own)
        i, j = pairs_within(self.group[top], "relocations")
        return np.append(first, top[i]), np.append(second, top[j])

    def _every(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        i, j = pairs_within(self.group[chosen], "relocations")
        return chosen[i], chosen[j]

    def _rows(self, i: np.ndarray, j: np.ndarray) -> sparse.csr_array:
        """The differences (m, n) that move a unit between cells i and j of `cells`."""
        one, two = self.weight[i], self.weight[j]
        if self.unit == "total":
            plus, minus = 1 / one, -1 / two
        else:
            common = np.gcd(one.astype(np.int64), two.astype(np.int64))
            plus, minus = two / common, -one / common
        entries = float(self.records) * np.stack([plus, minus], axis=1)
        columns = np.stack([self.cells[i], self.cells[j]], axis=1)
        starts = np.arange(0, 2 * len(i) + 1, 2)
        return sparse.csr_array((entries.ravel(), columns.ravel(), starts), shape=(len(i), self.n))

    def _too_many(self) -> UnsupportedError:
        return UnsupportedError(
            f'`relocations(inv, unit="{self.unit}")` has too many pairs of cells to try for a loss '
            "of this kind. State the differences that matter with differences(V)."
        )


def unit_relocations(inv: Any, unit: str, records: Any) -> UnitRelocations:
    """From the arguments of `relocations`."""
    choice("unit", unit, ("record", "total", "whole"))
    A = sparse.csc_array(rows_of(inv))
    totals = np.diff(A.indptr)
    if totals.max(initial=0) > 1:
        raise UnsupportedError(
            f'`unit="{unit}"` is for totals that share no cell; got totals that overlap. State '
            "differences(V) yourself."
        )
    cells = np.flatnonzero(totals)
    group, weight = compact(A.indices), np.asarray(A.data, dtype=float)
    if np.bincount(group).max(initial=0) < 2:
        raise ValueError(
            "`inv` must leave some unit free to move; got only one cell in each total. Use coarser "
            "groups, or state differences(V) yourself."
        )
    odd = np.flatnonzero(weight != np.round(weight))
    if unit == "whole" and odd.size:
        raise ValueError(
            f"`inv` must have whole weights for whole moves; got {weight[odd[0]]} in cell "
            f'{cells[odd[0]]}. Use unit="total", or rescale the weights.'
        )
    kind: Any = unit
    return UnitRelocations(inv.n, kind, cells, group, weight, records_of(records))
