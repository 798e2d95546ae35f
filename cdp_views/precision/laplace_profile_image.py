"""The privacy profile of Laplace cells seen along a fibre: what is published of x is x + ℝu.

Two cells leave one coordinate, z = x₁u₂ − x₂u₁, the sum of two independent Laplace variables of
scales c = (|u₂|λ₁, |u₁|λ₂), moved by d = |v₁u₂ − v₂u₁|; with z = d/2 + y its loss

    L(y) = log f(y + d/2) − log f(y − d/2)

increases to sup = d/max c, as f is log-concave, and δ(ε) = ∫_{y*}^∞ f(y − …)(1 − e^{ε − L})dy.
"""

from collections.abc import Callable

import numpy as np

Profile = Callable[[np.ndarray], np.ndarray]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_DEAD = 42.0
_UP = 1 + 1e-11


def two_along_a_fibre(shift: float, scales: tuple[float, float]) -> Profile:
    """ε ≥ 0 ↦ δ(ε) of the sum of two Laplace variables moved by `shift`, to 1e-11 relative.

    Args:
      shift: d.
      scales: c₁ and c₂.

    Example:
      >>> two_along_a_fibre(2.0, (1.0, 1.0))(np.array([0.0, 0.5, 1.0, 1.5])).round(4).tolist()
      [0.4482, 0.299, 0.1341, 0.0123]
    """
    narrow, wide = sorted(scales)
    sup = shift / wide

    def one(epsilon: float) -> float:
        left = _where(epsilon, shift, narrow, wide)
        if left >= 0.5 * shift + 0.99 * _DEAD * wide:  # all of the law that lies there
            return _DEAD * float(np.exp(-0.99 * _DEAD))
        # panels that double from each corner of f and from the lower end
        corners = [left, *(x for x in (-0.5 * shift, 0.5 * shift) if x > left)]
        edges = _panels(corners, 2 * narrow, 4 * wide, corners[-1] + _DEAD * wide + shift)
        half = 0.5 * np.diff(edges)
        y = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
        here, there = (_log_density(y - s, narrow, wide) for s in (-0.5 * shift, 0.5 * shift))
        excess = np.exp(there) * -np.expm1(np.minimum(epsilon - (there - here), 0.0))
        return min(float(np.sum(half[:, None] * _WEIGHTS * excess)) * _UP, 1.0)

    def profile(epsilon: np.ndarray) -> np.ndarray:
        epsilon = np.asarray(epsilon, float)
        value = [one(e) if e < sup else 0.0 for e in epsilon.ravel().tolist()]
        return np.reshape(value, epsilon.shape)

    return profile


def _where(epsilon: float, shift: float, narrow: float, wide: float) -> float:
    """y* ≥ 0 with L(y*) = ε, by bisection; L is odd."""
    low, high = 0.0, 0.5 * shift + _DEAD * wide
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        ends = np.array([middle - 0.5 * shift, middle + 0.5 * shift])
        near, far = _log_density(ends, narrow, wide)
        low, high = (middle, high) if near - far < epsilon else (low, middle)
    return low


def _panels(corners: list[float], first: float, widest: float, end: float) -> np.ndarray:
    edges = [corners[0]]
    for left, right in zip(corners, [*corners[1:], end], strict=True):
        half, sizes = 0.5 * (right - left), [min(first, 0.5 * (right - left))]
        while sizes[-1] < half:
            sizes.append(min(2 * sizes[-1], sizes[-1] + widest, half))
        edges += [left + x for x in sizes] + [right - x for x in sizes[-2::-1]] + [right]
    return np.array(edges)


def _log_density(z: np.ndarray, narrow: float, wide: float) -> np.ndarray:
    """log of (c₂e^{−|z|/c₂} − c₁e^{−|z|/c₁})/(2(c₂² − c₁²)), c₁ ≤ c₂, nothing cancelling.

    With r = c₁/c₂, t = |z|/c₂ and h = (1 − r)/r: e^{−t}(1 − re^{−th})/(2c₂(1 − r)(1 + r)), and
    (1 − re^{−th})/(1 − r) = 1 + r(1 − e^{−th})/(1 − r).
    """
    t, r = np.abs(z) / wide, narrow / wide
    gap = (wide - narrow) / wide
    rise = np.where(gap > 0, -np.expm1(-t * gap / r) * (r / (gap or 1.0)), t)
    return -t + np.log1p(rise) - np.log(2 * wide * (1 + r))
