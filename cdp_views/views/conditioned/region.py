"""What a region of totals and bounds is made of: its parts, its moves, a point inside it."""

from typing import Any

import numpy as np
from scipy import optimize, sparse

from cdp_views import _checks
from cdp_views.invariants import Invariant, Region, Totals
from cdp_views.invariants.orthonormal import Orthonormal


class Labels:
    """The part (n,) of every cell, as one static thing."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.count = array, int(array.max(initial=-1)) + 1


def components(region: Region) -> np.ndarray:
    """Parts of the table that share no total and no bound: a label (n,) for each cell."""
    rows = sparse.vstack([region.equalities.matrix, region.bounds.matrix])
    n, m = region.n, rows.shape[0]
    graph = sparse.bmat([[None, abs(rows).T], [abs(rows), None]]) if m else sparse.eye_array(n)
    labels = sparse.csgraph.connected_components(graph, directed=False)[1][:n]
    return np.unique(labels, return_inverse=True)[1]


def of_rows(matrix: sparse.csr_array, labels: np.ndarray) -> np.ndarray:
    """The part (m,) of every bound."""
    first = matrix.indptr[:-1]
    filled = np.diff(matrix.indptr) > 0
    at = np.where(filled, first, 0)
    return np.where(filled, labels[matrix.indices[at]], 0) if matrix.nnz else at


def groups_of(region: Region) -> Totals | None:
    """Disjoint totals beside bounds of single cells: pairs of cells are moves enough."""
    return region.equalities.disjoint_groups if region.bounds.cellwise else None


def directions_of(invariant: Invariant) -> np.ndarray:
    """A basis (d, n) of ker A with few cells in each."""
    rows = Orthonormal.of(invariant.matrix.toarray())
    pivots, n = np.asarray(rows.pivots), invariant.n
    free = np.setdiff1d(np.arange(n), pivots)
    basis = np.zeros((free.size, n))
    basis[np.arange(free.size), free] = 1
    if pivots.size:
        table = np.asarray(rows.table)
        basis[:, pivots] = -np.linalg.solve(table[:, pivots], table[:, free]).T
    return basis


def inner_point(region: Region, loc: np.ndarray) -> np.ndarray:
    """A step from loc to where every bound has room, by linear programming."""
    A, rows, n = region.equalities.matrix, region.bounds, region.n
    size = np.sqrt(np.asarray(rows.matrix.power(2).sum(axis=1)).ravel())
    slack = sparse.csr_array(size[:, None])
    answer = optimize.linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=sparse.hstack([-rows.matrix, slack]),
        b_ub=np.maximum(rows.matrix @ loc - rows.lower, 0),
        A_eq=sparse.hstack([A, sparse.csr_array((A.shape[0], 1))]) if A.shape[0] else None,
        b_eq=np.zeros(A.shape[0]) if A.shape[0] else None,
        bounds=[(None, None)] * n + [(0, 1.0)],
    )
    if answer.status != 0 or answer.x[-1] < 1e-9:
        raise _checks.InfeasibleError(
            "`invariant` leaves some cells no room between totals and bounds, so there is nothing "
            "to condition on. Leave out cells that are fixed (those of an empty group)."
        )
    return 0.5 * answer.x[:-1]


def require_a_table(region: Region, loc: Any) -> None:
    """The true table (…, n) itself must satisfy public bounds; its values are not shown."""
    loc, rows = np.asarray(loc, np.float64), region.bounds
    slack = 1e-9 * (np.abs(loc) @ abs(rows.matrix).T + 1)
    broken = (loc @ rows.matrix.T < rows.lower - slack).reshape(-1, len(rows.lower)).any(0)
    if broken.any():
        which = np.flatnonzero(broken)
        named = ", ".join(map(str, which[:5])) + (", …" if which.size > 5 else "")
        raise ValueError(
            f"`invariant` has bounds that the true table itself breaks: {which.size} of them, rows "
            f"{named} of B (cells, if they are nonnegative). Bounds must hold for every possible "
            "table: check their sign, and that they do not contradict each other."
        )
