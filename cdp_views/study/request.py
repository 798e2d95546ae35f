"""What a comparison is asked for, checked before any work is done; no message shows a count."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdp_views._checks import positive
from cdp_views._counts import tells_counts
from cdp_views.invariants import Invariant
from cdp_views.neighbours import Neighbours

EQUAL = "equal"


def check_kinds(inv: Any, neighbours: Any) -> None:
    """Raise unless both are what the library makes."""
    if not isinstance(inv, Invariant):
        raise TypeError(f"`inv` must come from cdp.totals or cdp.linear; got {type(inv).__name__}.")
    if neighbours is not None and not isinstance(neighbours, Neighbours):
        raise TypeError(
            "`neighbours` must come from cdp.relocations or cdp.differences, or be None; got "
            f"{type(neighbours).__name__}."
        )


def check_budget(epsilon: float, delta: float, tables: int, *, pure: bool = False) -> None:
    """Raise unless ε > 0, 0 < δ < 1 (or 0 with `pure` noise alone), and a table shares them."""
    positive("epsilon", epsilon)
    if not (0 < delta < 1 or (pure and delta == 0)):
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
        if tells_counts(pattern, counts):
            raise ValueError(
                f'`scales` "{name}" must not be taken from the counts: the scales of a release are '
                "published, and so would the counts be. Use a published column, such as last "
                "year's totals."
            )
        if name == EQUAL:
            raise ValueError('`scales` must not be named "equal": equal scales come first anyway.')
        patterns[str(name)] = pattern / pattern.mean()
    return patterns
