"""What every reference algorithm answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cdp_views import _checks

Status = Literal["converged", "iteration limit", "limit cycle", "stationary", "nearest correlation"]

type Progress = Callable[[int, dict[str, float]], None]
"""Called after every iteration with its number and the latest entry of each trace."""


@dataclass(frozen=True)
class ReferenceResult:
    """A matrix, and honestly how the algorithm ended.

    Attributes:
        correlation: R (n, n), the last iterate.
        status: "converged": the stopping rule holds for this R. "iteration limit": it does not
            yet. "limit cycle": the projections repeat themselves without meeting, the sets have
            no common point. "stationary": the minimum is reached, and R B ≠ 0 there. "nearest
            correlation": after a limit cycle, the paper's fallback; R is a correlation matrix, but
            R B ≠ 0.
        iterations: sweeps or steps done.
        residual: what the stopping rule compares with the tolerance; each algorithm says what.
        trace: one entry per iteration of each figure watched.
    """

    correlation: np.ndarray = field(repr=False)
    status: Status
    iterations: int
    residual: float
    trace: dict[str, np.ndarray] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the answer satisfies what was asked."""
        return self.status == "converged"

    def deviation(self, B: Any) -> float:
        """max |R B| over the lengths of B's columns: how far R is from keeping the invariants."""
        B = constraint(B)
        return float(np.max(np.abs(self.correlation @ B) / np.linalg.norm(B, axis=0)))


class Watch:
    """Collects traces and reports progress."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.columns: dict[str, list[float]] = {}
        self.count = 0

    def add(self, **figures: float) -> None:
        """One iteration done."""
        self.count += 1
        for name, value in figures.items():
            self.columns.setdefault(name, []).append(float(value))
        if self.progress is not None:
            self.progress(self.count, {name: float(value) for name, value in figures.items()})

    def end(self, R: np.ndarray, status: Status, residual: float) -> ReferenceResult:
        """The result, with all that was watched."""
        trace = {name: np.array(values) for name, values in self.columns.items()}
        return ReferenceResult(R, status, self.count, float(residual), trace)


def constraint(B: Any) -> np.ndarray:
    """B as (n, k) float64 without zero columns; a vector is one constraint."""
    array = np.asarray(B, dtype=float)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] < 2:
        raise ValueError(f"`B` must be (n, k) with n ≥ 2, or (n,); got shape {array.shape}.")
    _checks.finite("B", array, "Its columns are the invariants times the scales, D Aᵀ.")
    array = array[:, np.any(array != 0, axis=0)]
    if array.shape[1] == 0:
        raise ValueError("`B` must have a column that is not zero; got none.")
    return array


def square(name: str, value: Any, n: int | None = None) -> np.ndarray:
    """A symmetric (n, n) float64 matrix."""
    array = np.asarray(value, dtype=float)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or n not in (None, array.shape[0]):
        raise ValueError(f"`{name}` must be a square matrix ({n or 'n'}, …); got {array.shape}.")
    _checks.finite(name, array, "A correlation matrix has finite entries.")
    if not np.allclose(array, array.T, rtol=1e-10, atol=1e-10):
        raise ValueError(f"`{name}` must be symmetric. Take (M + M.T) / 2.")
    return (array + array.T) / 2
