"""Solve the maximum-entropy problem on the host, with a proof in hand when it has no solution."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant, Linear, Totals
from cdp_views.precision import balance_totals


@dataclass(frozen=True)
class MaxEntropySolution:
    """The correlation of largest entropy under exact totals, by its diagonal precisions.

    Attributes:
        invariant, scale: the problem; `scale` is σ (n,).
        feasible: whether a law with these marginals (and a density on ker A) exists.
        precision: ν (n,): Σ = K(Kᵀ diag(ν) K)⁻¹Kᵀ has diag Σ = σ². NaN where infeasible.
        certificate: `None` if feasible; else ν (n,) with Kᵀ diag(ν) K ⪰ 0 and Σ ν_i σ_i² ≤ 0.
            Any law keeping the totals has Σ ν_i Var X_i ≥ 0, and = 0 only without a density, so
            these variances cannot be had. Check it by hand: `certificate @ scale**2`.
        gap: per group, (sum of the other |weight|·scale)/(largest) − 1. A group of three or more
            cells is balanced iff it is positive, a pair iff it is 0; a cell alone has −1 and is
            constant.
        iterations: Newton steps of the slowest group.
        residual: largest relative error of the marginal variances, max |Σ_ii/σ_i² − 1|.
    """

    invariant: Invariant
    scale: np.ndarray
    feasible: bool
    precision: np.ndarray
    certificate: np.ndarray | None
    gap: np.ndarray
    iterations: int
    residual: float

    @in_float64
    def correlation(self) -> np.ndarray:
        """R (n, n), dense, computed on demand; a cell alone in its group has a zero row."""
        if not self.feasible:
            raise _checks.InfeasibleError("There is no such correlation; see `certificate`.")
        law = self.invariant.equalize(float64(self.scale) ** 2)
        covariance = np.asarray(law.covariance_product(jnp.eye(self.invariant.n)))
        return covariance / np.outer(self.scale, self.scale)


@in_float64
def solve_max_entropy(invariant: Invariant, scale: Any) -> MaxEntropySolution:
    """The largest-entropy law with standard deviations `scale` and exact totals.

    max log det(KᵀΣK) over Σ on ker A with diag Σ = σ²; solved through the multipliers ν of the
    diagonal, one scalar equation per group. Never raises for infeasible scales: look at
    `feasible` and `certificate`.

    Args:
        invariant: weighted totals of disjoint or nested groups.
        scale: σ, a number or (n,), positive.

    Raises:
        ValueError: for a scale ≤ 0 or of the wrong shape.
        UnsupportedError: for overlapping totals.

    Example:
        >>> import cdp_views as cdp
        >>> solution = cdp.solve_max_entropy(cdp.totals(["a"] * 4), [1.0, 2.0, 3.0, 7.0])
        >>> solution.feasible, bool(solution.certificate @ solution.scale**2 < 0)
        (False, True)

    Reference: Lafferty et al., problem (6), Corollary 1.
    """
    sigma = np.asarray(scale, dtype=np.float64)
    _checks.positive("scale", sigma, "Every cell needs a standard deviation above 0.")
    if sigma.shape not in ((), (1,), (invariant.n,)):
        raise ValueError(
            f"`scale` must be a number or have shape ({invariant.n},); got {sigma.shape}."
        )
    sigma = np.array(np.broadcast_to(sigma, (invariant.n,)))
    geometry = invariant.geometry if isinstance(invariant, Linear) else invariant
    if not isinstance(geometry, Totals):
        raise _checks.UnsupportedError(
            "`invariant` has overlapping totals, whose solver is not in this version. Use disjoint "
            "or nested totals, or cdp.Conditioned and cdp.Imaged."
        )
    weights = np.abs(np.asarray(geometry._weights_like(np.float64)))
    c = weights * sigma
    balance = balance_totals(float64(c), geometry.segments)
    feasible, gap = np.asarray(balance.feasible), np.asarray(balance.gap)
    iterations = int(balance.iterations)
    if not feasible.all():
        certificate = _certificate(c, weights, geometry, np.asarray(balance.pivot), ~feasible)
        empty = np.full(invariant.n, np.nan)
        return MaxEntropySolution(
            invariant, sigma, False, empty, certificate, gap, iterations, float("nan")
        )
    law = geometry.equalize(float64(sigma) ** 2)
    kept = ~geometry.determined
    error = np.abs(np.asarray(law.variance) / sigma**2 - 1)[kept].max(initial=0.0)
    nu = np.array(np.broadcast_to(np.asarray(law.nu), (invariant.n,)))
    return MaxEntropySolution(invariant, sigma, True, nu, None, gap, iterations, float(error))


def _certificate(
    c: np.ndarray, weights: np.ndarray, geometry: Totals, pivot: np.ndarray, failed: np.ndarray
) -> np.ndarray:
    """ν of the first unbalanced group: ν_m = −b_m², ν_r = S b_r²/c_r with S = Σ_r c_r.

    By Cauchy–Schwarz (b_m x_m)² = (Σ b_r x_r)² ≤ S Σ b_r² x_r²/c_r, so Σ ν_i x_i² ≥ 0 on ker A,
    while Σ ν_i σ_i² = S² − c_m² ≤ 0. Scaled to |ν| = 1.
    """
    cells = np.asarray(geometry.segments.labels) == int(np.argmax(failed))
    rest = cells & ~pivot
    nu = np.zeros_like(c)
    nu[rest] = c[rest].sum() * weights[rest] ** 2 / c[rest]
    nu[cells & pivot] = -(weights[cells & pivot] ** 2)
    return nu / np.linalg.norm(nu)
