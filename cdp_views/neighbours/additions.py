"""One record is added to the table, or removed from it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, override

import numpy as np
from scipy import sparse

from cdp_views.neighbours._arguments import cells_of, records_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes, alike, alike_in
from cdp_views.neighbours.groups import group_of, rows_of


@dataclass(frozen=True, eq=False)
class Additions(Neighbours):
    """v = ± records · e_i for one cell; see `additions`."""

    ordered: ClassVar[bool] = False
    keeps_totals: ClassVar[bool] = False

    size: int
    records: int = 1

    @property
    @override
    def n(self) -> int:
        return self.size

    @override
    def shortlist(self, exposure: np.ndarray | None = None) -> sparse.csr_array:
        """(n, n) one difference per cell: n numbers, so all are tried in O(n)."""
        return float(self.records) * sparse.csr_array(sparse.eye_array(self.size, format="csr"))

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """One cell of every exposure in every group; without `inv`, of every exposure.

        Groups of like cells may lie at other distances from totals fixed in advance: unless `apart`
        tells which do, each stands for itself.
        """
        exposure = check_exposure(exposure, self.n)
        if inv is None:
            kind = alike_in(np.full(self.n, -1), np.ones(self.n), exposure, apart)
        else:
            kind = alike(exposure, inv, group_of(inv) if apart is None else apart)
        first = np.unique(kind, return_index=True)[1]
        return Classes.of(sparse.csr_array(self.shortlist()[first]), exposure, most=most)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) one cell for every distinct column of the query."""
        return sparse.csr_array(self.shortlist()[distinct_columns(query)])

    @override
    def require(self, inv: Any) -> None:
        if rows_of(inv).nnz:
            raise changes_totals("additions", "adds or removes a record")

    @override
    def describe(self) -> str:
        if self.records == 1:
            return "one record is added or removed, the totals being fixed in advance (addition)"
        return (
            f"up to {self.records} records are added to one cell or removed from it, the totals "
            "being fixed in advance (addition)"
        )


def additions(n: Any, *, records: int = 1) -> Additions:
    """Neighbours that differ by one record added to a cell, or removed from it.

    v = ± records · e_i for one cell i of n. The number of records changes, and so does every total
    over that cell. This is for noise without totals, and for totals that are *fixed in advance*,
    whatever the data are (a view with `total=`). Where totals are computed from the data and
    published as they are, they alone tell such neighbours apart: ε is infinite.

    Args:
      n: number of cells, or an invariant over them.
      records: how many records one person may have, all in one cell.

    Returns:
      Additions, all n of which are tried.

    Raises:
      ValueError: `n` or `records` is not a positive integer.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.additions(3)
      >>> nb.shortlist().toarray().astype(int).tolist()
      [[1, 0, 0], [0, 1, 0], [0, 0, 1]]

    Reference: Dwork and Roth 2014, Definition 2.4 (unbounded neighbours); [TV] Definition 3.1.
    """
    size, _ = cells_of(n)
    return Additions(size, records_of(records))


def changes_totals(name: str, deed: str) -> ValueError:
    """What to say where the totals are computed from the data."""
    return ValueError(
        f"`neighbours` {deed} and so changes a total. Where totals are computed from the data and "
        f"published exactly, epsilon is infinite for {name}(n). Use relocations(inv), or fix the "
        "totals in advance: a view with total=, whatever the data."
    )


def distinct_columns(query: Any) -> np.ndarray:
    """The first cell of each distinct column of a query W (r, n)."""
    columns = sparse.csc_array(query)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    ends = columns.indptr.tolist()
    seen: dict[tuple[bytes, bytes], int] = {}
    for cell, (start, end) in enumerate(pairwise(ends)):
        key = (columns.indices[start:end].tobytes(), columns.data[start:end].tobytes())
        seen.setdefault(key, cell)
    return np.array(list(seen.values()))
