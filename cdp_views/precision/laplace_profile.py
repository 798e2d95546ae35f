"""The privacy profile of independent Laplace cells, δ(ε) = E[max(0, 1 − e^{ε − L})].

A cell of scale λ that moves by v has a = |v|/λ; its loss is a and −a with probabilities ½ and
½e^{−a}, and has density ¼e^{−(a − l)/2} in between. Losses of several cells add:

    one cell    δ(ε) = 1 − e^{−x},                   x = (a − ε)/2,
    two cells   δ(ε) = 1 − e^{−x}(1 + min(x, a)/2),  x = (a + b − ε)/2,  a ≤ b,

both for 0 ≤ ε < a + b; more of them by `convolved`, rounded up.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cdp_views.precision.laplace_profile_sum import convolved

Profile = Callable[[np.ndarray], np.ndarray]

_EPS = np.finfo(float).eps


def independent_cells(shifts: Any) -> Profile:
    """ε ≥ 0 ↦ δ(ε) of independent Laplace cells that move by `shifts` of their scales.

    To rounding, and rounded up, for one and two cells; an upper bound for more.

    Args:
      shifts: (k,) numbers |v_i|/λ_i, zeros allowed.

    Example:
      >>> independent_cells([1.0, 1.0])(np.array([0.0, 1.5])).round(6).tolist()
      [0.448181, 0.123849]
    """
    moved = np.sort([a for a in np.abs(np.asarray(shifts, float)).tolist() if a > 0])
    if moved.size <= 2:
        pair = np.concatenate([np.zeros(2 - moved.size), moved])
        return lambda epsilon: two_cells(epsilon, pair[0], pair[1])
    pairs = np.concatenate([np.zeros(moved.size % 2), moved]).reshape(-1, 2)
    parts = [(independent_cells(pair), float(pair.sum())) for pair in pairs]
    return convolved(parts)


def two_cells(
    epsilon: np.ndarray, smaller: float | np.ndarray, larger: float | np.ndarray
) -> np.ndarray:
    """δ(ε) of two cells with shifts a ≤ b (a = 0: one cell), rounded up: the broadcast shape.

    −expm1(−x) − ½ min(x, a) e^{−x} is at least half its first term, so nothing cancels.
    """
    total = smaller + larger
    # a little more than the gap: δ increases with it
    x = np.maximum(0.5 * (total - epsilon), 0.0) + 2 * _EPS * total
    delta = -np.expm1(-x) - 0.5 * np.minimum(x, smaller) * np.exp(-x)
    return np.where(epsilon < total, np.minimum(delta * (1 + 16 * _EPS), 1.0), 0.0)
