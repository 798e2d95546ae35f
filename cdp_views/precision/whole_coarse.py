"""Splits of sums too wide for a table: a coarse table proposes, the law itself accepts."""

from typing import final

import numpy as np

from cdp_views.precision.whole_alias import Alias, whole_masses
from cdp_views.precision.whole_sums import Mass
from cdp_views.precision.words import low_half, uniform

_FINENESS = 16  # boxes in a standard deviation, of the sum and of its part
_FLOOR = 1e-12  # of the largest weight of a row, so that no box is rounded to nothing
_SMALL = 1e-20  # of the largest bound of a row, below which boxes are left out
_ROUNDED = 1 + 1e-9  # masses of long sums are unimodal but for the rounding of an FFT


@final
class Coarse:
    """The law of a part's sum X given that of the whole, t ≥ 0: P(x) ∝ f(x) g(t − x).

    Sums t are taken in bands of 2^r, parts x = ⌊lt/n⌋ + u in columns of 2^s values u. In a box of
    both f(x) g(t − x) ≤ M = max f · max g, each over the values that occur there, which is that
    nearest to 0 as both are symmetric and unimodal. A column is drawn by an alias table of q ∝ M
    in whole numbers, u uniformly inside it, and kept with probability f(x) g(t − x)/(K q), K the
    largest M/q of its band. At most one try in five is in vain, whatever the scale.

    Args:
        one: f, of the first part, l cells.
        two: g, of the others.
        left: l.
        n: cells of both.
        rows: sums t from 0 to rows − 1 are in the table.

    Reference: the rejection of Devroye 1986, section II.3, with the squeeze in a table.
    """

    def __init__(self, one: Mass, two: Mass, left: int, n: int, rows: int) -> None:
        self._one, self._two, self._left, self._n = one, two, left, n
        v, w = _variance(one), _variance(two)
        self._wide = _power(np.sqrt(v * w / (v + w)) / _FINENESS)
        self._band = _power(np.sqrt(v + w) / _FINENESS)
        begin = np.arange(-(-rows // self._band)) * self._band
        end = begin + self._band - 1
        # The centres in a band rise from `at` to `to`, and what they leave to the others as well.
        at, to = left * begin // n, left * end // n
        rest, most = begin - at, end - to
        reach = -(-(one.p.size + two.p.size + rows) // self._wide)
        u = np.arange(-reach, reach + 1)[:, None] * self._wide
        last = u + self._wide - 1
        bound = _peak(one, at + u, to + last) * _peak(two, rest - last, most - u)
        kept = np.flatnonzero((bound > _SMALL * bound.max(axis=0)).any(axis=1))
        kept = slice(kept[0], kept[-1] + 1)
        bound, self._first = bound[kept].T * _ROUNDED, int(u[kept][0, 0])
        weight = bound + _FLOOR * bound.max(axis=1, keepdims=True)
        q = whole_masses(weight).astype(np.float64)
        self._limit = q * np.max(bound / q, axis=1, keepdims=True)
        self._alias = Alias(weight, np.zeros(begin.size, dtype=np.int64))

    def draw(self, total: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One try for each: the part's sum (m,), and whether it is kept (m,).

        Args:
            total: (m,) int64, from 0 to rows − 1.
            words: (4, m) uint64, random.
        """
        band = total // self._band
        column = self._alias.draw(band, low_half(words[0]), lambda which: low_half(words[2][which]))
        inside = (words[0] >> np.uint64(32)).astype(np.int64) & (self._wide - 1)
        x = self._left * total // self._n + self._first + column * self._wide + inside
        mass = self._one.at(x) * self._two.at(total - x)
        return x, uniform(words[1]) * self._limit[band, column] < mass


def _variance(mass: Mass) -> float:
    x = np.arange(mass.low, mass.high + 1, dtype=np.float64)
    return float(np.sum(mass.p * x**2) / np.sum(mass.p))


def _power(x: float) -> int:
    """The largest power of 2 of at most x, 1 to 2³²."""
    return 1 << int(np.clip(np.floor(np.log2(x)), 0, 32))


def _peak(mass: Mass, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The largest of a symmetric, unimodal mass between low and high."""
    return mass.at(np.clip(0, low, high))
