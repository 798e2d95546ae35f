"""The difference that a release protects least."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class WorstDifference:
    """The cells that change, by how much, and the group they lie in; never a count.

    Args:
      row: its position among the differences tried.
      cells: indices of the cells that change.
      values: the change of each, in records.
      group: label of the total that all of them lie under, if the invariant has labels.
    """

    row: int
    cells: tuple[int, ...]
    values: tuple[float, ...]
    group: object = None

    def __str__(self) -> str:
        shown = [f"{v:+g} in cell {i}" for i, v in zip(self.cells[:6], self.values, strict=False)]
        more = len(self.cells) - len(shown)
        text = ", ".join(shown) + (f" and {more} more" if more else "")
        return text if self.group is None else f"{text} (group {self.group})"


def name_difference(differences: sparse.csr_array, row: int, inv: Any) -> WorstDifference:
    """Row `row` of (m, n) `differences` in words, with its group where `inv` has labels."""
    part = slice(differences.indptr[row], differences.indptr[row + 1])
    order = np.argsort(differences.indices[part])
    cells, values = differences.indices[part][order], differences.data[part][order]
    group = _common_group(cells, inv)
    return WorstDifference(row, tuple(cells.tolist()), tuple(values.tolist()), group)


def _common_group(cells: np.ndarray, inv: Any) -> object:
    # A cell lies under the totals whose rows of A touch it; name the one that all cells share.
    names = getattr(inv, "names", None)
    if names is None or len(names) != inv.matrix.shape[0]:
        return None
    touched = sparse.csc_array(sparse.csr_array(inv.matrix)[:, cells])
    rows, counts = np.unique(touched.indices[touched.data != 0], return_counts=True)
    shared = rows[counts == len(cells)]
    if len(shared) != 1:
        return None
    name = names[int(shared[0])]
    return name.item() if isinstance(name, np.generic) else name
