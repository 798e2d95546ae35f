"""Which scales can be had under exact totals: margins, proofs for, and proofs against."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from cdp_views._float64 import in_float64
from cdp_views.invariants import Invariant, Totals
from cdp_views.maxent.cuts import CutTest, cut_test
from cdp_views.maxent.solution import MaxEntropySolution, solve_max_entropy

_LARGEST = 2_000  # cells up to which the dense test of Theorem 2 is tried
_MOST = 2 * 10**7  # entries of B up to which its leverages are computed
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Feasibility:
    """What is known of the correlation matrices R with R B = 0, B = diag(σ) Aᵀ, and why.

    Attributes:
        invariant, scale: the problem; `scale` is σ (n,), 0 for an exact cell.
        margin: (k,) per total, (sum of the other |weight|·scale)/(largest) − 1; −1 for a
            cell alone in its total, which is constant. Below 0 elsewhere: out of balance.
        leverage: (n,) of B; every value below ½ proves feasibility, whatever the invariant. None
            where B is too large.
        cuts: the test of [L] Theorem 2; None where it says nothing new (totals that share no
            cell, whose margins decide) or is too large to try.
        solution: what `solve_max_entropy` answered.
    """

    invariant: Invariant
    scale: np.ndarray
    margin: np.ndarray
    leverage: np.ndarray | None
    cuts: CutTest | None
    solution: MaxEntropySolution

    @property
    def state(self) -> Literal["interior", "boundary", "infeasible", "undecided"]:
        """Where these scales lie among those that can be had.

        "interior": a law with these standard deviations has a density on ker A. "boundary": such
        laws exist, but all live on a smaller subspace, as where one cell's |weight|·scale is
        exactly the sum of the others'. "infeasible": there is none. "undecided": no proof found.
        """
        return self.solution.status

    @property
    def certificate(self) -> np.ndarray | None:
        """(n,) ν with Σ ν_i Var X_i ≥ 0 for every X that keeps the totals, but Σ ν_i σ_i² ≤ 0."""
        return self.solution.certificate

    @property
    def maximal_rank(self) -> int:
        """The largest rank of a solution, which the one of maximum entropy has; 0 without one."""
        return self.solution.rank

    @property
    def feasible(self) -> bool:
        """Whether a law with these standard deviations exists, with or without a density."""
        return self.state in ("interior", "boundary")

    @property
    def balanced(self) -> bool:
        """Whether no total is out of balance: necessary, and for disjoint totals sufficient."""
        alone = np.diff(self.invariant.matrix.indptr) < 2
        return bool(np.all(alone | (self.margin >= -_ROUNDING)))

    @property
    def leverage_below_half(self) -> bool:
        """Whether the leverages alone prove feasibility: sufficient, not necessary."""
        return self.leverage is not None and bool(np.max(self.leverage, initial=0.0) < 0.5)

    def __str__(self) -> str:
        least, most = float(self.scale.min(initial=np.inf)), float(self.scale.max(initial=0.0))
        size = f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
        asked = f"{size} counts in {self.invariant.n} cells, {len(self.margin)} exact totals"
        lines = [
            {
                "interior": "Feasible: noise of these standard deviations keeps the totals.",
                "boundary": "Feasible, but only just: such noise has no density.",
                "undecided": "Undecided: too close to the boundary, or to rounding, for a proof.",
                "infeasible": "Infeasible: no noise of these standard deviations keeps the totals.",
            }[self.state],
            f"  asked for: standard deviations of {asked}",
            *_tightest(self),
            f"  largest rank of a solution: {self.maximal_rank} of {self.invariant.n}",
        ]
        if self.leverage is not None:
            largest = np.max(self.leverage, initial=0.0)
            lines.append(
                f"  largest leverage {largest:.4g} (below 0.5 proves that it can be had; above 0.5 "
                "proves nothing)"
            )
        if self.cuts is not None:
            lines.append(f"  mixtures of cut correlations (Theorem 2): {self.cuts.answer}")
        if self.certificate is not None:
            total = float(self.certificate @ self.scale**2)
            lines.append(
                f"  certificate: sum of nu_i scale_i^2 = {total:.4g}; noise that keeps the totals "
                "has it >= 0, and = 0 only without density"
            )
        return "\n".join(lines)


@in_float64
def balance(inv: Invariant, scale: Any) -> Feasibility:
    """Whether noise with these standard deviations can keep the totals exactly, and the proofs.

    One total: iff no |b_i|σ_i exceeds the sum of the others. Several that share cells: every
    combination of the columns of B must be balanced, which `solve_max_entropy` decides; beside it
    stand the conditions that can be checked without it.

    Args:
        inv: an invariant.
        scale: σ, a number or (n,); 0 for a cell that is to be exact.

    Returns:
        Feasibility: state, margin, leverage, cuts, certificate, maximal_rank. Print it.

    Raises:
        ValueError: for a scale < 0 or of the wrong shape.

    Example:
        >>> import cdp_views as cdp
        >>> answer = cdp.balance(cdp.totals(["a"] * 4), [1.0, 2.0, 3.0, 5.0])
        >>> answer.state, answer.margin.round(3).tolist(), answer.maximal_rank
        ('interior', [0.2], 3)

    Reference: [L] Theorem 2 and Corollary 1; Saunderson, Chandrasekaran, Parrilo and Willsky 2012,
    for the leverages; Laurent and Poljak 1996, for ranks of faces.
    """
    solution = solve_max_entropy(inv, scale)
    sigma, geometry = solution.scale, inv.core
    rows, finest = (sparse.csr_array(sparse.csr_array(g.matrix) * sigma) for g in (inv, geometry))
    cuts = None
    if isinstance(geometry, Totals):
        leverage = _leverage_of_disjoint(finest)
    elif np.ptp(sigma) == 0:
        leverage = np.broadcast_to(np.asarray(inv.leverage, dtype=float), (inv.n,))
    else:
        leverage = _leverage(finest.toarray()) if finest.shape[0] * inv.n <= _MOST else None
    if not isinstance(geometry, Totals) and inv.n <= _LARGEST:
        cuts = cut_test(finest.toarray().T)
    return Feasibility(inv, sigma, _margins(rows), leverage, cuts, solution)


def _tightest(answer: Feasibility) -> list[str]:
    """Its name and margin, the cell that the others must outweigh, and what would mend it."""
    if not answer.margin.size:
        return []
    at, names = int(np.argmin(answer.margin)), answer.invariant.names
    rows = sparse.csr_array(answer.invariant.matrix)
    row = slice(rows.indptr[at], rows.indptr[at + 1])
    cells, size = rows.indices[row], np.abs(rows.data[row]) * answer.scale[rows.indices[row]]
    name = f"number {at}" if names is None else repr(str(names[at]))
    largest = int(np.argmax(size))
    others = size.sum() - size[largest]
    scales = (
        f"cell {cells[largest]} has |weight| scale {size[largest]:.4g}, the others {others:.4g}"
    )
    balance = f"balance {answer.margin[at]:+.4g}, below 0: they do not reach it"
    told = [f"  tightest total, {name}: its {scales} together ({balance})"]
    if answer.state == "infeasible" and answer.margin[at] < -_ROUNDING:
        most = others / np.abs(rows.data[row])[largest]
        told.append(
            f"  to mend this total: a scale of at most {most:.4g} in cell {cells[largest]}, or "
            "larger ones in its others"
        )
    return told


def _margins(rows: sparse.csr_array) -> np.ndarray:
    """(others − largest)/largest of each row of |A|σ."""
    size = abs(rows)
    total = np.asarray(size.sum(axis=1)).ravel()
    largest = size.max(axis=1).toarray().ravel()
    safe = np.where(largest > 0, largest, 1.0)
    # the others are summed without the largest: 1e-12 of balance must not drown in the total
    starts = np.flatnonzero(np.diff(size.indptr))
    others = total - largest
    if starts.size:
        row = np.repeat(np.arange(size.shape[0]), np.diff(size.indptr))
        order = np.lexsort((size.data, row))
        last = size.indptr[1:][starts] - 1
        rest = size.data[order].copy()
        rest[last] = 0.0
        others[starts] = np.add.reduceat(rest, size.indptr[:-1][starts])
    return np.where(largest > 0, others / safe - 1.0, 0.0)


def _leverage(rows: np.ndarray) -> np.ndarray:
    """Squared lengths of the rows of an orthonormal basis of B's columns."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    _, values, basis = np.linalg.svd(rows / np.where(size > 0, size, 1), full_matrices=False)
    kept = values > 1e-12 * values.max(initial=0.0)
    return (basis[kept] ** 2).sum(axis=0)


def _leverage_of_disjoint(rows: sparse.csr_array) -> np.ndarray:
    square = rows.power(2)
    total = np.asarray(square.sum(axis=1)).ravel()
    weight = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(square.T @ weight).ravel()
