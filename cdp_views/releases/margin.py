"""The margin of error of any sum of a release, with the correlation that exact totals bring."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views._float64 import in_float64
from cdp_views.usefulness.law import error_law
from cdp_views.usefulness.workload import as_workload

_DRAWS = 20_000
_BATCH = 2**26  # numbers: draws × sums


def margins(law: Any, workload: Any, cells: Sequence[str], level: float) -> pd.DataFrame:
    """One row for each sum: the half-width that its error stays within with probability `level`.

    Args:
        law: of the release around any counts; its noise does not depend on them.
        workload: see `Release.margin`.
        cells: what each cell is called.
        level: between 0 and 1.
    """
    if isinstance(level, bool) or not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1; got {level}.")
    if workload is None:
        rows, names = None, list(cells)
    else:
        rows, called = _rows(workload, cells)
        count = rows.shape[0]
        names = list(called) if called else [f"sum {i}" for i in range(count)]
    most = max(2, min(_DRAWS, _BATCH // max(1, len(names))))
    found = error_law(law, rows, jax.random.key(0), most)
    width = np.array(found.margin(level), dtype=np.float64)
    error = found.margin_stderr(level)
    error = np.zeros_like(width) if error is None else np.array(error, dtype=np.float64)
    known = np.zeros(width.shape, dtype=bool)
    if rows is not None and found.kind == "estimate":
        at, exactly = _cells_alone(law, rows, level)
        width[at], error[at], known[at] = exactly, 0.0, True
    settled = width <= 1e-9 * _size(law, rows)  # an exact total: what is left is rounding
    table = pd.DataFrame({"sum": names, "margin": np.where(settled, 0.0, width)})
    table["kind"] = np.where(settled | known, "exact", found.kind)
    table["stderr"] = np.where(settled, 0.0, error)
    return table.set_index("sum")


def _cells_alone(law: Any, rows: sparse.csr_array, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are a multiple of one cell, and their margins where the law of cells is known."""
    rows = rows.copy()
    rows.eliminate_zeros()
    at = np.flatnonzero(np.diff(rows.indptr) == 1)
    try:
        found = error_law(law, None, None, 0) if at.size else None
    except UnsupportedError:
        found = None
    if found is None:
        return at[:0], np.zeros(0)
    entry = rows.indptr[at]
    width = np.asarray(found.margin(level), dtype=np.float64)
    return at, np.abs(rows.data[entry]) * width[rows.indices[entry]]


@in_float64
def _size(law: Any, rows: sparse.csr_array | None) -> np.ndarray:
    """The sd that each sum would have were the cells independent with the base's own scale."""
    scale = np.broadcast_to(np.asarray(law.scale, np.float64), (law.invariant.n,))
    return scale if rows is None else np.sqrt(rows.power(2) @ scale**2)


def _rows(workload: Any, cells: Sequence[str]) -> tuple[sparse.csr_array, tuple[str, ...] | None]:
    if not isinstance(workload, Mapping):
        return as_workload(workload, len(cells))
    place = {name: i for i, name in enumerate(cells)}
    rows, columns = [], []
    for number, (name, chosen) in enumerate(workload.items()):
        for cell in chosen:
            if str(cell) not in place:
                raise ValueError(
                    f'`workload` "{name}" names a cell "{cell}" that the release does not have. '
                    f'Cells are called as in `coords["cell"]`, such as "{cells[0]}".'
                )
            rows.append(number)
            columns.append(place[str(cell)])
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (len(workload), len(cells)))
    return matrix, tuple(str(name) for name in workload)
