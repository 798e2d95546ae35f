"""The profile of a sum of independent losses, from above.

Between the points of a grid each profile is replaced by the chord in e^ε, which lies above it as a
profile is convex in e^ε. That chord is the profile of a loss which takes values of the grid only,
so sums of such losses are convolutions of positive masses. For losses with the same profile both
ways the mass at −l is e^{−l} times that at l. Doubling the grid makes the excess four times less.

Two convolutions of losses are kept, for two uses. This one is for the parts of *one* release: few
(a handful of groups), always at hand, as the profile of a view must not need an extra, and direct,
so that every mass is a sum of positive products and the smallest δ keeps its relative precision.
`loss.composed` is for *several* releases: up to thousands, of laws that may be endless or not the
same both ways, by dp-accounting's Fourier transforms (extra `accounting`), whose rounding is added
to δ. Work here grows with the square of the points and their number with the parts, there with the
absolute error 2e-14·√parts. Whole-number noise needs neither: `whole_losses` lists its losses.

Reference: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots", Theorem 10.
"""

from collections.abc import Callable, Sequence

import numpy as np

Profile = Callable[[np.ndarray], np.ndarray]

_STEP = 1e-3
_POINTS = 2_048
_FEWEST, _MOST = 2_000, 8_000
# second differences of a profile that is right to 1e-15 are right to about this
_UP = 1 + 1e-9


def convolved(parts: Sequence[tuple[Profile, float]]) -> Profile:
    """ε ≥ 0 ↦ an upper bound of δ(ε) of the sum of independent losses.

    Args:
      parts: the profile of each loss, the same both ways, and its finite supremum.

    Example:
      >>> from cdp_views.precision.laplace_profile import two_cells
      >>> one = lambda epsilon: two_cells(epsilon, 0.0, 1.0)
      >>> both = convolved([(one, 1.0), (one, 1.0)])(np.array([0.0, 1.5]))
      >>> (both - two_cells(np.array([0.0, 1.5]), 1.0, 1.0)).round(6).tolist()
      [0.0, 0.0]
    """
    total = sum(sup for _, sup in parts)
    step = total / np.clip(total / _STEP, _FEWEST, _MOST)
    mass = np.ones(1)
    for profile, sup in parts:
        mass = np.convolve(mass, _masses(profile, sup, step))
    return _of_masses(mass, step)


def tabulated(profile: Profile, sup: float) -> Profile:
    """ε (p,) ↦ an upper bound of a profile that is asked at 2,049 points only: its chords in e^ε.

    Example:
      >>> from cdp_views.precision.laplace_profile import two_cells
      >>> one = lambda epsilon: two_cells(epsilon, 0.0, 1.0)
      >>> (tabulated(one, 1.0)(np.array([0.3, 1.0])) - one(np.array([0.3, 1.0]))).round(6).tolist()
      [0.0, 0.0]
    """
    grid = np.linspace(0.0, sup, _POINTS + 1)
    delta = np.append(profile(grid[:-1]), 0.0)
    delta = np.maximum.accumulate(delta[::-1])[::-1]  # rounding may let it rise

    def chord(epsilon: np.ndarray) -> np.ndarray:
        i = np.minimum(np.searchsorted(grid, epsilon, side="right") - 1, _POINTS - 1)
        share = np.expm1(np.maximum(epsilon - grid[i], 0.0)) / np.expm1(grid[i + 1] - grid[i])
        value = delta[i] - share * (delta[i] - delta[i + 1])
        return np.where(epsilon < sup, value, 0.0)

    return chord


def _masses(profile: Profile, sup: float, step: float) -> np.ndarray:
    """Probabilities of −kh, …, 0, …, kh for a profile that is 0 from kh on."""
    k = int(np.ceil(sup / step))
    grid = step * np.arange(k + 2)
    delta = np.append(profile(grid[:k]), [0.0, 0.0])
    fall = delta[:-1] - delta[1:]
    above = fall[:-1] / -np.expm1(-step) - fall[1:] / np.expm1(step)
    above = np.maximum(above, 0.0)
    below = above * np.exp(-grid[1:-1])
    return np.concatenate([below[::-1], [max(1 - above.sum() - below.sum(), 0.0)], above])


def _of_masses(mass: np.ndarray, step: float) -> Profile:
    """δ between two points of the grid: the chord, from sums of positive terms."""
    k = mass.size // 2
    p = mass[k + 1 :]  # at h, …, kh
    # Σ_{j>i} p_j e^{−(j − i − 1)h} and δ(ih), from the right
    weight, delta = np.zeros(k + 1), np.zeros(k + 1)
    shrink, part = np.exp(-step), -np.expm1(-step)
    for i in range(k - 1, -1, -1):
        weight[i] = p[i] + shrink * weight[i + 1]
        delta[i] = delta[i + 1] + part * weight[i]

    def profile(epsilon: np.ndarray) -> np.ndarray:
        epsilon = np.asarray(epsilon, float)
        i = np.minimum(epsilon / step, k).astype(np.int64)
        right = np.minimum(i + 1, k)
        to_right = np.maximum(step * (i + 1) - epsilon, 0.0)
        value = (delta[right] - np.expm1(-to_right) * weight[i]) * _UP
        return np.where(i < k, np.minimum(value, 1.0), 0.0)

    return profile
