"""What every relation between neighbouring tables can be asked."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.neighbours.classes import Classes

_MOST_CLASSES = 5_000


class Neighbours(ABC):
    """The differences v = q′ − q that the data of one person can make to the true answers."""

    ordered: ClassVar[bool] = True
    """Whether `shortlist` needs the cells' exposure."""

    keeps_totals: ClassVar[bool] = True
    """Whether every difference leaves every total as it is. False asks for totals that were fixed
    in advance, whatever the data: with totals computed from the data epsilon is infinite."""

    by_norm: ClassVar[bool] = False
    """Whether the shortlist is proved worst only for what is a norm of v: μ of Normal noise, and
    pure ε of Laplace noise. A profile δ(ε) that no norm orders must then be bounded from pure ε
    alone, and pure ε that is none from `beyond`."""

    by_block: ClassVar[bool] = False
    """Whether every difference is made of moves e_i − e_j within blocks, at most one in each group:
    what is proved of a block's two most exposed cells at every ε then makes the worst of all."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of cells."""

    @abstractmethod
    def shortlist(self, exposure: np.ndarray) -> sparse.csr_array:
        """(m, n) differences among which the worst is found.

        Args:
          exposure: (n,) larger = more exposed, as a view reports it.
        """

    def worst(
        self, exposure: np.ndarray, law: Callable[[sparse.csr_array], Any]
    ) -> sparse.csr_array:
        """(m, n) as `shortlist`, with the view's own law of the loss at hand to shorten it.

        Args:
          exposure: (n,) as for `shortlist`.
          law: differences (m, n) ↦ `Loss` of each; may raise `UnsupportedError`.
        """
        return self.shortlist(exposure)

    def classes(
        self,
        exposure: np.ndarray,
        inv: Any = None,
        *,
        most: int = 1_000,
        apart: np.ndarray | None = None,
    ) -> Classes:
        """Differences of which each stands for all of equal law, for losses without one order.

        Where one difference is the worst at some ε and another elsewhere, as for Laplace noise in
        groups of several sizes, the maximum over these at each ε is the answer.

        Args:
          exposure: (n,) as for `shortlist`.
          inv: the invariant of the view, which tells which groups are alike; None compares blocks.
          most: how many to give at most, the most exposed first.
          apart: (n,) labels of cells that are not alike although their scales and groups are: where
            totals were fixed in advance, those with another distance from them.
        """
        rows = self.shortlist(exposure)
        beyond = float(np.max(abs(rows) @ exposure)) if self.ordered else -np.inf
        return Classes.of(rows, exposure, most=most, beyond=beyond)

    def every_class(self, exposure: np.ndarray, apart: np.ndarray) -> sparse.csr_array:
        """(m, n) one difference of every class, whatever order ε puts them in; refused if many."""
        found = self.classes(exposure, apart=apart, most=_MOST_CLASSES)
        if not found.complete:
            raise UnsupportedError(
                "`neighbours` differ in more ways than can be tried for a loss whose worst "
                "difference depends on epsilon. State the differences that matter with "
                "differences(V), or use equal scales."
            )
        return found.differences

    def beyond(
        self, differences: sparse.csr_array, law: Callable[[sparse.csr_array], Any]
    ) -> float:
        """What pure ε of a difference that is not among these can reach, −∞ where they hold it.

        Args:
          differences: (m, n) as `worst` or `seen_by` found them.
          law: differences ↦ `Loss` of each.
        """
        return -np.inf

    @abstractmethod
    def seen_by(self, query: sparse.csr_array) -> sparse.csr_array:
        """(m, n) differences of which one is the worst when only W x is published, W (r, n).

        The order of the cells' exposure says nothing then: a query may hide the exposed ones.
        """

    def require(self, inv: Any) -> None:  # noqa: B027
        """Raise where some of these differences would change a total of `inv`.

        What a shortlist does not show must be looked at here; rows are checked one by one anyway.
        """

    @abstractmethod
    def describe(self) -> str:
        """The unit of privacy in plain words."""

    def __str__(self) -> str:
        return self.describe()


def check_exposure(exposure: object, n: int) -> np.ndarray:
    """`exposure` as (n,) float64 without NaN."""
    array = np.asarray(exposure, dtype=float)
    if array.shape != (n,):
        raise ValueError(
            f"`exposure` must have shape ({n},), one number per cell; got {array.shape}. "
            "Use the view and the neighbours of the same invariant."
        )
    if np.isnan(array).any():
        index = int(np.flatnonzero(np.isnan(array))[0])
        raise ValueError(f"`exposure` must hold numbers; got nan at index {index}.")
    return array
