"""Queries that are sums of cells, whatever form they come in."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def as_workload(workload: Any, n: int) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """The workload as a sparse float64 matrix (q, n), with the queries' names where it has them.

    Args:
        workload: dense or sparse (q, n) or (n,), or an `Invariant` over n cells (its totals).
        n: number of cells.

    Raises:
        ValueError: another number of columns, or an entry that is not a finite number.
    """
    matrix = getattr(workload, "matrix", workload)
    names = getattr(workload, "names", None)
    if not sp.issparse(matrix):
        matrix = np.atleast_2d(np.asarray(matrix, dtype=float))
    matrix = sp.csr_array(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise ValueError(
            f"`workload` must have {n} columns, one a cell; got shape {matrix.shape}. "
            "Each row is one query, a weighted sum of cells."
        )
    if not np.isfinite(matrix.data).all():
        raise ValueError("`workload` must be finite; got an entry that is not. Drop that query.")
    if names is not None and len(names) != matrix.shape[0]:
        names = None
    return matrix, None if names is None else tuple(str(name) for name in names)
