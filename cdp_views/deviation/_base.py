"""What every law of an error answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Figures = NDArray[np.float64]


class Deviation(ABC):
    """The law of q errors E = W (Y - loc), asked one error at a time.

    `bias` = E[E], `sd` = √Var E, `mae` = E|E|, `rmse` = √E[E²] = √(bias² + sd²), each (q,) in the
    unit of the counts; `margin(level)` is the half-width m with P(|E| ≤ m) = level.
    """

    kind: Literal["exact", "bound", "estimate"]
    bias: Figures
    sd: Figures

    @property
    @abstractmethod
    def mae(self) -> Figures:
        """Mean absolute error, (q,)."""

    @property
    def rmse(self) -> Figures:
        """Root mean squared error, (q,)."""
        return np.hypot(self.bias, self.sd)

    @abstractmethod
    def margin(self, level: float) -> Figures:
        """Half-width m of the interval around 0 that holds the error with chance `level`, (q,)."""

    def chance_below(self, error: Figures) -> Figures | None:
        """P(E < e) of each error E, e (q,), in closed form; None where there is none."""
        return None

    @property
    @abstractmethod
    def stderr(self) -> Mapping[str, Figures] | None:
        """Standard errors of `bias`, `sd`, `mae` and `rmse` by name; None where exact."""

    @abstractmethod
    def margin_stderr(self, level: float) -> Figures | None:
        """Standard error of `margin(level)`, (q,); None where exact."""


def standardised(away: Figures, spread: Figures) -> Figures:
    """away / spread; of a fixed error, whose spread is 0, +∞ above it and −∞ elsewhere."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, away / spread, np.where(away > 0, np.inf, -np.inf))


def check_level(level: float) -> None:
    """Raise unless `level` is a chance strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must be between 0 and 1; got {level}. 90 % is 0.90.")
