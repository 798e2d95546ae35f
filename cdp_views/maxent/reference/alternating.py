"""Algorithm 1 of the maximum-entropy paper: cyclic projections, and Dykstra's correction."""

from typing import Any

import numpy as np

from cdp_views.maxent.reference.projections import (
    kernel_basis,
    nearness,
    onto_cone,
    onto_kernel,
    onto_unit_diagonal,
)
from cdp_views.maxent.reference.result import Progress, ReferenceResult, Watch, constraint, square

_STANDS_STILL = 1e-11  # change of a sweep, relative to the distance between the sets


def alternating_projections(
    B: Any,
    *,
    start: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 10_000,
    progress: Progress | None = None,
) -> ReferenceResult:
    """*Some* correlation matrix with R B = 0: unit diagonal, cone, kernel, and round again.

    R ← Π (R − diag R + I)₊ Π. The last two projections leave R ⪰ 0 and R B = 0 to rounding, so
    only the diagonal is left to converge. The limit is a point of the intersection, not the
    projection of `start` onto it as [L] §3.2 says: that is `dykstra`.

    Args:
        B: D Aᵀ (n, k), or (n,) for one invariant.
        start: first matrix (n, n); None for the identity.
        tolerance: of the residual, max |R_ii − 1|.
        max_iterations: sweeps.
        progress: called after each sweep.

    Returns:
        ReferenceResult, with the trace `diagonal` (the residual) and `change` (Frobenius, per
        sweep). "limit cycle" where a sweep changes nothing any more while the diagonal stays off:
        no correlation matrix has R B = 0.

    Example:
        >>> from cdp_views.maxent.reference import alternating_projections
        >>> alternating_projections([1.0, 2.0, 2.5]).status
        'converged'
        >>> alternating_projections([1.0, 2.0, 4.0]).status
        'limit cycle'

    Reference: [L] Algorithm 1; Bauschke and Borwein 1996, for the limit.
    """
    B = constraint(B)
    K, watch = kernel_basis(B), Watch(progress)
    R = np.eye(len(B)) if start is None else square("start", start, len(B))
    residual = np.inf
    for _ in range(max_iterations):
        new = onto_kernel(onto_cone(onto_unit_diagonal(R)), K)
        change = float(np.linalg.norm(new - R))
        R, residual = new, float(np.max(np.abs(np.diag(new) - 1)))
        watch.add(diagonal=residual, change=change)
        if residual <= tolerance:
            return watch.end(R, "converged", max(residual, *nearness(R)))
        # A convergence as slow as 1/√k changes by residual³: this small a change is standstill.
        if change <= _STANDS_STILL * residual:
            return watch.end(R, "limit cycle", residual)
    return watch.end(R, "iteration limit", residual)


def dykstra(
    B: Any,
    *,
    start: Any = None,
    tolerance: float = 1e-8,
    max_iterations: int = 10_000,
    progress: Progress | None = None,
) -> ReferenceResult:
    """The correlation matrix with R B = 0 that is *nearest* to `start` in the Frobenius norm.

    The same sweeps, but what the cone took away is given back before its next turn. (The other
    two sets are affine and need no correction.)

    Args:
        B: D Aᵀ (n, k), or (n,).
        start: what to project (n, n); None for the identity.
        tolerance: of the residual, the largest distance between the three projections of one sweep
            in any entry. Where they coincide, the conditions of optimality hold.
        max_iterations: sweeps.
        progress: called after each sweep.

    Returns:
        ReferenceResult, with the traces `apart` (the residual) and `distance` to `start`. There is
        no "limit cycle": without a common point the corrections grow for ever, which ends at the
        iteration limit.

    Example:
        >>> import numpy as np
        >>> from cdp_views.maxent.reference import dykstra
        >>> dykstra(np.ones(3)).correlation.round(6).tolist()[0]
        [1.0, -0.5, -0.5]

    Reference: Boyle and Dykstra 1986; Bauschke and Borwein 1994.
    """
    B = constraint(B)
    K, watch = kernel_basis(B), Watch(progress)
    target = np.eye(len(B)) if start is None else square("start", start, len(B))
    R, correction, residual = target, np.zeros_like(target), np.inf
    for _ in range(max_iterations):
        flat = onto_unit_diagonal(R)
        cone = onto_cone(flat + correction)
        correction = flat + correction - cone
        R = onto_kernel(cone, K)
        residual = float(max(np.abs(flat - cone).max(), np.abs(cone - R).max()))
        watch.add(apart=residual, distance=float(np.linalg.norm(R - target)))
        if residual <= tolerance:
            return watch.end(R, "converged", residual)
    return watch.end(R, "iteration limit", residual)
