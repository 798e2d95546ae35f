"""Rows of a part that are 0 whatever the data: which they are, and what noise is then drawn for."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Drawn(NamedTuple):
    """What the noise of a part is drawn for: all its rows but those that can only be 0.

    Args:
        sizes: (groups,) how many such rows a group has; groups without one are left out.
        rows: where they are, group after group; None where these are all rows, one after another.
    """

    sizes: np.ndarray
    rows: np.ndarray | None


def mask_of(column: Any, name: str, source: Path) -> np.ndarray:
    """(n,) booleans from an Arrow column of booleans, or of 1 and 0, without missing entries."""
    values = column.to_numpy()
    yes = np.asarray(values == 1, dtype=bool)
    wrong = ~(yes | np.asarray(values == 0, dtype=bool))
    if wrong.any():
        raise ValueError(
            f'"{name}" must be true (or 1) where a row is 0 whatever the data, and false (or 0) '
            f"in all others; first else in data row {int(wrong.argmax()) + 1} of `{source}`."
        )
    return yes


def drawn(sizes: np.ndarray, order: np.ndarray | None, zeros: np.ndarray | None) -> Drawn:
    """Rows group after group, those left out that can only be 0.

    Args:
        sizes: (groups,) rows of each group.
        order: (n,) rows group after group, None where they stand so.
        zeros: (n,) which can only be 0; None for none.
    """
    if zeros is None or not zeros.any():
        return Drawn(sizes, order)
    free = ~zeros if order is None else ~zeros[order]
    left = np.add.reduceat(free.astype(np.int64), np.cumsum(sizes) - sizes)
    rows = np.flatnonzero(free) if order is None else order[free]
    return Drawn(left[left > 0], rows)


def first_filled(zeros: np.ndarray | None, counts: np.ndarray) -> tuple[int, int, int] | None:
    """(column, how many, first row) of counts (columns, n) other than 0 where there are none."""
    if zeros is None or not zeros.any():
        return None
    for column, own in enumerate(counts):
        wrong = np.flatnonzero(zeros & (own != 0))
        if wrong.size:
            return column, wrong.size, int(wrong[0])
    return None
