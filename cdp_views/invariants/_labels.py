"""Any column of labels (list, NumPy, pandas, polars, pyarrow) to integers and names."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd


def factorize(name: str, labels: Any, *, allow_missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Integer labels (n,) in order of first appearance, −1 where missing, and their names."""
    column = nw.from_native(labels, series_only=True, pass_through=True)
    if isinstance(column, nw.Series):
        values = column.to_native() if nw.get_native_namespace(column) is pd else column.to_numpy()
    else:
        values = labels if isinstance(labels, pd.Categorical) else _array(labels)
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(
            f"`{name}` must be one label per cell, shape (n,); got shape {np.shape(values)}. "
            "Join several columns into one label."
        )
    if len(values) == 0:
        raise ValueError(f"`{name}` must name at least one cell; got an empty column.")
    codes, names = pd.factorize(values)
    missing = int(np.count_nonzero(codes < 0))
    if missing and not allow_missing:
        raise ValueError(
            f"`{name}` must label every cell; got {missing} missing of {len(codes)}, first at "
            f'index {int(np.argmin(codes))}. Fill them, or pass missing="free" to leave those '
            "cells unconstrained."
        )
    return codes.astype(np.int64), np.asarray(names)


def _array(labels: Any) -> np.ndarray:
    array = np.asarray(labels)
    # NumPy would turn [None, "a"] into objects but ["a", nan] into strings: keep objects as given
    if array.dtype.kind in "US" and not isinstance(labels, np.ndarray):
        array = np.asarray(labels, dtype=object)
    return array
