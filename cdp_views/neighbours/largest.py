"""Pairs of one label: the two of largest numbers in O(n), or every two."""

import numpy as np

from cdp_views._checks import UnsupportedError

_MOST_PAIRS = 1_000_000


def two_largest(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the two largest values of each label that occurs twice; ties in order."""
    twice = np.bincount(labels)[labels] > 1
    if not twice.all():
        inside = np.flatnonzero(twice)
        if not inside.size:
            return inside, inside
        first, second = two_largest(compact(labels[inside]), values[inside])
        return inside[first], inside[second]
    first = largest(labels, values)
    rest = np.ones(len(labels), dtype=bool)
    rest[first] = False
    return first, np.flatnonzero(rest)[largest(labels[rest], values[rest])]


def compact(labels: np.ndarray) -> np.ndarray:
    """Labels ≥ 0 renumbered 0, 1, … without gaps, order kept."""
    present = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    present[labels] = 1
    return (np.cumsum(present) - 1)[labels]


def largest(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Position of the first largest value of each label 0, 1, …, each of which occurs."""
    top = np.full(labels.max() + 1, -np.inf)
    np.maximum.at(top, labels, values)
    hits = np.flatnonzero(values == top[labels])
    first = np.full(len(top), len(values))
    np.minimum.at(first, labels[hits], hits)
    return first


def pairs_within(labels: np.ndarray, relation: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions of every two of one label; refused in the name of `relation` where too many."""
    order = np.argsort(labels, kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    if np.sum(counts.astype(float) ** 2) / 2 > _MOST_PAIRS:
        raise UnsupportedError(
            f"`{relation}` has too many cells that differ in one group to try every two. State "
            "the differences that matter with differences(V)."
        )
    starts = np.cumsum(counts) - counts
    found: list[np.ndarray] = [np.zeros((2, 0), dtype=np.int64)]
    for count in np.unique(counts[counts > 1]).tolist():  # all labels that occur so often at once
        pair = np.stack(np.triu_indices(count, 1))
        found.append((starts[counts == count][:, None] + pair[:, None, :]).reshape(2, -1))
    i, j = np.concatenate(found, axis=1)
    return order[i], order[j]
