"""A privacy loss of which only the supremum is known: pure differential privacy."""

from dataclasses import dataclass
from typing import Self, override

import numpy as np
from scipy.special import expit

from cdp_views.loss._arguments import nonnegative, probability
from cdp_views.loss.base import Kind, Loss

_EPS = np.finfo(float).eps
# δ is three roundings, each amplified at most once; this covers them.
_UP = 1 + 8 * _EPS


@dataclass(frozen=True, eq=False)
class BoundedLoss(Loss):
    """|L| ≤ sup: pure ε-differential privacy, ε = sup, for each difference.

    `sup` is the supremum itself; `delta`, `epsilon` and `guess_rate` are the best bounds that
    follow from it alone, δ(ε) ≤ (e^sup − e^ε)/(e^sup + 1), and `kind` = "bound" says so. They are
    those of randomised response, which dominates every pair of laws with |L| ≤ sup.

    Args:
      sup: (m,) largest |L| of each difference, in nats, zero or more; infinite proves nothing.
      sup_kind: "exact" if the loss comes as near to `sup` as one likes, "bound" if it may not.
      kind: "bound", or "estimate" where `sup` is one itself.

    Raises:
      ValueError: `sup` has a negative entry or one that is not a number.

    Example:
      >>> law = BoundedLoss([1.0, 2.0])
      >>> law.delta(1.0).round(6).tolist(), law.guess_rate.round(6).tolist()
      ([0.0, 0.55677], [0.731059, 0.880797])

    Reference: Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy",
    Theorem 2.
    """

    sup: np.ndarray
    sup_kind: Kind = "exact"
    kind: Kind = "bound"

    def __post_init__(self) -> None:
        sup = np.atleast_1d(nonnegative("sup", self.sup)).copy()
        sup.setflags(write=False)
        object.__setattr__(self, "sup", sup)

    @property
    @override
    def guess_rate(self) -> np.ndarray:
        """(m,) at most e^sup/(1 + e^sup), rounded up."""
        return np.where(self.sup == 0, 0.5, np.minimum(expit(self.sup) * _UP, 1.0))

    @override
    def additive(self) -> np.ndarray:
        return self.sup

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        epsilon, sup = np.broadcast_arrays(nonnegative("epsilon", epsilon), self.sup)
        return _delta(epsilon, sup)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        delta, sup = np.broadcast_arrays(probability("delta", delta), self.sup)
        shape, delta, sup = delta.shape, delta.ravel(), sup.ravel()
        share = np.minimum(delta * (1 + np.exp(-sup)), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            epsilon = np.maximum(sup + np.log1p(-share), 0.0)
        epsilon[delta == 1] = 0.0
        step = 1.0
        # At ε = sup the bound is zero, so this ends.
        while (short := _delta(epsilon, sup) > delta).any():
            grown = np.nextafter(epsilon[short] + step * _EPS * sup[short], np.inf)
            epsilon[short] = np.minimum(grown, sup[short])
            step *= 2.0
        return epsilon.reshape(shape)

    @override
    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.sup[indices], self.sup_kind, self.kind)

    @override
    def frontier(self) -> np.ndarray:
        # The bound increases with sup at every ε.
        return np.array([np.argmax(self.sup)])


def _delta(epsilon: np.ndarray, sup: np.ndarray) -> np.ndarray:
    """(1 − e^{ε − sup})/(1 + e^{−sup}) rounded up, 0 from ε = sup on: nothing overflows."""
    inside = epsilon < sup
    gap = np.subtract(epsilon, sup, out=np.zeros(sup.shape), where=inside)
    value = np.minimum(np.nextafter(-np.expm1(gap) / (1 + np.exp(-sup)) * _UP, 2.0), 1.0)
    return np.where(inside, value, 0.0)
