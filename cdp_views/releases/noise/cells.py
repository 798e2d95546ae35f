"""What tells a cell from all others, wherever it lies: the name that its noise is drawn by."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from cdp_views.releases.noise import threefry

_PIECE = 16  # bytes of a label that are taken in at once
_PUBLIC = b"cdp_views: identity of a cell   "  # no secret: ids only have to differ
_ROUNDS = 12  # of Threefry
_CHUNK = 2**16  # labels at a time


def cell_ids(labels: dict[str, list[str]]) -> np.ndarray:
    """128 bits for every cell, (2, n) uint64, from its labels alone.

    The columns' ids, joined one after the other. Rows with the same labels are told apart by their
    order, as equal ids would have equal noise.

    Args:
        labels: public columns of n labels each.

    Returns:
        (2, n), no two columns alike.

    Example:
        >>> here, there = cell_ids({"cell": ["a", "b"]}), cell_ids({"cell": ["b", "c", "a"]})
        >>> bool((here[:, 0] == there[:, 2]).all())  # "a", in another place
        True
    """
    rows = reduce(joined, [label_ids(column) for column in labels.values()])
    again = _repeated(rows)
    late = np.flatnonzero(again)
    rows[:, late] = joined(rows[:, late], np.stack([again[late], np.zeros_like(again[late])]))
    return rows


def label_ids(labels: Sequence[str]) -> np.ndarray:
    """128 bits for each label, (2, n) uint64: equal labels have equal ids, wherever they stand."""
    coded = [label.encode() for label in labels]
    lengths = np.fromiter(map(len, coded), dtype=np.int64, count=len(coded))
    return text_ids(np.frombuffer(b"".join(coded), dtype=np.uint8), lengths)


def text_ids(data: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The same of texts (n,) that lie one after the other in UTF-8.

    Pieces of 16 bytes are taken in by Threefry under a public key, of whose 256 bits 128 are kept.

    Args:
        data: (sum of lengths,) uint8.
        lengths: (n,) bytes of each.
    """
    alike = int(lengths[0]) if lengths.size and np.all(lengths == lengths[0]) else 0
    if 0 < alike <= _PIECE:  # such as the codes of an office
        return _of_one_length(data.reshape(lengths.size, alike))
    ends = np.cumsum(lengths)
    found = np.zeros((2, lengths.size), dtype=np.uint64)
    found[0] = lengths  # so that a text and the same one with zero bytes after it differ
    for piece in range(max(-(-int(lengths.max(initial=1)) // _PIECE), 1)):
        rows = np.flatnonzero(lengths > piece * _PIECE) if piece else np.arange(lengths.size)
        for start in range(0, rows.size, _CHUNK):
            own = rows[start : start + _CHUNK]
            places = (ends - lengths)[own][:, None] + np.arange(
                piece * _PIECE, (piece + 1) * _PIECE
            )
            inside = places < ends[own][:, None]
            letters = (
                np.where(inside, data[np.where(inside, places, 0)], 0) if data.size else inside
            )
            words = np.ascontiguousarray(letters.astype(np.uint8)).view("<u8").astype(np.uint64)
            found[:, own] = joined(found[:, own], words.T)
    return found


def _of_one_length(letters: np.ndarray) -> np.ndarray:
    """Of texts (n, length) of one piece each."""
    n, length = letters.shape
    found = np.empty((2, n), dtype=np.uint64)
    for start in range(0, n, threefry.CHUNK):
        own = slice(start, min(start + threefry.CHUNK, n))
        piece = np.zeros((own.stop - start, _PIECE), dtype=np.uint8)
        piece[:, :length] = letters[own]
        state = np.zeros((2, own.stop - start), dtype=np.uint64)
        state[0] = length
        found[:, own] = joined(state, piece.view("<u8").astype(np.uint64).T)
    return found


def joined(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(2, n): one id for each pair of ids (2, n); the order of the pair matters."""
    found = np.empty_like(left)
    for start in range(0, left.shape[1], threefry.CHUNK):
        own = slice(start, start + threefry.CHUNK)
        counters = np.concatenate([left[:, own], right[:, own]])
        found[:, own] = threefry.bits(_PUBLIC, counters, _ROUNDS)[:2]
    return found


def _repeated(ids: np.ndarray) -> np.ndarray:
    """How many earlier cells have the same id (n,)."""
    order = np.lexsort(ids)
    fresh = np.any(np.diff(ids[:, order], prepend=~ids[:, order[:1]]) != 0, axis=0)
    first = np.maximum.accumulate(np.where(fresh, np.arange(order.size), 0))
    again = np.empty(order.size, dtype=np.uint64)
    again[order] = np.arange(order.size) - first
    return again


def group_ids(ids: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """(2, count): the ids of each group's cells, joined by XOR: whatever order they stand in."""
    if count == 0:
        return np.empty((2, 0), dtype=np.uint64)
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] < count]
    starts = np.searchsorted(groups[order], np.arange(count))
    return np.bitwise_xor.reduceat(ids[:, order], starts, axis=1)
