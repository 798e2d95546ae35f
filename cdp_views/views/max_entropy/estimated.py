"""The privacy loss of a coupled release by simulation, with an error that the simulation knows."""

from typing import Any

import jax
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.loss import NestedLoss
from cdp_views.views._mixture import host_scale
from cdp_views.views.max_entropy.coupling import coupling_of
from cdp_views.views.max_entropy.particles import Group, ratios

_FEWEST, _MOST = 64, 128  # directions of the scales for each outcome
_NUMBERS = 4096  # directions times cells, where that leaves more than the fewest
_AT_ONCE = 2**20
_PADDED = 16


@in_float64
def estimated_loss(
    view: Any, key: Array, differences: sparse.csr_array, draws: int, inner: int | None = None
) -> NestedLoss:
    """The loss of every row v from outcomes x, each looked at from x + v and from x − v.

    Groups are independent, so ratios of those that v touches are multiplied. As an outcome serves
    twice, half of `draws` are made. See `particles` for what each of them costs and proves.

    Args:
        view: a `MaxEntropyCoupled` that is not a batch.
        key: a JAX key.
        differences: (m, n) on the subspace.
        draws: looks at the loss of each difference.
        inner: directions of the scales for each outcome; by size of the group if None.
    """
    groups, scale = view.groups, host_scale(view, "loss_estimates")
    seg = groups.segments
    labels = np.asarray(seg.labels)
    touched = np.unique(labels[np.unique(differences.indices[differences.data != 0])])
    if touched.size and touched[-1] == seg.count:
        raise ValueError("`differences` must touch cells of groups only; got a free cell.")
    coupling = coupling_of(view.mixing, seg, np.asarray(view.needed), touched)
    largest = int(np.max(np.asarray(seg.sizes), initial=1))
    needed = np.broadcast_to(np.asarray(view.needed, np.float64), (seg.count,))
    weights = np.ones(labels.size) if groups.weights is None else np.asarray(groups.weights)
    outcomes = max(-(-int(draws) // 2), 2)
    rows = []
    for row, row_key in enumerate(jax.random.split(key, differences.shape[0])):
        v = np.asarray(differences[[row]].toarray(), np.float64)[0]
        found = [np.ones((outcomes, 2))] * 3
        own = np.unique(labels[v != 0])
        for label, group_key in zip(own, jax.random.split(row_key, len(own)), strict=True):
            cells = np.flatnonzero(labels == label)
            cells = cells[np.argsort(v[cells] == 0, kind="stable")]  # those that move come first
            moved, m = int(np.count_nonzero(v[cells])), cells.size
            # as the largest group, unless that is far larger: then many sizes compile once
            size = m + m % 2 if m <= 4 else _whole(largest if largest <= 2 * m else m)

            def padded(a: np.ndarray, fill: float, size: int = size) -> Any:
                return float64(np.concatenate([a, np.full(size - a.size, fill)]))

            group = Group(
                mixing=jax.tree.map(lambda a, c=cells: _of_cells(a, c), view.mixing),
                coupling=_of_kind(coupling, int(np.searchsorted(touched, label))),
                weights=padded(weights[cells], 0.0),
                scale=padded(scale[cells], 1.0),
                needed=float64(needed[label]),
                member=jax.numpy.arange(size) < m,
                sizes=jax.numpy.array([m]),
                moved=moved,
                pair=m == 2,
            )
            several = inner or int(np.clip(_NUMBERS // _whole(m), _FEWEST, _MOST))
            several += several % 2
            block = int(np.clip(_AT_ONCE // (several * size), 1, outcomes))
            one = ratios(group, padded(v[cells], 0.0), group_key, outcomes, several, block)
            found = [a * np.asarray(b)[:outcomes] for a, b in zip(found, one, strict=True)]
        rows.append(found)
    ratio, test, rest = (np.stack(part) for part in zip(*rows, strict=True))
    return NestedLoss(ratio, test, rest)


def _whole(m: int) -> int:
    """Rounded up, for few different sizes."""
    return -(-m // _PADDED) * _PADDED


def _of_cells(leaf: Any, cells: np.ndarray) -> Any:
    """One number of a parameter, which is the same in all cells of a group."""
    return float64(leaf[cells[:1]]) if np.ndim(leaf) and leaf.shape[-1] > 1 else float64(leaf)


def _of_kind(coupling: Any, place: int) -> Any:
    """The table of one group alone."""
    kind = int(np.asarray(coupling.kind)[place])
    parts = [float64(np.asarray(a)[[kind]]) for a in (coupling.start, coupling.step)]
    table = float64(np.asarray(coupling.table)[[kind]])
    return type(coupling)(*parts, table, jax.numpy.zeros(1, "int32"))
