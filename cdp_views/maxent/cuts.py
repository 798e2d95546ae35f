"""The sufficient test of [L] Theorem 2: a solution mixed from correlations of entries ±1."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

_ALL = 12  # other cells up to which every pattern of signs is tried: 2048 of them
_ROUNDS = 60
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class CutTest:
    """Whether a mixture of cut correlations s sᵀ, s ∈ {−1, 1}, solves R B = 0.

    Attributes:
        answer: "solved": a correlation matrix with R B = 0 is found, so the scales are feasible
            (perhaps only on the boundary). "no cuts": all patterns were tried and none will do;
            that proves nothing about other matrices. "open": the search ended without an answer.
        pivots: cells (k,) expressed by the others, x_J = −Fᵀ x.
        signs: patterns (m, n − k) of the other cells.
        weights: their shares (m,), adding up to 1.
    """

    answer: Literal["solved", "no cuts", "open"]
    pivots: np.ndarray = field(repr=False)
    factor: np.ndarray = field(repr=False)
    signs: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)

    def correlation(self) -> np.ndarray:
        """R (n, n) of the mixture: unit diagonal and R B = 0 to 1e-9. Meaningful where solved."""
        n = len(self.factor) + len(self.pivots)
        others = np.setdiff1d(np.arange(n), self.pivots)
        C = (self.signs.T * self.weights) @ self.signs
        whole = np.empty((n, n))
        whole[np.ix_(others, others)] = C
        whole[np.ix_(self.pivots, others)] = -self.factor.T @ C
        whole[np.ix_(others, self.pivots)] = -C @ self.factor
        whole[np.ix_(self.pivots, self.pivots)] = self.factor.T @ C @ self.factor
        return whole


def cut_test(B: Any) -> CutTest:
    """Theorem 2 with C restricted to mixtures of cuts: is 1 ∈ conv {((f_jᵀs)²)_j : s ∈ {±1}}?

    Rows J of largest |det B_J| are solved for the others: R B = 0 iff R [I; F] = 0 with
    F = B_r B_J⁻¹, and then iff F ᵀC F has unit diagonal for a correlation matrix C of the others.
    For C = Σ w_m s_m s_mᵀ that is a linear program in w. Every pattern s is tried up to 12 other
    cells, a few hundred promising ones beyond.

    Args:
        B: D Aᵀ (n, k), or (n,).

    Example:
        >>> from cdp_views.maxent.cuts import cut_test
        >>> cut_test([3.0, 1.0, 1.0, 1.5]).answer, cut_test([4.0, 1.0, 1.0, 1.5]).answer
        ('solved', 'no cuts')

    Reference: [L] Theorem 2 and the remark after it on cut-correlation matrices.
    """
    pivots, F = _solved_for_pivots(np.asarray(B, dtype=float).reshape(len(B), -1))
    d, k = F.shape
    if d == 0 or k == 0:
        answer = "solved" if k == 0 else "no cuts"
        return CutTest(answer, pivots, F, np.ones((1, d)), np.ones(1))
    every = d <= _ALL
    signs = _all_signs(d) if every else _first_signs(F)
    weights, missing, price = _mixture((signs @ F) ** 2)
    for _ in range(0 if every else _ROUNDS):
        better = _improving(F, price, signs) if missing > _TOLERANCE else []
        if len(better) == 0:
            break
        signs = np.vstack([signs, better])
        weights, missing, price = _mixture((signs @ F) ** 2)
    if missing <= _TOLERANCE:
        used = weights > 0
        return CutTest("solved", pivots, F, signs[used], weights[used] / weights[used].sum())
    return CutTest("no cuts" if every else "open", pivots, F, signs, weights)


def _solved_for_pivots(B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows J of (locally) largest determinant and F (n − k, k); redundant columns are dropped."""
    B = B[:, np.any(B != 0, axis=0)]
    unit = B / np.linalg.norm(B, axis=0)
    found: Any = scipy.linalg.qr(unit.T, mode="economic", pivoting=True)
    _, triangle, order = found
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > 1e-12 * diagonal[0])) if diagonal.size else 0
    pivots = order[:rank].copy()
    if rank == 0:
        return pivots, np.empty((len(B), 0))
    chosen: Any = scipy.linalg.qr(unit[pivots], mode="r", pivoting=True)
    unit = unit[:, chosen[1][:rank]]
    factor = np.linalg.solve(unit[pivots].T, unit.T).T  # B B_J⁻¹, rows J are the identity
    for _ in range(100):
        i, j = np.unravel_index(np.argmax(np.abs(factor)), factor.shape)
        if abs(factor[i, j]) <= 1 + 1e-9:
            break
        pivots[j] = i  # the determinant grows by |factor_ij|
        factor = np.linalg.solve(unit[pivots].T, unit.T).T
    others = np.setdiff1d(np.arange(len(B)), pivots)
    return pivots, factor[others]


def _all_signs(d: int) -> np.ndarray:
    """(2^{d−1}, d): s and −s are the same cut."""
    bits = (np.arange(2 ** (d - 1))[:, None] >> np.arange(d)) & 1
    return 1.0 - 2.0 * bits


def _first_signs(F: np.ndarray) -> np.ndarray:
    """Patterns with large and with small sums: signs of random directions, and greedy balancing."""
    rng = np.random.default_rng(0)
    d, k = F.shape
    large = np.where(F @ rng.normal(size=(k, 32)) >= 0, 1.0, -1.0).T
    small = []
    for _ in range(32):
        order, total, s = rng.permutation(d), np.zeros(k), np.ones(d)
        for i in order:
            s[i] = -1.0 if total @ F[i] > 0 else 1.0
            total = total + s[i] * F[i]
        small.append(s)
    return np.vstack([large, small])


def _mixture(points: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Shares w whose mean point is nearest to 1 in the sum of absolute differences.

    Returns w, that distance, and its prices: more points p with price @ p − constant > 0 help.
    """
    m, k = points.shape
    equal = np.block([[points.T, np.eye(k), -np.eye(k)], [np.ones((1, m)), np.zeros((1, 2 * k))]])
    cost = np.concatenate([np.zeros(m), np.ones(2 * k)])
    found = linprog(cost, A_eq=equal, b_eq=np.ones(k + 1), method="highs")
    return found.x[:m], float(found.fun), found.eqlin.marginals


def _improving(F: np.ndarray, price: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Patterns with Σ_j price_j (f_jᵀs)² above the program's value, by turning single cells."""
    Q = (F * price[:-1]) @ F.T
    found = []
    for s in known[-64:]:
        s = s.copy()
        gain = -4 * (s * (Q @ s) - np.diag(Q))  # change of sᵀQs when cell i turns
        for _ in range(4 * len(s)):
            i = int(np.argmax(gain))
            if gain[i] <= 1e-12:
                break
            s[i] = -s[i]
            gain = -4 * (s * (Q @ s) - np.diag(Q))
        if s @ Q @ s + price[-1] > 1e-9:
            found.append(s * s[0])
    return np.unique(np.array(found), axis=0) if found else np.empty((0, len(F)))
