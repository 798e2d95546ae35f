"""Find the disjoint totals behind a system of rows: nested, repeated or scaled totals."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


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
