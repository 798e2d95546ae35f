"""Errors known only through draws: the same figures, each with its standard error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from cdp_views.deviation._base import Deviation, Figures, check_level


@final
@dataclass(frozen=True)
class SampledDeviation(Deviation):
    """Monte Carlo estimates from independent draws of the errors.

    Args:
        draws: draws of the q errors, (d, q), in counts, d ≥ 2.

    Example:
        >>> SampledDeviation(np.array([[-1.0], [1.0], [3.0]])).bias
        array([1.])

    Reference: standard errors of moments by the delta method; of the margin, a sample quantile, by
    its binomial order statistics (David & Nagaraja 2003, §7.1).
    """

    draws: Figures
    kind: Literal["estimate"] = "estimate"

    def __post_init__(self) -> None:
        draws = np.asarray(self.draws, dtype=float)
        if draws.ndim != 2 or draws.shape[0] < 2:
            raise ValueError(
                f"`draws` must have shape (d, q) with d of at least 2; got {draws.shape}."
            )
        object.__setattr__(self, "draws", draws)

    @property
    def bias(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.draws.mean(axis=0)

    @property
    def sd(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.draws.std(axis=0, ddof=1)

    @property
    def mae(self) -> Figures:
        return np.abs(self.draws).mean(axis=0)

    @property
    def rmse(self) -> Figures:
        return np.sqrt(np.square(self.draws).mean(axis=0))

    def margin(self, level: float) -> Figures:
        check_level(level)
        return np.quantile(np.abs(self.draws), level, axis=0)

    @property
    def stderr(self) -> Mapping[str, Figures]:
        root = np.sqrt(self.draws.shape[0])
        squares = np.square(self.draws)
        centred = np.square(self.draws - self.bias)
        return {
            "bias": self.sd / root,
            "sd": ratio_or_zero(centred.std(axis=0, ddof=1), 2 * self.sd) / root,
            "mae": np.abs(self.draws).std(axis=0, ddof=1) / root,
            "rmse": ratio_or_zero(squares.std(axis=0, ddof=1), 2 * self.rmse) / root,
        }

    def margin_stderr(self, level: float) -> Figures:
        """Half the distance between the order statistics one binomial sd above and below."""
        check_level(level)
        spread = np.sqrt(level * (1 - level) / self.draws.shape[0])
        low, high = np.clip([level - spread, level + spread], 0.0, 1.0)
        lower, upper = np.quantile(np.abs(self.draws), [low, high], axis=0)
        return (upper - lower) / 2


def ratio_or_zero(top: Figures, bottom: Figures) -> Figures:
    """top / bottom, 0 where both vanish (an error that never varies)."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
