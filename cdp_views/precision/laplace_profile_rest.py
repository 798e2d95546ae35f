"""The density of a sum of independent Laplace variables, at any point and cheap to ask again.

With M(z) = Π (1 − c_i²z²)^{−m_i} the density at s > 0 is (1/2πi)∫ M(z) e^{−zs} dz. Many summands
make M fall fast along the imaginary axis, where the trapezoid rule is right to the density half a
period away; for few the contour z = κ(cosh w − 1 + i sinh w) bends towards the decay of e^{−zs}.
Nodes and M are the same for every s, so a table costs one matrix product. (Weideman and Trefethen
2007, Parabolic and hyperbolic contours for computing the Bromwich integral.)

The table is polynomial on panels [a, √2 a]: components that fall faster have died before a panel
in which they could not be resolved.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

Density = Callable[[np.ndarray], np.ndarray]

_DEGREE = 16
_DEAD = 42.0  # e^{−42} is below rounding
_FEW = 0.12  # from this share of one cell on, the contour
_FINEST = 1e-10
_AT_ONCE = 2**22


def density_of_sum(scales: np.ndarray, counts: np.ndarray, reach: float) -> Density:
    """s ↦ density at |s| ≤ reach of Σ of independent Laplace variables, to 1e-13 of its peak.

    Args:
      scales: (k,) distinct scales, positive.
      counts: (k,) how many variables have each.
      reach: largest |s| that will be asked for; beyond it the answer is 0.

    Example:
      >>> two = density_of_sum(np.ones(1), np.array([2]), 30.0)  # (1 + |s|)e^{−|s|}/4
      >>> two(np.array([0.0, -1.0, 3.0])).round(6).tolist()
      [0.25, 0.18394, 0.049787]
    """
    if counts.sum() == 1:
        return lambda s: np.exp(-np.abs(s) / scales[0]) / (2 * scales[0])
    reach = min(reach, farthest(scales, counts))
    low = max(0.5 * scales.min(), _FINEST * reach)
    edges = reach * 2.0 ** (-0.5 * np.arange(max(np.ceil(2 * np.log2(reach / low)), 0), -1, -1))
    edges = np.concatenate([[0.0], edges])
    nodes = chebyshev.chebpts1(_DEGREE)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    s = middle[:, None] + half[:, None] * nodes
    value = _density(scales, counts, s.ravel(), reach).reshape(s.shape)
    # interpolation at the zeros of T_16
    basis = chebyshev.chebvander(nodes, _DEGREE - 1) * (2 / _DEGREE)
    basis[:, 0] /= 2
    table = value @ basis

    def density(s: np.ndarray) -> np.ndarray:
        s = np.abs(np.asarray(s, float))
        panel = np.clip(np.searchsorted(edges, s, side="right") - 1, 0, middle.size - 1)
        x = (s - middle[panel]) / half[panel]
        angle = np.arccos(np.clip(x, -1, 1))
        terms = np.cos(angle[..., None] * np.arange(_DEGREE)) * table[panel]
        return np.where(s <= reach, np.maximum(terms.sum(-1), 0.0), 0.0)

    return density


def densities_of_sum(scales: np.ndarray, counts: np.ndarray, s: np.ndarray) -> np.ndarray:
    """As `density_of_sum`, at s > 0 (p,) once."""
    if counts.sum() == 1:
        return np.exp(-s / scales[0]) / (2 * scales[0])
    return _density(scales, counts, s, float(s.max()))


def farthest(scales: np.ndarray, counts: np.ndarray) -> float:
    """s beyond which less than e^{−42} lies, by Chernoff's bound."""
    theta = (1 - 2.0 ** -np.arange(0.25, 12, 0.25)) / scales.max()
    size = -counts @ np.log1p(-np.square(scales[:, None] * theta))
    return float(np.min((size + _DEAD) / theta))


def _density(scales: np.ndarray, counts: np.ndarray, s: np.ndarray, reach: float) -> np.ndarray:
    norm2 = float(counts @ scales**2)
    share = scales.max() ** 2 / norm2
    if share < _FEW:
        # Π(1 + c²t²)⁻¹ ≤ (1 + h t²|c|²)^{−1/h}
        last = np.sqrt(np.expm1(_DEAD * share) / (share * norm2))
        period = reach + farthest(scales, counts)
        step = 2 * np.pi / period
        t = step * np.arange(np.ceil(last / step) + 1)
        weight = np.exp(np.real(_log_mgf(scales, counts, 1j * t))) * (step / np.pi)
        weight[0] /= 2
        return _apply(s, t, lambda s, t: np.cos(s * t), weight)
    kappa = 1 / np.sqrt(norm2)
    step = 0.08 * np.sqrt(share)
    near = s.min()
    # either e^{−zs} is dead at the nearest point, or M is
    w = step * np.arange(np.ceil(np.log(2 * _DEAD / (kappa * near) + 4) / step) + 1)
    z = kappa * (np.cosh(w) - 1 + 1j * np.sinh(w))
    turn = kappa * (np.cosh(w) - 1j * np.sinh(w))
    log_weight = _log_mgf(scales, counts, z) + np.log(turn)
    kept = log_weight.real > log_weight.real.max() - _DEAD
    z, weight = z[kept], np.exp(log_weight[kept]) * (step / np.pi)
    if kept[0]:
        weight[0] /= 2
    return _apply(s, z, lambda s, z: np.exp(-s * z), weight)


def _apply(
    s: np.ndarray,
    z: np.ndarray,
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
    weight: np.ndarray,
) -> np.ndarray:
    rows = max(_AT_ONCE // z.size, 1)
    parts = [kernel(s[i : i + rows, None], z) @ weight for i in range(0, s.size, rows)]
    return np.real(np.concatenate(parts))


def _log_mgf(scales: np.ndarray, counts: np.ndarray, z: np.ndarray) -> np.ndarray:
    """log Π (1 − c²z²)^{−m}, the branches adding up as the arguments do."""
    rows = max(_AT_ONCE // z.size, 1)
    total = np.zeros(z.size, complex)
    for i in range(0, scales.size, rows):
        x = scales[i : i + rows, None] * z
        total -= counts[i : i + rows] @ (np.log(1 - x) + np.log(1 + x))
    return total
