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

    @property
    def change(self) -> str:
        """What changes, in words: of many cells the first six."""
        shown = [f"{v:+g} in cell {i}" for i, v in zip(self.cells[:6], self.values, strict=False)]
        more = len(self.cells) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")

    def __str__(self) -> str:
        return self.change if self.group is None else f"{self.change} (group {self.group})"


def name_difference(differences: sparse.csr_array, row: int, inv: Any) -> WorstDifference:
    """Row `row` of (m, n) `differences` in words, with its group where `inv` has labels."""
    return name_differences(differences, np.array([row]), inv)[0]


def name_differences(
    differences: sparse.csr_array, rows: np.ndarray, inv: Any
) -> list[WorstDifference]:
    """Those `rows` of (m, n) `differences` in words; O(n) once, then as many as their entries."""
    names = getattr(inv, "names", None)
    totals = None
    if names is not None and len(names) == inv.matrix.shape[0]:
        totals = sparse.csc_array(inv.matrix)
        totals.eliminate_zeros()
    found = []
    for row in rows.tolist():
        part = slice(differences.indptr[row], differences.indptr[row + 1])
        order = np.argsort(differences.indices[part])
        cells = differences.indices[part][order].tolist()
        values = differences.data[part][order].tolist()
        group = None if totals is None else _common_group(cells, totals, names)
        found.append(WorstDifference(row, tuple(cells), tuple(values), group))
    return found


def _common_group(cells: list[int], totals: sparse.csc_array, names: Any) -> object:
    # A cell lies under the totals whose rows of A touch it; name the one that all cells share.
    over = [set(totals.indices[totals.indptr[c] : totals.indptr[c + 1]].tolist()) for c in cells]
    shared = set.intersection(*over)
    if len(shared) != 1:
        return None
    name = names[shared.pop()]
    return name.item() if isinstance(name, np.generic) else name
