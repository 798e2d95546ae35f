"""Whole noise of equal cells under disjoint totals, for all groups at once.

Cells of a group, in the order of the table, make blocks of 32 and a last one of what is left. Bits
belong to the id of a block's first cell, four words a round, so that a group has its noise in
whatever part of the table it lies. (A call to the generator for each cell, or a loop over groups,
would take ten times as long.)
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from cdp_views.noise import masses
from cdp_views.precision.whole_splits import BLOCK, TABLED, Splits, left_of
from cdp_views.precision.whole_sums import Mass
from cdp_views.releases.secret import Secret

SPLIT, RARE, ABOVE, HALVES, REST, CELL, ORDER, LOOSE = range(32, 40)  # purposes of the bits
Named = Callable[[np.ndarray], np.ndarray]
"""Places of cells (m,) ↦ their ids (2, m): most cells of a release are never asked for theirs."""
_CHUNK = 2**13  # blocks at a time, so that what is worked on stays in the processor's cache


@lru_cache(maxsize=4)
def splits_of(noise: str, scale: float) -> Splits:
    """The tables of a noise, made once by each process."""
    return Splits(Mass(*masses(noise, scale)), quadratic=noise == "discrete-normal")


def conditioned(secret: Secret, ids: Named, sizes: np.ndarray, splits: Splits) -> np.ndarray:
    """Noise (n,) given that each group's sum is 0.

    Args:
        secret: of the release.
        ids: of the cells, group after group.
        sizes: (groups,) how many cells each has.
        splits: of the noise.
    """
    starts = np.cumsum(sizes) - sizes
    first, width, total = _above(secret, ids, starts, sizes, splits)
    out = np.empty(int(sizes.sum()), dtype=np.int64)
    for size in np.unique(width).tolist():
        chosen = np.flatnonzero(width == size)
        for begin in range(0, chosen.size, _CHUNK):
            own = chosen[begin : begin + _CHUNK]
            block = _Block(secret, ids(first[own]), splits, size)
            cells = block.cells(total[own])
            _put(out, cells, first[own])
    return out


def _put(out: np.ndarray, cells: np.ndarray, first: np.ndarray) -> None:
    """Cells (size, m) of blocks that begin at `first`, into their places."""
    size, m = cells.shape
    if first[-1] - first[0] == size * (m - 1):  # one after the other
        out[first[0] : first[0] + size * m].reshape(m, size)[:] = cells.T
    else:
        out[first + np.arange(size)[:, None]] = cells


def _above(
    secret: Secret, ids: Named, starts: np.ndarray, sizes: np.ndarray, splits: Splits
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The blocks of all groups: where each begins, its size and the sum of its noise."""
    small = sizes <= BLOCK
    done = [(starts[small], sizes[small], np.zeros(np.count_nonzero(small), np.int64))]
    start, size = starts[~small], sizes[~small]
    total = np.zeros(start.size, dtype=np.int64)
    rest = size % BLOCK
    over = np.flatnonzero(rest)
    if over.size:
        words = secret.words(ids(start[over]), REST)[0]
        order = np.argsort(size[over], kind="stable")
        alike = np.flatnonzero(np.diff(size[over][order], prepend=0))
        for own in np.split(order, alike[1:]):
            total[over[own]] = splits.remainder(int(size[over[own[0]]]), words[own])
        done.append((start[over] + (size - rest)[over], rest[over], -total[over]))
        size = size - rest
        small = size <= BLOCK
        done.append((start[small], size[small], total[small]))
        start, size, total = start[~small], size[~small], total[~small]
    while start.size:
        left = _halved(secret, ids(start), size, total, splits)
        power = 1 << np.ceil(np.log2(size)).astype(np.int64) - 1
        start = np.concatenate([start, start + power])
        total = np.concatenate([left, total - left])
        size = np.concatenate([power, size - power])
        small = size <= BLOCK
        done.append((start[small], size[small], total[small]))
        start, size, total = start[~small], size[~small], total[~small]
    first, width, sums = (np.concatenate(parts) for parts in zip(*done, strict=True))
    order = slice(None) if len(done) == 1 else np.argsort(first)
    return first[order], width[order], sums[order]


def _halved(
    secret: Secret, names: np.ndarray, size: np.ndarray, total: np.ndarray, splits: Splits
) -> np.ndarray:
    """The first part's sum of each node above the blocks."""
    left = np.empty_like(total)

    def bits(which: np.ndarray, tries: np.ndarray) -> np.ndarray:
        return secret.words(names[:, which], ABOVE, size[which] + (tries << 32))

    rest = np.ones(size.size, dtype=bool)
    for n in np.unique(size[size <= TABLED]).tolist():
        if n & (n - 1) == 0:
            own = np.flatnonzero(size == n)
            rest[own] = False
            words = secret.words(names[:, own], HALVES, n)[0]
            left[own] = splits.split(
                n, total[own], words, lambda which, tries, own=own: bits(own[which], tries)
            )
    other = np.flatnonzero(rest)
    left[other] = splits.reject(
        size[other], total[other], lambda which, tries: bits(other[which], tries)
    )
    return left


class _Block:
    """Blocks of one size, drawn together: a tree of sums, its nodes numbered as they come."""

    def __init__(self, secret: Secret, ids: np.ndarray, splits: Splits, size: int) -> None:
        self._secret, self._ids, self._splits = secret, ids, splits
        rounds = -(-(size - 1) // 4)
        words = [secret.words(ids, SPLIT, r) for r in range(rounds)]
        self._words = [word for four in words for word in four]
        self._node = 0
        self._out = np.empty((size, ids.shape[1]), dtype=np.int64)

    def cells(self, total: np.ndarray) -> np.ndarray:
        """(size, m) cells with these sums (m,)."""
        self._fill(0, len(self._out), total)
        return self._out

    def _fill(self, begin: int, n: int, total: np.ndarray) -> None:
        if n == 1:
            self._out[begin] = total
            return
        node, left = self._node, left_of(n)
        self._node += 1

        def bits(which: np.ndarray, tries: np.ndarray) -> np.ndarray:
            return self._secret.words(self._ids[:, which], RARE, node + (tries << 8))

        part = self._splits.split(n, total, self._words[node], bits)
        self._fill(begin, left, part)
        self._fill(begin + left, n - left, total - part)


def independent(
    secret: Secret, ids: np.ndarray, splits: Splits, purpose: int = LOOSE
) -> np.ndarray:
    """Noise (n,) of cells in no group."""
    row = np.zeros(ids.shape[1], dtype=np.int64)
    return splits.single().draw(row, secret.words(ids, purpose)[0])


def imaged(secret: Secret, ids: Named, sizes: np.ndarray, splits: Splits) -> np.ndarray:
    """Noise (n,) less its share of each group's residual, the rest by lot.

    U − ⌊s/n⌋ of a group with sum s, and one less in s mod n of its cells, every choice of them
    equally likely: those with the smallest words of 64 bits (equal ones have a chance of 2⁻⁶⁴).

    Args: as `conditioned`.
    """
    n = int(sizes.sum())
    starts = np.cumsum(sizes) - sizes
    u = splits.single().draw(np.zeros(n, np.int64), _words(secret, ids, starts, sizes, CELL))
    residual = np.add.reduceat(u, starts)
    lots = _words(secret, ids, starts, sizes, ORDER)
    step, left = np.divmod(residual, sizes)
    for size in np.unique(sizes).tolist():
        chosen = np.flatnonzero(sizes == size)
        each = max(_CHUNK * 16 // size, 1)
        for begin in range(0, chosen.size, each):
            own = chosen[begin : begin + each]
            cells = starts[own][:, None] + np.arange(size)
            mine = lots[cells]
            ordered = np.sort(mine, axis=1)
            edge = np.take_along_axis(ordered, left[own][:, None], axis=1)
            u[cells] -= step[own][:, None] + (mine < edge)
    return u


def _words(
    secret: Secret, ids: Named, starts: np.ndarray, sizes: np.ndarray, purpose: int
) -> np.ndarray:
    """A word for each cell (n,): four of them belong to the first of four cells of a group."""
    parts = -(-sizes // 4)
    if np.all(sizes == 4 * parts):
        return secret.words(ids(np.arange(0, int(sizes.sum()), 4)), purpose).T.reshape(-1)
    lead = np.cumsum(parts) - parts
    fours = np.repeat(starts - 4 * lead, parts) + 4 * np.arange(int(parts.sum()))
    words = secret.words(ids(fours), purpose).T.reshape(-1)
    inside = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    return words[4 * np.repeat(lead, sizes) + inside]
