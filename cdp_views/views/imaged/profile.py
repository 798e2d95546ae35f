"""The privacy profile of imaged Laplace noise: of its base, moved along the fibres as may be.

Tables that differ along a fibre have one image, and an image is a function of the base's draw, so

    δ_imaged(ε; v) ≤ δ_base(ε; v + Σ_g w_g u_g)   at every ε, for every w,

with δ_base of independent cells. Tried are w = 0 and, in groups of up to twelve cells, the w that
makes the supremum smallest; what the supremum alone proves is taken where that is less. Exact where
a row moves one or two cells that lie on no fibre, or cells of one group of two.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse

from cdp_views.loss import BoundedLoss, ProfileLoss
from cdp_views.loss.by_law import ByLaw, Later
from cdp_views.precision.laplace_profile import independent_cells
from cdp_views.precision.laplace_profile_image import two_along_a_fibre

Profile = Callable[[np.ndarray], np.ndarray]
Law = tuple[str, float, tuple[tuple[float, ...], ...]]

_SMALL = 12
_LESS = 1 - 1e-9
_NONE = np.zeros(0, dtype=np.int64)


def imaged_profile(
    differences: sparse.csr_array,
    sup: np.ndarray,
    u: np.ndarray,
    rate: np.ndarray,
    labels: np.ndarray,
    count: int,
) -> ProfileLoss:
    """The loss of every row v, with its supremum known: exact where every row is, else a bound.

    Args:
      differences: (m, n) rows v.
      sup: (m,) min_w ‖(v + uw)/λ‖₁.
      u: (n,) the fibre's direction.
      rate: (n,) 1/λ.
      labels: (n,) the group of every cell, `count` for a cell on no fibre.
      count: how many groups.
    """
    sizes = np.append(np.bincount(labels, minlength=count + 1)[:count], 0)
    entries = sparse.coo_array(differences)
    kept = (entries.data != 0) & (sizes[labels[entries.col]] != 1)  # one cell alone: nothing shows
    row, group = entries.row[kept].astype(np.int64), labels[entries.col[kept]].astype(np.int64)
    m: int = differences.shape[0]
    cells, free = np.bincount(row, minlength=m), np.bincount(row, group == count, m)
    block = np.unique(row * (count + 1) + group)
    blocks = np.bincount(block // (count + 1), minlength=m)
    in_pair = np.bincount(row, sizes[group] == 2, m)
    exact = (cells == free) & (cells <= 2) | (cells == in_pair) & (blocks <= 1)
    moved = sparse.csr_array(
        (entries.data[kept], (entries.row[kept], entries.col[kept])), shape=differences.shape
    )
    make = partial(_by_law, moved, sup, u, rate, labels, count, sizes)
    return ProfileLoss(Later(make), sup, kind="exact" if exact.all() else "bound")


def _by_law(
    moved: sparse.csr_array,
    sup: np.ndarray,
    u: np.ndarray,
    rate: np.ndarray,
    labels: np.ndarray,
    count: int,
    sizes: np.ndarray,
) -> ByLaw:
    members = _members(labels, count, sizes)
    law = np.empty(sup.size, dtype=np.int64)
    seen: dict[Law, int] = {}
    for j in range(sup.size):
        part = slice(moved.indptr[j], moved.indptr[j + 1])
        key = _law(moved.indices[part], moved.data[part], sup[j], u, rate, labels, count, members)
        law[j] = seen.setdefault(key, len(seen))
    laws = list(seen)
    return ByLaw([partial(_profile, key) for key in laws], law, np.array([key[1] for key in laws]))


def _members(labels: np.ndarray, count: int, sizes: np.ndarray) -> dict[int, np.ndarray]:
    """The cells of every small group."""
    small = np.flatnonzero((sizes[:count] > 0) & (sizes[:count] <= _SMALL))
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=count + 1))
    return {g: order[ends[g] - sizes[g] : ends[g]] for g in small.tolist()}


def _law(
    cell: np.ndarray,
    v: np.ndarray,
    sup: float,
    u: np.ndarray,
    rate: np.ndarray,
    labels: np.ndarray,
    count: int,
    members: dict[int, np.ndarray],
) -> Law:
    """What the profile of a row is made of: equal for rows of equal law."""
    group = labels[cell]
    groups = np.unique(group).tolist()
    if len(groups) == 1 and groups[0] < count and members.get(groups[0], _NONE).size == 2:
        one, two = members[groups[0]]
        first, second = (float(v[cell == i].sum()) for i in (one, two))
        one_scale, two_scale = sorted((abs(u[two]) / rate[one], abs(u[one]) / rate[two]))
        shift = abs(first * u[two] - second * u[one])
        return "pair", sup, ((float(shift), float(one_scale), float(two_scale)),)
    shifts = np.abs(v) * rate[cell]
    plain = tuple(np.sort(shifts).tolist())
    if all(g == count for g in groups) and len(plain) <= 2:
        return "cells", sup, (plain,)
    if sup >= _LESS * shifts.sum():
        return "bound", sup, (plain,)
    least: list[float] = shifts[group == count].tolist()
    for g in groups:
        own = group == g
        if g == count:
            continue
        if g not in members:
            least += shifts[own].tolist()
            continue
        there = members[g]
        whole = np.zeros(there.size)
        whole[np.searchsorted(there, cell[own])] = v[own]
        moves = np.append(-v[own] / u[cell[own]], 0.0)
        tried = np.abs(whole + moves[:, None] * u[there]) * rate[there]
        least += tried[np.argmin(tried.sum(axis=1))].tolist()
    return "bound", sup, (plain, tuple(sorted(a for a in least if a > 0)))


def _profile(law: Law) -> Profile:
    kind, sup, shifts = law
    if kind == "pair":
        shift, one, two = shifts[0]
        return two_along_a_fibre(shift, (one, two))
    bounds = [independent_cells(own) for own in shifts]
    if kind == "cells":
        return bounds[0]
    alone = BoundedLoss(np.array([sup]))

    def least(epsilon: np.ndarray) -> np.ndarray:
        proved = alone.delta(epsilon[..., None])[..., 0]
        return np.minimum.reduce([proved, *(bound(epsilon) for bound in bounds)])

    return least
