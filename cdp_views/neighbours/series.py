"""One person's whole series changes: a relocation in every period at once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, product
from math import lgamma, prod
from typing import Any, override

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours._arguments import whole
from cdp_views.neighbours.additive import order_of, size_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.classes import Classes
from cdp_views.neighbours.groups import group_of
from cdp_views.neighbours.largest import compact, largest
from cdp_views.neighbours.relocations import Relocations, relocations

_MOST = 20_000


@dataclass(frozen=True, eq=False)
class Series(Neighbours):
    """v = Σ_g (e_{i_g} − e_{j_g}) over the groups g, the periods; see `series`."""

    moves: Relocations
    group: np.ndarray = field(repr=False)
    """(b,) group of each block of `moves`, numbered 0, 1, … without gaps."""
    periods: int
    """In how many groups a person's record moves, at most."""

    @property
    @override
    def n(self) -> int:
        return self.moves.n

    @property
    def by_block(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Only where every group moves and has one block: else one must be chosen."""
        many = int(self.group.max()) + 1
        return len(self.group) == many == self.periods

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(1, n) the most exposed relocation of every group, all at once."""
        parts = self.moves.shortlist(exposure)
        return self._sum(parts, abs(parts) @ check_exposure(exposure, self.n))

    @override
    def worst(
        self, exposure: np.ndarray, law: Callable[[sparse.csr_array], Any]
    ) -> sparse.csr_array:
        """(1, n) the relocation of largest loss of every group: noise of groups is independent.

        What adds up is μ² of Normal noise and pure ε of Laplace noise. Of groups with one block
        each, all of which move, nothing need be known but the worst pair; where blocks or groups
        are to be chosen and the choice depends on ε, one series of every kind.
        """
        if self.by_block:
            return self.shortlist(exposure)
        parts = self.moves.shortlist(exposure)
        order = order_of(law, sparse.csr_array(parts[[0]]))
        if order == "profile":
            return self.every_class(exposure, np.arange(self.n))
        size = size_of(law, parts)
        return self.shortlist(exposure) if size is None else self._sum(parts, size)

    @override
    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """All choices of a relocation in every group, one of each kind, where they are few."""
        exposure = check_exposure(exposure, self.n)
        rows = self.shortlist(exposure)
        top = float(np.max(abs(rows) @ exposure))
        apart = np.zeros(self.n, dtype=np.int64)
        apart[self.moves.cells] = self.moves.labels  # every block for itself
        many = _MOST + 4 * len(self.group)
        kinds = self.moves.classes(exposure, apart=apart, most=many)
        owner = self.group[self.moves.block_of(kinds.differences)]
        choices = np.bincount(owner)
        # every set of so many groups, and in each of them every kind
        groups, left = len(choices), len(choices) - self.periods
        sets = lgamma(groups + 1) - lgamma(self.periods + 1) - lgamma(left + 1)
        sets += float(np.sum(np.log(choices)))
        if not kinds.complete or sets > np.log(_MOST):
            return Classes.of(rows, exposure, most=most, beyond=top)
        only = np.flatnonzero(choices[owner] == 1) if self.periods == len(choices) else []
        several = [
            np.flatnonzero(owner == g)
            for g in range(len(choices))
            if not len(only) or choices[g] > 1
        ]
        chosen = min(self.periods, len(several))
        every = [
            _added(sparse.csr_array(kinds.differences[[*only, *choice]]))
            for some in combinations(several, chosen)
            for choice in product(*some)
        ]
        return Classes.of(sparse.csr_array(sparse.vstack(every)), exposure, most=most)

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) all choices of a relocation, with its sign, in every group, where they are few."""
        single = self.moves.seen_by(query)
        seen = np.asarray(abs(single @ sparse.csr_array(query).T).sum(axis=1)).ravel() > 0
        if not seen.any():
            return self.shortlist(np.zeros(self.n))
        single = sparse.csr_array(single[seen])
        owner = self.group[self.moves.block_of(single)]
        groups = np.unique(owner)
        rows = [np.flatnonzero(owner == g) for g in groups]
        if self.periods < len(groups) or prod(2 * len(r) for r in rows) > _MOST:
            raise UnsupportedError(
                "`series` under a query has too many combinations of moves to try. Ask about all "
                "cells (no query), which bounds every query, or state differences(V)."
            )
        signed = [[sparse.csr_array(s * single[[t]]) for t in r for s in (1, -1)] for r in rows]
        every = [_added(sparse.csr_array(sparse.vstack(choice))) for choice in product(*signed)]
        return sparse.csr_array(sparse.vstack(every))

    @override
    def require(self, inv: Any) -> None:
        self.moves.require(inv)

    @override
    def describe(self) -> str:
        many = int(self.group.max()) + 1
        which = "every group" if self.periods == many else f"up to {self.periods} of {many} groups"
        return (
            f"one person's records in {which} move at once, each between two cells without "
            "changing a published total (series, user level)"
        )

    def _sum(self, parts: sparse.csr_array, size: np.ndarray) -> sparse.csr_array:
        """(1, n) the sum of each group's part of largest size, of the largest groups."""
        group = self.group[self.moves.block_of(parts)]
        first = largest(group, np.asarray(size, dtype=float))
        first = first[np.argsort(-size[first], kind="stable")[: self.periods]]
        return _added(sparse.csr_array(parts[np.sort(first)]))


def series(inv: Any, *, periods: int | None = None) -> Series:
    """Neighbours that differ in a person's whole series: a relocation in every group at once.

    v = Σ_g (e_{i_g} − e_{j_g}), i_g and j_g in one block of group g; groups are the periods (or
    other totals) under each of which the person has one record. This is privacy of the user, not of
    the record. Noise of different groups is independent, so the worst of each make up the worst:
    μ² of Normal noise and pure ε of Laplace noise add up, and profiles compose.

    Args:
      inv: an invariant; groups are the parts of the table that share no total.
      periods: in how many groups one person's record moves at most; None for all of them.

    Returns:
      Series, which finds the worst from the exposure of the cells in O(n).

    Raises:
      ValueError: `periods` is not a positive integer, or no record can move at all.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.series(cdp.totals(["2019", "2019", "2019", "2020", "2020"]))
      >>> nb.shortlist([1.0, 3.0, 2.0, 1.0, 1.0]).toarray().astype(int).tolist()
      [[0, 1, -1, 1, -1]]

    Reference: Dwork, Naor, Pitassi and Rothblum 2010, §2 (user-level privacy); `exchanges` is the
    same with two groups.
    """
    moves = relocations(inv)
    _, first = np.unique(moves.labels, return_index=True)
    group = compact(group_of(inv)[moves.cells[first]] + 1)
    many = int(group.max()) + 1
    if periods is None:
        return Series(moves, group, many)
    most = whole("periods", periods, "Give the number of groups in which one person has a record.")
    return Series(moves, group, min(most, many))


def _added(rows: sparse.csr_array) -> sparse.csr_array:
    """(1, n) the sum of rows that change different cells."""
    order = np.argsort(rows.indices, kind="stable")
    row = (rows.data[order], rows.indices[order], np.array([0, rows.nnz]))
    return sparse.csr_array(row, shape=(1, rows.shape[1]))
