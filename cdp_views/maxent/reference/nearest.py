"""The nearest correlation matrix, and the paper's use of it where no answer exists."""

from dataclasses import replace
from typing import Any

import numpy as np

from cdp_views.maxent.reference.alternating import alternating_projections
from cdp_views.maxent.reference.projections import onto_cone, onto_unit_diagonal
from cdp_views.maxent.reference.result import Progress, ReferenceResult, Watch, square


def nearest_correlation(
    matrix: Any,
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 10_000,
    progress: Progress | None = None,
) -> ReferenceResult:
    """The correlation matrix nearest to a symmetric one in the Frobenius norm.

    argmin ‖C − matrix‖_F over C ⪰ 0 with unit diagonal, by Dykstra's alternating projections.

    Args:
        matrix: symmetric (n, n).
        tolerance: of the residual, the largest distance between the two projections of one
            iteration in any entry.
        max_iterations: at most this many eigendecompositions.
        progress: called after each iteration.

    Returns:
        ReferenceResult, trace `apart`. The answer has its diagonal scaled to exactly 1, so it is a
        correlation matrix to rounding whatever the status.

    Example:
        >>> from cdp_views.maxent.reference import nearest_correlation
        >>> nearest_correlation([[1, 1, 0], [1, 1, 1], [0, 1, 1]]).correlation.round(4).tolist()[0]
        [1.0, 0.7607, 0.1573]

    Reference: Higham 2002, Algorithm 3.3 (and its example, §4).
    """
    target = square("matrix", matrix)
    watch = Watch(progress)
    cone, _, residual, converged = higham(
        target, np.zeros_like(target), tolerance, max_iterations, watch
    )
    return watch.end(scaled(cone), "converged" if converged else "iteration limit", residual)


def higham(
    target: np.ndarray, correction: np.ndarray, tolerance: float, most: int, watch: Watch | None
) -> tuple[np.ndarray, np.ndarray, float, bool]:
    """Dykstra's iteration from any earlier `correction` of the cone (negative semidefinite).

    Returns the last point of the cone, its correction, the residual, and whether that is within
    the tolerance.
    """
    # Dykstra is coordinate ascent on the dual: started at `correction`, it still finds the
    # projection of `target`. The diagonal's own correction is whatever the diagonal lost.
    R, cone, residual = target - correction, target, np.inf
    for _ in range(most):
        flat = onto_unit_diagonal(R)
        cone = onto_cone(flat + correction)
        correction = flat + correction - cone
        residual = float(np.abs(flat - cone).max())
        R = cone
        if watch is not None:
            watch.add(apart=residual)
        if residual <= tolerance:
            return cone, correction, residual, True
    return cone, correction, residual, False


def scaled(cone: np.ndarray) -> np.ndarray:
    """A positive semidefinite matrix with its diagonal brought to exactly 1."""
    size = np.sqrt(np.diag(cone))
    return onto_unit_diagonal(cone / np.outer(size, size))


def correlation_or_nearest(
    B: Any,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 10_000,
    progress: Progress | None = None,
) -> ReferenceResult:
    """Algorithm 1, and after a limit cycle the paper's fallback: a correlation matrix near it.

    The fallback keeps the marginals and *breaks the invariant*: R B ≠ 0. `deviation(B)` says by
    how much. The library proper refuses such scales or couples them instead.

    Args:
        B: D Aᵀ (n, k), or (n,).
        tolerance: of Algorithm 1, and of the nearest correlation matrix.
        max_iterations: of either.
        progress: called after each sweep of Algorithm 1.

    Returns:
        ReferenceResult, status "nearest correlation" where the fallback was taken.

    Example:
        >>> from cdp_views.maxent.reference import correlation_or_nearest
        >>> answer = correlation_or_nearest([1.0, 2.0, 4.0])
        >>> answer.status, answer.deviation([1.0, 2.0, 4.0]) > 0.1
        ('nearest correlation', True)

    Reference: [L] §3.2, last paragraph on inconsistent problems.
    """
    first = alternating_projections(
        B, tolerance=tolerance, max_iterations=max_iterations, progress=progress
    )
    if first.status != "limit cycle":
        return first
    last = nearest_correlation(
        first.correlation, tolerance=tolerance, max_iterations=max_iterations
    )
    status = "nearest correlation" if last.converged else "iteration limit"
    return replace(first, correlation=last.correlation, status=status)
