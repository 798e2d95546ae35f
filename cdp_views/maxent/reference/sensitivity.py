"""The paper's own sensitivity: a_M of Theorem 1 and the H-blocks of its §5.1."""

from typing import Any

import numpy as np
from scipy import sparse


def h_block(n: int) -> np.ndarray:
    """H̃ (n, n): the inverse of R̄_n without its last row and column, with zeros put back.

    H = (n−1)/n (I + 1 1ᵀ) of size n − 1. For v with Σ v_i = 0: vᵀH̃v = (n−1)/n ‖v‖².

    Args:
        n: cells in the group, at least 2.

    Example:
        >>> from cdp_views.maxent.reference import h_block
        >>> h_block(2).tolist()
        [[1.0, 0.0], [0.0, 0.0]]

    Reference: [L] §5.1.
    """
    if n < 2:
        raise ValueError(f"`n` must be at least 2; got {n}. A cell alone in its group is constant.")
    H = np.zeros((n, n))
    H[:-1, :-1] = (n - 1) / n * (np.eye(n - 1) + 1)
    return H


def paper_sensitivity(correlation: Any, differences: Any, rows: Any = None) -> float:
    """a_M = max_v (M v)ᵀ (M R Mᵀ)⁻¹ (M v), the squared sensitivity of [L] Theorem 1.

    With Σ = σ²R, √a_M/σ is μ, the `mu` of `privacy_loss` (exact, though the paper derives
    a looser ε from it). It differs from `privacy_loss(...).sensitivity`, the plain length
    max ‖v‖: for R̄_n a_M = (n−1)/n ‖v‖², for other R anything.

    Args:
        correlation: R (n, n), positive semidefinite with R B = 0.
        differences: v as rows, (m, n), dense or sparse, each with A v = 0.
        rows: M (r, n) whose rows complete those of Bᵀ to a basis, or sums that are published; None
            for all cells (the pseudo-inverse of R, which gives the same number).

    Example:
        >>> import numpy as np
        >>> from cdp_views.maxent.reference import paper_sensitivity
        >>> R = 1.5 * np.eye(3) - 0.5  # R̄_3
        >>> round(paper_sensitivity(R, [[1, -1, 0]], np.eye(3)[:2]), 12)
        1.333333333333

    Reference: [L] Theorem 1 and §5.1.
    """
    R = np.asarray(correlation, dtype=float)
    V: Any = differences
    V = V.toarray() if sparse.issparse(V) else np.atleast_2d(np.asarray(V, dtype=float))
    M = np.eye(len(R)) if rows is None else np.asarray(rows, dtype=float)
    inverse = np.linalg.pinv(M @ R @ M.T, rcond=1e-12, hermitian=True)
    seen = V @ M.T
    return float(np.einsum("mi,ij,mj->m", seen, inverse, seen).max())
