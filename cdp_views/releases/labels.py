"""The columns that tell a reader which row is which cell; always text."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from cdp_views.invariants import Invariant, Totals
from cdp_views.releases.digest import RELEASED


def label_columns(names: Any, invariant: Invariant) -> dict[str, list[str]]:
    """Columns of n labels each.

    Args:
        names: `None`, one label per cell, or several columns by name (a mapping or data frame).
        invariant: whose groups are added as a column where no columns were named.
    """
    frame = nw.from_native(names, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        given: dict[str, Any] = {str(name): frame[name].to_list() for name in frame.columns}
    elif isinstance(names, Mapping):
        given = {str(name): values for name, values in names.items()}
    else:
        cell = [str(i) for i in range(invariant.n)] if names is None else names
        given = {"cell": cell} | _groups(invariant)
    if RELEASED in given:
        raise ValueError(f'`names` must not have a column "{RELEASED}": the release is called so.')
    return {name: _text(name, values, invariant.n) for name, values in given.items()}


def own_columns(names: Any, labels: dict[str, list[str]]) -> dict[str, list[str]]:
    """The columns that tell cells: not that of the groups, which each release chooses."""
    frame = nw.from_native(names, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame | Mapping):
        return labels
    return {"cell": labels["cell"]}


def digest_of_columns(labels: dict[str, list[str]]) -> dict[str, str]:
    """What tells this table from others: SHA-256 of every public label column."""
    return {
        name: sha256(json.dumps(values).encode()).hexdigest() for name, values in labels.items()
    }


def _groups(invariant: Invariant) -> dict[str, list[str]]:
    if not isinstance(invariant, Totals) or invariant.names is None:
        return {}
    called = [*map(str, invariant.names), ""]
    return {"group": [called[label] for label in np.asarray(invariant.segments.labels)]}


def _text(name: str, values: Any, n: int) -> list[str]:
    values = list(values)
    if len(values) != n:
        raise ValueError(
            f'`names` must have {n} labels in "{name}", one per cell; got {len(values)}.'
        )
    missing = np.asarray(pd.isna(pd.Series(values, dtype=object)))
    if missing.any():
        raise ValueError(
            f'`names` has no label in "{name}" for {int(missing.sum())} cells, first at index '
            f"{int(np.argmax(missing))}. Fill them in."
        )
    return [str(value) for value in values]
