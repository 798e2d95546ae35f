"""Whole noise of equal cells under disjoint totals, for all groups at once.

Cells of a group, in the order of the table, make blocks of 32 and a last one of what is left. Bits
belong to the id of a block's first cell, eight times 32 a round, so that a group has its noise in
whatever part of the table it lies. (A call to the generator for each cell, or a loop over groups,
would take ten times as long.) Where 32 bits do not decide, more are drawn for that number alone.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from cdp_views.noise import masses
from cdp_views.precision.whole_splits import BLOCK, TABLED, Splits, left_of
from cdp_views.precision.whole_sums import Mass
from cdp_views.precision.words import low_half
from cdp_views.releases.noise.secret import Secret

SPLIT, RARE, ABOVE, HALVES, REST, CELL, ORDER, LOOSE = range(32, 40)  # purposes of the bits …
FINE, AGAIN = 40, 41  # … that 32 do not decide
Named = Callable[[np.ndarray], np.ndarray]
"""Places of cells (m,) ↦ their ids (2, m): most cells of a release are never asked for theirs."""
_EIGHT = 8  # numbers of 32 bits from one counter
_CHUNK = 2**13  # blocks at a time, so that what is worked on stays in the processor's cache …
_AT_ONCE = 2**16  # … and cells, of whole groups


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
    for size, chosen in _alike(width):
        starts, totals = first[chosen], total[chosen]
        for begin in range(0, starts.size, _CHUNK):
            own = slice(begin, begin + _CHUNK)
            block = _Block(secret, ids(starts[own]), splits, size)
            _put(out, block.cells(totals[own]), starts[own])
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
                n,
                total[own],
                low_half(words),
                lambda which, tries, own=own: bits(own[which], tries),
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
        rounds = -(-(size - 1) // 8)
        self._halves = [
            half for r in range(rounds) for half in _halves(secret.words(ids, SPLIT, r))
        ]
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

        part = self._splits.split(n, total, self._halves[node], bits)
        self._fill(begin, left, part)
        self._fill(begin + left, n - left, total - part)


def independent(secret: Secret, ids: np.ndarray, splits: Splits) -> np.ndarray:
    """Noise (n,) of cells in no group."""
    low, high = _halves(secret.words(ids, LOOSE)[:1])
    return splits.single().draw(0, low, lambda which: high[which])


def imaged(secret: Secret, ids: Named, sizes: np.ndarray, splits: Splits) -> np.ndarray:
    """Noise (n,) less its share of each group's residual, the rest by lot.

    U − ⌊s/n⌋ of a group with sum s, and one less in s mod n of its cells, every choice of them
    equally likely: those that draw the lowest lots. Where two at the edge draw the same, the group
    draws again, from more.

    Args: as `conditioned`.
    """
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]), dtype=np.int64)
    group = 0
    while group < sizes.size:
        begin = int(ends[group] - sizes[group])
        beyond = max(int(np.searchsorted(ends, begin + _AT_ONCE, side="right")), group + 1)
        own = sizes[group:beyond]
        here = slice(begin, begin + int(own.sum()))
        out[here] = _imaged(secret, lambda cells, b=begin: ids(cells + b), own, splits)
        group = beyond
    return out


def _imaged(secret: Secret, ids: Named, sizes: np.ndarray, splits: Splits) -> np.ndarray:
    starts = np.cumsum(sizes) - sizes
    u = splits.single().draw(
        0,
        _cell_halves(secret, ids, starts, sizes, CELL),
        lambda which: low_half(secret.words(ids(which), FINE)[0]),
    )
    step, left = np.divmod(np.add.reduceat(u, starts), sizes)
    lots = _cell_halves(secret, ids, starts, sizes, ORDER)
    for size, own in _alike(sizes):
        first, count = starts[own], left[own]
        cells = _rows(first, size)
        low, tied = _lowest(lots[cells].reshape(-1, size), count)
        if tied.size:
            names = first[tied][:, None] + np.arange(size)
            words = secret.words(ids(names.reshape(-1)), AGAIN)[0]
            low[tied] = _lowest(words.reshape(-1, size), count[tied])[0]
        extra = step[own][:, None] + low
        u[cells] -= extra.reshape(-1) if isinstance(cells, slice) else extra
    return u


def _alike(sizes: np.ndarray) -> Iterator[tuple[int, np.ndarray | slice]]:
    """Each size with those that have it; often there is only one."""
    if sizes.size and sizes.min() == sizes.max():
        yield int(sizes[0]), slice(None)
        return
    for size in np.unique(sizes).tolist():
        yield size, np.flatnonzero(sizes == size)


def _rows(first: np.ndarray, size: int) -> slice | np.ndarray:
    """The places of rows of cells that begin at `first`; a slice is far quicker, where it does."""
    if first[-1] - first[0] == size * (first.size - 1):
        return slice(int(first[0]), int(first[0]) + size * first.size)
    return first[:, None] + np.arange(size)


def _lowest(lots: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whose lots (m, size) are among the `count` (m,) lowest, and the rows with a tie there."""
    ordered = np.sort(lots, axis=1)
    rows = np.arange(count.size)
    edge = ordered[rows, count]
    tied = (edge == ordered[rows, count - 1]) & (count > 0)
    return lots < edge[:, None], np.flatnonzero(tied)


def _halves(words: np.ndarray) -> list[np.ndarray]:
    """Both halves (m,) of words (k, m), one after the other."""
    return [low_half(part) for word in words for part in (word, word >> np.uint64(32))]


def _cell_halves(
    secret: Secret, ids: Named, starts: np.ndarray, sizes: np.ndarray, purpose: int
) -> np.ndarray:
    """32 bits for each cell (n,): eight of them belong to the first of eight cells of a group."""
    n, parts = int(sizes.sum()), -(-sizes // _EIGHT)
    if np.all(sizes == _EIGHT * parts):
        return _in_order(secret.words(ids(np.arange(0, n, _EIGHT)), purpose))
    lead = np.cumsum(parts) - parts
    firsts = np.repeat(starts - _EIGHT * lead, parts) + _EIGHT * np.arange(int(parts.sum()))
    halves = _in_order(secret.words(ids(firsts), purpose))
    return halves[np.repeat(_EIGHT * lead - starts, sizes) + np.arange(n)]


def _in_order(words: np.ndarray) -> np.ndarray:
    """The halves (8 m,) of words (4, m), those of each counter together, the lower one first."""
    return words.T.astype("<u8", order="C").view("<u4").reshape(-1)
