"""What a comparison is asked for, checked before any work is done; no message shows a count."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdp_views._checks import positive

EQUAL = "equal"


def as_counts(counts: Any, n: int) -> np.ndarray:
    """The counts as float64 (n,), refused unless every one is a finite number of at least 0."""
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "`counts` must be numbers; got an entry that is not. Drop or correct those cells."
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
                f"{int(np.argmax(bad))}. Drop or correct those cells."
            )
    return array


def check_budget(epsilon: float, delta: float, tables: int) -> None:
    """Raise unless ε > 0, 0 < δ < 1 and at least one table shares the budget."""
    positive("epsilon", epsilon)
    if not 0 < delta < 1:
        raise ValueError(
            f"`delta` must be between 0 and 1; got {delta}. Choose one far below 1 / (number of "
            "records)."
        )
    if int(tables) != tables or tables < 1:
        raise ValueError(f"`tables` must be a whole number of at least 1; got {tables}.")


def scale_patterns(scales: Any, counts: np.ndarray) -> dict[str, np.ndarray]:
    """The patterns of relative scales by name, "equal" first, each of mean 1 over the cells.

    A pattern that is a function of the counts would publish them, so it is refused: equal or
    proportional to them, or on a straight line with them, their root, their square or, in
    logarithms, any power.
    """
    patterns = {EQUAL: np.ones_like(counts)}
    given = {} if scales is None else scales
    if not isinstance(given, Mapping):
        given = {"given": given}
    for name, values in given.items():
        try:
            pattern = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f'`scales` "{name}" must be numbers; got an entry that is not.'
            ) from None
        if pattern.shape != counts.shape:
            raise ValueError(
                f'`scales` "{name}" must have shape {counts.shape}, one for each cell; '
                f"got {pattern.shape}."
            )
        positive("scales", pattern, "A scale of 0 would publish that cell.")
        if _tells(pattern, counts):
            raise ValueError(
                f'`scales` "{name}" must not be taken from the counts: the scales of a release are '
                "published, and so would the counts be. Use a published column, such as last "
                "year's totals."
            )
        if name == EQUAL:
            raise ValueError('`scales` must not be named "equal": equal scales come first anyway.')
        patterns[str(name)] = pattern / pattern.mean()
    return patterns


def _tells(pattern: np.ndarray, counts: np.ndarray) -> bool:
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
