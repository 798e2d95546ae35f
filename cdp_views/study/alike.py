"""Which mechanisms are one and the same, seen in their numbers, whatever they are called."""

from collections.abc import Sequence

import numpy as np

from cdp_views.report import Row

_SAME = 1e-9


def fingerprint_probes(n: int) -> np.ndarray:
    """Two fixed vectors, (2, n): normal laws with equal products Σ x on both are equal.

    They could only differ on a set of covariances of measure zero.
    """
    return np.random.default_rng(0).standard_normal((2, n))


def alike(rows: Sequence[Row], fingerprints: Sequence[np.ndarray]) -> list[list[Row]]:
    """The rows in classes of equal law and equal privacy, in order.

    Args:
        rows: with `mu` and `index`, their place in `fingerprints`.
        fingerprints: (2, n) for each; NaN where nothing determines the law: equal to nothing.
    """
    classes: list[list[Row]] = []
    for row in rows:
        for members in classes:
            first = members[0]
            same_law = _close(fingerprints[row["index"]], fingerprints[first["index"]])
            if same_law and _close(row["mu"], first["mu"]):
                members.append(row)
                break
        else:
            classes.append([row])
    return classes


def factors(a: np.ndarray, b: np.ndarray, blocks: np.ndarray) -> float | None:
    """Largest |s − 1| if noise a is s times noise b within each block, s its own; else None."""
    inside = blocks >= 0
    order = np.argsort(blocks[inside], kind="stable")
    a, b = (x[:, inside][:, order] for x in (a, b))
    starts = np.flatnonzero(np.diff(blocks[inside][order], prepend=-1))
    sizes = np.diff(np.append(starts, order.size))
    power = np.add.reduceat((b * b).sum(axis=0), starts)
    ratio = np.add.reduceat((a * b).sum(axis=0), starts) / power
    if not np.isfinite(ratio).all() or (ratio <= 0).any():
        return None
    rest = np.abs(a - np.repeat(ratio, sizes) * b).max()
    if not rest <= _SAME * np.abs(b).max():
        return None
    return float(np.abs(np.sqrt(ratio) - 1).max())


def _close(a: np.ndarray | float, b: np.ndarray | float) -> bool:
    # NaN compares as False, so that what has no fingerprint is like nothing else.
    return bool(np.max(np.abs(np.subtract(a, b))) <= _SAME * np.max(np.abs(b)))
