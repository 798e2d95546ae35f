"""Which quantities do not vary from draw to draw, up to rounding."""

from typing import Any

import numpy as np


def constant(draws: Any, axes: tuple[int, ...]) -> np.ndarray:
    """Whether max − min ≤ 8 eps max|x| over `axes`, eps that of the draws' own precision.

    A total that is exact varies by rounding only, and R-hat of rounding says nothing. A NaN is
    not constant: it is for the diagnosis to report.
    """
    draws = np.asarray(draws)
    eps = np.finfo(draws.dtype).eps if np.issubdtype(draws.dtype, np.floating) else 0.0
    low, high = draws.min(axis=axes), draws.max(axis=axes)
    size = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    return high.astype(np.float64) - low <= 8 * eps * size
