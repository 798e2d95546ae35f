"""Why no law has these scales: one line with a proof that a reader can check by hand."""

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from cdp_views._checks import InfeasibleError
from cdp_views.precision.dual import Dual

if TYPE_CHECKING:
    from cdp_views.invariants._base import Invariant

_SHOWN = 6  # cells of the certificate that fit on a line


def certificate(solution: Dual, scale: np.ndarray) -> np.ndarray:
    """ν (n,) with Kᵀ diag(ν) K ⪰ 0 and Σ ν_i σ_i² < 0, scaled to |ν| = 1.

    Every X with A X = 0 has Σ ν_i Var X_i ≥ 0, so variances σ² are impossible.
    """
    size = np.max(1 / scale)
    nu = np.asarray(solution.theta) / (scale * size) ** 2  # (σ·size)⁻² ≤ 1: no overflow
    return nu / np.linalg.norm(nu)


def refuse(invariant: "Invariant", scale: np.ndarray, solution: Dual) -> NoReturn:
    """Raise for the first scales (…, n) of a batch that have no solution."""
    first = np.unravel_index(int(np.argmin(np.asarray(solution.solved))), solution.solved.shape)
    one, sigma = Dual(*(np.asarray(part)[first] for part in solution)), scale[first]
    way_out = "use cdp.Conditioned or cdp.Imaged, which shrink scales instead."
    fixed = np.flatnonzero(invariant.determined)
    if fixed.size:
        raise InfeasibleError(
            f"`scale` of cell {fixed[0]} is {sigma[fixed[0]]:.4g}, but the totals alone determine "
            f"that cell, so its noise is 0. Drop the cell, or {way_out}"
        )
    if not one.impossible:
        raise InfeasibleError(
            "`scale` lies on the boundary of what these totals allow, or within about 1e-8 of it "
            f"(the search ended with marginal variances off by {float(one.residual):.1g}), so the "
            f"law has no density. cdp.solve_max_entropy answers there; lower the largest scale, or "
            f"{way_out}"
        )
    nu = certificate(one, sigma)
    share = nu * sigma**2
    shown = np.sort(np.argsort(-np.abs(share), kind="stable")[:_SHOWN])
    weights = ", ".join(f"{nu[i] / np.abs(nu[shown]).max():.4g} for cell {i}" for i in shown)
    more = "" if np.sum(share != 0) <= _SHOWN else ", …"
    raise InfeasibleError(
        "`scale` is infeasible: all noise that keeps the totals has Σ w·variance ≥ 0, but these "
        f"scales give {share.sum() / np.abs(share).sum():.3g} of Σ |w|·scale² with w = {weights}"
        f"{more}. Lower the scale of cell {int(share.argmin())}, or {way_out}"
    )
