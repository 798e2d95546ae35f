"""The closest point of a polyhedron, by Clarabel's interior-point method."""

from typing import Any

import numpy as np
from scipy import sparse

from cdp_views._checks import InfeasibleError

_TOLERANCE = 1e-10


def project_to_polyhedron(
    y: np.ndarray, A: sparse.csr_array, total: np.ndarray, B: sparse.csr_array, lower: np.ndarray
) -> np.ndarray:
    """argmin ½|z − y|² with A z = total and B z ≥ lower, checked on output.

    Solved for the step z − y in units of its own size, so that a table of millions loses nothing.

    Raises:
        InfeasibleError: no such z.
        RuntimeError: the solver's answer misses the totals or bounds by more than 1e-8 relative.
    """
    from importlib import import_module

    clarabel: Any = import_module("clarabel")  # ships no types

    n = y.size
    gap = np.concatenate([total - A @ y, B @ y - lower])
    unit = max(float(np.abs(gap).max(initial=0.0)), 1e-300)
    settings: Any = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    rows = sparse.csc_array(sparse.vstack([A, -B]))
    cones = [clarabel.ZeroConeT(A.shape[0]), clarabel.NonnegativeConeT(B.shape[0])]
    solver = clarabel.DefaultSolver(
        sparse.eye_array(n, format="csc"), np.zeros(n), rows, gap / unit, cones, settings
    )
    found: Any = solver.solve()
    if "Infeasible" in str(found.status):
        raise InfeasibleError(
            "`invariant` asks for bounds that no table with these totals satisfies. Loosen the "
            "bounds, or check the totals."
        )
    z = y + unit * np.array(found.x)
    size = unit + np.abs(total).max(initial=0.0)
    missed = max(
        float(np.abs(A @ z - total).max(initial=0.0)), float((lower - B @ z).max(initial=0.0))
    )
    if missed > 1e-8 * size:
        raise RuntimeError(
            f"Clarabel stopped ({found.status}) {missed:.2g} away from the totals or bounds. Scale "
            "the rows alike, or drop redundant ones."
        )
    return z
