"""ε(δ) from δ(ε): the root of a decreasing function, on its safe side."""

from collections.abc import Callable

import numpy as np

_EPS = np.finfo(float).eps
_FARTHEST = 1e4
_MOST_STEPS = 400


def smallest_epsilon(
    profile: Callable[[np.ndarray], np.ndarray], delta: np.ndarray, sup: np.ndarray
) -> np.ndarray:
    """Smallest ε ≥ 0 with profile(ε) ≤ δ, to four roundings and never below: the shape of `delta`.

    Secants in log δ, of which every third is a bisection: ten or so evaluations where the profile
    is smooth, sixty at the very worst. The upper end of the bracket is returned.

    Args:
      profile: ε ↦ δ(ε) of the shape of `delta`, non-increasing, 0 from `sup` on.
      delta: (…, m) in [0, 1].
      sup: (…, m) where the profile is 0, or infinite.
    """
    low, high = np.zeros(delta.shape), np.where(np.isfinite(sup), sup, 1.0)
    at_low, at_high = profile(low), profile(high)
    while (over := (at_high > delta) & (high < _FARTHEST)).any():
        low, at_low = np.where(over, high, low), np.where(over, at_high, at_low)
        high = np.where(over, 2 * high, high)
        at_high = profile(high)
    none = at_high > delta
    high = np.where(at_low <= delta, low, high)  # ε = 0 will do
    for step in range(_MOST_STEPS):
        wide = high - low > 4 * _EPS * high
        wide &= ~none
        if not wide.any():
            break
        middle = 0.5 * (low + high)
        if step % 3 != 2:
            with np.errstate(divide="ignore", invalid="ignore"):
                fall = np.log(at_low) - np.log(at_high)
                guess = low + (high - low) * (np.log(at_low) - np.log(delta)) / fall
                # just beyond the root, so that the upper end moves too
                guess += np.where(step % 3 == 1, 1.0, 2.0) * _EPS * high
            middle = np.where((guess > low) & (guess < high), guess, middle)
        value = profile(np.where(wide, middle, high))
        above = value > delta
        low, at_low = (np.where(wide & above, a, b) for a, b in ((middle, low), (value, at_low)))
        high, at_high = (
            np.where(wide & ~above, a, b) for a, b in ((middle, high), (value, at_high))
        )
    return np.where(none, np.inf, high)
