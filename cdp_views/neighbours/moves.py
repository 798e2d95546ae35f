"""Table moves: the smallest changes of a table that leave its margins alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import prod
from typing import Any, override

import numpy as np
from scipy import sparse

from cdp_views.neighbours._arguments import records_of
from cdp_views.neighbours.additive import Law, order_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes
from cdp_views.neighbours.corners import Corners

Axes = tuple[int, ...]

_MOST = 200_000  # moves that are listed


@dataclass(frozen=True, eq=False)
class Moves(Neighbours):
    """v = ⊗ (e_i − e_k) over parts of the axes, in a slice of the others; see `moves`."""

    sizes: tuple[int, ...]
    kinds: tuple[Corners, ...]
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return prod(self.sizes)

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) of each kind the moves with the largest sums of exposures, and of squares."""
        exposure = check_exposure(exposure, self.n)
        found = []
        for kind in self.kinds:
            by_sum, by_square = (kind.largest(exposure**p) for p in (1, 2))
            found += [by_sum] if abs(by_sum - by_square).nnz == 0 else [by_sum, by_square]
        return self._many(sparse.csr_array(sparse.vstack(found)))

    @override
    def worst(self, exposure: np.ndarray, law: Law) -> sparse.csr_array:
        """(m, n) the worst move of each kind, where losses are sums over cells or moves are few.

        With equal exposure moves that change the same axes lose alike. Otherwise each cell's part
        of the loss is a power of its exposure, or is solved for from losses of moves; both are
        checked on sums of moves that touch the whole table. Where losses are no such sums all
        moves are listed.
        """
        exposure = check_exposure(exposure, self.n)
        if np.ptp(exposure) == 0:
            return self._many(self._alike())

        def own(rows: sparse.csr_array) -> Any:
            return law(self._many(rows))

        if order_of(own, sparse.csr_array(self._alike()[[0]])) == "unknown":
            return self.shortlist(exposure)
        worst = [kind.worst(exposure, own, self.records) for kind in self.kinds]
        return self._many(sparse.csr_array(sparse.vstack(worst)))

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """One move of each sort where all cells are equally exposed; else all, one by one."""
        exposure = check_exposure(exposure, self.n)
        if np.ptp(exposure) == 0:
            return Classes.of(self._many(self._alike()), exposure, most=most)
        if sum(kind.count for kind in self.kinds) > _MOST:
            rows = sparse.vstack([kind.largest(exposure) for kind in self.kinds])
            rows = self._many(sparse.csr_array(rows))
            return Classes.of(rows, exposure, most=most, beyond=np.max(abs(rows) @ exposure))
        rows = _distinct([kind.all() for kind in self.kinds])
        return Classes.of(self._many(rows), exposure, most=most)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) all moves, as long as they are few, one of those that the query sees alike."""
        rows = _distinct([kind.all() for kind in self.kinds])
        seen = np.round((rows @ sparse.csr_array(query).T).toarray(), 12)
        first = np.unique(np.where(seen[:, :1] < 0, -seen, seen) + 0.0, axis=0, return_index=True)
        return self._many(sparse.csr_array(rows[np.sort(first[1])]))

    @override
    def require(self, inv: Any) -> None:
        for kind in self.kinds:
            changed = abs(kind.generators() @ sparse.csr_array(inv.matrix).T)
            if changed.nnz and changed.max() > 1e-9:
                raise ValueError(
                    f"`neighbours` has moves along axes {kind.axes} that change a total, so "
                    "epsilon would be infinite. Build them from the view's own invariant: "
                    "moves(view.invariant)."
                )

    @override
    def describe(self) -> str:
        cells = " or ".join(str(2**size) for size in sorted({len(k.parts) for k in self.kinds}))
        by = "one" if self.records == 1 else f"{self.records}"
        return (
            f"{cells} counts at the corners of a sub-table change by {by}, half of them up and "
            "half down, and every kept margin stays (table move)"
        )

    def _alike(self) -> sparse.csr_array:
        return _distinct([kind.alike() for kind in self.kinds])

    def _many(self, rows: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(float(self.records) * rows)


def moves(inv: Any, *, records: int = 1) -> Moves:
    """Neighbours that differ by a move of a table whose margins all stay.

    v = e_ij − e_il − e_kj + e_kl: in two rows and two columns, when both margins of a table are
    kept; two people exchange their columns. With more axes they may exchange several at once: for
    any two sets of axes that no kept margin has axes of both of, each set taken as one axis, inside
    every slice of the others. Where every two axes lie in a kept margin, the same for three sets,
    or more, that no kept margin meets all of: v = ⊗ (e_i − e_k), ‖v‖² = 2^k for k sets.

    Args:
      inv: `margins(shape, keep)` with two or more margins.
      records: by how many records each of these counts changes.

    Returns:
      Moves, which finds the worst of the O(n²) without listing them.

    Raises:
      ValueError: `inv` is no table with margins, or a record can move alone in it.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.moves(cdp.margins((2, 3), keep=[(0,), (1,)]))
      >>> abs(nb.shortlist([1.0, 2.0, 3.0, 1.0, 1.0, 1.0])).toarray().astype(int).tolist()
      [[0, 1, 1, 0, 1, 1]]

    Reference: Diaconis and Sturmfels 1998, §1; Dobra 2003 (for decomposable margins these are a
    Markov basis).
    """
    if not hasattr(inv, "sizes") or not hasattr(inv, "keep"):
        raise ValueError(
            "`inv` must be margins(shape, keep) with two or more margins; got "
            f"{type(inv).__name__}. Use relocations(inv), or exchanges(inv) under other totals."
        )
    sizes, kept = tuple(inv.sizes), [set(axes) for axes in inv.keep]
    axes = [a for a, m in enumerate(sizes) if m > 1]
    free = tuple(_smallest(axes, kept))
    if any(len(T) == 1 for T in free):
        raise ValueError(
            f"`inv` keeps no margin of axis {free[0][0]}, so a record can move along it alone. Use "
            "relocations(inv)."
        )
    if not free:
        raise ValueError(
            "`inv` must let the table change; got margins that fix every cell. Keep fewer of them."
        )
    kinds = tuple(Corners.of(sizes, parts) for parts in _parts(axes, kept, free))
    return Moves(sizes, kinds, records_of(records))


def _smallest(axes: list[int], kept: list[set[int]]) -> Iterator[Axes]:
    """The smallest sets of axes that no kept margin contains."""
    found: list[set[int]] = []
    for size in range(1, len(axes) + 1):
        for T in combinations(axes, size):
            if any(set(T) <= k for k in kept) or any(f <= set(T) for f in found):
                continue
            found.append(set(T))
            yield T


def _parts(axes: list[int], kept: list[set[int]], free: tuple[Axes, ...]) -> list[tuple[Axes, ...]]:
    """The largest families of disjoint sets of axes, around each T, that no margin meets all of.

    What changes in smaller sets is among the moves of larger ones.
    """
    found: list[tuple[frozenset[int], ...]] = []
    for T in free:
        others = [a for a in axes if a not in T]
        for places in product(range(len(T) + 1), repeat=len(others)):
            sets = tuple(
                frozenset([t, *(a for a, p in zip(others, places, strict=True) if p == k)])
                for k, t in enumerate(T)
            )
            if not any(all(part & k for part in sets) for k in kept):
                found.append(sets)
    largest = [
        sets
        for j, sets in enumerate(found)
        if not any(_inside(sets, more) and (i < j or not _inside(more, sets))
                   for i, more in enumerate(found) if i != j)
    ]  # fmt: skip
    return [tuple(tuple(sorted(part)) for part in sets) for sets in largest]


def _inside(sets: tuple[frozenset[int], ...], more: tuple[frozenset[int], ...]) -> bool:
    """Whether each set lies in a set of its own of the other family."""
    return len(sets) == len(more) and any(
        all(a <= b for a, b in zip(sets, order, strict=True)) for order in permutations(more)
    )


def _distinct(kinds: list[sparse.csr_array]) -> sparse.csr_array:
    """The moves of all kinds, each once: a move of few axes belongs to several kinds."""
    found: dict[int, list[np.ndarray]] = {}
    for rows in kinds:
        rows.sort_indices()
        corners = int(rows.indptr[1])
        signs = rows.data.reshape(-1, corners).astype(np.int64)
        cells = rows.indices.reshape(-1, corners)
        found.setdefault(corners, []).append(np.hstack([cells, signs * signs[:, :1]]))
    distinct = []
    for corners, listed in found.items():
        moves = np.unique(np.vstack(listed), axis=0)
        starts = np.arange(0, moves.shape[0] * corners + 1, corners)
        parts = (moves[:, corners:].ravel().astype(float), moves[:, :corners].ravel(), starts)
        distinct.append(sparse.csr_array(parts, shape=(moves.shape[0], kinds[0].shape[1])))
    return sparse.csr_array(sparse.vstack(distinct))
