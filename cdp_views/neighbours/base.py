"""What every relation between neighbouring tables can be asked."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy import sparse


class Neighbours(ABC):
    """The differences v = q′ − q that the data of one person can make to the true answers."""

    ordered: ClassVar[bool] = True
    """Whether `shortlist` needs the cells' exposure."""

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
