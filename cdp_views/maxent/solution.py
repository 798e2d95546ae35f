"""Solve the maximum-entropy problem on the host, with a proof in hand when it has no solution."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant, Linear, Precision, Totals, linear
from cdp_views.invariants._precision import Scaled
from cdp_views.invariants._reduced import Reduced
from cdp_views.invariants._refusal import certificate
from cdp_views.invariants.blocks import Blocks
from cdp_views.invariants.orthonormal import Orthonormal
from cdp_views.maxent import boundary
from cdp_views.maxent.certificate import of_cell, of_total
from cdp_views.precision.dual import balance_rows
from cdp_views.precision.scalar import balance_totals

type Status = Literal["interior", "boundary", "infeasible", "undecided"]

_ORDER: tuple[Status, ...] = ("infeasible", "undecided", "boundary", "interior")


class _Law(NamedTuple):
    """R of some cells: by a law with its scales, or by a factor R = F Fᵀ."""

    cells: np.ndarray
    law: Precision | None
    scale: np.ndarray
    factor: np.ndarray | None


@dataclass(frozen=True)
class MaxEntropySolution:
    """The correlation of largest entropy under exact totals, by its diagonal precisions.

    Attributes:
        invariant, scale: the problem; `scale` is σ (n,), 0 for an exact cell.
        feasible: whether a law with these marginals and a density on ker A exists.
        status: "interior" (feasible), "boundary" (such a law exists, but of lower rank and without
            a density), "infeasible" (proved), or "undecided": the search ended, by rounding or
            too close to the boundary (relative distance below about 1e-8), without a proof.
        precision: ν (n,): Σ = K(Kᵀ diag(ν) K)⁻¹Kᵀ has diag Σ = σ². NaN where not feasible; inf at
            exact cells. R is unique; ν need not be (two cells in a pair, a 2 × 2 table).
        certificate: `None` if feasible; else ν (n,), |ν| = 1, with Kᵀ diag(ν) K ⪰ 0 (on the cells
            that are not exact) and Σ ν_i σ_i² ≤ 0, = 0 on the boundary. Any law keeping the totals
            has Σ ν_i Var X_i ≥ 0, and = 0 only without a density, so these variances cannot be
            had. Check it by hand: `certificate @ scale**2`. `None` also if undecided.
        gap: per group of disjoint totals, (sum of the other |weight|·scale)/(largest) − 1. A group
            of three or more cells is balanced iff it is positive, a pair iff it is 0; a cell alone
            has −1 and is constant. Empty for totals that overlap.
        iterations: Newton steps of the slowest part.
        residual: largest relative error of the marginal variances, max |Σ_ii/σ_i² − 1|; undecided,
            where the search ended; NaN if infeasible.
        rank: of R: the dimension of ker A without exact cells, less on the boundary; 0 without R.

    Example:
        >>> import cdp_views as cdp
        >>> solution = cdp.solve_max_entropy(cdp.totals(["a"] * 3), 1.0)
        >>> solution.status, solution.correlation()[0].round(6).tolist()
        ('interior', [1.0, -0.5, -0.5])

    Reference: as `solve_max_entropy`.
    """

    invariant: Invariant
    scale: np.ndarray
    feasible: bool
    precision: np.ndarray
    certificate: np.ndarray | None
    gap: np.ndarray
    iterations: int
    residual: float
    rank: int
    status: Status
    _laws: tuple[_Law, ...] = field(default=(), repr=False)

    @in_float64
    def correlation(self) -> np.ndarray:
        """R (n, n), dense, computed on demand; an exact or constant cell has a zero row."""
        if self.status in ("infeasible", "undecided"):
            raise _checks.InfeasibleError("There is no such correlation; see `certificate`.")
        R = np.zeros((self.invariant.n, self.invariant.n))
        for cells, law, scale, factor in self._laws:
            if law is not None:
                covariance = np.asarray(law.covariance_product(jnp.eye(len(cells))))
                R[np.ix_(cells, cells)] = covariance / np.outer(scale, scale)
            if factor is not None:
                R[np.ix_(cells, cells)] += factor @ factor.T
        return R


class _Part(NamedTuple):
    """The answer for some cells that share no total with the others."""

    status: Status
    nu: np.ndarray
    certificate: np.ndarray | None
    iterations: int
    residual: float
    rank: int
    laws: tuple[_Law, ...]
    gap: np.ndarray


@in_float64
def solve_max_entropy(invariant: Invariant, scale: Any) -> MaxEntropySolution:
    """The largest-entropy law with standard deviations `scale` and exact totals.

    max log det(KᵀΣK) over Σ on ker A with diag Σ = σ²; solved through the multipliers ν of the
    diagonal: one scalar equation per disjoint total, Newton's method on the dual for totals that
    overlap. Never raises for infeasible scales: look at `feasible`, `status` and `certificate`.

    Near the boundary, at relative distance g, *variances* of disjoint totals hold to 1e-15 while
    precisions lose eps/g; for totals that overlap both lose eps/g: see `residual`.

    Args:
        invariant: any invariant.
        scale: σ, a number or (n,), in counts; 0 for a cell that is to be exact, too.

    Returns:
        The solution, feasible or not, with the precisions ν or a certificate.

    Raises:
        ValueError: for a scale < 0 or of the wrong shape.

    Example:
        >>> import cdp_views as cdp
        >>> solution = cdp.solve_max_entropy(cdp.totals(["a"] * 4), [1.0, 2.0, 3.0, 7.0])
        >>> solution.feasible, bool(solution.certificate @ solution.scale**2 < 0)
        (False, True)
        >>> cdp.solve_max_entropy(cdp.linear([[3, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]]), 1.0).status
        'boundary'

    Reference: Lafferty et al., problem (6), Corollary 1.
    """
    sigma = _scales(invariant, scale)
    kept = np.flatnonzero(sigma > 0)
    smaller = invariant
    if kept.size == 0:
        return _answered(invariant, sigma, "interior", np.full(invariant.n, np.inf), None)
    if kept.size < invariant.n:  # an exact cell is one more invariant: its column drops out
        smaller = linear(invariant.matrix.tocsc()[:, kept])
    geometries = _geometries(smaller)
    # a cell alone in its total is a constant by convention, but not one that others determine
    fixed = smaller.determined & ~invariant.determined[kept]
    for geometry, cells in geometries:
        if not isinstance(geometry, Totals):
            fixed[cells] |= geometry.determined
    if fixed.any():
        proof = of_cell(invariant.n, int(kept[np.argmax(fixed)]))
        return _answered(
            invariant, sigma, "infeasible", np.full(invariant.n, np.nan), proof, np.nan
        )
    parts = [(kept[cells], _part(geometry, sigma[kept[cells]])) for geometry, cells in geometries]
    worst = _worst([part.status for _, part in parts])
    nu, proof = np.full(invariant.n, np.inf), None
    for cells, part in parts:
        nu[cells] = part.nu
        if part.status == worst and proof is None and part.certificate is not None:
            proof = np.zeros(invariant.n)
            proof[cells] = part.certificate
    return MaxEntropySolution(
        invariant,
        sigma,
        worst == "interior",
        nu if worst == "interior" else np.full(invariant.n, np.nan),
        proof,
        np.concatenate([np.zeros(0), *(part.gap for _, part in parts)]),
        max((part.iterations for _, part in parts), default=0),
        np.nan if worst == "infeasible" else max((p.residual for _, p in parts), default=0.0),
        0 if worst in ("infeasible", "undecided") else sum(part.rank for _, part in parts),
        worst,
        tuple(law._replace(cells=cells[law.cells]) for cells, part in parts for law in part.laws),
    )


def _worst(parts: list[Status]) -> Status:
    for status in _ORDER:
        if status in parts:
            return status
    return "interior"


def _scales(invariant: Invariant, scale: Any) -> np.ndarray:
    sigma = np.asarray(scale, dtype=np.float64)
    bad = ~(np.isfinite(sigma) & (sigma >= 0))
    if bad.any():
        where = "" if sigma.ndim == 0 else f" at index {int(np.argmax(bad))}"
        raise ValueError(
            f"`scale` must be finite and not negative; got {sigma[bad].flat[0]}{where}. Every cell "
            "needs a standard deviation, 0 for a cell that is to be exact."
        )
    if sigma.shape not in ((), (1,), (invariant.n,)):
        raise ValueError(
            f"`scale` must be a number or have shape ({invariant.n},); got {sigma.shape}."
        )
    return np.array(np.broadcast_to(sigma, (invariant.n,)))


def _geometries(invariant: Invariant) -> list[tuple[Invariant, np.ndarray]]:
    geometry = invariant.core
    if isinstance(geometry, Blocks):
        return [(p, np.asarray(c)) for p, c in zip(geometry.parts, geometry.cells, strict=True)]
    return [(geometry, np.arange(geometry.n))]


def _answered(
    invariant: Invariant,
    sigma: np.ndarray,
    status: Status,
    nu: np.ndarray,
    proof: np.ndarray | None,
    residual: float = 0.0,
) -> MaxEntropySolution:
    """What needs no solving."""
    feasible = status == "interior"
    return MaxEntropySolution(
        invariant, sigma, feasible, nu, proof, np.zeros(0), 0, residual, 0, status
    )


def _part(geometry: Invariant, sigma: np.ndarray) -> _Part:
    if isinstance(geometry, Totals):
        return _disjoint(geometry, sigma)
    if np.ptp(sigma) == 0 and not geometry.determined.any():
        spread = 1 - np.asarray(geometry.leverage)
        if np.ptp(spread) < 1e-12:  # constant leverage: R = (n/d) P
            law = geometry.equalize(float64(sigma[:1]) ** 2)
            if isinstance(law, Scaled):
                nu = np.array(np.broadcast_to(np.asarray(law.nu), sigma.shape))
                error = _error(law, sigma, np.ones(sigma.size, bool))
                return _inside(law, nu, sigma, 0, error, geometry.dim, np.zeros(0))
    if not isinstance(geometry, Orthonormal):
        whole = linear(geometry.matrix)
        assert isinstance(whole, Linear) and isinstance(whole.geometry, Orthonormal)
        geometry = whole.geometry
    return _overlapping(geometry, sigma)


def _disjoint(geometry: Totals, sigma: np.ndarray) -> _Part:
    c = np.abs(np.asarray(geometry._weights_like(np.float64))) * sigma
    balance = balance_totals(float64(c), geometry.segments)
    held, gap = np.asarray(balance.feasible), np.asarray(balance.gap)
    steps, none = int(balance.iterations), np.full(sigma.size, np.nan)
    if held.all():
        law = geometry.equalize(float64(sigma) ** 2)
        nu = np.array(np.broadcast_to(np.asarray(law.nu), sigma.shape))
        error = _error(law, sigma, ~geometry.determined)
        return _inside(law, nu, sigma, steps, error, geometry.dim, gap)
    sizes = np.asarray(geometry.segments.sizes)
    balanced = ~held & (sizes > 2) & (np.abs(gap) <= 1e-14 * np.sqrt(sizes))
    beyond = ~held & ~balanced
    failed = beyond if beyond.any() else balanced
    proof = of_total(c, geometry, np.asarray(balance.pivot), failed)
    if beyond.any():
        return _Part("infeasible", none, proof, steps, np.nan, 0, (), gap)
    labels = np.asarray(geometry.segments.labels)
    on = np.append(balanced, False)[labels]
    factor = boundary.balanced_factor(geometry, sigma, np.flatnonzero(balanced))
    everything = np.arange(sigma.size)
    laws, error, rank = (_Law(everything, None, sigma, factor),), 0.0, int(balanced.sum())
    if not on.all():  # the other groups have a density of their own
        kept = np.flatnonzero(~on)
        rest = Totals.of(
            _relabelled(labels[kept], geometry.rank),
            None,
            None if geometry.weights is None else np.asarray(geometry.weights)[kept],
        )
        other = _disjoint(rest, sigma[kept])
        laws += tuple(law._replace(cells=kept[law.cells]) for law in other.laws)
        error, rank = other.residual, rank + other.rank
    return _Part("boundary", none, proof, steps, error, rank, laws, gap)


def _overlapping(geometry: Orthonormal, sigma: np.ndarray) -> _Part:
    scale, gap = float64(sigma), np.zeros(0)
    solution = balance_rows(geometry.table, geometry.pivots, scale)
    steps, residual = int(solution.iterations), float(solution.residual)
    none = np.full(sigma.size, np.nan)
    if bool(solution.solved):
        law = Reduced.of(geometry, solution, scale)
        error = _error(law, sigma, np.ones(sigma.size, bool))
        return _inside(law, np.asarray(law.nu), sigma, steps, error, geometry.dim, gap)
    if bool(solution.impossible):
        proof = certificate(solution, sigma)
        return _Part("infeasible", none, proof, steps, np.nan, 0, (), gap)
    face = boundary.face_of(np.asarray(geometry.table) * sigma, np.asarray(solution.theta))
    if face is None:
        return _Part("undecided", none, None, steps, residual, 0, (), gap)
    proof = certificate(solution._replace(theta=jnp.asarray(face.direction)), sigma)
    laws = (_Law(np.arange(sigma.size), None, sigma, face.factor),)
    return _Part("boundary", none, proof, steps, face.residual, face.factor.shape[1], laws, gap)


def _inside(
    law: Precision,
    nu: np.ndarray,
    sigma: np.ndarray,
    steps: int,
    error: float,
    rank: int,
    gap: np.ndarray,
) -> _Part:
    laws = (_Law(np.arange(sigma.size), law, sigma, None),)
    return _Part("interior", nu, None, steps, error, rank, laws, gap)


def _error(law: Precision, sigma: np.ndarray, cells: np.ndarray) -> float:
    """Largest relative error of the marginal variances of some cells."""
    off = np.abs(np.asarray(law.variance) / sigma**2 - 1)
    return float(np.broadcast_to(off, sigma.shape)[cells].max(initial=0.0))


def _relabelled(labels: np.ndarray, free: int) -> np.ndarray:
    """Labels 0, 1, … of what is left, −1 for cells in no group."""
    inside = labels < free
    fresh = np.full(labels.size, -1)
    fresh[inside] = np.unique(labels[inside], return_inverse=True)[1]
    return fresh
