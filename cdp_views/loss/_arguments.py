"""Checks of ε, δ and μ that need no JAX: this room is pure NumPy."""

from typing import Any

import numpy as np


def nonnegative(name: str, value: Any) -> np.ndarray:
    """`value` as float64, raising unless every entry is zero or more (infinity is allowed)."""
    array = _numbers(name, value)
    bad = ~(array >= 0)
    if bad.any():
        raise ValueError(
            f"`{name}` must be zero or more; got {array[bad].flat[0]:g}. "
            "Give a number from 0 upwards."
        )
    return array


def probability(name: str, value: Any) -> np.ndarray:
    """`value` as float64, raising unless every entry lies between 0 and 1."""
    array = _numbers(name, value)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise ValueError(
            f"`{name}` must lie between 0 and 1; got {array[bad].flat[0]:g}. It is a probability"
            f"{', usually far below 1 over the number of records' if name == 'delta' else ''}."
        )
    return array


def one(name: str, value: Any) -> Any:
    """`value`, raising where it is several numbers: of several only the largest would be seen."""
    if np.ndim(value):
        raise ValueError(
            f"`{name}` must be one number; got {np.size(value)} of them. Ask for each in turn: "
            f"[loss.{'epsilon' if name == 'delta' else 'delta'}(x) for x in values]."
        )
    return value


def finite_epsilon(value: Any) -> float:
    """`value` as one finite ε ≥ 0."""
    array = nonnegative("epsilon", value)
    if array.ndim or not np.isfinite(array):
        raise ValueError(f"`epsilon` must be one finite number; got {value!r}.")
    return float(array)


def confidence(level: float) -> float:
    """`level`, raising unless it lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1; got {level}. 0.99 is usual.")
    return level


def order(alpha: Any) -> float:
    """`alpha` as one order α ≥ 1 of a Rényi divergence (infinity is allowed)."""
    array = _numbers("alpha", alpha)
    if array.ndim or not array >= 1:
        raise ValueError(
            f"`alpha` must be one number from 1 upwards; got {alpha!r}. 1 gives KL, infinity sup."
        )
    return float(array)


def _numbers(name: str, value: Any) -> np.ndarray:
    if value is None:  # NumPy would make it NaN
        raise ValueError(f"`{name}` must be a number; got None. Give a float.")
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be a number; got {value!r}. Give a float.") from None
