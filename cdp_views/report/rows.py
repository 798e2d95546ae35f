"""Rows of a table as plain records, in groups: the index of a row is that of its mechanism."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

Row = dict[str, Any]


def records(table: pd.DataFrame) -> list[Row]:
    """The rows in order; each knows its place as `row["index"]`.

    Args:
        table: one row a mechanism.

    Returns:
        One dictionary a row, by column name.

    Example:
        >>> import pandas as pd
        >>> records(pd.DataFrame({"view": ["imaged"]}))
        [{'view': 'imaged', 'index': 0}]
    """
    rows = table.to_dict("records")
    return [{**{str(k): v for k, v in row.items()}, "index": i} for i, row in enumerate(rows)]


def grouped(rows: Sequence[Row], *names: str) -> list[tuple[tuple[str, ...], list[Row]]]:
    """Rows with the same values of `names` together, in order of first appearance.

    Args:
        rows: as `records` gives them.
        names: columns.

    Returns:
        Pairs of the values, as text, and the rows that have them.

    Example:
        >>> [key for key, _ in grouped([{"view": "a"}, {"view": "b"}, {"view": "a"}], "view")]
        [('a',), ('b',)]
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in names), []).append(row)
    return list(groups.items())


def percent(rate: float, stderr: float) -> str:
    """A chance in per cent, with its standard error where it has one; "" for NaN.

    Args:
        rate: between 0 and 1, or NaN.
        stderr: of the rate; NaN where it is exact.

    Returns:
        Text.

    Example:
        >>> percent(0.534, float("nan")), percent(0.621, 0.003)
        ('53.40 %', '62.1 ± 0.3 %')
    """
    if not np.isfinite(rate):
        return ""
    if not np.isfinite(stderr):
        return f"{100 * rate:.2f} %"
    return f"{100 * rate:.1f} ± {max(100 * stderr, 0.1):.1f} %"
