"""Two regimes: totals that were computed from the data, and totals that were fixed in advance."""

from typing import Any, Literal

import numpy as np
from scipy import sparse

from cdp_views.neighbours import Neighbours

COMPUTED = "computed from the data and published with it"
FIXED = "fixed in advance, whatever the data are"

ChangedTotals = Literal["refuse", "infinite"]


def of(view: Any) -> str:
    """In which regime a view's totals are, in words; empty for a view without totals."""
    if getattr(view, "invariant", None) is None:
        return ""
    return FIXED if getattr(view, "fixed_totals", False) else COMPUTED


def leaves(differences: sparse.csr_array, inv: Any) -> np.ndarray:
    """(m,) whether each row v has A v ≠ 0 beyond rounding."""
    A = sparse.csr_array(inv.matrix)
    eps, changed = 8 * np.finfo(float).eps, abs(differences @ A.T)
    excess = sparse.coo_array(changed - eps * (abs(differences) @ abs(A).T))
    row, total = excess.coords
    # rows found by linear algebra carry rounding from all of their cells, not one total's alone
    length = np.sqrt(differences.power(2).sum(axis=1))[row] * np.sqrt(A.power(2).sum(axis=1))[total]
    found = np.zeros(len(differences.indptr) - 1, dtype=bool)
    found[row[excess.data > eps * length]] = True
    return found


def leaving(
    neighbours: Neighbours, inv: Any, changed_totals: ChangedTotals
) -> sparse.csr_array | None:
    """The differences that change a total, where "infinite" is asked for and there are any.

    Raises:
      ValueError: the neighbours as such change totals.
    """
    if changed_totals == "infinite":
        differences = sparse.csr_array(neighbours.shortlist(np.zeros(neighbours.n)))
        rows = np.flatnonzero(leaves(differences, inv))
        if rows.size:
            return sparse.csr_array(differences[rows])
    neighbours.require(inv)  # what its rows show is looked at later
    return None


def require_kept(differences: sparse.csr_array, inv: Any) -> None:
    """Raise if a row v has A v ≠ 0 beyond rounding."""
    broken = np.flatnonzero(leaves(differences, inv))
    if broken.size:
        raise ValueError(
            f"`neighbours` row {int(broken[0])} changes a published total, so epsilon would be "
            "infinite: the total is computed from the data and released exactly. Use "
            "relocations(inv), or totals fixed in advance: build the view with total=."
        )
