"""Moves of one kind in a table: ± at the corners of a sub-table, in a slice of the other axes."""

from dataclasses import dataclass
from itertools import product
from math import comb, prod

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours.additive import Law, by_exposure, is_sum, size_of
from cdp_views.neighbours.minors import best_minor

_MOST = 200_000  # moves that are listed, and cells whose share of the loss is solved for
_LARGEST = 5 * 10**7  # numbers in memory: 400 MB
_PROBES = 8  # twice as many in small tables, where a cell could be missed by all


@dataclass(frozen=True, eq=False)
class Corners:
    """v = (e_i − e_k) ⊗ … over the parts, each of one or more axes taken as one, in one slice.

    `parts` are the axes that are taken together, `cells` (slices, |part 1|, |part 2|, …) the cells
    of the table in that order.
    """

    sizes: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]
    cells: np.ndarray

    @staticmethod
    def of(sizes: tuple[int, ...], parts: tuple[tuple[int, ...], ...]) -> "Corners":
        """These parts of a table in C order; every other axis is a slice's."""
        within = [a for part in parts for a in part]
        rest = [a for a in range(len(sizes)) if a not in within]
        table = np.arange(prod(sizes)).reshape(sizes).transpose([*rest, *within])
        shape = [prod(sizes[a] for a in axes) for axes in (rest, *parts)]
        return Corners(sizes, parts, table.reshape(shape))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that a move changes, at most."""
        return tuple(sorted(a for part in self.parts for a in part))

    @property
    def count(self) -> int:
        """How many moves there are."""
        slices, *places = self.cells.shape
        return slices * prod(comb(m, 2) for m in places)

    def worst(self, exposure: np.ndarray, law: Law, records: int) -> sparse.csr_array:
        """(m, n) the worst move where losses are sums over cells, else all moves."""
        probes = self._probes()
        h = by_exposure(records * exposure, law, probes)
        if h is None and self.cells.size <= _MOST:
            h = self._solved(law)
            h = None if h is None or not is_sum(h, law, probes) else h
        return self.all() if h is None else self.largest(h)

    def largest(self, h: np.ndarray) -> sparse.csr_array:
        """(1, n) the move with the largest sum of h over its corners, exactly."""
        table = h[self.cells]
        chosen: list[np.ndarray] = []
        while table.ndim > 3:  # two slices of an axis count as one table: their sum
            i, k = np.triu_indices(table.shape[1], 1)
            if len(i) * table[:, 0].size > _LARGEST:
                raise self._too_many()
            table = table[:, i] + table[:, k]
            chosen.append(np.stack([i, k]))
            table = table.reshape(-1, *table.shape[2:])
        s, rows, columns = best_minor(table)
        pairs = [rows, columns]
        for pair in reversed(chosen):
            s, at = divmod(s, pair.shape[1])
            pairs.insert(0, tuple(pair[:, at].tolist()))
        low, high = np.array(pairs).T
        return self._rows(np.array([s]), low[None], high[None])

    def alike(self) -> sparse.csr_array:
        """One move of every sort that differs in the axes it changes, cells being alike."""
        low, high = [], []
        for changed in product(*(self._subsets(part) for part in self.parts)):
            low.append([0] * len(self.parts))
            high.append(list(changed))
        low, high = np.array(low), np.array(high)
        return self._rows(np.zeros(len(low), dtype=np.int64), low, high)

    def all(self) -> sparse.csr_array:
        """Every move, (m, n)."""
        if self.count > _MOST:
            raise self._too_many()
        slices, *places = self.cells.shape
        pairs = [np.stack(np.triu_indices(m, 1), axis=1) for m in places]
        index = np.meshgrid(*(np.arange(len(p)) for p in pairs), np.arange(slices), indexing="ij")
        ends = np.stack([p[i.ravel()] for p, i in zip(pairs, index[:-1], strict=True)], axis=1)
        return self._rows(index[-1].ravel(), ends[:, :, 0], ends[:, :, 1])

    def generators(self) -> sparse.csr_array:
        """Moves of which all others are combinations: those with one corner at place 0."""
        slices, *places = self.cells.shape
        grid = np.meshgrid(*(np.arange(1, m) for m in places), np.arange(slices), indexing="ij")
        high = np.stack([x.ravel() for x in grid[:-1]], axis=1)
        return self._rows(grid[-1].ravel(), np.zeros_like(high), high)

    def _subsets(self, part: tuple[int, ...]) -> list[int]:
        """Places that differ from place 0 by one level in each non-empty set of the axes."""
        sizes = [self.sizes[a] for a in part]
        steps = [prod(sizes[k + 1 :]) for k in range(len(part))]
        return [
            sum(step for step, bit in zip(steps, bits, strict=True) if bit)
            for bits in product((0, 1), repeat=len(part))
            if any(bits)
        ]

    def _solved(self, law: Law) -> np.ndarray | None:
        """(n,) h with loss(v) = Σ h over corners, from 3^k losses per cell; None if none exists.

        If g(i, k) = u_i + u_k, then u_i = ½[g(i, a) + g(i, b) − g(a, b)]: in every part. A part of
        two places has one pair, all of which is put on the first place.
        """
        slices, *places = self.cells.shape
        grid = [np.arange(m) if m > 2 else np.array([0]) for m in places]
        at = [x.ravel() for x in np.meshgrid(np.arange(slices), *grid, indexing="ij")]
        terms = []
        for x, m in zip(at[1:], places, strict=True):
            one, two = np.where(x == 0, 1, 0), np.where(x <= 1, 2, 1)
            terms.append(
                [(x, one, 0.5), (x, two, 0.5), (one, two, -0.5)] if m > 2 else [(x, one, 1.0)]
            )
        h = np.zeros(self.cells.size)
        cell = self.cells[tuple(at)]
        for choice in product(*terms):
            low = np.stack([c[0] for c in choice], axis=1)
            high = np.stack([c[1] for c in choice], axis=1)
            size = size_of(law, self._rows(at[0], low, high))
            if size is None:
                return None
            h[cell] += prod(c[2] for c in choice) * size
        return h

    def _probes(self) -> sparse.csr_array:
        """Sums of disjoint moves of random signs, entries ±1; odd parts lack one place in each."""
        rng, found = np.random.default_rng(0), []
        slices, *places = self.cells.shape
        half = (slices, *(m // 2 for m in places))
        for _ in range(_PROBES if self.cells.size > 10_000 else 2 * _PROBES):
            table = rng.choice([-1.0, 0.0, 1.0], half)  # some without, or all have one Σ h
            for a, m in enumerate(places, start=1):
                table = np.concatenate([table, -table], axis=a)
                short = [(0, m - table.shape[a] if b == a else 0) for b in range(table.ndim)]
                table = np.take(np.pad(table, short), rng.permutation(m), axis=a)
            v = np.empty(self.cells.size)
            v[self.cells.ravel()] = table.ravel()
            found.append(v)
        return sparse.csr_array(np.stack(found))

    def _rows(self, at: np.ndarray, low: np.ndarray, high: np.ndarray) -> sparse.csr_array:
        """⊗ (e_low − e_high) in each slice `at`: (m, n), from places (m, k)."""
        cells, signs = [], []
        for bits in product((0, 1), repeat=low.shape[1]):
            places = np.where(np.array(bits) == 1, high, low)
            cells.append(self.cells[(at, *places.T)])
            signs.append((-1.0) ** sum(bits))
        m, corners = len(at), len(signs)
        columns = np.stack(cells, axis=1).ravel()
        starts = np.arange(0, m * corners + 1, corners)
        return sparse.csr_array((np.tile(signs, m), columns, starts), shape=(m, self.cells.size))

    def _too_many(self) -> UnsupportedError:
        return UnsupportedError(
            f"`moves` has {self.count:,} moves along axes {self.axes}, too many to try where the "
            "loss is not a sum over cells. State the differences that matter with differences(V)."
        )
