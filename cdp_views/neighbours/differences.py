"""Differences that the user writes out."""

from dataclasses import dataclass, field
from typing import Any, override

import numpy as np
from scipy import sparse

from cdp_views.neighbours.base import Neighbours


@dataclass(frozen=True, eq=False)
class Differences(Neighbours):
    """The rows of an explicit matrix; see `differences`."""

    ordered = False

    count: int
    size: int
    matrix: sparse.csr_array = field(repr=False)

    @property
    @override
    def n(self) -> int:
        return self.size

    @override
    def shortlist(self, exposure: np.ndarray | None = None) -> sparse.csr_array:
        """(m, n) all of them: nothing is known that would order them."""
        return self.matrix

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        return self.matrix

    @override
    def describe(self) -> str:
        many = self.count > 1
        what = f"one of {self.count} stated differences" if many else "the one stated difference"
        return f"the true answers change by {what}"


def differences(V: Any, inv: Any = None) -> Differences:
    """Neighbours that differ by one of the rows of V, as stated.

    Args:
      V: (m, n) dense or scipy.sparse, in units of the counts; or (n,) for one difference. v and −v
        have the same loss under symmetric noise, so either will do.
      inv: an invariant whose cells these are, to check their number at once.

    Returns:
      Differences, all of whose rows are tried.

    Raises:
      ValueError: V is empty, not finite, not numeric, has a row of zeros or the wrong width.

    Example:
      >>> import cdp_views as cdp
      >>> cdp.differences([[1, 1, -2], [1, -1, 0]]).describe()
      'the true answers change by one of 2 stated differences'

    Reference: Dwork and Roth 2014, Definition 3.1 (sensitivity over stated neighbours).
    """
    matrix = _as_csr(V)
    shape: Any = matrix.shape
    m, n = shape
    if m == 0 or n == 0:
        raise ValueError(f"`V` must hold at least one difference; got shape {(m, n)}. Add a row.")
    if inv is not None and n != inv.n:
        raise ValueError(
            f"`V` must have one column per cell, {inv.n}; got {n}. "
            "Write a zero for each cell that does not change."
        )
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"`V` must be finite; got {matrix.data[bad[0]]} in row {row}. "
            "Give the change of each cell as a number."
        )
    matrix.eliminate_zeros()
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if empty.size:
        raise ValueError(
            f"`V` must change something in each row; got only zeros in row {int(empty[0])}. "
            "Drop the row: equal tables need no protection from each other."
        )
    return Differences(m, n, matrix)


def _as_csr(V: Any) -> sparse.csr_array:
    try:
        if not sparse.issparse(V):
            V = np.atleast_2d(np.asarray(V, dtype=float))
        matrix = sparse.csr_array(V, dtype=float, copy=True)
    except (TypeError, ValueError):
        raise ValueError(
            "`V` must be a numeric matrix (m, n), dense or scipy.sparse. One row per difference."
        ) from None
    if matrix.ndim != 2:
        raise ValueError(f"`V` must be a matrix (m, n); got {matrix.ndim} axes. Stack the rows.")
    matrix.sum_duplicates()
    return matrix
