"""Parts of a table that share no total: noise of different parts is independent."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components


def group_of(inv: Any) -> np.ndarray:
    """(n,) label of the part of the table in which each cell lies; −1 where no total counts it.

    Two cells lie in one part if a chain of totals leads from one to the other. Nested totals count
    as the disjoint ones that they are equivalent to.
    """
    A, n = rows_of(inv), inv.n
    count = len(A.indptr) - 1
    graph = sparse.block_array(
        [[sparse.csr_array((count, count)), A], [A.T, sparse.csr_array((n, n))]]
    )
    label = connected_components(graph, directed=False)[1][count:]
    return np.where(np.diff(A.tocsc().indptr) == 0, -1, label)


def rows_of(inv: Any) -> sparse.csr_array:
    """(k, n) the totals A, disjoint ones where nested ones are equivalent to them."""
    A = sparse.csr_array(getattr(inv, "geometry", inv).matrix)
    A.eliminate_zeros()
    return A
