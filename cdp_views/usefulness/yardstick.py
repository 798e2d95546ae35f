"""The least error that any Gaussian can have under the same totals and the same privacy."""

from typing import Any

import numpy as np
from scipy import sparse

_SAME = 1e-9


def least_rmse(
    inv: Any, workload: sparse.csr_array | None, mu: float, *, records: int = 1
) -> float:
    """Root mean square error of the best Gaussian for a workload, under plain totals.

    minimise tr(W Σ Wᵀ)/q over Σ on V with vᵀΣ⁺v ≤ μ² for all relocations v = r(e_i − e_j).
    Both are convex and do not change when cells of a group change places, as long as WᵀW does not;
    so some best Σ does not change either: it is c P, c = 2r²/μ², and the answer is
    √(c Σ_g a_g (m_g − 1)/q) with a_g the eigenvalue of P WᵀW P on group g.

    Args:
        inv: what must hold exactly.
        workload: W (q, n); None for the cells.
        mu: μ of Gaussian differential privacy.
        records: r, how many records one person may move.

    Returns:
        In counts; NaN where this closed form does not apply: totals with weights or that overlap,
        a workload that tells cells of one group apart, or no μ.

    Example:
        >>> import cdp_views as cdp
        >>> round(least_rmse(cdp.totals(["a"] * 5), None, 1.0), 6)  # √(2 · 4/5)
        1.264911

    Reference: Li et al. 2015, "The matrix mechanism" (symmetric workloads); mathematics of the
    optimum under one total, trace × μ² = 2(n − 1).
    """
    groups = inv.plain_groups
    if groups is None or not np.isfinite(mu):
        return float("nan")
    labels = np.asarray(groups.labels)
    if labels.max(initial=0) >= groups.count:
        return float("nan")
    sizes = np.bincount(labels, minlength=groups.count)
    queries = inv.n
    eigenvalue: np.ndarray | None = np.ones(groups.count)
    if workload is not None:
        queries = workload.shape[0]
        eigenvalue = _eigenvalues(workload, labels, sizes)
    else:
        # Cells that the totals determine are no question: a group of one.
        queries = int(sizes[sizes > 1].sum())
    if eigenvalue is None or queries == 0:
        return float("nan")
    return float(np.sqrt(2 * records**2 / mu**2 * (eigenvalue * (sizes - 1)).sum() / queries))


def _eigenvalues(
    workload: sparse.csr_array, labels: np.ndarray, sizes: np.ndarray
) -> np.ndarray | None:
    """a (G,) with P WᵀW P = Σ_g a_g P_g, or None where it has another form.

    Two random vectors of V tell: they could only fail to on a set of measure zero.
    """
    random = np.random.default_rng(0).standard_normal((2, labels.size))
    found = []
    for x in random:
        z = _centred(x, labels, sizes)
        image = _centred(workload.T @ (workload @ z), labels, sizes)
        size = np.bincount(labels, z * z, sizes.size)
        a = np.bincount(labels, z * image, sizes.size) / np.where(size > 0, size, 1.0)
        a = np.where(sizes > 1, a, 0.0)
        largest = max(float(np.abs(image).max(initial=0.0)), 1.0)
        if np.abs(image - a[labels] * z).max() > _SAME * largest:
            return None
        found.append(a)
    agree = np.abs(found[0] - found[1]).max() <= _SAME * max(1.0, np.abs(found[0]).max())
    return found[0] if agree else None


def _centred(x: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """P x: less the mean of its group."""
    return x - (np.bincount(labels, x, sizes.size) / sizes)[labels]
