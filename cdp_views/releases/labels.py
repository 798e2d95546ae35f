"""The columns that tell a reader which row is which cell; always text."""

import json
from collections.abc import Collection, Iterable, Mapping
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


def refuse_padded(groups: Collection[Any]) -> None:
    """Stop where the name of a group begins or ends with a blank: it is read as one without."""
    padded = [name for name in groups if isinstance(name, str) and name != name.strip()]
    if padded:
        raise ValueError(
            f"`invariant` has {len(padded)} of {len(groups)} groups whose name has a blank at an "
            f'end, first "{padded[0]}": another group than without it. Strip the labels.'
        )


def nearly_alike(groups: Iterable[Any]) -> list[str]:
    """One sentence on groups that are perhaps one, or none: it may be meant, so it is only told."""
    alike: dict[str, set[str]] = {}
    for group in map(str, groups):
        alike.setdefault(" ".join(group.casefold().split()), set()).add(group)
    pairs = sorted(sorted(labels) for labels in alike.values() if len(labels) > 1)
    if not pairs:
        return []
    one, other = pairs[0][:2]
    told = (
        f'The groups "{one}" and "{other}" differ only in case or spaces, and are kept exact apart '
        f"({len(pairs)} such). Write them alike if they are one group."
    )
    return [told]


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


def coords_of(labels: pd.DataFrame) -> dict[str, Any]:
    """Coordinates for labelled arrays: `cell`, and every label column along it.

    A cell is called by the first column that tells all cells apart, or by all of them, and by its
    row where they do not.

    Args:
        labels: (n, columns), of any type.
    """
    text = {str(name): _as_text(labels[name]) for name in labels}
    n = len(labels)
    unique = [own for own in text.values() if len(set(own)) == n]
    if unique:
        cell = unique[0]
    else:
        cell = [" / ".join(row) for row in zip(*text.values(), strict=True)] or [""] * n
        if len(set(cell)) < n:  # then by its row too
            cell = [f"{name} #{row}" for row, name in enumerate(cell, start=1)]
    others = {name: (("cell",), own) for name, own in text.items() if name != "cell"}
    return {"cell": cell} | others


def _as_text(column: pd.Series) -> list[str]:
    """Each label as text; equal ones are one object, as a large table repeats them."""
    codes, values = pd.factorize(column, use_na_sentinel=False)
    return np.asarray(values.astype(str), dtype=object)[codes].tolist()


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
