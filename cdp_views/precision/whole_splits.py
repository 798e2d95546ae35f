"""Equal whole-number cells given their sum: the laws by which a sum is split into two parts."""

from collections.abc import Callable
from typing import final

import numpy as np
import scipy

from cdp_views.precision.whole_alias import Alias
from cdp_views.precision.whole_coarse import Coarse
from cdp_views.precision.whole_sums import Mass
from cdp_views.precision.words import low_half, uniform

BLOCK = 32  # cells that are split by tables; larger sums by rejection
TABLED = 2048  # the largest power of two that is halved by a table
_ENTRIES = 2**21  # of one table; beyond, a coarse one is made
_RARE = 2e-6  # the chance of a sum that is not in a table
_SMALL = 1e-20  # masses left out of a table, relative to the largest of their row
_DIRECT = 2 * 10**5  # multiplications up to which a convolution is done term by term
_NOISE = 1e-15  # of an FFT, relative to the largest mass
_TAIL = 1e-40  # masses kept of a sum, relative to its largest
_KEPT = 64  # tables of the remainders of ragged sizes

_FEW = 4096  # nodes for which several tries are made at once …
_AT_ONCE = 8  # … as a call to the generator costs as much as some thousand words

_HALF = np.uint64(32)

Bits = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(which of the nodes, (j,) indices; which try, (j,)) ↦ (4, j) words of random bits, uint64."""


def left_of(n: int) -> int:
    """How many of n cells make the first part: halves in a block, else the largest power of 2.

    Above a block n is a multiple of it: what is left over goes first, see `Splits.remainder`.
    """
    return n // 2 if n <= BLOCK else 1 << (n - 1).bit_length() - 1


@final
class Splits:
    """The law of a part's sum, given that of the whole: P(x) ∝ f_l(x) f_{n−l}(t − x).

    f_m is the mass of the sum of m independent cells of one symmetric, log-concave mass f.

    **Tables** for n ≤ 32, and for larger powers of two while they are small, shared by all groups:
    see `Alias`. There is a row for |t| = 0, 1, … up to what is exceeded with probability
    2e-6. Discrete normal cells (`quadratic`) need n rows at most: adding k to each of n cells
    changes all probabilities given their sum alike, so that the law at t + nk is that at t, moved.

    Where a table would be too large, a coarse one proposes: see `Coarse`.

    **Rejection** for all else. The law is log-concave, hence with mode m and p = P(m)
    P(x) ≤ p min(1, e^{1 − p|x − m|}): X = m ± round(Y/p) is kept with probability
    P(X)/(p min(1, e^{w − Y})), w = 1 + p/2, Y uniform on [0, w] with probability w/(1 + w) and else
    w plus an exponential. 4 + p tries on average, whatever the scale.

    Args:
        mass: of one cell, symmetric around 0.
        quadratic: whether −log f is a quadratic of the whole numbers.

    Reference: Devroye 1987, "A simple generator for discrete log-concave distributions".
    """

    def __init__(self, mass: Mass, *, quadratic: bool) -> None:
        self._quadratic = quadratic
        self._masses: dict[int, Mass] = {1: _trimmed(mass)}
        self._tables: dict[int, Alias | Coarse] = {}
        self._single: Alias | None = None
        self._remainders: dict[int, Alias] = {}
        self._turning: set[int] = set()
        self._rows: dict[int, int] = {}
        self._flat = np.zeros(0)
        self._at: dict[int, int] = {}

    def mass(self, n: int) -> Mass:
        """Of the sum of n cells."""
        found = self._masses.get(n)
        if found is None:
            left = left_of(n)
            found = self._masses[n] = _convolved(self.mass(left), self.mass(n - left))
        return found

    def single(self) -> Alias:
        """One cell, in a table of one row."""
        if self._single is None:
            mass = self._masses[1]
            self._single = Alias(mass.p[None], np.array([mass.low]))
        return self._single

    def remainder(self, n: int, words: np.ndarray) -> np.ndarray:
        """The sum (m,) of the first 32⌊n/32⌋ of n cells whose sum is 0, for as many words (m,)."""
        found = self._remainders.get(n)
        if found is None:
            few, many = self.mass(n % BLOCK), self.mass(n - n % BLOCK)
            x = np.arange(-few.high, -few.low + 1)
            if len(self._remainders) == _KEPT:  # thousands of sizes would fill the memory
                del self._remainders[next(iter(self._remainders))]
            found = self._remainders[n] = Alias((many.at(x) * few.at(-x))[None], x[:1])
        return found.draw(0, low_half(words), lambda which: low_half(words[which] >> _HALF))

    def split(self, n: int, total: np.ndarray, bits: np.ndarray, more: Bits) -> np.ndarray:
        """The first part's sum (m,), of n cells with sums `total` (m,).

        Args:
            n: how many cells, at most 32 or a power of 2 up to 2048.
            total: (m,) int64.
            bits: (m,) uint32, random.
            more: further bits of those that these don't decide, or whose sum is in no table.
        """
        if n not in self._tables:
            self._tables[n] = self._table(n)
        table = self._tables[n]

        def undecided(which: np.ndarray) -> np.ndarray:
            return low_half(more(which, np.zeros_like(which))[0])

        if n in self._turning:
            assert isinstance(table, Alias)
            turns = total // n
            return table.draw(total - n * turns, bits, undecided) + left_of(n) * turns
        sign = total >> 63  # 0, or −1 of a negative sum, whose law is the other's mirror image
        size = (total ^ sign) - sign
        rare = np.flatnonzero(size >= self._rows[n])
        size[rare] = 0
        if isinstance(table, Alias):
            part = table.draw(size, bits, undecided)
        else:
            part = self._tried(table, size, more)
        part = (part ^ sign) - sign
        if rare.size:
            part[rare] = self.reject(
                np.full(rare.size, n), total[rare], lambda which, tries: more(rare[which], tries)
            )
        return part

    def _tried(self, table: Coarse, size: np.ndarray, more: Bits) -> np.ndarray:
        """Proposals of a coarse table until each is kept."""
        part, waiting, tries = np.empty_like(size), np.arange(size.size), 0
        while waiting.size:
            words = more(waiting, np.full(waiting.size, tries))
            x, kept = table.draw(size[waiting], words)
            part[waiting[kept]] = x[kept]
            waiting, tries = waiting[~kept], tries + 1
        return part

    def reject(self, n: np.ndarray, total: np.ndarray, bits: Bits) -> np.ndarray:
        """The first part's sum (m,), of n (m,) cells with sums `total`, sizes as in `left_of`."""
        sizes, kind = np.unique(n, return_inverse=True)
        lefts = np.array([left_of(int(s)) for s in sizes])
        one, two = self._laws(lefts)[kind].T, self._laws(sizes - lefts)[kind].T
        whole = self._laws(sizes)[kind].T
        low = np.maximum(one[1], total - two[2])
        high = np.minimum(one[2], total - two[1])
        even = lefts[kind] * 2 == n
        mode = total // 2  # of equal parts, by symmetry
        if not even.all():
            odd = np.flatnonzero(~even)
            given = (a[..., odd] for a in (one, two, total, low, high))
            mode[odd] = self._mode(*given)
        peak = self._both(one, two, total, mode)
        p = peak / np.maximum(self._value(whole, total), peak)
        part = mode.copy()
        waiting, tries = np.flatnonzero(low < high), 0
        while waiting.size:
            turns = 1 if waiting.size > _FEW else _AT_ONCE
            which = np.tile(waiting, turns)
            words = bits(which, tries + np.repeat(np.arange(turns), waiting.size))
            x, y = _proposed(words, p[which])
            x += mode[which]
            own = (a[:, which] for a in (one, two))
            ratio = self._both(*own, total[which], x) / peak[which]
            kept = uniform(words[2]) * np.exp(np.minimum(-y, 0.0)) <= ratio
            kept, x = kept.reshape(turns, -1), x.reshape(turns, -1)
            done = kept.any(axis=0)
            first = kept.argmax(axis=0)
            part[waiting[done]] = x[first[done], np.flatnonzero(done)]
            waiting, tries = waiting[~done], tries + turns
        return part

    def _mode(
        self,
        one: np.ndarray,
        two: np.ndarray,
        total: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> np.ndarray:
        """The largest x at which the law does not fall, by bisection."""
        low, high = low.copy(), high.copy()
        while np.any(low < high):
            middle = low + (high - low + 1) // 2
            rises = self._both(one, two, total, middle) >= self._both(one, two, total, middle - 1)
            low, high = np.where(rises, middle, low), np.where(rises, high, middle - 1)
        return low

    def _both(
        self, one: np.ndarray, two: np.ndarray, total: np.ndarray, x: np.ndarray
    ) -> np.ndarray:
        return self._value(one, x) * self._value(two, total - x)

    def _value(self, law: np.ndarray, x: np.ndarray) -> np.ndarray:
        begin, low, high = law
        inside = (x >= low) & (x <= high)
        return np.where(inside, self._flat[begin + np.where(inside, x - low, 0)], 0.0)

    def _laws(self, sizes: np.ndarray) -> np.ndarray:
        """(j, 3): where the masses of these sums begin in one flat array, their lowest, highest."""
        fresh = [n for n in np.unique(sizes).tolist() if n not in self._at]
        if fresh:
            masses, end = [self.mass(n) for n in fresh], self._flat.size
            for n, mass in zip(fresh, masses, strict=True):
                self._at[n], end = end, end + mass.p.size
            self._flat = np.concatenate([self._flat, *(mass.p for mass in masses)])
        found = [(self._at[n], self.mass(n).low, self.mass(n).high) for n in sizes.tolist()]
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    def _table(self, n: int) -> Alias | Coarse:
        left, whole = left_of(n), self.mass(n)
        one, two = self.mass(left), self.mass(n - left)
        beyond = np.cumsum(whole.p[::-1])[::-1][-whole.low :] / whole.p.sum()
        rows = max(int(np.searchsorted(-beyond, -_RARE / 2)), 1)
        turning = self._quadratic and n <= rows
        fine = self._fine(one, two, left, n, n if turning else rows)
        self._rows[n] = rows
        if fine is None:
            return Coarse(one, two, left, n, rows)
        if turning:
            self._turning.add(n)
        return fine

    def _fine(self, one: Mass, two: Mass, left: int, n: int, rows: int) -> Alias | None:
        """A row for each sum from 0 to rows − 1, if that is few enough."""
        width = one.p.size + rows
        if rows * width > 32 * _ENTRIES:
            return None
        total = np.arange(rows)
        centre = left * total // n
        reach = np.arange(-width, width + 1)
        kept = np.zeros(reach.size, dtype=bool)
        for t in (0, rows - 1):  # the widest rows
            p = one.at(centre[t] + reach) * two.at(t - centre[t] - reach)
            kept |= p > _SMALL * p.max()
        reach = reach[kept.argmax() : kept.size - kept[::-1].argmax()]
        if rows * reach.size > _ENTRIES:
            return None
        x = centre[:, None] + reach
        p = one.at(x) * two.at(total[:, None] - x)
        return Alias(p, centre + reach[0])


def _proposed(words: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X − m of the envelope with P(m) = p, and how far pY lies beyond w."""
    u, v, w = uniform(words[0]), uniform(words[1]), 1 + p / 2
    y = np.where(u < w / (1 + w), v * w, w - np.log(v))
    sign = 1 - 2 * (words[3] >> np.uint64(63)).astype(np.int64)
    return sign * np.rint(y / p).astype(np.int64), y - w


def _trimmed(mass: Mass) -> Mass:
    kept = np.flatnonzero(mass.p > _TAIL * mass.p.max())
    return Mass(mass.low + int(kept[0]), mass.p[kept[0] : kept[-1] + 1] / mass.p.sum())


def _convolved(a: Mass, b: Mass) -> Mass:
    if a.p.size * b.p.size <= _DIRECT:
        p = np.convolve(a.p, b.p)
    else:
        p = scipy.signal.fftconvolve(a.p, b.p)
        p[p < _NOISE * p.max()] = 0.0
    return _trimmed(Mass(a.low + b.low, p))
