"""What tells a cell from all others, wherever it lies: the name that its noise is drawn by."""

import json
from hashlib import blake2b

import numpy as np


def cell_ids(labels: dict[str, list[str]]) -> np.ndarray:
    """128 bits for every cell, (2, n) uint64, from its labels alone.

    BLAKE2b of a row's labels. Rows with the same labels are told apart by their order, as equal
    ids would have equal noise.

    Args:
        labels: public columns of n labels each.

    Returns:
        (2, n), no two columns alike.

    Example:
        >>> here, there = cell_ids({"cell": ["a", "b"]}), cell_ids({"cell": ["b", "c", "a"]})
        >>> bool((here[:, 0] == there[:, 2]).all())  # "a", in another place
        True
    """
    seen: dict[bytes, int] = {}
    digests = []
    for row in zip(*labels.values(), strict=True):
        name = json.dumps(row).encode()
        again = seen[name] = seen.get(name, -1) + 1
        if again:
            name += b"#%d" % again
        digests.append(blake2b(name, digest_size=16).digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64).reshape(-1, 2).T


def group_ids(ids: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """(2, count): the ids of each group's cells, joined by XOR: whatever order they stand in."""
    if count == 0:
        return np.empty((2, 0), dtype=np.uint64)
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] < count]
    starts = np.searchsorted(groups[order], np.arange(count))
    return np.bitwise_xor.reduceat(ids[:, order], starts, axis=1)
