"""Two records of different groups change places: the neighbours of the maximum-entropy paper."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours._arguments import totals_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes
from cdp_views.neighbours.differences import Differences
from cdp_views.neighbours.groups import group_of
from cdp_views.neighbours.largest import compact
from cdp_views.neighbours.relocations import Relocations, relocations

_MOST_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class Exchanges(Neighbours):
    """v = (e_j − e_i) + (e_l − e_k): one relocation in each of two groups; see `exchanges`."""

    by_block: ClassVar[bool] = True

    moves: Relocations
    group: np.ndarray = field(repr=False)
    """(b,) group of each block of `moves`: blocks of one group share a total."""

    @property
    @override
    def n(self) -> int:
        return self.moves.n

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) the worst relocations of every two groups, together.

        Noise of different groups is independent, so their losses add: the worst exchange consists
        of the worst relocation of one group and the worst of another. Which two groups exposure
        does not tell (it orders the cells of one group only), so every two are tried. The sign
        of the second part does not matter under symmetric noise.
        """
        parts = self.parts(exposure)
        first, second = self._pairs(np.ones(len(self.group), dtype=np.int64))
        return sparse.csr_array(parts[first] + parts[second])

    @override
    def worst(
        self, exposure: np.ndarray, law: Callable[[sparse.csr_array], Any]
    ) -> sparse.csr_array:
        """(1, n) where losses add over groups and have a law: O(b), however many groups."""
        parts = self.parts(exposure)
        try:
            size = law(parts).additive()
        except UnsupportedError:
            size = None
        return self.shortlist(exposure) if size is None else self.combine(parts, size)

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """Every two classes of relocations, in different groups."""
        few = int(np.ceil(np.sqrt(2 * most))) + 1
        one = self.moves.classes(exposure, inv, most=few, apart=apart)
        block = self.moves.block_of(one.differences)
        # the same classes again, in blocks that did not stand for them: other groups of their kind
        rest = ~np.isin(self.moves.labels, block)
        parts, label = [one.differences], [block]
        if rest.any():
            labels = self.moves.labels[rest]
            other = replace(self.moves, cells=self.moves.cells[rest], labels=compact(labels))
            two = other.classes(exposure, inv, most=few, apart=apart)
            parts.append(two.differences)
            label.append(self.moves.block_of(two.differences))
        rows = sparse.csr_array(sparse.vstack(parts))
        group = self.group[np.concatenate(label)]
        i, j = np.triu_indices(len(group), 1)
        able = (group[i] != group[j]) & (i < len(block))
        size = abs(rows) @ check_exposure(exposure, self.n)
        beyond = -np.inf if one.complete else float(size.max() + size[: len(block)].min())
        both = sparse.csr_array(rows[i[able]] + rows[j[able]])
        return Classes.of(both, exposure, most=most, beyond=beyond)

    def parts(self, exposure: np.ndarray) -> sparse.csr_array:
        """(b, n) the worst relocation of every block: an exchange adds two of different groups."""
        return self.moves.shortlist(exposure)

    def combine(self, parts: sparse.csr_array, loss: np.ndarray) -> sparse.csr_array:
        """(1, n) the worst exchange, from `parts` and the loss (b,) of each: O(b).

        Args:
          parts: (b, n) as `parts(exposure)` gives them.
          loss: (b,) what adds up over independent groups: μ² of Normal noise, the supremum of
            Laplace noise.
        """
        order = np.argsort(-np.asarray(loss, dtype=float), kind="stable")
        first = order[0]
        second = order[self.group[order] != self.group[first]][0]
        return sparse.csr_array(parts[[first]] + parts[[second]])

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) every two relocations of different groups that the query tells apart, both signs.

        A relocation that the query does not see may be half of an exchange, so each also stands
        alone: the change is then of two cells.
        """
        single = self.moves.seen_by(query)
        seen = np.asarray(abs(single @ sparse.csr_array(query).T).sum(axis=1)).ravel() > 0
        if not seen.any():  # any exchange shows loss 0
            return self.shortlist(np.zeros(self.n))
        single = sparse.csr_array(single[seen])
        group = self.group[self.moves.block_of(single)]
        order = np.argsort(group, kind="stable")
        single, group = sparse.csr_array(single[order]), group[order]
        _, sizes = np.unique(group, return_counts=True)
        first, second = self._pairs(sizes) if len(sizes) > 1 else (np.zeros(0, int),) * 2
        both = [single[first] + single[second], single[first] - single[second]]
        return sparse.csr_array(sparse.vstack([single, *both]))

    @override
    def require(self, inv: Any) -> None:
        self.moves.require(inv)

    def all_of(self, inv: Any) -> bool:
        """Whether these are all exchanges that leave the totals of `inv` alone."""
        own = exchanges(inv)
        return (
            isinstance(own, Exchanges)
            and self.moves.all_of(inv)
            and np.array_equal(self.group, own.group)
        )

    @override
    def describe(self) -> str:
        return (
            "two records of different groups change places, and every published total stays "
            "(exchange)"
        )

    def _pairs(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions of every two rows of different groups; `sizes` of rows that lie group by group.

        With one row per block the groups come from `self.group` instead.
        """
        if len(sizes) == len(self.group) and (sizes == 1).all():
            label = self.group
        else:
            label = np.repeat(np.arange(len(sizes)), sizes)
        if len(label) ** 2 / 2 > _MOST_ROWS:
            raise UnsupportedError(
                f"`exchanges` has {len(label):,} relocations to combine two by two, too many to "
                "try. Use relocations(inv): an exchange loses at most what two of them lose."
            )
        first, second = np.triu_indices(len(label), 1)
        apart = label[first] != label[second]
        return first[apart], second[apart]


class CrossExchanges(Differences):
    """All changes of four cells under totals that cross; see `exchanges`."""

    @override
    def describe(self) -> str:
        return "two records change places, and every published total stays (exchange)"


def exchanges(inv: Any) -> Exchanges | CrossExchanges:
    """Neighbours that differ by two records of different groups having changed places.

    Each group gives one record and gets one, so its total stays, but the newcomer need not land in
    the cell that was left: v = (e_j − e_i) + (e_l − e_k) with i, j in one group and k, l in
    another, up to four non-zero entries, ‖v‖² = 4. (A part with i = j is a relocation; the other
    part adds to its loss. Two records of one group that change places leave all counts alone;
    two that move at once are `relocations(inv, records=2)`.)

    Groups are parts of the table that share no total. Under totals that cross, such as both
    margins of a table, no record can move alone; there an exchange is every
    e_i + e_k − e_j − e_l that leaves all totals alone, as when two people swap one attribute.

    Args:
      inv: an invariant.

    Returns:
      Exchanges, which finds the worst from the exposure of the cells; or all of them listed,
      under totals that cross.

    Raises:
      ValueError: there are no two groups in which a record can move.
      UnsupportedError: too many pairs to try.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.exchanges(cdp.totals(["IL", "IL", "IL", "WI", "WI"]))
      >>> nb.shortlist([1.0, 3.0, 2.0, 1.0, 1.0]).toarray().astype(int).tolist()
      [[0, 1, -1, 1, -1]]

    Reference: [L] §2.1 and §2.2, "swapped with a single entry".
    """
    inv = totals_of(inv)
    blocks = np.asarray(inv.blocks)
    inside = blocks[blocks >= 0]
    if len(np.unique(inside)) == len(inside):
        return _crossing(inv)
    moves = relocations(inv)
    group = group_of(inv)[moves.cells]
    _, first = np.unique(moves.labels, return_index=True)
    if len(np.unique(group[first])) < 2:
        raise ValueError(
            "`inv` must have two groups in each of which a record can move; got fewer. "
            "Use relocations(inv), or relocations(inv, records=2) for two records at once."
        )
    return Exchanges(moves, np.unique(group[first], return_inverse=True)[1])


def _crossing(inv: Any) -> CrossExchanges:
    """Every e_i + e_k − e_j − e_l with A v = 0, found by equal sums of two columns of A."""
    blocks = np.asarray(inv.blocks)
    cells = np.flatnonzero(blocks >= 0)
    if len(cells) ** 2 / 2 > _MOST_ROWS:
        raise UnsupportedError(
            f"`inv` has {len(cells):,} cells under totals that cross, too many pairs to try. "
            "State the differences that matter with differences(V)."
        )
    first, second = np.triu_indices(len(cells), 1)
    # equal sums of columns have equal keys; unequal ones only by a chance of 1e-10
    weights = np.random.default_rng(0).random(inv.matrix.shape[0])
    column = np.asarray(sparse.csr_array(inv.matrix).T @ weights).ravel()[cells]
    key = column[first] + column[second]
    order = np.argsort(key, kind="stable")
    new = np.diff(key[order], prepend=-np.inf) > 1e-12 * np.abs(column).max(initial=1.0)
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, len(order)))
    if np.sum(sizes.astype(float) ** 2) / 2 > _MOST_ROWS:
        raise UnsupportedError(
            "`inv` allows more exchanges than can be tried. State the differences that matter "
            "with differences(V)."
        )
    pairs = [
        (order[start + a], order[start + b])
        for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True)
        for a, b in combinations(range(size), 2)
    ]
    if not pairs:
        raise ValueError(
            "`inv` must let two records change places; got totals that no exchange leaves alone. "
            "State differences(V) yourself."
        )
    plus, minus = np.array(pairs).T
    columns = cells[np.stack([first[plus], second[plus], first[minus], second[minus]], axis=1)]
    entries = np.tile([1.0, 1.0, -1.0, -1.0], len(plus))
    shape = (len(plus), inv.n)
    V = sparse.csr_array((entries, columns.ravel(), np.arange(0, columns.size + 1, 4)), shape=shape)
    V.sum_duplicates()
    kept = np.asarray(abs(V @ sparse.csr_array(inv.matrix).T).sum(axis=1)).ravel() <= 1e-9
    V = sparse.csr_array(V[kept])
    return CrossExchanges(V.shape[0], inv.n, V)
