"""The largest privacy loss of conditioned noise, with totals of the data or fixed in advance.

Given A y = total the density at y is Π p(y_i − q_i)/f(r) on the subspace, with f the density of the
totals' noise and r = total − A q. For neighbours q and q + v, with t = A v,

    sup |L| = Σ sup_x log p(x)/p(x + v_i) + |log f(r) − log f(r − t)|.

Where the total is computed from the data, or v keeps it, t = 0 and only the first sum is left.
Otherwise f is that of this table's own r. A cell moved by t/b_i moves its group's total by t, so
the second term is at most min_i sup_x log p_i(x)/p_i(x + t/b_i), whatever the table.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Totals
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import Rayleigh
from cdp_views.noise.numerical import DoubledKolmogorov
from cdp_views.views._suprema import by_row, cell_supremum
from cdp_views.views.conditioned import omega

_LARGEST = 2 * 10**7  # cells times totals at which f is evaluated


class Supremum(NamedTuple):
    """Of every difference (m,): the largest loss at this table, whatever the table; how known."""

    here: np.ndarray
    anywhere: np.ndarray
    exact: bool
    """Whether the loss at this table comes as near to `here` as one likes."""


def of_any_totals(
    mixing: Mixing, matrix: sparse.csr_array, scale: np.ndarray, differences: sparse.csr_array
) -> Supremum | None:
    """The supremum where totals may overlap.

    t = A v is itself a move of cells by v, so f costs no more than the cells.
    """
    cells = _cells(mixing, scale, differences)
    if cells is None:
        return None
    change = abs(differences @ matrix.T).sum(axis=1)
    moved = change > 1e-12 * (abs(differences) @ abs(matrix).T).sum(axis=1)
    sup = by_row(differences, cells) * np.where(moved, 2.0, 1.0)
    ends = isinstance(mixing, Rayleigh | DoubledKolmogorov) and not moved.any()
    return Supremum(sup, sup, ends)


def of_groups(
    mixing: Mixing,
    groups: Totals,
    scale: np.ndarray,
    shift: np.ndarray | None,
    differences: sparse.csr_array,
) -> Supremum | None:
    """The supremum for disjoint totals, A·shift = r away from those of the data (None: 0)."""
    V = _without_fixed_cells(groups, differences)
    cells = _cells(mixing, scale, V)
    if cells is None:
        return None
    sup = by_row(V, cells)
    change = sparse.csr_array(V @ groups.matrix.T)
    change.data[np.abs(change.data) <= 1e-12 * _sizes(V, groups, change)] = 0.0
    change.eliminate_zeros()
    exact = _attained(mixing, groups, V)
    if shift is None or change.nnz == 0:
        return Supremum(sup, sup, exact)
    cheapest = _cheapest(mixing, groups, scale, change)
    anywhere = sup + by_row(change, cheapest)
    found = _here(mixing, groups, scale, shift, change)
    if found is None:
        return Supremum(anywhere, anywhere, False)
    sure = np.isfinite(found)  # far out, f of a heavy-tailed noise may be lost in rounding
    here = np.where(sure, np.minimum(sup + np.where(sure, found, 0), anywhere), anywhere)
    return Supremum(here, anywhere, exact and bool(sure.all()))


def _cells(mixing: Mixing, scale: np.ndarray, V: sparse.csr_array) -> np.ndarray | None:
    return cell_supremum(mixing, V.data / scale[V.indices], V.indices)


def _without_fixed_cells(groups: Totals, V: sparse.csr_array) -> sparse.csr_array:
    """A cell that is alone under its total has no noise, and shows nothing of the data."""
    alone = np.asarray(groups.determined)
    if not alone[V.indices].any():
        return V
    V = V.copy()
    V.data = np.where(alone[V.indices], 0.0, V.data)
    V.eliminate_zeros()
    return V


def _sizes(V: sparse.csr_array, groups: Totals, change: sparse.csr_array) -> np.ndarray:
    """Σ|b_i v_i| for each stored entry of A v, against which its rounding is seen."""
    gross = sparse.csr_array(abs(V) @ abs(groups.matrix).T)
    return np.asarray(gross[_rows(change), change.indices]).ravel() if change.nnz else change.data


def _rows(matrix: sparse.csr_array) -> np.ndarray:
    return np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))


def _attained(mixing: Mixing, groups: Totals, V: sparse.csr_array) -> bool:
    """Whether all touched cells can be where they lose most at once, their total as it must be."""
    labels, sizes = np.asarray(groups.segments.labels), np.asarray(groups.segments.sizes)
    b = np.ones(groups.n) if groups.weights is None else np.asarray(groups.weights)
    group = labels[V.indices]
    inside = group < groups.rank
    pair = (_rows(V) * (groups.rank + 1) + group)[inside]
    _, index = np.unique(pair, return_inverse=True)
    touched = np.bincount(index)
    spare = touched < sizes[group[inside]][np.unique(index, return_index=True)[1]]
    if not isinstance(mixing, Rayleigh | DoubledKolmogorov):
        return bool(spare.all())
    # in the tails both ends are open: enough that some cells pull up and others down
    pull = (b[V.indices] * V.data)[inside]
    up = np.bincount(index, pull > 0) > 0
    down = np.bincount(index, pull < 0) > 0
    return bool(np.all(spare | (up & down)))


def _cheapest(
    mixing: Mixing, groups: Totals, scale: np.ndarray, change: sparse.csr_array
) -> np.ndarray:
    """min_i sup log p_i(x)/p_i(x + t/b_i) over the cells of each entry's group."""
    labels = np.asarray(groups.segments.labels)
    b = np.ones(groups.n) if groups.weights is None else np.abs(np.asarray(groups.weights))
    worth = np.where(labels < groups.rank, b * scale, 0.0)
    # the widest cell in every group; of equal laws it is the cheapest at any t
    best = np.zeros(groups.rank, dtype=np.int64)
    order = np.argsort(worth, kind="stable")
    order = order[labels[order] < groups.rank]
    best[labels[order]] = order  # of repeated writes the last one stays
    cell = best[change.indices]
    found = cell_supremum(mixing, change.data / worth[cell], cell)
    assert found is not None
    return found


def _here(
    mixing: Mixing,
    groups: Totals,
    scale: np.ndarray,
    shift: np.ndarray,
    change: sparse.csr_array,
) -> np.ndarray | None:
    """|log f(r) − log f(r ∓ t)| of every row, the larger sign, with the quadrature's error."""
    group, rows = change.indices, _rows(change)
    pairs, place = np.unique(
        np.stack([group, change.data]), axis=1, return_inverse=True
    )  # by group, then by t
    owner, t = pairs[0].astype(np.int64), pairs[1]
    starts = np.searchsorted(owner, np.arange(groups.rank))
    slot = np.arange(owner.size) - starts[owner]
    most = int(slot.max()) + 1
    if (2 * most + 1) * groups.n > _LARGEST:
        return None
    steps = np.zeros((most, groups.rank))
    steps[slot, owner] = t
    log_f, error = _log_densities(mixing, groups, scale, shift, steps)
    here, less, more = log_f[0], log_f[1 : most + 1], log_f[most + 1 :]
    worst = error.max(axis=0)[owner]
    slack = np.where(worst < 1e-6, 2 * worst, np.inf)
    sizes = []
    for there in (less, more):
        gap = here[owner] - there[slot, owner]
        sizes.append(np.abs(np.bincount(rows, gap[place.ravel()], len(change.indptr) - 1)))
    rounding = np.bincount(rows, slack[place.ravel()], len(change.indptr) - 1)
    return np.maximum(*sizes) + rounding


@in_float64
def _log_densities(
    mixing: Mixing, groups: Totals, scale: np.ndarray, shift: np.ndarray, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log f at r, r − steps and r + steps, (1 + 2k, G), and the relative error of f there."""
    r = np.asarray(groups.evaluate(float64(shift)))
    b = np.ones(groups.n) if groups.weights is None else np.abs(np.asarray(groups.weights))
    c, tau = float64(b * scale), np.concatenate([r[None], r - steps, r + steps])

    def at(tau: Any) -> tuple[Any, Any]:
        nodes = omega.quadrature(mixing, c, groups.segments, tau)
        return nodes.log_f, omega.quadrature_error(nodes)

    run = jax.jit(at)
    log_f, error = zip(*(run(float64(row)) for row in tau), strict=True)
    return np.stack(log_f), np.stack(error)
