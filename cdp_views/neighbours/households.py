"""The members of a household move, each for itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, override

import numpy as np
from scipy import sparse

from cdp_views.neighbours._arguments import whole
from cdp_views.neighbours.additive import order_of
from cdp_views.neighbours.base import Neighbours, check_exposure
from cdp_views.neighbours.relocations import Relocations, relocations

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Households(Neighbours):
    """v = Σ of up to k relocations, each of any block; see `households`."""

    by_norm: ClassVar[bool] = True

    moves: Relocations
    """All k members along one pair: records = k."""

    @property
    @override
    def n(self) -> int:
        return self.moves.n

    @property
    def members(self) -> int:
        """k, the largest number of members that move."""
        return self.moves.records

    @override
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) all members along the worst pair of each block; O(n)."""
        return self.moves.shortlist(exposure)

    @override
    def worst(
        self, exposure: np.ndarray, law: Callable[[sparse.csr_array], Any]
    ) -> sparse.csr_array:
        """As `shortlist`; where losses are no norm, or unknown, also members who share no cell."""
        together = self.moves.worst(exposure, law)
        if order_of(law, sparse.csr_array(together[[0]])) == "unknown":
            apart = self._apart(exposure, lambda rows: abs(rows) @ exposure)
            return sparse.csr_array(sparse.vstack([together, apart]))
        if self._largest(law(together)) >= self.beyond(together, law) * (1 - _ROUNDING):
            return together
        apart = self._apart(exposure, lambda rows: np.asarray(law(rows).sup))
        return sparse.csr_array(sparse.vstack([together, apart]))

    @override
    def beyond(
        self, differences: sparse.csr_array, law: Callable[[sparse.csr_array], Any]
    ) -> float:
        """k times what one member loses (group privacy): all of them together, if a norm orders."""
        alone = np.flatnonzero(abs(differences).max(axis=1).toarray().ravel() == self.members)
        return self.members * self._largest(
            law(sparse.csr_array(differences[alone] / self.members))
        )

    def _largest(self, law: Any) -> float:
        """Pure ε, 0 where that is infinite: then μ or ρ order, which are of norms."""
        sup = float(np.max(law.sup))
        return sup if np.isfinite(sup) else 0.0

    def _apart(
        self, exposure: np.ndarray, size: Callable[[sparse.csr_array], np.ndarray]
    ) -> sparse.csr_array:
        """(1, n) members along pairs of different cells, those of largest `size`."""
        cells, labels = self.moves.cells, self.moves.labels
        order = np.lexsort((-check_exposure(exposure, self.n)[cells], labels))
        many = np.bincount(labels)
        place = np.arange(len(order)) - (np.cumsum(many) - many)[labels[order]]
        left = many[labels[order]] - place
        first = np.flatnonzero((place % 2 == 0) & (left > 1) & (place < 2 * self.members))
        first = first[np.argsort(place[first], kind="stable")]  # of many groups before many of one
        columns = cells[np.stack([order[first], order[first + 1]], axis=1)]
        entries, starts = np.tile([1.0, -1.0], len(first)), np.arange(0, columns.size + 1, 2)
        shape = (len(first), self.n)
        loss = size(sparse.csr_array((entries, columns.ravel(), starts), shape=shape))
        kept = columns[np.argsort(-loss, kind="stable")[: self.members]]
        row = (np.tile([1.0, -1.0], len(kept)), kept.ravel(), np.array([0, kept.size]))
        return sparse.csr_array(row, shape=(1, self.n))

    @override
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        return self.moves.seen_by(query)

    @override
    def require(self, inv: Any) -> None:
        self.moves.require(inv)

    @override
    def describe(self) -> str:
        return (
            f"up to {self.members} members of a household move, each between two cells of any "
            "group, without changing a published total (household)"
        )


def households(inv: Any, *, size: int) -> Households:
    """Neighbours that differ by up to `size` members of a household having moved, each for itself.

    v = Σ_{t ≤ k} (e_{i_t} − e_{j_t}), k = size, with i_t and j_t in one block of `inv` for each t,
    any block; whoever stays is i_t = j_t. `relocations(inv, records=k)` is the case in which all
    go from one cell to one other.

    Proof that all k along the worst pair v* are the worst, where the loss is ordered by a norm N:
    N(Σ v_t) ≤ Σ N(v_t) ≤ k max N(v_t) = N(k v*), and k v* is one of the differences. Such norms are
    μ = √(vᵀΣ⁺v) of Normal noise, all of whose profile increases with μ, and pure ε of Laplace
    noise: Σ |v_i|/λ_i conditioned, min_w ‖(v + Aᵀw)/λ‖₁ imaged.

    For other profiles δ(ε) it is not proved, and members who move in different groups may be told
    apart better at small ε. What holds there: δ(ε) of |L| ≤ pure ε (Kairouz, Oh and Viswanath
    2015), and by passing from one member to the next, δ_k(ε) ≤ Σ_{t<k} e^{tε/k} δ₁(ε/k), δ₁ that of
    `relocations`. `privacy_loss` gives the former, as a bound.

    Pure ε that is no norm of v, as of Student-t noise, whose loss flattens, is larger for members
    who part. It is at most k times that of one relocation, in whatever noise: |L| of each step
    from one member to the next adds up. `privacy_loss` gives that, as a bound; or as exact where
    members who share no cell reach it.

    Args:
      inv: an invariant.
      size: k, the largest number of members that move.

    Returns:
      Households, which finds the worst from the exposure of the cells.

    Raises:
      ValueError: `size` is not a positive integer, or no record can move at all.

    Example:
      >>> import cdp_views as cdp
      >>> nb = cdp.households(cdp.totals(["a", "a", "a", "b", "b"]), size=4)
      >>> nb.shortlist([1.0, 3.0, 2.0, 1.0, 1.0]).toarray().astype(int).tolist()
      [[0, 4, -4, 0, 0], [0, 0, 0, 4, -4]]

    Reference: Vadhan 2017, "The complexity of differential privacy", Lemma 2.2 (group privacy).
    """
    members = whole("size", size, "Give the largest number of members of a household that move.")
    return Households(relocations(inv, records=members))
