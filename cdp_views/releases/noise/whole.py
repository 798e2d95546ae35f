"""Whole noise from a release's secret: each random number belongs to a cell or a node of a tree."""

import numpy as np
from scipy import sparse

from cdp_views._segments import Segments
from cdp_views.invariants import Invariant
from cdp_views.noise import masses
from cdp_views.precision.given_totals import GivenTotals
from cdp_views.precision.whole_splits import Splits
from cdp_views.precision.whole_sums import Mass
from cdp_views.precision.words import uniform
from cdp_views.releases.noise import blocks
from cdp_views.releases.noise.blocks import splits_of
from cdp_views.releases.noise.secret import Secret

CELL, ORDER, NODE, PART = 16, 17, 18, 19  # purposes of the bits


def draw_whole(
    secret: Secret,
    ids: np.ndarray,
    view: str,
    noise: str,
    scale: np.ndarray,
    invariant: Invariant,
) -> np.ndarray:
    """The noise X (n,), int64 with A X = 0.

    Args: as `drawing.draw`.
    """
    groups = invariant.plain_groups
    if groups is not None and (np.ndim(scale) == 0 or np.all(scale == scale.flat[0])):
        return _equal(secret, ids, view, splits_of(noise, float(np.ravel(scale)[0])), groups)
    scales, which = np.unique(np.broadcast_to(scale, (invariant.n,)), return_inverse=True)
    laws = [Mass(*masses(noise, float(s))) for s in scales]
    if view == "conditioned":
        return _given(secret, ids, GivenTotals(invariant.matrix, which, laws))
    return _imaged(secret, ids, which, laws, invariant)


def _equal(
    secret: Secret, ids: np.ndarray, view: str, splits: Splits, groups: Segments
) -> np.ndarray:
    """Cells of one law under disjoint totals: see `blocks`."""
    labels, sizes = np.asarray(groups.labels), np.asarray(groups.sizes, dtype=np.int64)
    draw = blocks.conditioned if view == "conditioned" else blocks.imaged
    if groups.width is not None:  # group after group already
        return draw(secret, lambda cells: ids[:, cells], sizes, splits)
    order = np.argsort(labels, kind="stable")
    member = order[: int(sizes.sum())]
    x = np.empty(labels.size, dtype=np.int64)
    if member.size:
        x[member] = draw(secret, lambda cells: ids[:, member[cells]], sizes, splits)
    free = order[member.size :]
    x[free] = blocks.independent(secret, ids[:, free], splits)
    return x


def _imaged(
    secret: Secret, ids: np.ndarray, which: np.ndarray, laws: list[Mass], invariant: Invariant
) -> np.ndarray:
    """U less its share of the group's residual; what is left over goes to cells in random order."""
    groups = invariant.plain_groups
    assert groups is not None  # `Imaged` has refused all others
    labels, count = np.asarray(groups.labels), groups.count
    sizes = np.asarray(groups.sizes, dtype=np.int64)
    draws = uniform(secret.words(ids, CELL)[0])
    u = np.empty(labels.size, dtype=np.int64)
    for number, mass in enumerate(laws):
        ladder, cells = np.cumsum(mass.p), np.flatnonzero(which == number)
        u[cells] = mass.low + np.searchsorted(ladder, draws[cells] * ladder[-1], side="right")
    pattern = sparse.csr_array((np.ones(u.size, np.int64), (labels, np.arange(u.size))))
    residual = np.asarray(pattern @ u)[:count]
    step, left = residual // sizes, residual % sizes
    order = np.lexsort((secret.words(ids, ORDER)[0], labels))
    rank = np.empty(u.size, dtype=np.int64)
    rank[order] = np.arange(u.size)
    member = labels < count
    here = np.where(member, labels, 0)
    extra = rank - np.concatenate([[0], np.cumsum(sizes)])[here] < left[here]
    return u - np.where(member, step[here] + extra, 0)


def _given(secret: Secret, ids: np.ndarray, given: GivenTotals) -> np.ndarray:
    """The cells of each class from its sum, halving them again and again.

    A node's number belongs to the id of its first cell and to its size, which no other node has.
    """
    ids = ids[:, given.order]
    totals = np.zeros(given.begins.size, dtype=np.int64)
    for part in given.parts:
        if len(part.points) == 1:
            totals[part.classes] = part.points[0]
            continue
        ladder = np.cumsum(part.share)
        first = given.begins[part.classes[:1]]
        at = uniform(secret.words(ids[:, first], PART)[0])
        place = np.searchsorted(ladder, at * ladder[-1], side="right")
        totals[part.classes] = part.points[int(place[0])]
    out = np.empty(given.n, dtype=np.int64)
    given.sums.split(
        lambda start, size: uniform(secret.words(ids[:, start], NODE, size)[0]),
        given.class_kinds,
        given.begins,
        totals,
        out,
    )
    back = np.empty(given.n, dtype=np.int64)
    back[given.order] = out
    return back
