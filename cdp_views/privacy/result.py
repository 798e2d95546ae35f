"""The answer to "what does this release give away?"."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from cdp_views._checks import UnsupportedError
from cdp_views.loss import Loss
from cdp_views.loss._arguments import confidence, one
from cdp_views.privacy.pairs import Pairs
from cdp_views.privacy.worst import WorstDifference

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_DELTA = 1e-10


@dataclass(frozen=True, repr=False, eq=False)
class PrivacyLoss:
    """What a release gives away about one unit of privacy, at most over its differences.

    Every number is the maximum over the differences tried, at the ε or δ asked for. `kind` says
    what `epsilon`, `delta` and all that follows from them are: guess rate, total variation, KL,
    Rényi divergences, trade-off curve. `pure_kind` is of `pure_epsilon`, `mu_kind` of `mu`.

    Args:
      law: laws of the loss of the differences that can be worst.
      worst: the difference that is protected least.
      sensitivity: largest Euclidean norm ‖v‖₂ of the differences tried, in records.
      neighbours: the unit of privacy in words.
      scope: what an estimate covers, in words; empty where nothing is estimated.
      regime: whether the totals were computed from the data or fixed in advance, in words.
      pairs: laws of all differences tried, for `by_pair`.

    Example:
      >>> from cdp_views.loss import GaussianLoss
      >>> from cdp_views.privacy import WorstDifference
      >>> worst = WorstDifference(0, (0, 1), (1.0, -1.0))
      >>> loss = PrivacyLoss(GaussianLoss([1.0]), worst, 2**0.5, "one record moves")
      >>> round(loss.guess_rate, 4)
      0.6915

    Reference: mathematics of the numbers in `cdp_views.loss`.
    """

    law: Loss = field()
    worst: WorstDifference
    sensitivity: float
    neighbours: str
    scope: str = ""
    regime: str = ""
    pairs: Pairs | None = field(default=None, repr=False)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 with δ(ε) ≤ δ, rounded up; δ in [0, 1]."""
        return _largest(self.law.epsilon(one("delta", delta)))

    def delta(self, epsilon: float) -> float:
        """δ(ε), the largest over the differences; ε ≥ 0 in nats."""
        return _largest(self.law.delta(one("epsilon", epsilon)))

    @property
    def pure_epsilon(self) -> float:
        """ε at δ = 0: the largest loss that can occur, infinite for Normal noise."""
        return _largest(self.law.sup)

    @property
    def guess_rate(self) -> float:
        """The best chance of telling two equally likely neighbours apart, (1 + δ(0))/2."""
        return _largest(self.law.guess_rate)

    @property
    def total_variation(self) -> float:
        """δ(0): the most by which the probability of any event can change."""
        return _largest(self.law.total_variation)

    @property
    def kl(self) -> float:
        """Kullback–Leibler divergence between neighbours, in nats; of the same `kind`."""
        return _largest(self.law.kl)

    def renyi(self, alpha: float) -> float:
        """Rényi divergence of order α ≥ 1, in nats; of the same `kind`."""
        return _largest(self.law.renyi(alpha))

    def tradeoff(self, type_one: Any) -> Any:
        """The least type II error of a test with this type I error, over the differences.

        `type_one` is a number or an array in [0, 1]; the answer has its shape. Of the same `kind`,
        where a "bound" lies below the truth.
        """
        a = np.asarray(type_one, dtype=float)
        curve = self.law.tradeoff(a[..., None]).min(axis=-1)
        return float(curve) if a.ndim == 0 else curve

    def tradeoff_band(self, type_one: Any, *, level: float = 0.99) -> tuple[Any, Any]:
        """Curves below and above `tradeoff`, with the truth between them at *all* a at once.

        Of an estimate with probability `level`; of a bound the curve itself and 1 − a, for certain.
        """
        a = np.asarray(type_one, dtype=float)
        band = getattr(self.law, "tradeoff_band", None)
        if band is None:
            if self.kind == "estimate":
                raise UnsupportedError(
                    "`tradeoff_band` is known of losses that were drawn; this one is an estimate "
                    "of another kind. Ask for delta_band(epsilon)."
                )
            curve = np.asarray(self.tradeoff(a))
            return curve, curve if self.kind == "exact" else 1 - a
        each = 1 - (1 - confidence(level)) / np.size(self.law.sup)
        low, high = (end.min(axis=-1) for end in band(a[..., None], level=each))
        return low, high

    @property
    def mu(self) -> float:
        """μ of Gaussian differential privacy: exact for Normal noise, else a bound.

        The smallest μ whose trade-off curve lies below this one; see `mu_kind`. Raises
        `UnsupportedError` where none is proved.
        """
        return self._proved("mu", self.law.gdp)

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated DP, sup_{α>1} D_α/α: μ²/2 for Normal noise, else a bound.

        See `rho_kind`. Raises `UnsupportedError` where none is proved.
        """
        return self._proved("rho", self.law.zcdp)

    @property
    def mu_kind(self) -> str:
        """Whether `mu` is "exact" or a "bound", which holds too where `kind` is "estimate"."""
        return self.law.gdp_kind

    @property
    def rho_kind(self) -> str:
        """Whether `rho` is "exact" or a "bound", which holds too where `kind` is "estimate"."""
        return self.law.gdp_kind

    def by_pair(self, epsilon: float | None = None) -> "pd.DataFrame":
        """One row for each class of differences that lose alike, the worst first; see `Pairs`.

        With `epsilon`, δ(ε) of each as well. Names cells, groups and changes; never a count.
        """
        if self.pairs is None:
            raise UnsupportedError(
                "`by_pair` needs the differences tried, which this result does not hold. "
                "Take it from privacy_loss(view, neighbours)."
            )
        return self.pairs.table(epsilon)

    @property
    def kind(self) -> str:
        """What ε, δ and guess rate are: "exact", a "bound" (truth at most it) or an "estimate"."""
        return self.law.kind

    @property
    def pure_kind(self) -> str:
        """Whether `pure_epsilon` is "exact" or a "bound" (an infinite one: nothing is proved)."""
        return self.law.sup_kind

    @property
    def stderr(self) -> float | None:
        """Standard error of `guess_rate` where it is estimated, else None."""
        return _beside(self.law.stderr, self.law.guess_rate)

    def delta_stderr(self, epsilon: float) -> float | None:
        """Standard error of `delta(epsilon)` where it is estimated, else None."""
        one("epsilon", epsilon)
        return _beside(self.law.delta_stderr(epsilon), self.law.delta(epsilon))

    def delta_band(self, epsilon: float, *, level: float = 0.99) -> tuple[float, float]:
        """Ends that hold δ(ε): of an estimate with probability `level`, else for certain.

        Of a bound, 0 and δ(ε). The largest over the differences that were estimated.
        """
        band = getattr(self.law, "delta_band", None)
        if band is None:
            value = self.delta(epsilon)
            half = float(-ndtri((1 - level) / 2)) * (self.delta_stderr(epsilon) or 0.0)
            low = 0.0 if self.kind == "bound" else value - half
            return max(low, 0.0), min(value + half, 1.0)
        low, high = band(epsilon, level=level)
        return _largest(low), _largest(high)

    def epsilon_stderr(self, delta: float) -> float | None:
        """Standard error of `epsilon(delta)` where it is estimated, else None."""
        one("delta", delta)
        return _beside(self.law.epsilon_stderr(delta), self.law.epsilon(delta))

    def __str__(self) -> str:
        epsilon, pure = self.epsilon(_SHOWN_DELTA), self.pure_epsilon
        numbers = []
        # Few draws, or a supremum alone, say nothing at so small a δ that pure ε does not say.
        if self.kind == "exact":
            numbers.append(f"epsilon {epsilon:.6g} at delta {_SHOWN_DELTA:g}")
        if np.isfinite(pure):
            numbers.append(f"pure epsilon {pure:.6g} ({self.pure_kind})")
        if hasattr(self.law, "mu"):
            numbers.append(f"mu {self.mu:.6g}, rho {self.rho:.6g}")
        at_most = "at most " if self.kind == "bound" else ""
        error = "" if self.stderr is None else f" ± {self.stderr:.2g} (standard error)"
        numbers.append(f"guess rate {at_most}{self.guess_rate:.6g}{error}")
        lines = [
            f"Privacy loss ({self.kind})",
            f"  unit of privacy: {self.neighbours}",
            *([f"  {self.scope}"] if self.scope else []),
            *(f"  {number}" for number in numbers),
            f"  least protected: {self.worst}",
            *([f"  totals: {self.regime}"] if self.regime else []),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _proved(self, name: str, values: np.ndarray) -> float:
        if np.isinf(values).any() and not hasattr(self.law, "mu"):
            raise UnsupportedError(
                f"`{name}` is proved for normal and for bounded losses only; this one is neither. "
                "Use delta(epsilon), epsilon(delta) or guess_rate, which hold for every loss."
            )
        return _largest(values)


def _beside(errors: np.ndarray | None, values: np.ndarray) -> float | None:
    """The error of the largest value."""
    return None if errors is None else float(errors[np.argmax(values)])


def _largest(values: np.ndarray) -> float:
    return float(np.max(values))
