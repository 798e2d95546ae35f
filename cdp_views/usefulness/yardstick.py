"""The least error that any Gaussian can have under the same totals and the same privacy."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cdp_views.neighbours import Moves, Relocations
from cdp_views.usefulness.least_gaussian import Kinds, Least, least_by_differences, least_by_kinds

_MOST_KINDS = 200  # that hang together: seconds
_MOST_CELLS = 120  # of a table whose moves are listed one by one
_MOST_MOVES = 20_000
_EXACT = 1e-9


class Best(NamedTuple):
    """`rmse` of the best Gaussian at μ = 1, in counts (NaN where unknown), and what it rests on."""

    rmse: float
    kind: str


def best_gaussian(inv: Any, workload: sparse.csr_array | None, neighbours: Any) -> Best:
    """Root mean square error of the best Gaussian for a workload, at μ = 1; else it goes like 1/μ.

    minimise tr(W Σ Wᵀ)/q over Σ on V with vᵀΣ⁺v ≤ μ² for all neighbouring differences v.

    Under relocations and a workload that treats all cells of a block alike, beside what the totals
    fix, this is a closed form: Σ = c P in every block, c = 2r²/μ², and the mean square is
    c Σ_g a_g (m_g − 1)/q, a_g the square of a single cell's weight. Otherwise cells are taken
    together in kinds, and the convex program between kinds is solved to 5e-5 of the answer; what
    is returned is its lower bound, which no Gaussian beats.

    Args:
        inv: what must hold exactly.
        workload: W (q, n); None for the cells that the totals do not determine.
        neighbours: relocations of `inv`, or moves of its table.

    Returns:
        Best: "closed form", or "convex solve, …" with the gap; else NaN and the reason.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a"] * 5)
        >>> found = best_gaussian(inv, None, cdp.relocations(inv))
        >>> round(found.rmse, 6), found.kind  # √(2 · 4/5)
        (1.264911, 'closed form')

    Reference: Li et al. 2015, "The matrix mechanism"; the optimum under one total has
    trace × μ² = 2(n − 1).
    """
    queries, rows = _open_rows(inv, workload)
    if queries == 0:
        return Best(float("nan"), "none: the totals fix every answer")
    if isinstance(neighbours, Moves):
        return _of_moves(rows, neighbours, queries)
    if type(neighbours) is not Relocations:
        return Best(float("nan"), "none: known for relocations and table moves only")
    parts = _kinds(rows, neighbours)
    if isinstance(parts, str):
        return Best(float("nan"), parts)
    seen: dict[bytes, Least] = {}
    low = high = 0.0
    steps = 0
    for part in parts:
        # Alike up to a factor of G: solved once.
        unit = float(np.max(np.abs(part.gram), initial=0.0)) or 1.0
        part = part._replace(own=part.own / unit, gram=part.gram / unit)
        told = b"".join(np.round(x, 12).tobytes() for x in part)
        if told not in seen:
            seen[told] = least_by_kinds(part)
        least = seen[told]
        low, high, steps = low + unit * least.low, high + unit * least.high, steps + least.steps
    return _best(low, high, steps, float(neighbours.records) ** 2 / queries)


def _best(low: float, high: float, steps: int, factor: float) -> Best:
    gap = 0.0 if low == 0 else max(float(np.sqrt(high / low)) - 1, 0.0)
    # Below it the arithmetic decides, not the solve.
    kind = "closed form" if steps == 0 else f"convex solve, at most {max(gap, 1e-9):.0e} too low"
    return Best(float(np.sqrt(factor * low)), kind)


def _open_rows(inv: Any, workload: sparse.csr_array | None) -> tuple[int, sparse.csr_array]:
    """How many answers are averaged over, and the rows of those that the totals leave open."""
    if workload is None:
        kept = np.flatnonzero(~np.asarray(inv.determined, dtype=bool))
        eye = sparse.csr_array(sparse.eye_array(inv.n, format="csr"))
        return len(kept), sparse.csr_array(eye[kept])
    rows = sparse.csr_array(workload, copy=True)
    rows.eliminate_zeros()
    left = np.asarray(abs(inv.project_rows(rows)).sum(axis=1)).ravel()
    size = np.asarray(abs(rows).sum(axis=1)).ravel()
    return rows.shape[0], sparse.csr_array(rows[np.flatnonzero(left > _EXACT * size)])


def _kinds(rows: sparse.csr_array, neighbours: Relocations) -> list[Kinds] | str:
    """Parts that share no difference and no answer; a reason where one of them is too large.

    Two cells of one block are alike where they have the same column in the rows of several cells,
    and the same weight where they are asked alone.
    """
    rows = sparse.csr_array(rows[:, neighbours.cells])
    lengths = np.diff(rows.indptr)
    alone = sparse.csr_array(rows[np.flatnonzero(lengths == 1)])
    own = np.bincount(alone.indices, alone.data**2, rows.shape[1]).astype(float)
    together = sparse.csc_array(rows[np.flatnonzero(lengths > 1)])
    together.sort_indices()
    seen: dict[tuple[int, float, bytes, bytes], int] = {}
    kind = np.empty(rows.shape[1], dtype=np.int64)
    for i, label in enumerate(neighbours.labels.tolist()):
        part = slice(together.indptr[i], together.indptr[i + 1])
        column = together.indices[part].tobytes(), together.data[part].tobytes()
        kind[i] = seen.setdefault((label, float(own[i]), *column), len(seen))
    _, leader, size = np.unique(kind, return_index=True, return_counts=True)
    block, own, c = neighbours.labels[leader], own[leader], size.astype(float)
    between = sparse.csr_array(together[:, leader]) @ sparse.diags_array(np.sqrt(c))
    gram = sparse.csr_array(between.T @ between + sparse.diags_array(own))
    home = sparse.csr_array((np.ones(len(c)), (np.arange(len(c)), block)))
    number, label = connected_components(abs(gram) + home @ home.T, directed=False)
    largest = int(np.bincount(label).max())
    if largest > _MOST_KINDS:
        return (
            f"none: the workload tells {largest:,} kinds of cells apart that hang together; at "
            f"most {_MOST_KINDS} are solved"
        )
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=number))
    return [_part(c, own, gram, block, members) for members in np.split(order, ends[:-1])]


def _part(
    size: np.ndarray,
    own: np.ndarray,
    gram: sparse.csr_array,
    block: np.ndarray,
    members: np.ndarray,
) -> Kinds:
    """The kinds of one part, and all pairs of them that share a block."""
    first, second = np.triu_indices(len(members))
    mine, c = block[members], size[members]
    pairs = (mine[first] == mine[second]) & ((first != second) | (c[first] > 1))
    dense = gram[members][:, members].toarray()
    return Kinds(c, own[members], dense, first[pairs], second[pairs])


def _of_moves(rows: sparse.csr_array, moves: Moves, queries: int) -> Best:
    """Of a table with margins: all moves, cell by cell."""
    number = sum(kind.count for kind in moves.kinds)
    if moves.n > _MOST_CELLS or number > _MOST_MOVES:
        return Best(
            float("nan"),
            f"none: {moves.n:,} cells with {number:,} table moves; at most {_MOST_CELLS} and "
            f"{_MOST_MOVES:,} are solved",
        )
    listed = moves.seen_by(sparse.csr_array(sparse.eye_array(moves.n, format="csr"))).toarray()
    least = least_by_differences((rows.T @ rows).toarray(), listed)
    return _best(least.low, least.high, least.steps, 1 / queries)
