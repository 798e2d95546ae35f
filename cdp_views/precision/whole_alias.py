"""Alias tables: many small laws of whole numbers, each number from 32 bits, rarely from 64."""

from collections.abc import Callable
from typing import final

import numpy as np

_FINE = 30  # bits that decide where the first 32 do not
_ALL = 32 + _FINE

More = Callable[[np.ndarray], np.ndarray]
"""Which of the draws, (j,) indices ↦ 32 more random bits for each, (j,) uint32."""


@final
class Alias:
    """Laws of whole numbers, one a row, drawn by the alias method in whole numbers only.

    A row's masses are rounded to multiples of 2⁻⁶² that add up to 1 (its distribution function from
    below in the lower half, from above in the upper) and put into w = 2^L columns of equal mass
    2^{62−L}. A column holds the mass of its own number up to a threshold and that of one other, its
    alias, beyond: of 32 bits, L choose the column and the others are compared with the threshold's.
    Only if they are equal, with a chance of 2^{L−32}, its last 30 bits are compared with more. The
    same bits give the same numbers everywhere.

    Total-variation error: at most w 2⁻⁶³, beside that of the float64 masses themselves.

    Args:
        p: (rows, width) masses, not normalised, width from 1 to 2³⁰.
        first: (rows,) the whole number that column 0 stands for.

    Example:
        >>> import numpy as np
        >>> alias = Alias(np.array([[1.0, 2.0, 1.0]]), np.array([-1]))
        >>> bits = np.array([0, 1, 2, 3], np.uint32)  # the lowest two choose among four columns
        >>> alias.draw(np.zeros(4, np.int64), bits, lambda which: bits[which]).tolist()
        [-1, 0, 1, 0]

    Reference: Walker 1977; Vose 1991; Hübschle-Schneider and Sanders 2022 (the sweep).
    """

    def __init__(self, p: np.ndarray, first: np.ndarray) -> None:
        rows, width = p.shape
        self.first = first.astype(np.int64)
        self._lead = int(width - 1).bit_length()
        self._columns = 1 << self._lead
        masses = np.zeros((rows, self._columns), dtype=np.int64)
        masses[:, :width] = whole_masses(p)
        self._entries = np.empty(masses.shape, dtype=np.uint32)
        self._fine = np.empty(masses.shape, dtype=np.uint32)
        for row in range(rows):
            threshold, other = _swept(masses[row], 1 << (_ALL - self._lead))
            self._entries[row] = (threshold >> _FINE << self._lead) | other
            self._fine[row] = threshold & ((1 << _FINE) - 1)
        self._entries, self._fine = self._entries.ravel(), self._fine.ravel()

    def draw(self, row: np.ndarray | int, bits: np.ndarray, more: More) -> np.ndarray:
        """(m,) int64: a number of the law `row` (m,), or of one row, for each of the bits (m,).

        Args:
            row: which law.
            bits: (m,) uint32, random.
            more: further bits of some of them.
        """
        lead = np.uint32(self._lead)
        at = (bits & np.uint32(self._columns - 1)).astype(np.int64)
        at += np.multiply(row, self._columns)
        entry = self._entries[at]
        x = np.where(bits >> lead < entry >> lead, bits, entry)
        tied = np.flatnonzero((bits ^ entry) < self._columns)
        if tied.size:
            fine = more(tied) >> np.uint32(32 - _FINE)
            x[tied] = np.where(fine < self._fine[at[tied]], bits[tied], entry[tied])
        x &= np.uint32(self._columns - 1)
        return x + self.first[row]


def whole_masses(p: np.ndarray) -> np.ndarray:
    """Masses p (rows, width) as whole numbers that add up to 2⁶², to ±1 in either tail."""
    below, above = np.cumsum(p, axis=1), np.cumsum(p[:, ::-1], axis=1)[:, ::-1]
    total, unit = below[:, -1:], 2.0**_ALL
    low = np.rint(below[:, :-1] / total * unit).astype(np.int64)
    high = 2**_ALL - np.rint(np.minimum(above[:, 1:] / above[:, :1], 1.0) * unit).astype(np.int64)
    ladder = np.where(below[:, :-1] <= total / 2, low, high)
    ladder = np.maximum.accumulate(ladder, axis=1)  # where the two halves meet
    return np.diff(ladder, axis=1, prepend=0, append=2**_ALL)


def _swept(mass: np.ndarray, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds below `each`, and aliases, of one row of masses that add up to columns × each.

    Light numbers are filled up, in order, by what heavy ones have too much, in order; a heavy one
    that has become light is filled up by the next. Whoever needs no alias is its own.
    """
    light, heavy = np.flatnonzero(mass <= each), np.flatnonzero(mass > each)
    threshold, other = np.zeros(mass.size, dtype=np.int64), np.arange(mass.size)
    if not heavy.size:
        return threshold, other
    lacking = np.cumsum(each - mass[light])
    spare = np.cumsum(mass[heavy] - each)
    before = lacking - (each - mass[light])
    giver = np.searchsorted(spare, before, side="right")
    filled = np.flatnonzero((mass[light] < each) & (giver < heavy.size))
    threshold[light[filled]] = mass[light[filled]]
    other[light[filled]] = heavy[giver[filled]]
    over = lacking[np.searchsorted(lacking, spare[:-1], side="left")] - spare[:-1]
    given = np.flatnonzero(over)
    threshold[heavy[given]] = each - over[given]
    other[heavy[given]] = heavy[given + 1]
    return threshold, other
