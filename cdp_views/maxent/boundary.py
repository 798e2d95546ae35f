"""Exactly balanced scales: the solution has lower rank, and no density on ker A.

On the boundary there is ν₀ ≠ 0 with Kᵀ diag(ν₀) K ⪰ 0 and Σ ν₀ σ² = 0. Any law with these
variances has E Σ ν₀ X² = 0, so it lives where Kᵀ diag(ν₀) K vanishes. Newton's iterates follow
the central path, whose limit is the solution there: the eigenvalues of R that go to 0 are cut
off, and the rest R = YYᵀ is brought back to unit diagonal by Gauss–Newton steps on Y.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from cdp_views.invariants import Totals

_LARGEST = 2000  # cells: the reduction is dense
_CLOSE = 1e-5  # a search that ended further from unit variances was not stopped by the boundary
_APART = 1e4  # ratio of neighbouring eigenvalues of R across the cut


class Face(NamedTuple):
    """R = factor factorᵀ, the relative error of its diagonal, and ν₀σ² (a proof: its sum is 0)."""

    factor: np.ndarray
    residual: float
    direction: np.ndarray


def face_of(rows: np.ndarray, theta: np.ndarray) -> Face | None:
    """The solution for rows B = A D (k, n) in cells of unit scale; `None` if it is not found."""
    n = rows.shape[1]
    if n > _LARGEST:
        return None
    kernel = scipy.linalg.null_space(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(kernel.T @ (theta[:, None] * kernel))
    if values[0] <= 0:
        return None
    apart = values[1:] / values[:-1]
    cut = int(np.argmax(apart)) + 1 if apart.size else 0
    if cut == 0 or apart[cut - 1] < _APART:
        return None
    factor = kernel @ (vectors[:, :cut] / np.sqrt(values[:cut]))
    if np.abs(np.sum(factor**2, axis=1) - 1).max() > _CLOSE:
        return None
    projection = kernel @ kernel.T
    for _ in range(4):
        excess = np.sum(factor**2, axis=1) - 1
        metric = projection * (factor @ factor.T)
        pull = np.linalg.lstsq(metric, -excess / 2, rcond=1e-9)[0]
        factor = factor + projection @ (pull[:, None] * factor)
    residual = float(np.abs(np.sum(factor**2, axis=1) - 1).max())
    direction = _direction(factor, theta)
    if residual > 1e-9 or direction is None:
        return None
    return Face(factor, residual, direction)


def _direction(factor: np.ndarray, theta: np.ndarray) -> np.ndarray | None:
    """ν₀σ²: where θ goes, freed from what does not vanish on the range of R."""
    values, basis = np.linalg.eigh((factor @ factor.T) ** 2)
    null = basis[:, values < 1e-9]
    along = null @ (null.T @ (theta / np.linalg.norm(theta)))
    size = np.linalg.norm(along)
    return along / size if size > 0.5 else None


def balanced_factor(geometry: Totals, sigma: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """A column per exactly balanced group, in cells of unit scale: its cells move as one.

    x_i/σ_i = −sign(b_i b_m) x_m/σ_m for the largest |b|σ, cell m.
    """
    labels = np.asarray(geometry.segments.labels)
    b = np.asarray(geometry._weights_like(np.float64))
    factor = np.zeros((labels.size, groups.size))
    for column, group in enumerate(groups):
        cells = np.flatnonzero(labels == group)
        largest = cells[np.argmax(np.abs(b[cells]) * sigma[cells])]
        factor[cells, column] = -np.sign(b[cells] * b[largest])
        factor[largest, column] = 1.0
    return factor
