"""Errors of one symmetric law at different scales."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from cdp_views.deviation._base import Deviation, Figures, check_level


@final
@dataclass(frozen=True)
class ScaledDeviation(Deviation):
    """Errors E = scale · U with U symmetric around 0, known by its moments and quantiles.

    Args:
        scale: of each error, (q,), in counts; 0 for an error that is fixed.
        unit_sd: √Var U, which may be inf.
        unit_mae: E|U|, which may be inf.
        unit_margin: level ↦ the m with P(|U| ≤ m) = level. Each of the three is one number, or
            one for every error (q,).

    Example:
        >>> ScaledDeviation([2.0], 1.0, 0.5, lambda level: level).margin(0.90)  # U uniform
        array([1.8])
    """

    scale: Figures
    unit_sd: Any
    unit_mae: Any
    unit_margin: Callable[[float], Any]
    kind: Literal["exact"] = "exact"
    stderr: None = None

    def __post_init__(self) -> None:
        scale = np.asarray(self.scale, dtype=float)
        if not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise ValueError("`scale` must be finite and at least 0. Check the view.")
        object.__setattr__(self, "scale", scale)

    @property
    def bias(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.zeros_like(self.scale)

    @property
    def sd(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._times(self.unit_sd)

    @property
    def mae(self) -> Figures:
        return self._times(self.unit_mae)

    def margin(self, level: float) -> Figures:
        check_level(level)
        return self._times(self.unit_margin(level))

    def margin_stderr(self, level: float) -> None:
        return None

    def _times(self, unit: Any) -> Figures:
        """scale · unit, where a fixed error stays 0 though the law has no such moment."""
        fixed = self.scale == 0
        return np.where(fixed, 0.0, np.where(fixed, 1.0, self.scale) * np.asarray(unit, float))
