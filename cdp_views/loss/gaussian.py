"""The privacy loss of Normal noise."""

from dataclasses import dataclass
from typing import Self, override

import numpy as np
from scipy.special import ndtr, ndtri

from cdp_views.loss._arguments import nonnegative, order, probability
from cdp_views.loss.base import Kind, Loss
from cdp_views.loss.gaussian_dp import delta_of_mu, epsilon_of_mu


@dataclass(frozen=True, eq=False)
class GaussianLoss(Loss):
    """L ~ N(μ²/2, μ²): the loss between two Normal laws with one covariance Σ, μ² = vᵀΣ⁺v.

    Args:
      mu: (m,) μ ≥ 0 of each difference, no unit; infinite means told apart for certain.

    Raises:
      ValueError: `mu` has a negative entry or one that is not a number.

    Example:
      >>> law = GaussianLoss([1.0, 2.0])
      >>> law.delta(1.0).round(6).tolist()
      [0.126937, 0.509862]

    Reference: Dong, Roth and Su 2022, Gaussian differential privacy, Definition 2.6.
    """

    mu: np.ndarray
    kind: Kind = "exact"

    def __post_init__(self) -> None:
        mu = np.atleast_1d(nonnegative("mu", self.mu)).copy()
        mu.setflags(write=False)
        object.__setattr__(self, "mu", mu)

    @property
    def rho(self) -> np.ndarray:
        """(m,) ρ = μ²/2 of zero-concentrated differential privacy."""
        with np.errstate(over="ignore"):
            return 0.5 * self.mu**2

    @property
    def sup(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) infinite, but 0 where nothing tells the neighbours apart."""
        return np.where(self.mu > 0, np.inf, 0.0)

    @property
    @override
    def guess_rate(self) -> np.ndarray:
        return ndtr(0.5 * self.mu)

    @override
    def renyi(self, alpha: float) -> np.ndarray:
        """(m,) D_α = αμ²/2; infinite at α = ∞ unless μ = 0."""
        alpha = order(alpha)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(self.mu > 0, alpha * self.rho, 0.0)

    @property
    @override
    def zcdp(self) -> np.ndarray:
        return self.rho

    @property
    @override
    def gdp(self) -> np.ndarray:
        return self.mu

    @property
    @override
    def gdp_kind(self) -> Kind:
        return self.kind

    @override
    def tradeoff(self, type_one: float | np.ndarray) -> np.ndarray:
        """(m,) Φ(Φ⁻¹(1 − a) − μ)."""
        a = np.asarray(probability("type_one", type_one))
        with np.errstate(invalid="ignore"):
            curve = ndtr(-ndtri(a) - self.mu)
        return np.where(np.isinf(self.mu), 0.0, curve)  # at a = 0 that is infinity less infinity

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return delta_of_mu(epsilon, self.mu)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        return epsilon_of_mu(delta, self.mu)

    @override
    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.mu[indices], self.kind)

    @override
    def additive(self) -> np.ndarray:
        return self.mu**2

    @override
    def frontier(self) -> np.ndarray:
        # δ(ε) increases with μ at every ε.
        return np.array([np.argmax(self.mu)])
