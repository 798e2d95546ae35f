"""Dense laws of the loss of small tables, independent of the library's own: oracles."""

from collections.abc import Callable
from itertools import combinations
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from cdp_views.loss import BoundedLoss, GaussianLoss

Law = Callable[[sparse.csr_array], GaussianLoss | BoundedLoss]


def normal(form: np.ndarray) -> Law:
    """μ² = v Q vᵀ."""
    return lambda rows: GaussianLoss(
        np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows.toarray(), form, rows.toarray()), 0))
    )


def conditioned(A: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Q of Normal noise given A y = c, c fixed in advance: Δ⁻¹ − Aᵀ(AΔAᵀ)⁺A."""
    return np.diag(1 / sigma**2) - A.T @ np.linalg.pinv((A * sigma**2) @ A.T) @ A


def imaged(A: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Q of projected Normal noise, c fixed in advance: P (P Δ P)⁺ P."""
    P = np.eye(A.shape[1]) - np.linalg.pinv(A) @ A
    return P @ np.linalg.pinv((P * sigma**2) @ P) @ P


def laplace(rate: np.ndarray) -> Law:
    """Pure ε of Laplace noise without totals, or conditioned where A v = 0: Σ |v_i|/λ_i."""
    return lambda rows: BoundedLoss(abs(rows) @ rate)


def fibre(A: np.ndarray, rate: np.ndarray) -> Law:
    """Pure ε of imaged Laplace noise under disjoint totals: min_w ‖(v + Aᵀw)/λ‖₁, by trying."""

    def one(v: np.ndarray) -> float:
        total = float(np.abs(v[~A.any(axis=0)]) @ rate[~A.any(axis=0)])
        for b in A:
            c = np.flatnonzero(b)
            steps = np.append(-v[c] / b[c], 0.0)
            total += min(float(np.abs(v[c] + w * b[c]) @ rate[c]) for w in steps)
        return total

    return lambda rows: BoundedLoss([one(v) for v in rows.toarray()])


def value(law: Law, rows: np.ndarray | sparse.csr_array) -> float:
    """The largest μ² or pure ε of the rows."""
    loss = law(sparse.csr_array(rows))
    return float(np.max(loss.additive()))


def every_pair(n: int) -> np.ndarray:
    """All e_i − e_j, i < j."""
    return np.array([np.eye(n)[i] - np.eye(n)[j] for i, j in combinations(range(n), 2)])


def same_up_to_sign(rows: np.ndarray, among: np.ndarray) -> bool:
    """Whether each row is ± a row of `among`."""
    both = {tuple(v) for v in np.vstack([among, -among]).round(9) + 0.0}
    return all(tuple(v) in both for v in np.asarray(rows).round(9) + 0.0)


def invariant(labels, weights=None):
    """Disjoint weighted totals, as neighbours look at them; −1 is under no total."""
    labels = np.asarray(labels)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, float)
    inside = np.flatnonzero(labels >= 0)
    shape = (labels.max() + 1, len(labels))
    A = sparse.csr_array((weights[inside], (labels[inside], inside)), shape=shape)
    _, blocks = np.unique(np.stack([labels, weights]), axis=1, return_inverse=True)
    return SimpleNamespace(n=len(labels), blocks=blocks.ravel(), matrix=A)


def content(inv, exposure, cell):
    """All that the law of a cell's group depends on."""
    A = inv.matrix.toarray()
    row = np.flatnonzero(A[:, cell])
    group = np.flatnonzero(A[row[0]]) if len(row) else []
    return tuple(sorted((A[row[0], i], exposure[i]) for i in group))
