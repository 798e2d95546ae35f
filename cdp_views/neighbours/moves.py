"""Table moves: the smallest changes of a table that leave its margins alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import comb, prod
from typing import Any, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours._arguments import records_of
from cdp_views.neighbours.additive import Law, by_exposure, is_sum, order_of, size_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes
from cdp_views.neighbours.minors import best_minor

Axes = tuple[int, ...]

_MOST = 200_000  # moves that are listed, and cells whose share of the loss is solved for
_LARGEST = 5 * 10**7  # numbers in memory: 400 MB
_PROBES = 8  # twice as many in small tables, where a cell could be missed by all


@dataclass(frozen=True, eq=False)
class Moves(Neighbours):
    """v = ⊗_{a ∈ T} (e_i − e_k) in a slice of the other axes; see `moves`."""

    sizes: tuple[int, ...]
    free: tuple[Axes, ...]
    """The smallest sets T of axes that no kept margin contains."""
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return prod(self.sizes)

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) for each T the moves with the largest sums of exposures, and of their squares."""
        exposure = check_exposure(exposure, self.n)
        found = []
        for T in self.free:
            by_sum, by_square = (self._largest(T, exposure**p) for p in (1, 2))
            found += [by_sum] if abs(by_sum - by_square).nnz == 0 else [by_sum, by_square]
        return self._many(sparse.csr_array(sparse.vstack(found)))

    @override
    def worst(self, exposure: np.ndarray, law: Law) -> sparse.csr_array:
        """(m, n) the worst move for each T, where losses are sums over cells or moves are few.

        With equal exposure all moves of one T lose alike. Otherwise each cell's part of the loss is
        a power of its exposure, or is solved for from losses of moves; both are checked on sums
        of moves that touch the whole table. Where losses are no such sums all moves are listed.
        """
        exposure = check_exposure(exposure, self.n)
        if np.ptp(exposure) == 0:
            return self._many(sparse.csr_array(sparse.vstack([self._first(T) for T in self.free])))

        def own(rows: sparse.csr_array) -> Any:
            return law(self._many(rows))

        if order_of(own, self._first(self.free[0])) == "unknown":
            return self.shortlist(exposure)
        return self._many(
            sparse.csr_array(sparse.vstack([self._worst(T, exposure, own) for T in self.free]))
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
        """One move for each T where all cells are equally exposed; else the moves one by one."""
        exposure = check_exposure(exposure, self.n)
        if np.ptp(exposure) == 0:
            rows = sparse.csr_array(sparse.vstack([self._first(T) for T in self.free]))
            return Classes.of(self._many(rows), exposure, most=most)
        if sum(self._count(T) for T in self.free) > _MOST:
            rows = sparse.vstack([self._largest(T, exposure) for T in self.free])
            rows = self._many(sparse.csr_array(rows))
            return Classes.of(rows, exposure, most=most, beyond=np.max(abs(rows) @ exposure))
        rows = sparse.csr_array(sparse.vstack([self._all(T) for T in self.free]))
        return Classes.of(self._many(rows), exposure, most=most)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) all moves, as long as they are few, one of those that the query sees alike."""
        rows = sparse.csr_array(sparse.vstack([self._all(T) for T in self.free]))
        seen = np.round((rows @ sparse.csr_array(query).T).toarray(), 12)
        first = np.unique(np.where(seen[:, :1] < 0, -seen, seen) + 0.0, axis=0, return_index=True)
        return self._many(sparse.csr_array(rows[np.sort(first[1])]))

    @override
    def require(self, inv: Any) -> None:
        for T in self.free:
            changed = abs(self._generators(T) @ sparse.csr_array(inv.matrix).T)
            if changed.nnz and changed.max() > 1e-9:
                raise ValueError(
                    f"`neighbours` has moves along axes {T} that change a total, so epsilon would "
                    "be infinite. Build them from the view's own invariant: moves(view.invariant)."
                )

    @override
    def describe(self) -> str:
        cells = " or ".join(str(2**size) for size in sorted({len(T) for T in self.free}))
        by = "one" if self.records == 1 else f"{self.records}"
        return (
            f"{cells} counts at the corners of a sub-table change by {by}, half of them up and "
            "half down, and every kept margin stays (table move)"
        )

    def _worst(self, T: Axes, exposure: np.ndarray, law: Law) -> sparse.csr_array:
        probes = self._probes(T)
        h = by_exposure(self.records * exposure, law, probes)
        if h is None and self.n <= _MOST:
            h = self._solved(T, law)
            h = None if h is None or not is_sum(h, law, probes) else h
        if h is not None:
            return self._largest(T, h)
        return self._all(T)

    def _largest(self, T: Axes, h: np.ndarray) -> sparse.csr_array:
        """(1, n) the move with the largest sum of h over its corners, exactly."""
        axes = list(T)
        rest = [a for a in range(len(self.sizes)) if a not in T]
        table = np.moveaxis(h.reshape(self.sizes), [*rest, *axes], range(len(self.sizes)))
        table = table.reshape(-1, *(self.sizes[a] for a in axes))
        chosen: list[np.ndarray] = []
        while table.ndim > 3:  # two slices of an axis count as one table: their sum
            i, k = np.triu_indices(table.shape[1], 1)
            if len(i) * table[:, 0].size > _LARGEST:
                raise self._too_many(T)
            table = table[:, i] + table[:, k]
            chosen.append(np.stack([i, k]))
            table = table.reshape(-1, *table.shape[2:])
        s, rows, columns = best_minor(table)
        pairs = [rows, columns]
        for pair in reversed(chosen):
            s, at = divmod(s, pair.shape[1])
            pairs.insert(0, tuple(pair[:, at].tolist()))
        offset = self._offsets(T)[s]
        low, high = np.array(pairs).T
        return self._rows(T, low[None], high[None], np.array([offset]))

    def _solved(self, T: Axes, law: Law) -> np.ndarray | None:
        """(n,) h with loss(v) = Σ h over corners, from 3^|T| losses per cell; None if none exists.

        If g(i, k) = u_i + u_k, then u_i = ½[g(i, a) + g(i, b) − g(a, b)]: along every axis of T. An
        axis of two places has one pair, all of which is put on the first place.
        """
        grid = [np.arange(self.sizes[a]) if self.sizes[a] > 2 else np.array([0]) for a in T]
        offset = self._offsets(T)
        at = [x.ravel() for x in np.meshgrid(offset, *grid, indexing="ij")]
        terms = []
        for x, a in zip(at[1:], T, strict=True):
            one, two = np.where(x == 0, 1, 0), np.where(x <= 1, 2, 1)
            terms.append(
                [(x, one, 0.5), (x, two, 0.5), (one, two, -0.5)]
                if self.sizes[a] > 2
                else [(x, one, 1.0)]
            )
        h = np.zeros(self.n)
        cell = at[0] + sum(x * self._stride(a) for x, a in zip(at[1:], T, strict=True))
        for choice in product(*terms):
            low = np.stack([c[0] for c in choice], axis=1)
            high = np.stack([c[1] for c in choice], axis=1)
            size = size_of(law, self._rows(T, low, high, at[0]))
            if size is None:
                return None
            h[cell] += prod(c[2] for c in choice) * size
        return h

    def _probes(self, T: Axes) -> sparse.csr_array:
        """Sums of disjoint moves of random signs, entries ±1; odd axes lack one place in each."""
        rng, found = np.random.default_rng(0), []
        half = tuple(m // 2 if a in T else m for a, m in enumerate(self.sizes))
        for _ in range(_PROBES if self.n > 10_000 else 2 * _PROBES):
            table = rng.choice([-1.0, 0.0, 1.0], half)  # some without, or all have one Σ h
            for a in T:
                table = np.concatenate([table, -table], axis=a)
                short = [(0, self.sizes[a] - table.shape[a] if b == a else 0) for b in self._every]
                order = rng.permutation(self.sizes[a])
                table = np.take(np.pad(table, short), order, axis=a)
            found.append(table.ravel())
        return sparse.csr_array(np.stack(found))

    def _all(self, T: Axes) -> sparse.csr_array:
        if self._count(T) > _MOST:
            raise self._too_many(T)
        pairs = [np.stack(np.triu_indices(self.sizes[a], 1), axis=1) for a in T]
        index = np.meshgrid(*(np.arange(len(p)) for p in pairs), self._offsets(T), indexing="ij")
        ends = np.stack([p[i.ravel()] for p, i in zip(pairs, index[:-1], strict=True)], axis=1)
        return self._rows(T, ends[:, :, 0], ends[:, :, 1], index[-1].ravel())

    def _generators(self, T: Axes) -> sparse.csr_array:
        """Moves of which all others along T are combinations: those with one corner at place 0."""
        grid = np.meshgrid(
            *(np.arange(1, self.sizes[a]) for a in T), self._offsets(T), indexing="ij"
        )
        high = np.stack([x.ravel() for x in grid[:-1]], axis=1)
        return self._rows(T, np.zeros_like(high), high, grid[-1].ravel())

    def _first(self, T: Axes) -> sparse.csr_array:
        low = np.zeros((1, len(T)), dtype=np.int64)
        return self._rows(T, low, low + 1, np.zeros(1, dtype=np.int64))

    def _rows(
        self, T: Axes, low: np.ndarray, high: np.ndarray, offset: np.ndarray
    ) -> sparse.csr_array:
        """⊗ (e_low − e_high) at each offset: (m, n), from places (m, |T|)."""
        stride = np.array([self._stride(a) for a in T])
        cells, signs = [], []
        for bits in product((0, 1), repeat=len(T)):
            cells.append(offset + np.where(np.array(bits) == 1, high, low) @ stride)
            signs.append((-1.0) ** sum(bits))
        m, corners = len(offset), len(signs)
        columns = np.stack(cells, axis=1).ravel()
        starts = np.arange(0, m * corners + 1, corners)
        return sparse.csr_array((np.tile(signs, m), columns, starts), shape=(m, self.n))

    def _offsets(self, T: Axes) -> np.ndarray:
        """First cell of every slice of the axes that are not in T."""
        rest = [np.arange(m) * self._stride(a) for a, m in enumerate(self.sizes) if a not in T]
        return sum(np.meshgrid(*rest, indexing="ij"), np.zeros((1,) * len(rest), int)).ravel()

    def _stride(self, axis: int) -> int:
        return prod(self.sizes[axis + 1 :])

    def _count(self, T: Axes) -> int:
        return prod(comb(m, 2) if a in T else m for a, m in enumerate(self.sizes))

    @property
    def _every(self) -> range:
        return range(len(self.sizes))

    def _many(self, rows: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(float(self.records) * rows)

    def _too_many(self, T: Axes) -> UnsupportedError:
        return UnsupportedError(
            f"`moves` has {self._count(T):,} moves along axes {T}, too many to try where the loss "
            "is not a sum over cells. State the differences that matter with differences(V)."
        )


def moves(inv: Any, *, records: int = 1) -> Moves:
    """Neighbours that differ by a move of a table whose margins all stay.

    v = e_ij − e_il − e_kj + e_kl: in two rows and two columns, when both margins of a table are
    kept. With more axes, the same in each two axes that no kept margin contains both of, inside
    every slice of the other axes; and where every two lie in a kept margin, in each smallest set T
    of axes that none contains: 2^|T| cells, v = ⊗_{a ∈ T}(e_i − e_k), ‖v‖² = 2^|T|.

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

    Reference: Diaconis and Sturmfels 1998, §1 (the moves of a Markov basis of a table).
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
    return Moves(sizes, free, records_of(records))


def _smallest(axes: list[int], kept: list[set[int]]) -> Iterator[Axes]:
    """The smallest sets of axes that no kept margin contains."""
    found: list[set[int]] = []
    for size in range(1, len(axes) + 1):
        for T in combinations(axes, size):
            if any(set(T) <= k for k in kept) or any(f <= set(T) for f in found):
                continue
            found.append(set(T))
            yield T
