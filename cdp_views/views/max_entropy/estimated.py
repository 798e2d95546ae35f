"""Draws of the privacy loss of a coupled release, from densities that are themselves estimated."""

from typing import Any

import jax
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Totals
from cdp_views.views._mixture import host_scale
from cdp_views.views.max_entropy.density import estimate

INNER = 400
"""Draws of the scales for each density; half of them for the coarse ones."""


@in_float64
def estimated_losses(
    view: Any, key: Array, differences: sparse.csr_array, draws: int, inner: int = INNER
) -> tuple[np.ndarray, np.ndarray]:
    """log p̂(X) − log p̂(X + v) for every row v, twice: (m, draws) fine and coarse.

    Every density is estimated from scales of its own, so that errors of different draws of X are
    independent and show in their spread. Groups are independent: only those touched are drawn.
    """
    groups, scale = view.groups, host_scale(view, "loss_estimates")
    labels = np.asarray(groups.segments.labels)
    touched = np.unique(differences.indices)
    near = np.isin(labels, labels[touched]) & (labels < groups.rank)
    near[touched] = True
    cells = np.flatnonzero(near)
    _, inner_label = np.unique(labels[cells], return_inverse=True)
    inner_label = np.where(labels[cells] == groups.rank, -1, inner_label)
    weights = None if groups.weights is None else np.asarray(groups.weights)[cells]
    part = view.on_cells(Totals.of(inner_label, None, weights), scale[cells], cells)
    first, second = jax.random.split(key)
    x = np.asarray(part.sample_noise(first, (draws,)))
    moved = np.asarray(differences[:, cells].toarray())
    tables = np.concatenate([x[None], x + moved[:, None]])
    # two densities of each, from half of the scales; their mean is that from all of them
    twice = float64(np.stack([tables, tables]))
    half = np.asarray(estimate(part, twice, second, max(inner // 2, 10)).log_density)
    fine, coarse = np.logaddexp(half[0], half[1]) - np.log(2), half[0]
    return fine[0] - fine[1:], coarse[0] - coarse[1:]
