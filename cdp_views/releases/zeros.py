"""Cells that are 0 whatever the data: nobody can be there, and everybody knows."""

from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.invariants import Invariant, linear
from cdp_views.invariants.linear import named


def structural_zeros(invariant: Invariant, cells: Any) -> Invariant:
    """The same totals, and these cells exactly 0: no noise there, and no record moves there.

    For cells that are zero by definition (children with a pension, a county without coast), never
    for those that only happen to be empty: which cells are listed is published.

    Args:
        invariant: the totals that stay exact.
        cells: (n,) true where a cell is a structural zero, or the indices of these cells.

    Returns:
        The joint invariant: build the unit of privacy from it, and release with it.

    Raises:
        ValueError: another number of cells, an index twice or out of range, a column of 0 and 1.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.structural_zeros(cdp.totals(["a", "a", "a", "a"]), [3])
        >>> inv.determined.tolist()
        [False, False, False, True]
    """
    at = np.flatnonzero(as_mask(cells, invariant.n))
    if at.size == 0:
        return invariant
    ones = sparse.csr_array((np.ones(at.size), (np.arange(at.size), at)), (at.size, invariant.n))
    called = np.array([f"structural zero {i}" for i in at], dtype=object)
    return invariant & named(linear(ones), [called])


def as_mask(cells: Any, n: int) -> np.ndarray:
    """(n,) booleans from booleans or indices; `None` for none at all."""
    array = np.zeros(0, dtype=int) if cells is None else np.asarray(cells)
    if array.dtype == bool:
        if array.shape != (n,):
            raise ValueError(f"`zeros` must have shape ({n},), one per cell; got {array.shape}.")
        return array
    mask = np.zeros(n, dtype=bool)
    if array.size == 0:
        return mask
    whole = np.issubdtype(array.dtype, np.integer)
    if whole and (np.unique(array).size < array.size or _is_column(array, n)):
        raise ValueError(
            f"`zeros` must be booleans ({n},), or indices, each once; got {array.size} whole "
            f"numbers from {array.min()} to {array.max()}. For a column of 0 and 1: column == 1."
        )
    if not whole or array.min() < 0 or array.max() >= n:
        raise ValueError(f"`zeros` must be booleans ({n},), or indices from 0 to {n - 1}.")
    mask[array] = True
    return mask


def rows_of_zeros(invariant: Invariant, zeros: np.ndarray | None) -> np.ndarray:
    """(k,) which rows say only that a structural zero is 0, and are no totals that anybody reads.

    Args:
        invariant: with these rows.
        zeros: (n,) booleans; None for none.
    """
    rows = invariant.matrix
    found = np.zeros(rows.shape[0], dtype=bool)
    if zeros is None or not np.any(zeros):
        return found
    own = np.full(invariant.n, -1)
    alone = np.flatnonzero(np.diff(rows.indptr) == 1)
    own[rows.indices[rows.indptr[alone]]] = alone  # the last: `structural_zeros` adds them last
    own = own[np.asarray(zeros)]
    found[own[own >= 0]] = True
    return found


def _is_column(array: np.ndarray, n: int) -> bool:
    """Whether whole numbers may be meant as one a cell: 1 where it is a zero, else 0."""
    return array.size == n and bool(np.isin(array, (0, 1)).all())
