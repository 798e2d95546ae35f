"""Hierarchies of tables: noise at the finest level, consistent sums at every other one.

X has the maximum-entropy law of the finest cells; a coarser level W publishes W(q + X), so that
parents are the sums of their children exactly and the top level, the invariant, has no noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant
from cdp_views.loss import analytic_gaussian_mu, tail_bound_mu
from cdp_views.neighbours import Neighbours


@dataclass(frozen=True)
class LevelScales:
    """What each level of a hierarchy asks of the noise at the finest one.

    Attributes:
        sensitivity: per level, [L]'s a = max_v (Wv)ᵀ(W R Wᵀ)⁺(Wv); 0 where the level is exact.
        scales: per level, the smallest σ of the finest cells at which that level alone keeps
            its own budget.
    """

    sensitivity: dict[str, float]
    scales: dict[str, float]

    @property
    def scale(self) -> float:
        """[L]'s σ of the finest level: the largest over the levels."""
        return max(self.scales.values())

    @property
    def deciding(self) -> str:
        """The level that needs it."""
        return max(self.scales, key=lambda name: self.scales[name])


@in_float64
def level_scales(
    inv: Invariant,
    levels: Mapping[str, Any],
    neighbours: Neighbours,
    *,
    epsilon: float | Mapping[str, float],
    delta: float | Mapping[str, float],
    bound: Literal["analytic", "tail"] = "tail",
) -> LevelScales:
    """The standard deviation of the finest cells under which every level keeps its budget.

    σ = max over levels of √a_W / μ(ε, δ), Σ = σ²R with R the maximum-entropy correlation.

    A coarser level is a function of the finest one, so for the *same* neighbours and budget its a
    is never larger: the finest level decides, and publishing the others with it costs nothing more.
    The rule says more than that only where budgets differ by level.

    Args:
        inv: what stays exact, the totals of the top level.
        levels: name ↦ the sums that the level publishes: an invariant over the same cells (its
            totals) or a matrix W (r, n). The finest level is added as "cells".
        neighbours: the unit of privacy.
        epsilon: one for all levels, or name ↦ ε.
        delta: one for all levels, or name ↦ δ.
        bound: "tail", [L] Theorem 1, or "analytic", exact and smaller.

    Returns:
        LevelScales: sensitivity, scales, their largest (`scale`) and which level decides.

    Raises:
        ValueError: a level without budget, or of another number of cells.
        InfeasibleError: no maximum-entropy law with equal scales.

    Example:
        >>> import cdp_views as cdp
        >>> state, county = cdp.totals(["S"] * 5), cdp.totals(["a", "a", "a", "b", "b"])
        >>> nb = cdp.relocations(state)
        >>> answer = cdp.level_scales(state, {"county": county}, nb, epsilon=1.0, delta=1e-5)
        >>> {level: round(a, 4) for level, a in answer.sensitivity.items()}
        {'cells': 1.6, 'county': 0.6667}

    Reference: [L] §5.1, "If we choose σ²_block = max …".
    """
    _checks.choice("bound", bound, ("analytic", "tail"))
    law = inv.equalize(float64(np.ones(inv.n)))
    whole = sparse.csr_array(sparse.eye_array(inv.n))
    matrices = {"cells": whole} | {
        name: _sums(name, level, inv.n) for name, level in levels.items()
    }
    goal = analytic_gaussian_mu if bound == "analytic" else tail_bound_mu
    sensitivity: dict[str, float] = {}
    scales: dict[str, float] = {}
    for name, W in matrices.items():
        if name == "cells":
            V = neighbours.shortlist(np.ones(inv.n))
            a = float(np.max(np.asarray(law.squared_length(sparse.csr_array(V)))))
        else:
            V = neighbours.seen_by(W)
            a = _seen(law, W, sparse.csr_array(V))
        sensitivity[name] = a
        mu = goal(_budget("epsilon", epsilon, name), _budget("delta", delta, name))
        scales[name] = float(np.sqrt(a) / mu)
    return LevelScales(sensitivity, scales)


@in_float64
def level_errors(inv: Invariant, levels: Mapping[str, Any], scale: Any) -> dict[str, np.ndarray]:
    """Standard deviation of every published sum of every level under maximum-entropy noise.

    √diag(W Σ Wᵀ), Σ = D R D. For a plain total of n cells of equal σ a sum of m of them has
    variance σ² m(n − m)/(n − 1): less than m σ², because noise elsewhere takes part of it back.

    Args:
        inv: what stays exact.
        levels: name ↦ an invariant or W (r, n), as in `level_scales`.
        scale: σ of the finest cells, a number or (n,), in counts.

    Returns:
        Per level, (r,) in counts; 0 for a sum that is exact.

    Raises:
        InfeasibleError: no law with these scales keeps the totals.
        ValueError: a scale that is not positive, or a level over other cells.

    Example:
        >>> import cdp_views as cdp
        >>> state, county = cdp.totals(["S"] * 5), cdp.totals(["a", "a", "a", "b", "b"])
        >>> (cdp.level_errors(state, {"county": county}, 2.0)["county"] ** 2).round(6).tolist()
        [6.0, 6.0]

    Reference: [L] §5.1.
    """
    sigma = np.broadcast_to(np.asarray(scale, dtype=float), (inv.n,))
    _checks.positive("scale", sigma)
    law = inv.equalize(float64(sigma) ** 2)
    errors = {}
    for name, level in levels.items():
        W = _sums(name, level, inv.n)
        variance = np.asarray(law.variance_of(W))
        # an exact sum is left with rounding errors of its cells' variances
        exact = variance <= 1e-13 * (W.power(2) @ sigma**2)
        errors[name] = np.sqrt(np.where(exact, 0.0, variance))
    return errors


def _sums(name: str, level: Any, n: int) -> sparse.csr_array:
    matrix = level.matrix if isinstance(level, Invariant) else level
    W = sparse.csr_array(matrix if sparse.issparse(matrix) else np.atleast_2d(np.asarray(matrix)))
    if W.shape[1] != n:
        raise ValueError(
            f"`levels` must sum the {n} cells of the invariant; {name!r} has {W.shape[1]} columns. "
            "Give one label per finest cell: totals(labels)."
        )
    return sparse.csr_array(W, dtype=float)


def _seen(law: Any, W: sparse.csr_array, V: sparse.csr_array) -> float:
    """max_v (Wv)ᵀ(W R Wᵀ)⁺(Wv)."""
    weights = W.toarray()
    covariance = np.asarray(law.covariance_product(float64(weights))) @ weights.T
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    seen = (V @ W.T).toarray()
    return float(np.max(np.einsum("mi,ij,mj->m", seen, inverse, seen), initial=0.0))


def _budget(name: str, value: Any, level: str) -> float:
    if not isinstance(value, Mapping):
        return float(value)
    if level not in value:
        raise ValueError(
            f"`{name}` must name every level; got none for {level!r}. "
            'The finest level is called "cells".'
        )
    return float(value[level])
