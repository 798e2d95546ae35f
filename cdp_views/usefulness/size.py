"""Errors relative to the true count, by size of the true count."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

SIZE_CLASSES = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")
_EDGES = np.array([0.0, 10.0, 100.0, 1_000.0, 10_000.0])


def size_class(truth: np.ndarray) -> np.ndarray:
    """Index into SIZE_CLASSES of each true answer (by absolute value; 0 is a class of its own)."""
    size = np.abs(np.asarray(truth, dtype=float))
    return np.where(size == 0, 0, np.searchsorted(_EDGES, size, side="right"))


def relative_by_size(
    truth: np.ndarray, errors: dict[str, np.ndarray], *, public: bool = False
) -> "xr.Dataset":
    """Median and mean of error / |true answer| in each size class.

    All of it depends on the true answers, so each variable carries `confidential = 1` unless
    `public`. A true answer of 0 has no relative error: its class has only a number of queries.

    Args:
        truth: true answers, (q,), in counts.
        errors: figures by name, each (q,), in counts.
        public: the true answers are public, so nothing is marked.

    Returns:
        A dataset over `size`: `queries`, and for each figure `relative_<name>_median` and `_mean`,
        ratios (1 is as large as the count); NaN where a class is empty.

    Example:
        >>> import numpy as np
        >>> from cdp_views.usefulness import relative_by_size
        >>> found = relative_by_size(np.array([5.0, 50.0]), {"mae": np.array([1.0, 1.0])})
        >>> found.relative_mae_median.sel(size=["1-9", "10-99"]).values.tolist()
        [0.2, 0.02]
    """
    classes = size_class(truth)
    data: dict[str, Any] = {"queries": ("size", np.bincount(classes, minlength=len(SIZE_CLASSES)))}
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = {name: value / np.abs(truth) for name, value in errors.items()}
    for name, ratio in ratios.items():
        for statistic in (np.median, np.mean):
            figures = np.full(len(SIZE_CLASSES), np.nan)
            for c in np.unique(classes[classes > 0]):
                figures[c] = statistic(ratio[classes == c])
            data[f"relative_{name}_{statistic.__name__}"] = ("size", figures)
    import xarray as xr  # here: releases do without it

    result = xr.Dataset(data, coords={"size": list(SIZE_CLASSES)})
    for variable in result.data_vars.values():
        mark(variable, public)
    return result


def mark(variable: Any, public: bool) -> None:
    """Write on the variable that it depends on the counts (an integer: netCDF has no booleans)."""
    variable.attrs["depends_on_counts"] = 1
    variable.attrs["confidential"] = 0 if public else 1
