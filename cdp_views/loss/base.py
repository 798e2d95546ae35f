"""What every law of the privacy loss can be asked."""

from abc import ABC, abstractmethod
from typing import Literal, Self

import numpy as np

Kind = Literal["exact", "bound", "estimate"]


class Loss(ABC):
    """Laws of the privacy loss L(Y) = log p(Y) − log p′(Y), one for each of m differences.

    p is the law of the release, p′ that of the release of a neighbour q + v. A subclass gives
    `delta`, `epsilon`, `take`, `sup` and `kind`; numbers are host float64 and shaped (m,).

    Reference: Dwork and Rothblum 2016 (privacy loss); Balle and Wang 2018, Theorem 5 (profile).
    """

    kind: Kind
    """Of `delta`, `epsilon` and `guess_rate`: "exact", "bound" (truth at most this), "estimate"."""

    sup: np.ndarray
    """(m,) the largest possible loss: ε of pure differential privacy, infinite if unbounded."""

    sup_kind: Kind = "exact"
    """Of `sup`, which can be exact where the rest of the law is not; "bound" for an infinite one
    that only says that nothing is proved."""

    stderr: np.ndarray | None = None
    """(m,) standard error of `guess_rate` where it is estimated, else None."""

    @abstractmethod
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        """(m,) δ(ε) = E[max(0, 1 − e^{ε − L})]; `epsilon` ≥ 0 broadcasts against (m,)."""

    @abstractmethod
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        """(m,) smallest ε ≥ 0 with δ(ε) ≤ δ, rounded up; `delta` broadcasts against (m,)."""

    @abstractmethod
    def take(self, indices: np.ndarray) -> Self:
        """The laws of the differences at `indices`."""

    def delta_stderr(self, epsilon: float | np.ndarray) -> np.ndarray | None:
        """(m,) standard error of `delta(epsilon)`; None unless it is an estimate."""
        return None

    def epsilon_stderr(self, delta: float | np.ndarray) -> np.ndarray | None:
        """(m,) standard error of `epsilon(delta)`; None unless it is an estimate."""
        return None

    def additive(self) -> np.ndarray | None:
        """(m,) a number that orders these laws and adds up over independent releases, if any."""
        return None

    def frontier(self) -> np.ndarray:
        """Indices of differences among which the worst is found at every ε.

        All of them, unless the family is ordered and one difference is worst throughout.
        """
        return np.arange(len(self.sup))

    @property
    def guess_rate(self) -> np.ndarray:
        """(m,) best chance of telling two equally likely neighbours apart, (1 + δ(0))/2."""
        return 0.5 + 0.5 * self.delta(0.0)
