"""Any column of labels (list, NumPy, pandas, polars, pyarrow) to integers and names."""

from collections.abc import Mapping, Set
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd


def factorize(name: str, labels: Any, *, allow_missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Integer labels (n,) in order of first appearance, −1 where missing, and their names."""
    column = nw.from_native(labels, series_only=True, pass_through=True)
    if isinstance(labels, Mapping | Set) or hasattr(labels, "columns"):
        raise ValueError(
            f"`{name}` must be one column of labels; got a {type(labels).__name__}. Pass the "
            'column itself, such as table["state"].'
        )
    if isinstance(column, nw.Series):
        values = _column(column)
    else:
        values = labels if isinstance(labels, pd.Categorical) else _array(labels)
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(
            f"`{name}` must be one label per cell, shape (n,); got shape {np.shape(values)}. "
            "Join several columns into one label."
        )
    if len(values) == 0:
        raise ValueError(f"`{name}` must name at least one cell; got an empty column.")
    try:
        codes, names = pd.factorize(values)
    except TypeError:
        raise ValueError(
            f"`{name}` must hold one plain label per cell (text, numbers, dates); got lists or "
            "other containers. Join them into one label."
        ) from None
    missing = int(np.count_nonzero(codes < 0))
    if missing and not allow_missing:
        raise ValueError(
            f"`{name}` must label every cell; got {missing} missing of {len(codes)}, first at "
            f'index {int(np.argmin(codes))}. Fill them, or pass missing="free" to leave those '
            "cells unconstrained."
        )
    return codes.astype(np.int64), np.asarray(names)


def _column(column: nw.Series) -> Any:
    """A pandas column as it is; others as NumPy, keeping whole numbers whole beside nulls."""
    if nw.get_native_namespace(column) is pd:
        return column.to_native()
    if column.null_count():
        return _objects(column.to_list())
    return column.to_numpy()


def _array(labels: Any) -> np.ndarray:
    # lists stay objects: NumPy would turn ["a", nan] into text and [1, None] into floats
    return labels if isinstance(labels, np.ndarray) else _objects(labels)


def _objects(labels: Any) -> np.ndarray:
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        return np.asarray(labels)
    values = np.empty(len(labels), dtype=object)
    values[:] = list(labels)
    return values
