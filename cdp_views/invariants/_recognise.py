"""Find the disjoint totals behind a system of rows: nested, repeated or scaled totals."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

_TOGETHER = 10**6  # entries of one dense factor for all parts that overlap


class Disjoint(NamedTuple):
    """Disjoint totals equivalent to the rows.

    `labels` (n,) is −1 for free cells; `combination` (groups, k) turns the rows' totals into the
    groups' totals.
    """

    labels: np.ndarray
    weights: np.ndarray
    combination: sparse.csr_array

    @property
    def in_order(self) -> bool:
        """Whether the groups are the rows themselves, one by one."""
        shape: Any = self.combination.shape
        entries = sparse.coo_array(self.combination)
        here = np.arange(shape[1])
        return shape[0] == shape[1] and all(
            np.array_equal(a, b)
            for a, b in (
                (entries.row, here),
                (entries.col, here),
                (entries.data, np.ones(here.size)),
            )
        )


class Part(NamedTuple):
    """Cells and rows that share totals with no others; `groups` if those are disjoint totals."""

    cells: np.ndarray
    rows: np.ndarray
    groups: Disjoint | None


def parts_of(rows: sparse.csr_array) -> list[Part]:
    """Split rows (k, n) that are not disjoint totals into the totals among them and the others.

    Components of the bipartite graph of rows and cells: all that are disjoint totals, with the
    free cells, make one part; those that overlap another, or one each where they are large.
    """
    shape: Any = rows.shape
    k, n = shape
    graph = sparse.block_array([[None, rows != 0], [rows.T != 0, None]])
    count, label = connected_components(graph, directed=False)
    used = np.diff(rows.indptr) > 0
    if np.unique(label[:k][used]).size == 1:
        return [Part(np.arange(n), np.flatnonzero(used), None)]
    row_order, cell_order = (np.argsort(x, kind="stable") for x in (label[:k], label[k:]))
    row_ends, cell_ends = (
        np.searchsorted(x[order], np.arange(count + 1))
        for x, order in ((label[:k], row_order), (label[k:], cell_order))
    )
    plain = np.ones(count, dtype=bool)
    for i in range(count):
        own = row_order[row_ends[i] : row_ends[i + 1]]
        if own.size > 1:
            cells = cell_order[cell_ends[i] : cell_ends[i + 1]]
            plain[i] = disjoint(sparse.csr_array(rows[own][:, cells])) is not None
    others = np.flatnonzero(~plain)
    size = np.sum(~plain[label[:k]]) * np.sum(~plain[label[k:]])
    together = [others] if size <= _TOGETHER else [np.array([i]) for i in others]
    parts = []
    for i, chosen in enumerate([np.flatnonzero(plain), *together]):
        cells = np.flatnonzero(np.isin(label[k:], chosen))
        own = np.flatnonzero(np.isin(label[:k], chosen) & used)
        groups = disjoint(sparse.csr_array(rows[own][:, cells])) if i == 0 else None
        if cells.size:
            parts.append(Part(cells, own, groups))
    return parts


def disjoint(rows: sparse.csr_array) -> Disjoint | None:
    """The disjoint totals with the same span as `rows` (k, n), or `None` if there are none.

    Short rows come first; each later row must be, on every group that it touches, a multiple of
    that group's total. What is left of it after subtracting those multiples is a new group: so a
    state's total minus its counties' totals leaves the remaining counties.
    """
    shape: Any = rows.shape
    k, n = shape
    labels, weights = np.full(n, -1), np.zeros(n)
    members: list[np.ndarray] = []
    recipe: list[dict[int, float]] = []
    lengths = np.diff(rows.indptr)
    for i in np.argsort(lengths, kind="stable"):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        cells, values = rows.indices[part], rows.data[part]
        if cells.size == 0:
            continue
        touched = labels[cells]
        fresh = touched < 0
        own: dict[int, float] = {int(i): 1.0}
        old, ratio = touched[~fresh], values[~fresh] / weights[cells[~fresh]]
        groups, first, counts = np.unique(old, return_index=True, return_counts=True)
        multiple = dict(zip(groups.tolist(), ratio[first].tolist(), strict=True))
        whole = all(members[g].size == c for g, c in zip(groups, counts, strict=True))
        if not whole or not np.allclose(
            ratio, [multiple[g] for g in old.tolist()], rtol=2e-15, atol=0
        ):
            return None
        if not fresh.any():
            continue
        for group, scale in multiple.items():
            for row, amount in recipe[group].items():
                own[row] = own.get(row, 0.0) - scale * amount
        labels[cells[fresh]], weights[cells[fresh]] = len(members), values[fresh]
        members.append(cells[fresh])
        recipe.append(own)
    entries = [(g, row, x) for g, own in enumerate(recipe) for row, x in own.items() if x != 0]
    g, row, x = (
        (np.array(column) for column in zip(*entries, strict=True)) if entries else ([],) * 3
    )
    combination = sparse.csr_array((x, (g, row)), shape=(len(members), k), dtype=np.float64)
    return Disjoint(labels, weights, combination)
