"""The root of a budget in the scale: monotone, bracketed, never on the wrong side."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

_EPS = np.finfo(float).eps
_NOISE = 1e-6  # a view may hold its scale in float32
_FLOAT32_STEP = 2.5e-7
_LARGEST_SCALE = 1e100
_MOST_EVALUATIONS = 200


def smallest(attempt: Callable[[float], tuple[float, bool]], *, close: float = 1e-13) -> float:
    """The smallest scale that `attempt` accepts; it also returns how many times too exposed.

    Loss is inversely proportional to scale for Normal and Laplace noise, so the second guess is
    right to rounding; otherwise secants in logarithms, kept inside a bracket that starts from
    scale 1 by itself. Only a scale that `attempt` has accepted is returned.

    Args:
      attempt: scale ↦ (how many times too exposed, whether the budget is kept).
      close: share of the budget, and of the scale, that may be left unused.

    Raises:
      ValueError: `attempt` accepts every scale or none, or is not monotone.
    """
    scale, low, high = 1.0, 0.0, np.inf
    tried: list[tuple[float, float]] = []
    for _ in range(_MOST_EVALUATIONS):
        ratio, kept = attempt(scale)
        if kept:
            high = min(high, scale)
            if ratio >= 1 - close:
                return high
        else:
            low = max(low, scale)
        if 0 < ratio < np.inf:
            tried.append((np.log(scale), np.log(ratio)))
        _check_monotone(tried, low, high, max(_NOISE, 10 * close))
        rest = 1.2 * _FLOAT32_STEP if _quantised(tried) else 4 * _EPS
        if high <= low * (1 + max(rest, 0.1 * close if close > 1e-12 else 0.0)):
            return high
        scale = _next(scale, tried, low, high, close)
        if not 1 / _LARGEST_SCALE < scale < _LARGEST_SCALE:
            break
    reached = "every scale tried keeps" if low == 0 else "no scale tried keeps"
    raise ValueError(
        f"The budget is too {'large' if low == 0 else 'small'}: {reached} it. Or else the noise of "
        "`view_of_scale` is not proportional to its argument: check it."
    )


def _check_monotone(
    tried: list[tuple[float, float]], low: float, high: float, noise: float
) -> None:
    rises = [
        r1 > r0 + noise if s1 > s0 else r0 > r1 + noise for (s0, r0), (s1, r1) in pairwise(tried)
    ]
    stuck = len(tried) > 2 and tried[-1][1] == tried[-2][1] == tried[-3][1]
    flat = stuck and abs(tried[-1][0] - tried[-3][0]) > 1
    if any(rises) or flat or low > high * (1 + noise):
        raise ValueError(
            "`view_of_scale` must give more privacy at a larger scale; got "
            f"{'no change' if flat else 'less'}. Check that the noise grows with the argument."
        )


def _quantised(tried: list[tuple[float, float]]) -> bool:
    """Whether two scales, nearly but not quite equal, gave the very same loss (float32)."""
    return any(0 < abs(s1 - s0) < 1e-6 and r0 == r1 for (s0, r0), (s1, r1) in pairwise(tried))


def _next(
    scale: float, tried: list[tuple[float, float]], low: float, high: float, close: float
) -> float:
    """A secant step in logarithms if it stays inside (low, high), else the middle of it."""
    if tried and tried[-1][0] == np.log(scale):
        slope = -1.0
        if len(tried) > 1:
            (s0, r0), (s1, r1) = tried[-2:]
            if abs(s1 - s0) > 64 * _EPS and (r1 - r0) / (s1 - s0) < -0.05:
                slope = (r1 - r0) / (s1 - s0)
        if _quantised(tried):
            guess = scale * (1 + _FLOAT32_STEP) if tried[-1][1] > 0 else scale / (1 + _FLOAT32_STEP)
            if low < guess < high:
                return guess
        # Aim to the safe side of the root, by half of what is close enough.
        guess = scale * np.exp(-(tried[-1][1] + 0.5 * close) / slope)
        if low < guess < high:
            return float(guess)
    if high == np.inf:
        return 8.0 * low
    if low == 0:
        return high / 8.0
    return float(np.sqrt(low * high)) if high > 4 * low else 0.5 * (low + high)
