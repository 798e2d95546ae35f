"""True counts as they come in, and whether a pattern tells them; no message shows a count."""

from typing import Any

import numpy as np


def as_counts(counts: Any, n: int) -> np.ndarray:
    """The counts as float64 (n,), refused unless every one is a finite number of at least 0."""
    try:
        array = np.array(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "`counts` must be numbers; got an entry that is not. Correct those cells."
        ) from None
    if array.size == 0:
        raise ValueError("`counts` must hold at least one cell; got none. Give a table with rows.")
    if array.shape != (n,):
        raise ValueError(
            f"`counts` must have shape ({n},), one for each cell of the invariants; "
            f"got {array.shape}. Flatten the table."
        )
    for bad, what in ((~np.isfinite(array), "finite"), (array < 0, "at least 0")):
        if bad.any():
            raise ValueError(
                f"`counts` must be {what}; got {int(bad.sum())} that are not, first at index "
                f"{int(np.argmax(bad))}. Correct those cells."
            )
    return array


def tells_counts(pattern: np.ndarray, counts: np.ndarray) -> bool:
    """Whether the pattern is a straight-line image of the counts or of a power of them."""
    if np.ptp(pattern) == 0:
        return False
    some = counts > 0
    ratio = pattern[some] / counts[some]
    if some.sum() > 1 and np.ptp(counts[some]) > 0 and np.ptp(ratio) <= 1e-9 * ratio.max():
        return True
    pairs = [(pattern, f(counts)) for f in (np.sqrt, np.asarray, np.square, np.log1p)]
    pairs.append((np.log(pattern[some]), np.log(counts[some])))
    return any(_on_a_line(a, b) for a, b in pairs)


def _on_a_line(a: np.ndarray, b: np.ndarray) -> bool:
    # Two different values always lie on a line, and say nothing.
    if np.unique(b).size < 3 or np.ptp(a) == 0:
        return False
    return abs(np.corrcoef(a, b)[0, 1]) > 1 - 1e-9
