"""Arguments that several relations take."""

from typing import Any

import numpy as np


def whole(name: str, value: object, remedy: str) -> int:
    """`value` as a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer; got {value!r}. {remedy}")
    return int(value)


def records_of(value: object) -> int:
    """How many records one person may bring, take away or move at once."""
    return whole("records", value, "Give the number of records that one person may move at once.")


def cells_of(n: Any) -> tuple[int, Any]:
    """The number of cells, and the invariant if it was given in its place."""
    n = totals_of(n)
    if hasattr(n, "blocks"):
        return int(n.n), n
    return whole("n", n, "Give the number of cells, or the view's own invariant."), None


def totals_of(inv: Any) -> Any:
    """The totals of an invariant with bounds, or the invariant: bounds hide no record's move."""
    return getattr(inv, "equalities", inv)
