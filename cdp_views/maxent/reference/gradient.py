"""Algorithm 2 of the maximum-entropy paper: projected gradient with an entropy penalty."""

from typing import Any

import numpy as np

from cdp_views.maxent.reference.nearest import higham, scaled
from cdp_views.maxent.reference.projections import kernel_basis
from cdp_views.maxent.reference.result import Progress, ReferenceResult, Watch, constraint, square

_INNER = 200  # eigendecompositions of one nearest-correlation step
_HALVINGS = 60
_LONGEST = 1000.0  # times 1/‖B Bᵀ‖: a longer step asks more of the projection than rounding allows


def projected_gradient(
    B: Any,
    *,
    penalty: float = 0.0,
    step: float | None = None,
    start: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 10_000,
    progress: Progress | None = None,
) -> ReferenceResult:
    """argmin f(R) over correlation matrices, f = tr(BᵀRB) − τ log det(KᵀRK), by gradient steps.

    R ← nearest correlation to R − α ∇f,  ∇f = B Bᵀ − τ K (KᵀRK)⁻¹ Kᵀ.

    With τ > 0 the minimum has R B ≠ 0, of the order of τ; as τ → 0 it tends to the exact
    maximum-entropy correlation, which `solve_max_entropy` gives at once. With τ = 0 any R with
    R B = 0 is a minimum, and which one is found depends on the start.

    Args:
        B: D Aᵀ (n, k), or (n,).
        penalty: τ ≥ 0, in units of tr(BᵀRB).
        step: α, fixed as in the paper; None to begin at 1/‖B Bᵀ‖ and to adapt.
        start: first correlation matrix; None for the identity.
        tolerance: of the residual; τ = 0: `deviation(B)`; τ > 0: ‖step‖/(α τ √n), the
            slope of f in units of its penalty, which is 0 at the minimum.
        max_iterations: gradient steps, each of which costs several eigendecompositions.
        progress: called after each step.

    Returns:
        ReferenceResult with the traces of [L] Figure 2: `loss` f, `penalty` −log det(KᵀRK),
        `trace` tr(BᵀRB), and `deviation`. For τ = 0 "stationary" means that the minimum is not 0:
        no correlation matrix has R B = 0.

    Raises:
        ValueError: τ < 0 or a step ≤ 0; or the start is singular on ker Bᵀ and τ > 0.

    Example:
        >>> import numpy as np
        >>> from cdp_views.maxent.reference import projected_gradient
        >>> answer = projected_gradient(np.ones(3), penalty=1e-3)
        >>> answer.status, bool(0 < answer.deviation(np.ones(3)) < 1e-2)
        ('converged', True)

    Reference: [L] Algorithm 2 and problem (6).
    """
    B = constraint(B)
    if penalty < 0 or (step is not None and step <= 0):
        raise ValueError(
            f"`penalty` must be ≥ 0 and `step` above 0; got {penalty} and {step}. "
            "Leave `step` out to have it chosen."
        )
    problem = _Penalised(B, penalty)
    R = np.eye(len(B)) if start is None else square("start", start, len(B))
    value = problem.value(R)
    if penalty and np.linalg.eigvalsh(problem.K.T @ R @ problem.K)[0] < 1e-12:
        raise ValueError(
            "`start` must be positive definite on ker Bᵀ; got a singular one. "
            "Start from the identity, or use penalty=0."
        )
    watch, multiplier = Watch(progress), np.zeros_like(R)
    rounding = 1e-14 * float(np.abs(problem.outer).sum())
    alpha, longest, residual = step or 1 / problem.size, np.inf, np.inf
    for _ in range(max_iterations):
        gradient = problem.gradient(R)
        for _ in range(_HALVINGS if step is None else 1):
            # as exact as this step's length asks for, and no more than rounding allows
            exact = 1e-2 * tolerance * min(0.1, alpha * penalty if penalty else 0.1)
            exact = max(exact, 4 * np.finfo(float).eps * len(B) * (1 + alpha * problem.size))
            cone, warm, _, projected = higham(
                R - alpha * gradient, alpha * multiplier, exact, _INNER, None
            )
            new = scaled(cone)
            moved = new - R
            expected = value + np.sum(gradient * moved) + np.sum(moved**2) / (2 * alpha)
            found = problem.value(new) if projected else np.inf
            if np.isfinite(found) and (step or found <= expected + rounding):
                break
            # a step too long for its projection to be found in time is not tried again soon
            longest, alpha = (longest if projected else alpha / 2), alpha / 2
        else:
            return watch.end(R, "iteration limit", residual)
        # near the minimum what the cone takes away is proportional to the step
        multiplier, length = warm / alpha, float(np.linalg.norm(moved)) / alpha
        R, value = new, found
        deviation = problem.deviation(R)
        watch.add(
            loss=value, penalty=problem.penalty(R), trace=problem.trace(R), deviation=deviation
        )
        residual = deviation if penalty == 0 else length / (penalty * np.sqrt(len(B)))
        if residual <= tolerance:
            return watch.end(R, "converged", residual)
        if penalty == 0 and length <= 1e-3 * tolerance * deviation * problem.size:
            return watch.end(R, "stationary", residual)
        if step is None:
            alpha, longest = min(2 * alpha, longest, _LONGEST / problem.size), 1.1 * longest
    return watch.end(R, "iteration limit", residual)


def penalty_path(
    B: Any, penalties: Any, *, tolerance: float = 1e-6, max_iterations: int = 10_000
) -> tuple[ReferenceResult, ...]:
    """`projected_gradient` for falling τ, each started where the last one ended.

    Args:
        B: D Aᵀ (n, k), or (n,).
        penalties: τ > 0, in the order to be tried; falling is fastest.
        tolerance: of each.
        max_iterations: of each.

    Example:
        >>> from cdp_views.maxent.reference import penalty_path
        >>> path = penalty_path([1.0, 2.0, 2.5], [1e-1, 1e-2])
        >>> [round(answer.deviation([1.0, 2.0, 2.5]), 3) for answer in path]
        [0.015, 0.002]

    Reference: [L] problem (6).
    """
    results: list[ReferenceResult] = []
    for tau in np.atleast_1d(np.asarray(penalties, dtype=float)):
        if tau <= 0:
            raise ValueError(f"`penalties` must be positive; got {tau}.")
        start = results[-1].correlation if results else None
        results.append(
            projected_gradient(
                B,
                penalty=float(tau),
                start=start,
                tolerance=tolerance,
                max_iterations=max_iterations,
            )
        )
    return tuple(results)


class _Penalised:
    """f and its gradient."""

    def __init__(self, B: np.ndarray, tau: float) -> None:
        self.B, self.tau, self.K = B, tau, kernel_basis(B)
        self.outer = B @ B.T
        self.size = float(np.linalg.norm(B, 2) ** 2)

    def trace(self, R: np.ndarray) -> float:
        return float(np.sum(self.outer * R))

    def penalty(self, R: np.ndarray) -> float:
        """−log det(KᵀRK), infinite where singular."""
        sign, logdet = np.linalg.slogdet(self.K.T @ R @ self.K)
        return -float(logdet) if sign > 0 else np.inf

    def value(self, R: np.ndarray) -> float:
        return self.trace(R) + (self.tau * self.penalty(R) if self.tau else 0.0)

    def gradient(self, R: np.ndarray) -> np.ndarray:
        if self.tau == 0:
            return self.outer
        return self.outer - self.tau * self.K @ np.linalg.solve(self.K.T @ R @ self.K, self.K.T)

    def deviation(self, R: np.ndarray) -> float:
        return float(np.max(np.abs(R @ self.B) / np.linalg.norm(self.B, axis=0)))
