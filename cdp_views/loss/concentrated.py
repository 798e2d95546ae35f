"""Losses of which ρ-zCDP is proved: noise of normal tails on a lattice."""

from dataclasses import dataclass, field, replace
from typing import Self, override

import numpy as np

from cdp_views.loss._arguments import nonnegative
from cdp_views.loss.base import Kind, Loss
from cdp_views.loss.conversions import delta_of_rho, epsilon_of_rho, renyi_of_rho
from cdp_views.loss.profile import ProfileLoss


@dataclass(frozen=True, eq=False)
class ConcentratedLoss(ProfileLoss):
    """A loss with a known profile and ρ = sup_{α>1} D_α/α, proved apart from it.

    Args:
      rho: (m,) ρ ≥ 0 of zero-concentrated DP; the other arguments are those of `ProfileLoss`.

    Reference: Bun and Steinke 2016, Definition 1.1.
    """

    rho: np.ndarray = field(default_factory=lambda: np.array(np.inf))

    @property
    @override
    def zcdp(self) -> np.ndarray:
        """(m,) ρ."""
        return np.asarray(self.rho, dtype=float)

    @override
    def take(self, indices: np.ndarray) -> Self:
        return replace(super().take(indices), rho=np.asarray(self.rho)[indices])


@dataclass(frozen=True, eq=False)
class RhoLoss(Loss):
    """D_α(P ‖ Q) ≤ αρ for all α > 1, and nothing else: zero-concentrated differential privacy.

    Args:
      rho: (m,) ρ ≥ 0, no unit.

    Raises:
      ValueError: `rho` has a negative entry or one that is not a number.

    Example:
      >>> law = RhoLoss(np.array([0.5]))
      >>> [f"{d:.4g}" for d in law.delta(5.0)], law.kind
      (['2.896e-06'], 'bound')

    Reference: Bun and Steinke 2016, Definition 1.1; Canonne, Kamath and Steinke 2020, Corollary 13.
    """

    rho: np.ndarray
    kind: Kind = "bound"
    sup_kind: Kind = "bound"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", np.atleast_1d(nonnegative("rho", self.rho)))

    @property
    def sup(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) infinite, but 0 where nothing tells the neighbours apart."""
        return np.where(self.rho > 0, np.inf, 0.0)

    @property
    @override
    def zcdp(self) -> np.ndarray:
        """(m,) ρ."""
        return self.rho

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return delta_of_rho(self.rho, epsilon)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        return epsilon_of_rho(self.rho, delta)

    @override
    def renyi(self, alpha: float) -> np.ndarray:
        return renyi_of_rho(alpha, self.rho)

    @override
    def take(self, indices: np.ndarray) -> Self:
        return replace(self, rho=self.rho[indices])

    @override
    def additive(self) -> np.ndarray:
        return self.rho

    @override
    def frontier(self) -> np.ndarray:
        # the bound increases with ρ at every ε
        return np.array([np.argmax(self.rho)])
