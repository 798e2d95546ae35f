"""The privacy profile of imaged Laplace noise: of what is left of its base, seen along the fibres.

In units of the fibre u a cell has rate |u_i|/λ_i and moves by v_i/u_i. Cells of a group that move
alike lose no more than one of the sum of their rates (`three_along_a_fibre` has the proof), so

    different moves in one group     profile of
    two                              two cells along a fibre, exact in groups of two
    three                            three cells along a fibre, exact in groups of three

A larger rate never lowers it. Beyond that, and where the cells at rest are many, all that is used
is that an image is a function of the base's draw, and that tables that differ along a fibre have
one image:

    δ_imaged(ε; v) ≤ δ_base(ε; v + Σ_g w_g u_g)   at every ε, for every w,

with δ_base of independent cells. Tried are w = 0 and, in groups of up to twelve cells, the w that
makes the supremum smallest; what the supremum alone proves is taken where that is less. Also exact
is a row that moves one or two cells that lie on no fibre.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse

from cdp_views.loss import BoundedLoss, ProfileLoss
from cdp_views.loss.by_law import ByLaw, Later
from cdp_views.precision.laplace_profile import independent_cells
from cdp_views.precision.laplace_profile_fibre import three_along_a_fibre
from cdp_views.precision.laplace_profile_image import two_along_a_fibre

Profile = Callable[[np.ndarray], np.ndarray]
Law = tuple[str, float, tuple[tuple[float, ...], ...]]

_SMALL = 12
_STRIPS = 4
_MANY = 32  # times the rates of those that move: the cells at rest show nearly all of the base
_LESS = 1 - 1e-9
_NARROW = 1e-6
_NOTHING = 1e-12
_ROUNDING = 2.0**-36


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
    in_few = np.bincount(row, (sizes[group] >= 2) & (sizes[group] <= 3), m)
    exact = (cells == free) & (cells <= 2) | (cells == in_few) & (blocks <= 1)
    moved = sparse.csr_array(
        (entries.data[kept], (entries.row[kept], entries.col[kept])), shape=differences.shape
    )
    make = partial(_by_law, moved, sup, u, rate, labels, count, sizes)
    return ProfileLoss(Later(make), sup, kind="exact" if exact.all() else "bound")


def pairs_below(total: float, largest: float, whole: float) -> ProfileLoss:
    """The loss of any two cells of rates at most `largest`, in sum at most `total`, that part by 2.

    They move against each other by one unit each, and the cells at rest in their group have rates
    of at most `whole` in sum. A larger rate never lowers a profile, so pairs r ≤ s with s between
    s_k and s_{k+1} lose no more than (total − s_k, s_{k+1}) beside one cell of rate `whole`; the
    largest of those over strips from total/2 to `largest`, or what the base loses where that is
    less. (With few cells at rest the profile is *not* largest for the most uneven pair of a given
    sum, so that the base's worst pair alone would prove nothing.)

    Args:
      total: largest Σ |v_i|/λ_i of the two cells.
      largest: largest |v_i|/λ_i of one.
      whole: largest Σ 1/λ_i of a group, in units of the move.
    """
    larger = min(largest, total)
    base = independent_cells([max(total - larger, 0.0), larger])
    if not whole <= _MANY * total:
        return ProfileLoss(base, np.array([total]), "bound", "bound")
    edges = np.linspace(0.5 * total, max(larger, 0.5 * total), _STRIPS + 1)
    if edges[-1] - edges[0] <= _NARROW * total:
        edges = edges[[0, -1]]
    strips = [
        three_along_a_fibre((1.0, -1.0), (b, total - a, whole))
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]

    def least(epsilon: np.ndarray) -> np.ndarray:
        return np.minimum(base(epsilon), np.maximum.reduce([strip(epsilon) for strip in strips]))

    return ProfileLoss(least, np.array([total]), "bound", "bound")


def whole_of_groups(u: np.ndarray, rate: np.ndarray, labels: np.ndarray, count: int) -> float:
    """The largest sum of rates in a group, for `pairs_below`; infinite where that is not enough.

    Where fibres are not alike a pair may move by unlike amounts, and free cells show all they are.
    """
    if np.any(labels == count) or np.ptp(np.abs(u)) > 0:
        return np.inf
    return float(np.bincount(labels, rate, count).max())


def _by_law(
    moved: sparse.csr_array,
    sup: np.ndarray,
    u: np.ndarray,
    rate: np.ndarray,
    labels: np.ndarray,
    count: int,
    sizes: np.ndarray,
) -> ByLaw:
    fibres = _Fibres(u, rate, labels, count, sizes)
    law = np.empty(sup.size, dtype=np.int64)
    seen: dict[Law, int] = {}
    for j in range(sup.size):
        part = slice(moved.indptr[j], moved.indptr[j + 1])
        key = fibres.law(moved.indices[part], moved.data[part], float(sup[j]))
        law[j] = seen.setdefault(key, len(seen))
    laws = list(seen)
    tops = np.array([key[1] for key in laws])
    makers = [partial(_profile, key) for key in laws]
    cap = partial(_cap, [_base(key) for key in laws])
    return ByLaw(makers, law, tops, cap=cap, over=_dominating(laws))


class _Fibres:
    """The cells of every group, in the units of its fibre."""

    def __init__(
        self, u: np.ndarray, rate: np.ndarray, labels: np.ndarray, count: int, sizes: np.ndarray
    ) -> None:
        self.u, self.rate, self.labels, self.count, self.sizes = u, rate, labels, count, sizes
        self.along = np.abs(u) * rate
        self.whole = np.bincount(labels, self.along, count + 1)
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=count + 1))
        self._cells = order, ends

    def members(self, g: int) -> np.ndarray:
        """Its cells, in order."""
        order, ends = self._cells
        return order[ends[g] - self.sizes[g] : ends[g]]

    def law(self, cell: np.ndarray, v: np.ndarray, sup: float) -> Law:
        """What the profile of a row is made of: equal for rows of equal law."""
        group = self.labels[cell]
        groups = np.unique(group).tolist()
        shifts = np.abs(v) * self.rate[cell]
        plain = tuple(np.sort(shifts).tolist())
        if all(g == self.count for g in groups) and len(plain) <= 2:
            return "cells", sup, (plain,)
        if sup <= _NOTHING * shifts.sum():  # along the fibre: nothing shows
            return "bound", sup, ()
        if len(groups) == 1 and groups[0] < self.count:
            few = self._few(cell, v, groups[0])
            if few is not None:
                return "few", sup, (few,)
        if sup >= _LESS * shifts.sum():
            return "bound", sup, (plain,)
        return "bound", sup, (plain, self._least(cell, v, groups))

    def _few(self, cell: np.ndarray, v: np.ndarray, g: int) -> tuple[float, ...] | None:
        """Moves p and q of two cells, and rates of these and of a third that stays.

        None if more cells than three are left, or the third shows nearly all of the base.
        """
        moves, rates = v / self.u[cell], self.along[cell]
        if self.sizes[g] <= 3:  # all of them
            there = self.members(g)
            moves, rates = np.zeros(there.size), self.along[there]
            moves[np.searchsorted(there, cell)] = v / self.u[cell]
        else:
            rest = 0.0
            if cell.size < self.sizes[g]:
                unit = _ROUNDING * 2.0 ** np.floor(np.log2(self.whole[g]))
                rest = float(np.ceil(max(self.whole[g] - rates.sum(), 0.0) / unit + 1) * unit)
            if rest > _MANY * rates.sum():
                return None
            unit = _ROUNDING * 2.0 ** np.floor(np.log2(np.max(np.abs(moves))))
            moves = np.append(np.round(moves / unit) * unit, 0.0)
            moves, place = np.unique(moves, return_inverse=True)
            rates = np.bincount(place, np.append(rates, rest), moves.size)
            moves, rates = moves[rates > 0], rates[rates > 0]
        if moves.size > 3:
            return None
        if moves.size == 2:
            moves, rates = np.append(moves, moves[1]), np.append(rates, 0.0)
        return _in_order(moves, rates)

    def _least(self, cell: np.ndarray, v: np.ndarray, groups: list[int]) -> tuple[float, ...]:
        """Shifts of the base where the supremum is least, as far as that was looked for."""
        group, least = self.labels[cell], []
        for g in groups:
            own = group == g
            if g == self.count or self.sizes[g] > _SMALL:
                least += (np.abs(v[own]) * self.rate[cell[own]]).tolist()
                continue
            there = self.members(g)
            whole = np.zeros(there.size)
            whole[np.searchsorted(there, cell[own])] = v[own]
            moves = np.append(-v[own] / self.u[cell[own]], 0.0)
            tried = np.abs(whole + moves[:, None] * self.u[there]) * self.rate[there]
            least += tried[np.argmin(tried.sum(axis=1))].tolist()
        return tuple(sorted(a for a in least if a > 0))


def _in_order(moves: np.ndarray, rates: np.ndarray) -> tuple[float, ...]:
    """p, q and rates of cells one, two and the one taken to stay, the same for what loses alike.

    One and two are those of least and largest move where no rate is 0, and −x loses like x.
    """
    if rates[2] == 0:
        p, (a, b) = abs(float(moves[0] - moves[1])), sorted(rates[:2].tolist(), reverse=True)
        return p, 0.0, a, b, 0.0
    order = np.argsort(moves, kind="stable")
    one, two, stays = order[2], order[0], order[1]
    p, q = float(moves[one] - moves[stays]), float(moves[two] - moves[stays])
    if (-q, rates[two]) > (p, rates[one]):
        one, two, p, q = two, one, -q, -p
    return p, q, float(rates[one]), float(rates[two]), float(rates[stays])


def _dominating(laws: list[Law]) -> np.ndarray:
    """For each law a law of the same moves and larger rates that no other dominates, else −1."""
    over = np.full(len(laws), -1)
    like: dict[tuple[float, float], list[int]] = {}
    for k, (kind, _, parts) in enumerate(laws):
        if kind == "few":
            p, q = parts[0][:2]
            # two cells are three of which one shows nothing
            like.setdefault((p - q, 0.0) if q == 0 else (p - q, p + q), []).append(k)
    for own in like.values():
        rates = np.array([laws[k][2][0][2:] for k in own])
        order = np.argsort(-rates.sum(axis=1), kind="stable")
        best: list[int] = []
        for i in order.tolist():
            above = np.all(rates[best] >= rates[i], axis=1)
            if above.any():
                over[own[i]] = own[best[int(np.argmax(above))]]
            else:
                best.append(i)
    return over


def _base(law: Law) -> Profile:
    """A profile above this one, in closed form: imaging shows no more than the base does."""
    kind, sup, parts = law
    if kind == "few":
        p, q, one, two, _ = parts[0]
        return independent_cells([abs(p) * one, abs(q) * two])
    alone = BoundedLoss(np.array([sup]))
    return lambda epsilon: alone.delta(epsilon[..., None])[..., 0]


def _cap(bases: list[Profile], epsilon: np.ndarray, laws: np.ndarray) -> np.ndarray:
    """Bounds of some laws (q,) at ε (p, 1): (p, q)."""
    return np.stack([bases[k](epsilon[..., 0]) for k in laws.tolist()], axis=-1)


def _profile(law: Law) -> Profile:
    kind, sup, parts = law
    if kind == "few":
        p, q, one, two, stays = parts[0]
        if stays == 0:
            return two_along_a_fibre(p, (1 / one, 1 / two))
        return three_along_a_fibre((p, q), (one, two, stays))
    bounds = [independent_cells(own) for own in parts]
    if kind == "cells":
        return bounds[0]
    alone = BoundedLoss(np.array([sup]))

    def least(epsilon: np.ndarray) -> np.ndarray:
        proved = alone.delta(epsilon[..., None])[..., 0]
        return np.minimum.reduce([proved, *(bound(epsilon) for bound in bounds)])

    return least
