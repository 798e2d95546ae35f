"""What every law of the privacy loss can be asked."""

from abc import ABC, abstractmethod
from typing import Literal, Self

import numpy as np

from cdp_views.loss._arguments import order, probability
from cdp_views.loss.divergences import renyi_of_profile, rho_of_profile, within_pure
from cdp_views.loss.pure import mu_of_pure, rho_of_pure
from cdp_views.loss.tradeoff import mu_of_profile, tradeoff_of_profile

Kind = Literal["exact", "bound", "estimate"]


class Loss(ABC):
    """Laws of the privacy loss L(Y) = log p(Y) − log p′(Y), one for each of m differences.

    p is the law of the release, p′ that of the release of a neighbour q + v. A subclass gives
    `delta`, `epsilon`, `take`, `sup` and `kind`; numbers are host float64 and shaped (m,).

    δ(ε), ε ≥ 0, must bound both (p, p′) and (p′, p), as it does for additive symmetric noise, whose
    two profiles are one. Then it carries every other notion: `renyi`, `kl`, `total_variation`,
    `guess_rate` and `tradeoff` follow from it and are of its `kind`; `gdp` and `zcdp` are bounds.

    Reference: Dwork and Rothblum 2016 (privacy loss); Balle and Wang 2018, Theorem 5 (profile);
    Sason and Verdú 2016, Theorem 7 (divergences from the profile).
    """

    kind: Kind
    """Of `delta`, `epsilon` and what follows from them: "exact", "bound" or "estimate".

    A bound errs on the safe side: above the truth, `tradeoff` below it.
    """

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

    @property
    def total_variation(self) -> np.ndarray:
        """(m,) δ(0), the largest difference in probability that an event can have."""
        return np.minimum(self.delta(0.0), 1.0)

    @property
    def kl(self) -> np.ndarray:
        """(m,) E[L], Kullback–Leibler divergence in nats."""
        return self.renyi(1.0)

    def renyi(self, alpha: float) -> np.ndarray:
        """(m,) Rényi divergence D_α in nats of one order α ≥ 1; KL at 1, `sup` at infinity.

        By quadrature of the profile to 1e-9 (an estimated profile: 1e-5), rounded up; a bounded
        loss never exceeds what `sup` alone proves.
        """
        alpha = order(alpha)
        if alpha == np.inf:
            return np.asarray(self.sup, dtype=float)
        value = renyi_of_profile(
            self._profile, self.sup, np.array([alpha]), tolerance=self._tolerance
        )[0]
        return within_pure(value, alpha, self.sup)

    @property
    def zcdp(self) -> np.ndarray:
        """(m,) ρ of zero-concentrated DP, sup_{α>1} D_α/α; infinite where none is proved."""
        if self.kind == "estimate":
            return rho_of_pure(self.sup)
        return rho_of_profile(self._profile, self.sup)

    @property
    def gdp(self) -> np.ndarray:
        """(m,) μ of Gaussian DP: the Gaussian curve that lies below; infinite where none does."""
        if self.kind == "estimate":
            return mu_of_pure(self.sup)
        return mu_of_profile(self._profile, self.sup)

    @property
    def gdp_kind(self) -> Kind:
        """Of `gdp` and `zcdp`: from `sup` alone if the profile is an estimate."""
        return "bound"

    def tradeoff(self, type_one: float | np.ndarray) -> np.ndarray:
        """(m,) f(a): the least type II error of a test with type I error a in [0, 1].

        f(a) = max_ε max(0, 1 − δ(ε) − e^ε a, e^{−ε}(1 − δ(ε) − a)); `type_one` broadcasts
        against (m,). Rounded down, as every ε gives a lower bound.
        """
        a = probability("type_one", type_one)
        a = np.broadcast_to(a, np.broadcast_shapes(a.shape, self.sup.shape))
        return tradeoff_of_profile(self._profile, self._top(), a)

    @property
    def _tolerance(self) -> float:
        return 1e-5 if self.kind == "estimate" else 1e-10

    def _profile(self, epsilon: np.ndarray) -> np.ndarray:
        """δ at (p, m) arrays of ε."""
        return np.minimum(np.broadcast_to(self.delta(epsilon), epsilon.shape), 1.0)

    def _top(self) -> np.ndarray:
        """(m,) finite: the largest loss, or where nearly nothing is left."""
        top = np.minimum(self.sup, 1e4)
        tail = self.epsilon(1e-15)
        return np.where(np.isinf(self.sup) & np.isfinite(tail), np.minimum(tail, 1e4), top)
