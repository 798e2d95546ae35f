"""The closest point of a polyhedron: Clarabel finds the active bounds, least squares the point."""

from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsmr

from cdp_views._checks import InfeasibleError

_TOLERANCE = 1e-10
_FAR = 1e6  # slack, in units of what is violated, beyond which a bound cannot matter


def project_to_polyhedron(
    y: np.ndarray, A: sparse.csr_array, total: np.ndarray, B: sparse.csr_array, lower: np.ndarray
) -> np.ndarray:
    """argmin ½|z − y|² with A z = total and B z ≥ lower.

    Solved for the step z − y in units of what y violates, so that a table of millions loses
    nothing. The solver says which bounds hold with equality; the closest point with these is then
    solved for as least squares, and taken where it keeps all bounds and is no farther away.

    Raises:
        InfeasibleError: no such z.
        RuntimeError: the answer misses totals or bounds by more than 1e-8 of their own size.
    """
    missing, slack = total - A @ y, B @ y - lower
    unit = max(np.abs(missing).max(initial=0.0), (-slack).max(initial=0.0))
    size = np.concatenate([abs(A) @ np.abs(y) + np.abs(total), abs(B) @ np.abs(y) + np.abs(lower)])
    if unit <= 4 * np.finfo(float).eps * size.max(initial=0.0):
        return y
    found = _solve(A, missing / unit, B, np.minimum(slack / unit, _FAR))
    step = unit * np.array(found.x)
    duals, slacks = (np.array(part)[len(missing) :] for part in (found.z, found.s))
    active = np.flatnonzero(duals > slacks)
    rows = sparse.csr_array(sparse.vstack([A, B[active]]))
    goal = np.concatenate([missing, -slack[active]])
    # the shortest solution of the equations is the closest point of their affine space
    exact = np.zeros(y.size)
    for _ in range(2):  # once more: what rounding left of the equations
        left = goal - rows @ exact
        exact += lsmr(rows, left, atol=1e-15, btol=1e-15, conlim=0, maxiter=10 * y.size)[0]
    within = slack + B @ exact >= -1e-12 * (unit + size[len(missing) :])
    if np.all(within) and exact @ exact <= step @ step * (1 + 1e-6):
        step = exact
    z = y + step
    missed = np.concatenate([np.abs(A @ z - total), np.maximum(lower - B @ z, 0)])
    if np.any(missed > 1e-8 * (unit + size)):
        raise RuntimeError(
            f"Clarabel stopped ({found.status}) {missed.max():.2g} away from the totals or bounds. "
            "Scale the rows alike, or drop redundant ones."
        )
    return z


def _solve(A: sparse.csr_array, missing: np.ndarray, B: sparse.csr_array, slack: np.ndarray) -> Any:
    """min ½|x|² with A x = missing, B x + slack ≥ 0, by Clarabel."""
    clarabel: Any = import_module("clarabel")  # ships no types
    n = B.shape[1]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    rows = sparse.csc_array(sparse.vstack([A, -B]))
    cones = [clarabel.ZeroConeT(len(missing)), clarabel.NonnegativeConeT(len(slack))]
    goal = np.concatenate([missing, slack])
    quadratic = sparse.csc_array(sparse.eye_array(n))
    found = clarabel.DefaultSolver(quadratic, np.zeros(n), rows, goal, cones, settings).solve()
    if "Infeasible" in str(found.status):
        raise InfeasibleError(
            "`invariant` asks for bounds that no table with these totals satisfies. Loosen the "
            "bounds, or check the totals."
        )
    return found
