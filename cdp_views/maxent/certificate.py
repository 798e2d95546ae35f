"""Proofs that no law has the requested scales, each checkable by hand: Σ ν_i σ_i² ≤ 0."""

import numpy as np

from cdp_views.invariants import Totals


def of_total(c: np.ndarray, geometry: Totals, pivot: np.ndarray, failed: np.ndarray) -> np.ndarray:
    """ν of the first unbalanced group: ν_m = −b_m², ν_r = S b_r²/c_r with S = Σ_r c_r, c = |b|σ.

    By Cauchy–Schwarz (b_m x_m)² = (Σ b_r x_r)² ≤ S Σ b_r² x_r²/c_r, so Σ ν_i x_i² ≥ 0 on ker A,
    while Σ ν_i σ_i² = S² − c_m² ≤ 0. Scaled to |ν| = 1.
    """
    weights = np.abs(np.asarray(geometry._weights_like(np.float64)))
    cells = np.asarray(geometry.segments.labels) == int(np.argmax(failed))
    rest = cells & ~pivot
    nu = np.zeros_like(c)
    nu[rest] = c[rest].sum() * weights[rest] ** 2 / c[rest]
    nu[cells & pivot] = -(weights[cells & pivot] ** 2)
    return nu / np.linalg.norm(nu)


def of_cell(n: int, cell: int) -> np.ndarray:
    """ν of a cell that the totals determine: −x_i² ≥ 0 on ker A, where x_i = 0, but −σ_i² < 0."""
    nu = np.zeros(n)
    nu[cell] = -1.0
    return nu
