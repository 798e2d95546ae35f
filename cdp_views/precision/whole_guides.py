"""Inversion of many small laws of whole numbers at once, each number from one word of bits."""

from typing import final

import numpy as np

_BITS = 63  # of a word that are compared with the ladder


@final
class Guide:
    """Laws of whole numbers, one a row, that are drawn by inverting their distribution functions.

    A row's ladder C_i = 2⁶³ P(X ≤ i), rounded once, from below in the lower half and from above in
    the upper: both tails are resolved to 2⁻⁶⁴. The number is #{i : C_i ≤ w}, w the word's first 63
    bits. Its leading bits look up between which steps it lies (nearly always one), so that a number
    costs the same few operations whatever the width of its law. All arithmetic is on integers: the
    same words give the same numbers everywhere.

    Total-variation error: at most 2⁻⁶⁴ a step, beside that of the float64 masses themselves.

    Args:
        p: (rows, w) masses, not normalised, w ≥ 1.
        first: (rows,) the whole number that column 0 stands for.

    Example:
        >>> import numpy as np
        >>> guide = Guide(np.array([[1.0, 2.0, 1.0]]), np.array([-1]))
        >>> guide.draw(np.zeros(3, np.int64), np.array([0, 2**63, 2**64 - 1], np.uint64)).tolist()
        [-1, 0, 1]

    Reference: Chen and Asau 1974 (guide tables).
    """

    def __init__(self, p: np.ndarray, first: np.ndarray) -> None:
        rows, width = p.shape
        self.first = first.astype(np.int64)
        below, above = np.cumsum(p, axis=1), np.cumsum(p[:, ::-1], axis=1)[:, ::-1]
        total = below[:, -1:]
        low = np.rint(below[:, :-1] / total * 2.0**_BITS).astype(np.uint64)
        high = np.uint64(2**_BITS) - np.rint(
            np.minimum(above[:, 1:] / above[:, :1], 1.0) * 2.0**_BITS
        ).astype(np.uint64)
        ladder = np.where(below[:, :-1] <= total / 2, low, high)
        ladder = np.maximum.accumulate(ladder, axis=1)  # where the two halves meet
        self._steps = max(width - 1, 1)
        self._ladder = np.full((rows, self._steps), 2**_BITS, dtype=np.uint64)
        self._ladder[:, : width - 1] = ladder
        self._ladder = self._ladder.ravel()
        lead = max(int(np.ceil(np.log2(width))) + 1, 1)
        self._shift, self._buckets = np.uint64(64 - lead), 2**lead + 1
        size = 2 ** (_BITS - lead)
        at = ((ladder + np.uint64(size - 1)) >> np.uint64(_BITS - lead)).astype(np.int64)
        at += np.arange(rows)[:, None] * self._buckets
        counts = np.bincount(at.ravel(), minlength=rows * self._buckets)
        places = np.cumsum(counts.reshape(rows, self._buckets), axis=1)
        self._guide = places.astype(np.int16 if width < 2**15 else np.int32).ravel()

    def draw(self, row: np.ndarray, words: np.ndarray) -> np.ndarray:
        """(m,) int64: a number of the law `row` (m,) for each of the words (m,) uint64."""
        at = (words >> self._shift).astype(np.int64)
        at += row * self._buckets
        low = self._guide[at].astype(np.int64)
        at += 1
        high = self._guide[at]
        waiting = np.flatnonzero(low < high)
        least, most = low[waiting], high[waiting].astype(np.int64)
        base, word = row[waiting] * self._steps, words[waiting] >> np.uint64(1)
        while waiting.size:
            middle = (least + most) >> 1
            up = self._ladder[base + middle] <= word
            least, most = np.where(up, middle + 1, least), np.where(up, most, middle)
            low[waiting] = least
            rest = np.flatnonzero(least < most)
            waiting, least, most = waiting[rest], least[rest], most[rest]
            base, word = base[rest], word[rest]
        low += self.first[row]
        return low
