"""Rows of a table as plain records, in groups: the index of a row is that of its mechanism."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

Row = dict[str, Any]


def records(table: pd.DataFrame) -> list[Row]:
    """The rows in order; each knows its place as `row["index"]`."""
    rows = table.to_dict("records")
    return [{**{str(k): v for k, v in row.items()}, "index": i} for i, row in enumerate(rows)]


def grouped(rows: Sequence[Row], *names: str) -> list[tuple[tuple[str, ...], list[Row]]]:
    """Rows with the same values of `names` together, in order of first appearance."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in names), []).append(row)
    return list(groups.items())


def percent(rate: float, stderr: float) -> str:
    """A chance in per cent: "53.40 %", or with its standard error "62.1 ± 0.3 %"; "" for NaN."""
    if not np.isfinite(rate):
        return ""
    if not np.isfinite(stderr):
        return f"{100 * rate:.2f} %"
    return f"{100 * rate:.1f} ± {max(100 * stderr, 0.1):.1f} %"
