"""Normal errors: every figure in closed form or by one exact root."""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from scipy.special import erf, ndtr, ndtri

from cdp_views.deviation._base import Deviation, Figures, check_level, standardised


@final
@dataclass(frozen=True)
class NormalDeviation(Deviation):
    """Errors E ~ N(bias, sd²), so that |E| is folded normal.

    E|E| = sd √(2/π) exp(−β²/2) + |bias| erf(β/√2) with β = |bias|/sd.

    Args:
        bias: mean of each error, (q,), in counts.
        sd: standard deviation of each error, (q,), in counts; 0 for an error that is fixed.

    Raises:
        ValueError: figures that are not finite, an sd below 0, or a level outside (0, 1).

    Example:
        >>> NormalDeviation(bias=[0.0], sd=[2.0]).margin(0.90).round(4)  # 2 × 1.6449
        array([3.2897])

    Reference: Leone, Nelson & Nottingham (1961), "The folded normal distribution".
    """

    bias: Figures
    sd: Figures
    kind: Literal["exact"] = "exact"
    stderr: None = None

    def __post_init__(self) -> None:
        bias, sd = np.broadcast_arrays(
            np.asarray(self.bias, dtype=float), np.asarray(self.sd, dtype=float)
        )
        if not (np.isfinite(bias).all() and np.isfinite(sd).all() and (sd >= 0).all()):
            raise ValueError("`bias` and `sd` must be finite and `sd` at least 0. Check the view.")
        object.__setattr__(self, "bias", bias)
        object.__setattr__(self, "sd", sd)

    @property
    def mae(self) -> Figures:
        beta = self._standardised_bias()
        return self.sd * np.sqrt(2 / np.pi) * np.exp(-(beta**2) / 2) + np.abs(self.bias) * erf(
            beta / np.sqrt(2)
        )

    def margin(self, level: float) -> Figures:
        check_level(level)
        beta = self._standardised_bias()
        fixed = np.isinf(beta)
        half = _half_width(np.where(fixed, 0.0, beta), level)
        return np.where((self.sd == 0) | fixed, np.abs(self.bias), self.sd * half)

    def chance_below(self, error: Figures) -> Figures:
        return ndtr(standardised(error - self.bias, self.sd))

    def margin_stderr(self, level: float) -> None:
        return None

    def _standardised_bias(self) -> Figures:
        """β = |bias|/sd; 0 for a fixed error without bias, inf for one with."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            beta = np.abs(self.bias) / self.sd
        return np.where(self.bias == 0, 0.0, beta)


def _half_width(beta: Figures, level: float) -> Figures:
    """The h with Φ(h − β) − Φ(−h − β) = level.

    The left side grows with h and falls with β, which brackets the root: dropping the second term
    or the bias gives the lower end, shifting the unbiased interval by β the upper.
    """
    centred = ndtri((1 + level) / 2)
    low = np.maximum(centred, beta + ndtri(level))
    high = beta + centred
    h = high.copy()
    for _ in range(100):
        excess = ndtr(h - beta) - ndtr(-h - beta) - level
        low, high = np.where(excess < 0, h, low), np.where(excess < 0, high, h)
        slope = (np.exp(-((h - beta) ** 2) / 2) + np.exp(-((h + beta) ** 2) / 2)) / np.sqrt(
            2 * np.pi
        )
        step = h - excess / np.maximum(slope, 1e-300)
        new = np.where((step >= low) & (step <= high), step, (low + high) / 2)
        if np.all(np.abs(new - h) <= 4e-16 * np.maximum(h, 1.0)):
            return new
        h = new
    return h
