"""The rank-2 correlation matrix of Delorme and Poljak: plane vectors that close a polygon."""

from typing import Any

import numpy as np

from cdp_views import _checks


def planar_vectors(b: Any) -> np.ndarray:
    """Unit vectors u_i of the plane with Σ b_i u_i = 0: R = u uᵀ has R b = 0 and rank 2.

    A balanced b closes to a triangle: its largest entry is one side, the others, largest first,
    go to the shorter of the two remaining sides. All u_i of one side are parallel. Noise
    X = σ ∘ u z with z ~ N(0, I₂) keeps marginals and total, and is as *dependent* as can be: two
    cells tell all the others.

    Args:
        b: |weight|·scale with signs, (n,).

    Returns:
        u (n, 2).

    Raises:
        InfeasibleError: |b_i| of one cell exceeds the sum of all the others.

    Example:
        >>> import numpy as np
        >>> from cdp_views.maxent.reference import planar_vectors
        >>> u = planar_vectors([3.0, 4.0, 5.0])
        >>> bool(np.allclose([3, 4, 5] @ u, 0)), bool(np.allclose((u**2).sum(1), 1))
        (True, True)

    Reference: Delorme and Poljak 1993, Theorem 3.2; used in [L] §5.2.
    """
    b = np.asarray(b, dtype=float)
    if b.ndim != 1 or len(b) < 2:
        raise ValueError(f"`b` must be a vector (n,) with n ≥ 2; got shape {b.shape}.")
    _checks.finite("b", b, "Give |weight|·scale with its sign.")
    size = np.abs(b) / max(np.abs(b).max(), np.finfo(float).tiny)
    order = np.argsort(-size, kind="stable")
    side = np.zeros(len(b), dtype=int)
    lengths = np.array([size[order[0]], 0.0, 0.0])
    for i in order[1:]:
        side[i] = 1 + int(lengths[2] < lengths[1])
        lengths[side[i]] += size[i]
    p, q, r = lengths
    if p > (q + r) * (1 + 4 * np.finfo(float).eps * len(b)):
        raise _checks.InfeasibleError(
            f"`b` is out of balance: cell {order[0]} has {p / (p + q + r):.4g} of the sum; it must "
            "have at most half. No correlation matrix has R b = 0."
        )
    # place p along (−1, 0); q and r then lead back, meeting at height ±h
    along = (p**2 + q**2 - r**2) / (2 * p)
    height = np.sqrt(max(q**2 - along**2, 0.0))
    turns = np.array([[-1.0, 0.0], [along, height], [p - along, -height]])
    length = np.linalg.norm(turns, axis=1, keepdims=True)
    turns = np.where(length > 0, turns / np.where(length > 0, length, 1), [[1.0, 0.0]])
    sign = np.where(b < 0, -1.0, 1.0)
    return sign[:, None] * turns[side]


def planar_correlation(b: Any) -> np.ndarray:
    """R = u uᵀ (n, n) of `planar_vectors`: rank 2, unit diagonal, R b = 0.

    Args:
        b: |weight|·scale with signs, (n,).

    Raises:
        InfeasibleError: b is out of balance.

    Example:
        >>> from cdp_views.maxent.reference import planar_correlation
        >>> planar_correlation([1.0, 1.0, 1.0]).round(6).tolist()[0]
        [1.0, -0.5, -0.5]

    Reference: Delorme and Poljak 1993, Theorem 3.2.
    """
    u = planar_vectors(b)
    return u @ u.T
