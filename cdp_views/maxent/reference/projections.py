"""The three projections of [L] Proposition 1, in the Frobenius norm."""

import numpy as np


def onto_cone(R: np.ndarray) -> np.ndarray:
    """The nearest positive semidefinite matrix R₊: negative eigenvalues become zero."""
    values, vectors = np.linalg.eigh(R)
    kept = vectors[:, values > 0]
    return (kept * values[values > 0]) @ kept.T


def onto_unit_diagonal(R: np.ndarray) -> np.ndarray:
    """R − diag(R) + I."""
    R = R.copy()
    np.fill_diagonal(R, 1.0)
    return R


def onto_kernel(R: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Π R Π, the nearest symmetric matrix with R B = 0; Π = K Kᵀ with K (n, d) the `basis`."""
    return basis @ (basis.T @ R @ basis) @ basis.T


def kernel_basis(B: np.ndarray) -> np.ndarray:
    """An orthonormal basis K (n, d) of {x : Bᵀx = 0}, columns of B judged at equal length."""
    unit = B / np.linalg.norm(B, axis=0)
    U, size, _ = np.linalg.svd(unit, full_matrices=True)
    rank = int(np.sum(size > 1e-12 * size[0]))
    return U[:, rank:]


def nearness(R: np.ndarray) -> tuple[float, float]:
    """How far R is from a correlation matrix: (max |R_ii − 1|, −least eigenvalue or 0)."""
    off = float(np.max(np.abs(np.diag(R) - 1)))
    return off, float(max(0.0, -np.linalg.eigvalsh(R)[0]))
