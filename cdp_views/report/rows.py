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
        >>> percent(0.534, float("nan")), percent(0.621, 0.003), percent(0.99996, float("nan"))
        ('53.40 %', '62.1 ± 0.3 %', '> 99.99 %')
    """
    if not np.isfinite(rate):
        return ""
    if not np.isfinite(stderr):
        return f"{'> 99.99' if 0.99995 <= rate < 1 else f'{100 * rate:.2f}'} %"
    return f"{100 * rate:.1f} ± {max(100 * stderr, 0.1):.1f} %"


def chance(probability: float) -> str:
    """A probability with three decimals, never as 0 or 1; "" for NaN.

    What was estimated from draws is never known to be 0 or 1, whatever the share of the draws.

    Example:
        >>> chance(0.5), chance(0.99993), chance(1.0), chance(0.0)
        ('0.500', '> 0.999', '> 0.999', '< 0.001')
    """
    if not np.isfinite(probability):
        return ""
    if probability > 0.999:
        return "> 0.999"
    return "< 0.001" if probability < 0.001 else f"{probability:.3f}"


def figure(value: float) -> str:
    """A number with four significant digits at least, thousands separated, never as a power.

    Example:
        >>> figure(5.65685), figure(12345.6), figure(0.012344)
        ('5.657', '12,346', '0.01234')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
