"""Differences that lose alike, and one of each kind."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True, eq=False)
class Classes:
    """One difference v of every class of equal law of the privacy loss.

    Attributes:
      differences: (m, n) the representatives, the most exposed first.
      count: (m,) how many differences each stands for, v and −v counted once.
      complete: whether every difference of the relation is represented. Otherwise the rest is less
        exposed in sum, which orders pure ε within a group and no more than that.
    """

    differences: sparse.csr_array = field(repr=False)
    count: np.ndarray
    complete: bool

    @staticmethod
    def of(differences: sparse.csr_array, *, complete: bool) -> "Classes":
        """Each difference in a class of its own."""
        return Classes(differences, np.ones(differences.shape[0], dtype=np.int64), complete)


def alike(exposure: np.ndarray, inv: Any) -> np.ndarray:
    """(n,) label of each cell: equal iff one can stand for the other in every view of `inv`.

    Two cells are alike if they have the same exposure and weight and lie in groups that hold the
    same exposures and weights. Under totals that overlap every cell is taken to be its own.
    """
    A = sparse.csc_array(inv.matrix)
    A.eliminate_zeros()
    n, touched = inv.n, np.diff(A.indptr)
    if touched.max(initial=0) > 1:
        return np.arange(n)
    group, weight = np.full(n, -1), np.zeros(n)
    inside = np.flatnonzero(touched)
    group[inside], weight[inside] = A.indices, np.abs(A.data)
    order = np.lexsort((exposure, weight, group))
    content = np.ascontiguousarray(np.stack([weight[order], exposure[order]], axis=1))
    starts = np.flatnonzero(np.diff(group[order], prepend=-2))
    seen: dict[bytes, int] = {}
    kind = np.empty(n, dtype=np.int64)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), n], strict=True):
        free = group[order[start]] < 0  # cells under no total: independent, so each like its equals
        key = b"free" if free else content[start:end].tobytes()
        kind[order[start:end]] = seen.setdefault(key, len(seen))
    table = np.stack([kind, weight, exposure], axis=1)
    return np.unique(table, axis=0, return_inverse=True)[1].ravel()
