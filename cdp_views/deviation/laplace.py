"""Laplace errors: every figure in closed form."""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from cdp_views.deviation._base import Deviation, Figures, check_level, standardised


@final
@dataclass(frozen=True)
class LaplaceDeviation(Deviation):
    """Errors E = bias + Laplace(scale), density exp(−|e − bias|/scale)/(2 scale).

    sd = √2 scale and E|E| = |bias| + scale·exp(−β) with β = |bias|/scale.

    Args:
        bias: median and mean of each error, (q,), in counts.
        scale: λ of each error, (q,), in counts; 0 for an error that is fixed.

    Raises:
        ValueError: an entry is not finite, or a scale is negative.

    Example:
        >>> LaplaceDeviation(bias=[0.0], scale=[2.0]).margin(0.90).round(4)  # 2 log 10
        array([4.6052])

    Reference: Johnson, Kotz and Balakrishnan 1995, Continuous Univariate Distributions 2, ch. 24.
    """

    bias: Figures
    scale: Figures
    kind: Literal["exact"] = "exact"
    stderr: None = None

    def __post_init__(self) -> None:
        bias, scale = np.broadcast_arrays(
            np.asarray(self.bias, dtype=float), np.asarray(self.scale, dtype=float)
        )
        if not (np.isfinite(bias).all() and np.isfinite(scale).all() and (scale >= 0).all()):
            raise ValueError(
                "`bias` and `scale` must be finite and `scale` at least 0. Check the view."
            )
        object.__setattr__(self, "bias", bias)
        object.__setattr__(self, "scale", scale)

    @property
    def sd(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.sqrt(2) * self.scale

    @property
    def mae(self) -> Figures:
        return np.abs(self.bias) + self.scale * np.exp(-self._beta())

    def margin(self, level: float) -> Figures:
        """Half-width m: 1 − e^{−m/λ} cosh β = level if m ≥ |bias|, else e^{−β} sinh m/λ = level."""
        check_level(level)
        beta = self._beta()
        # Both as |bias| + λ·rest, so that a large bias neither overflows nor swallows the rest.
        wide = np.log1p(np.exp(-2 * beta)) - np.log(2) - np.log1p(-level)
        log_sinh = beta + np.log(level)
        tail = np.exp(-2 * np.maximum(log_sinh, 0.0))
        narrow = np.log(level) + np.log1p(np.sqrt(1 + tail))
        reaches = level >= -0.5 * np.expm1(-2 * beta)
        margin = np.abs(self.bias) + self.scale * np.where(reaches, wide, narrow)
        small = ~reaches & (log_sinh <= 0)
        return np.where(small, self.scale * np.arcsinh(np.exp(np.minimum(log_sinh, 0.0))), margin)

    def chance_below(self, error: Figures) -> Figures:
        z = standardised(error - self.bias, self.scale)
        half = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, half, 1 - half)

    def margin_stderr(self, level: float) -> None:
        return None

    def _beta(self) -> Figures:
        """β = |bias|/λ; 0 for a fixed error without bias, inf for one with."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            beta = np.abs(self.bias) / self.scale
        return np.where(self.bias == 0, 0.0, beta)
