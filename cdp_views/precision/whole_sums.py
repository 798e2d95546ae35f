"""Independent whole numbers given their sum: exact draws by convolving up and splitting down."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

_DIRECT = 10**7  # multiplications up to which a convolution is done term by term
_TRIM = 1e-60  # relative to the largest mass; far below what float64 sums can see
_FFT_NOISE = 1e-14  # relative to the largest mass

Uniform = Callable[[np.ndarray, int], np.ndarray]
"""(first cells of nodes (m,), their size) ↦ (m,) numbers between 0 and 1."""


class Mass(NamedTuple):
    """Masses p (w,), not normalised, of the whole numbers low, low + 1, …; 0 elsewhere."""

    low: int
    p: np.ndarray

    @property
    def high(self) -> int:
        return self.low + self.p.size - 1

    def at(self, x: np.ndarray) -> np.ndarray:
        """The mass of whole numbers x of any shape."""
        place = np.asarray(x) - self.low
        inside = (place >= 0) & (place < self.p.size)
        return np.where(inside, self.p[np.where(inside, place, 0)], 0.0)

    def trimmed(self) -> "Mass":
        """Without the ends that are too small to matter."""
        kept = np.flatnonzero(self.p > _TRIM * self.p.max(initial=0.0))
        if kept.size == 0:
            return Mass(self.low, self.p[:1])
        return Mass(self.low + int(kept[0]), self.p[kept[0] : kept[-1] + 1])

    def mirrored(self) -> "Mass":
        """The mass of −X."""
        return Mass(-self.high, self.p[::-1])


def convolve(a: Mass, b: Mass) -> Mass:
    """The mass of the sum of two independent numbers.

    Term by term every mass has full relative accuracy, in the tails too; long ones go through FFT,
    whose rounding below 1e-14 of the largest mass is set to 0.
    """
    if a.p.size * b.p.size <= _DIRECT:
        p = np.convolve(a.p, b.p)
    else:
        p = scipy.signal.fftconvolve(a.p, b.p)
        p[p < _FFT_NOISE * p.max()] = 0.0
    return Mass(a.low + b.low, p).trimmed()


class Sums:
    """The laws of sums of cells, each distinct one convolved once.

    A *kind* is a law, by number: a leaf's, or a sum of two kinds. Cells of one law make trees
    whose halves are the same kinds, so that a sum of n of them costs log n convolutions, and
    splits of equal kinds are drawn together, whatever group they are in.
    """

    def __init__(self) -> None:
        self.masses: list[Mass] = []
        self.parts: list[tuple[int, int] | None] = []
        self.sizes: list[int] = []
        self._known: dict[object, int] = {}
        self._powers: dict[tuple[int, int], int] = {}

    def leaf(self, name: object, mass: Mass) -> int:
        """The kind of one cell; `name` (hashable) tells equal laws."""
        return self._kind(("leaf", name), mass.trimmed, None, 1)

    def over(self, kinds: np.ndarray) -> int:
        """The kind of a sum of cells (m,), by a balanced tree over them as they stand."""
        if len(kinds) == 1:
            return int(kinds[0])
        # equal cells need not be walked through one by one
        if kinds[0] == kinds[-1] and np.all(kinds == kinds[0]):
            return self._power(int(kinds[0]), len(kinds))
        half = len(kinds) // 2
        return self.both(self.over(kinds[:half]), self.over(kinds[half:]))

    def both(self, left: int, right: int) -> int:
        """The kind of a sum of two kinds."""
        size = self.sizes[left] + self.sizes[right]
        return self._kind(
            (left, right),
            lambda: convolve(self.masses[left], self.masses[right]),
            (left, right),
            size,
        )

    def _power(self, kind: int, count: int) -> int:
        if count == 1:
            return kind
        found = self._powers.get((kind, count))
        if found is None:
            half = count // 2
            found = self.both(self._power(kind, half), self._power(kind, count - half))
            self._powers[kind, count] = found
        return found

    def _kind(
        self, key: object, mass: Callable[[], Mass], parts: tuple[int, int] | None, size: int
    ) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.masses)
            self.masses.append(mass())
            self.parts.append(parts)
            self.sizes.append(size)
        return found

    def split(
        self,
        uniform: Uniform,
        kinds: np.ndarray,
        starts: np.ndarray,
        sums: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Draw the cells of every tree given its sum, exactly and independently.

        Args:
            uniform: a number for each node, known by its first cell and its size: no other node
                has both.
            kinds: (t,) kind of every tree.
            starts: (t,) where its cells begin in `out`.
            sums: (t,) the sum each tree must have.
            out: (N,) integers, filled in place.
        """
        waiting: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        for kind in np.unique(kinds):
            chosen = kinds == kind
            waiting[int(kind)] = [(starts[chosen], sums[chosen])]
        for kind in range(len(self.masses) - 1, -1, -1):  # a sum has a larger number than its parts
            if kind not in waiting:
                continue
            pieces = waiting.pop(kind)
            start, total = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1))
            parts = self.parts[kind]
            if parts is None:
                out[start] = total
                continue
            left, right = parts
            draws = uniform(start, self.sizes[kind])
            first = _share(draws, self.masses[left], self.masses[right], total)
            waiting.setdefault(left, []).append((start, first))
            waiting.setdefault(right, []).append((start + self.sizes[left], total - first))


def _share(draws: np.ndarray, left: Mass, right: Mass, total: np.ndarray) -> np.ndarray:
    """The first of two numbers given their sum: P(x) ∝ left(x) right(total − x)."""
    order = np.argsort(total, kind="stable")
    values, begins, counts = np.unique(total[order], return_index=True, return_counts=True)
    drawn = np.empty(total.size, dtype=np.int64)
    for value, begin, count in zip(values.tolist(), begins.tolist(), counts.tolist(), strict=True):
        low, high = max(left.low, value - right.high), min(left.high, value - right.low)
        p = left.p[low - left.low : high - left.low + 1]
        q = right.p[value - high - right.low : value - low - right.low + 1][::-1]
        ladder, place = np.cumsum(p * q), order[begin : begin + count]
        drawn[place] = low + np.searchsorted(ladder, draws[place] * ladder[-1], side="right")
    return drawn
