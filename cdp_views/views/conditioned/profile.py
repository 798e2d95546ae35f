"""The privacy profile of conditioned Laplace noise, of every difference that keeps the totals.

Groups are independent, and so are cells in no group, so the loss is a sum of independent parts:

    one part                  profile
    a cell in no group        exact: one Laplace cell
    two cells of a group      exact: `two_of_a_total`
    more cells of a group     bounded from its supremum Σ|v_i|/λ_i alone
    several such parts        from above: `convolved` (two free cells: exact)

Exact is to 1e-11, and so is which difference is worst: those left out are bounded, see `ByLaw`.

Of two differences of one group that move the same amount w, one between cells of smaller scales
leaks more at every ε. Proof, for u of scale c and u′ of scale c′ > c, either moving against t: a
Laplace(c′) variable is a Laplace(c) one plus an independent ζ. From the release in which t and u
moved, make one in which t and u′ did: give u's place to u′ by adding ζ, and split u′ into ζ and a
new u by their law given their sum. So the second is a randomised function of the first.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from cdp_views.loss import BoundedLoss, ProfileLoss
from cdp_views.loss.by_law import ByLaw, Later, Profile
from cdp_views.precision.laplace_profile import independent_cells, two_cells
from cdp_views.precision.laplace_profile_caps import shares_of_free_cells
from cdp_views.precision.laplace_profile_pair import two_of_a_total
from cdp_views.precision.laplace_profile_pairs import ERROR, NEAR, ManyPairs, is_short
from cdp_views.precision.laplace_profile_sum import convolved, tabulated

_CELL, _PAIR, _MANY = 0, 1, 2


@dataclass(frozen=True)
class Part:
    """One of the independent parts of a loss."""

    kind: int
    sup: float
    move: float
    pair: tuple[float, float]
    group: int

    def make(self, groups: list[np.ndarray]) -> Profile:
        """Its profile; `groups` are the scales of the cells of every kind of group."""
        if self.kind == _CELL:
            return lambda epsilon: two_cells(epsilon, 0.0, self.sup)
        if self.kind == _MANY:
            law = BoundedLoss(np.array([self.sup]))
            return lambda epsilon: law.delta(epsilon[..., None])[..., 0]
        rest = _without(groups[self.group], self.pair)
        if is_short(rest, self.pair, self.move, 0.5):
            return self.many(rest, NEAR)
        return two_of_a_total(self.move, self.pair, *np.unique(rest, return_counts=True))

    def quick(self, groups: list[np.ndarray]) -> Profile:
        """From above, and quick to ask at many ε."""
        if self.kind != _PAIR:
            return self.make(groups)
        rest = _without(groups[self.group], self.pair)
        short = is_short(rest, self.pair, self.move)
        return tabulated(self.many(rest, ERROR) if short else self.make(groups), self.sup)

    def many(self, rest: np.ndarray, error: float) -> Profile:
        """The profile of a short move, rounded up by `error`."""
        many = ManyPairs(np.array([self.move]), np.array([self.pair]), [rest])

        def profile(epsilon: np.ndarray) -> np.ndarray:
            epsilon = np.asarray(epsilon, float)
            value = many(epsilon.ravel(), np.zeros(epsilon.size, dtype=np.int64))
            return np.minimum(value * (1 + error), 1.0).reshape(epsilon.shape)

        return profile


def conditioned_profile(
    differences: sparse.csr_array, scale: np.ndarray, b: np.ndarray, labels: np.ndarray, count: int
) -> ProfileLoss:
    """The loss of every row v, A v = 0: exact where every row is, else a bound.

    Args:
      differences: (m, n) rows v.
      scale: (n,) λ.
      b: (n,) weights.
      labels: (n,) the group of every cell, `count` for a cell in no group.
      count: how many groups.
    """
    blocks = _Blocks.of(differences, np.abs(b) * scale, scale, labels, count)
    profile = Later(partial(_by_law, blocks, differences.shape[0]))
    sup = abs(differences) @ (1 / scale)
    kind = "exact" if blocks.exact() else "bound"
    return ProfileLoss(profile, sup, kind=kind, by_exposure=True)


def _by_law(blocks: "_Blocks", m: int) -> ByLaw:
    parts, part, groups = _parts(blocks)
    law, members = _laws(blocks.row, part, m)
    table = _Tables(parts, groups)
    shifts = np.array([_two_shifts([parts[i].sup for i in own]) for own in members])
    share, free = _free_pairs(parts, members, groups)

    def cap(epsilon: np.ndarray, laws: np.ndarray) -> np.ndarray:
        # every part loses no more than one free cell of the same supremum, `many` excepted; two of
        # a total no more than two free cells, times how much likelier what is seen of them is
        alone = two_cells(epsilon, *shifts[laws].T)
        known = np.isfinite(share[laws])
        seen = np.where(known, share[laws], 1.0) * two_cells(epsilon, *free[laws].T)
        return np.where(known, np.minimum(alone, seen), alone)

    return ByLaw(
        [partial(table.profile, own) for own in members],
        law,
        np.array([sum(parts[i].sup for i in own) for own in members]),
        cap if all(part.kind != _MANY for part in parts) else None,
        _dominating(parts, members),
        partial(_screen, parts, members, groups),
        ERROR,
    )


def _screen(
    parts: list[Part],
    members: list[tuple[int, ...]],
    groups: list[np.ndarray],
    laws: np.ndarray,
    epsilon: np.ndarray,
) -> np.ndarray:
    """Profiles of laws of one pair and a short move, infinite for others: (p, q)."""
    value = np.full((epsilon.size, laws.size), np.inf)
    able, rests = [], []
    for place, k in enumerate(laws.tolist()):
        part = parts[members[k][0]]
        if len(members[k]) == 1 and part.kind == _PAIR:
            rest = _without(groups[part.group], part.pair)
            if is_short(rest, part.pair, part.move):
                able.append(place)
                rests.append(rest)
    if able:
        own = [parts[members[k][0]] for k in laws[able].tolist()]
        many = ManyPairs(np.array([p.move for p in own]), np.array([p.pair for p in own]), rests)
        every = many(np.tile(epsilon, len(own)), np.repeat(np.arange(len(own)), epsilon.size))
        value[:, able] = every.reshape(len(own), epsilon.size).T
    return value


def _without(scales: np.ndarray, pair: tuple[float, float]) -> np.ndarray:
    """Sorted scales but for two of them."""
    first = int(np.searchsorted(scales, pair[0]))
    second = int(np.searchsorted(scales, pair[1])) + (pair[0] == pair[1])
    return np.delete(scales, [first, second])


class _Tables:
    """Profiles of laws, with what several of them share made once."""

    def __init__(self, parts: list[Part], groups: list[np.ndarray]) -> None:
        self.parts, self.groups = parts, groups
        self._made: dict[int, Profile] = {}

    def profile(self, own: tuple[int, ...]) -> Profile:
        """Of the law with these parts: exact if it is one of them, else from above."""
        parts = [self.parts[i] for i in own]
        cells = [part.sup for part in parts if part.kind == _CELL]
        if len(cells) == len(parts):
            return independent_cells(cells)
        if len(parts) == 1:
            return parts[0].make(self.groups)
        made = [
            (self._of_part(i), part.sup)
            for i, part in zip(own, parts, strict=True)
            if part.kind != _CELL
        ]
        if cells:
            made.append((independent_cells(cells), sum(cells)))
        return convolved(made)

    def _of_part(self, i: int) -> Profile:
        if i not in self._made:
            self._made[i] = self.parts[i].quick(self.groups)
        return self._made[i]


def _two_shifts(sups: list[float]) -> tuple[float, float]:
    """Shifts of two cells that lose as much, or more: one cell loses more than two of its parts."""
    sums = [0.0, 0.0]
    for a in sorted(sups, reverse=True):
        sums[int(sums[1] < sums[0])] += a
    return min(sums), max(sums)


def _free_pairs(
    parts: list[Part], members: list[tuple[int, ...]], groups: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """For each law (k,) and (k, 2): c and shifts a ≤ b with profile ≤ c·that of two free cells."""
    share, free = np.full(len(members), np.inf), np.ones((len(members), 2))
    own = [parts[own[0]] for own in members]
    pairs = [k for k, part in enumerate(own) if len(members[k]) == 1 and part.kind == _PAIR]
    if len(pairs) > 1:
        c = np.array([own[k].pair for k in pairs])
        group = np.array([own[k].group for k in pairs])
        share[pairs] = shares_of_free_cells(groups, group, c) * (1 + 1e-9)
        free[pairs] = np.array([own[k].move for k in pairs])[:, None] / c[:, ::-1]
    return share, free


@dataclass(frozen=True)
class _Blocks:
    """The cells that each row moves in each group, or one by one where they are in none: (p,)."""

    row: np.ndarray
    size: np.ndarray
    """How many cells are moved."""
    sup: np.ndarray
    """Σ|v_i|/λ_i of them."""
    move: np.ndarray
    pair: np.ndarray
    """(p, 2) scales of the first two cells, the smaller first."""
    group: np.ndarray
    """Their group, `count` for none."""
    cells: np.ndarray
    """Cells in that group, 1 for none."""
    c: np.ndarray
    """(n,) |b_i|λ_i, and below the groups of all cells."""
    labels: np.ndarray
    count: int

    @staticmethod
    def of(
        differences: sparse.csr_array,
        c: np.ndarray,
        scale: np.ndarray,
        labels: np.ndarray,
        count: int,
    ) -> "_Blocks":
        entries = sparse.coo_array(differences)
        kept = entries.data != 0
        row, cell = entries.row[kept].astype(np.int64), entries.col[kept]
        loss = np.abs(np.asarray(entries.data, float)[kept]) / scale[cell]
        group = labels[cell].astype(np.int64)
        block = np.where(group == count, count + cell, group)
        order = np.lexsort((c[cell], block, row))
        row, cell, loss, block = row[order], cell[order], loss[order], block[order]
        start = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(block, prepend=-1) != 0))
        size = np.diff(np.append(start, row.size))
        second = np.where(size > 1, start + 1, start)
        pair = np.stack([c[cell[start]], c[cell[second]]], axis=1)
        sizes = np.append(np.bincount(labels, minlength=count + 1)[:count], 1)
        return _Blocks(
            row[start],
            size,
            np.add.reduceat(loss, start) if start.size else np.zeros(0),
            np.maximum(loss[start] * pair[:, 0], loss[second] * pair[:, 1]),
            pair,
            np.minimum(block[start], count),
            sizes[np.minimum(block[start], count)],
            c,
            labels,
            count,
        )

    @property
    def kind(self) -> np.ndarray:
        """(p,) two cells alone in their group are one Laplace cell."""
        alone = np.where(self.group == self.count, self.size == 1, self.cells == 2)
        return np.where(alone, _CELL, np.where(self.size == 2, _PAIR, _MANY))

    def exact(self) -> bool:
        """Whether every row is one part, not of many cells, or two cells."""
        parts = np.bincount(self.row)
        cells = np.bincount(self.row, self.kind == _CELL, parts.size)
        return bool(
            np.all(self.kind != _MANY) and np.all((parts <= 1) | (cells == parts) & (parts == 2))
        )


def _parts(blocks: _Blocks) -> tuple[list[Part], np.ndarray, list[np.ndarray]]:
    """The distinct parts; which of them each block is; the scales of every kind of group."""
    touched = np.unique(blocks.group[blocks.group < blocks.count])
    kind_of_group, groups = _kinds_of_groups(touched, blocks.labels, blocks.c, blocks.count)
    kind = blocks.kind
    is_pair = kind == _PAIR
    columns = [kind, np.where(is_pair, 0.0, blocks.sup)]
    own = (blocks.move, blocks.pair[:, 0], blocks.pair[:, 1], kind_of_group[blocks.group])
    columns += [np.where(is_pair, column, -1.0) for column in own]
    table = np.stack(columns, axis=1)
    distinct, first, index = np.unique(table, axis=0, return_index=True, return_inverse=True)
    parts = [
        Part(int(k), float(sup), float(w), (float(one), float(two)), int(g))
        for sup, (k, _, w, one, two, g) in zip(blocks.sup[first], distinct, strict=True)
    ]
    return parts, index.ravel(), groups


def _kinds_of_groups(
    touched: np.ndarray, labels: np.ndarray, c: np.ndarray, count: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(count + 1,) which of the different contents every group has, −1 if not touched."""
    order = np.lexsort((c, labels))
    ends = np.cumsum(np.bincount(labels, minlength=count + 1))
    kind = np.full(count + 1, -1)
    seen: dict[bytes, int] = {}
    groups: list[np.ndarray] = []
    for g in touched.tolist():
        content = np.ascontiguousarray(c[order[ends[g - 1] if g else 0 : ends[g]]])
        kind[g] = seen.setdefault(content.tobytes(), len(seen))
        if kind[g] == len(groups):
            groups.append(content)
    return kind, groups


def _laws(row: np.ndarray, part: np.ndarray, m: int) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """(m,) the law of each row, and the parts of each law."""
    order = np.lexsort((part, row))
    ends = np.cumsum(np.bincount(row, minlength=m)).tolist()
    sorted_parts = part[order].tolist()
    law = np.empty(m, dtype=np.int64)
    seen: dict[tuple[int, ...], int] = {}
    start = 0
    for j, end in enumerate(ends):
        law[j] = seen.setdefault(tuple(sorted_parts[start:end]), len(seen))
        start = end
    return law, list(seen)


def _dominating(parts: list[Part], members: list[tuple[int, ...]]) -> np.ndarray:
    """For each law of one pair, the law of the two least noisy cells that is proved above it."""
    over = np.full(len(members), -1)
    like: dict[tuple[int, float], list[int]] = {}
    for k, own in enumerate(members):
        if len(own) == 1 and parts[own[0]].kind == _PAIR:
            like.setdefault((parts[own[0]].group, parts[own[0]].move), []).append(k)
    for laws in like.values():
        pairs = np.array([parts[members[k][0]].pair for k in laws])
        by_sum = np.argsort(pairs.sum(axis=1), kind="stable")
        for k, pair in zip(laws, pairs, strict=True):
            below = np.all(pairs[by_sum] <= pair, axis=1)
            best = laws[by_sum[np.argmax(below)]]
            over[k] = -1 if best == k else best
    return over
