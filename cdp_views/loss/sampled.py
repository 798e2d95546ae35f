"""A privacy loss known through draws: estimates with their standard errors, never a guarantee."""

from dataclasses import dataclass, field, replace
from typing import Self, override

import numpy as np
from scipy.special import expit

from cdp_views.loss._arguments import confidence, nonnegative, probability
from cdp_views.loss.base import Kind, Loss
from cdp_views.loss.bounded import BoundedLoss
from cdp_views.loss.sampled_curve import curve_of_draws, uniform

# A draw may pass a proved supremum by the rounding of a density held in float32, not by more.
_SLACK = 1e-4


@dataclass(frozen=True, eq=False)
class SampledLoss(Loss):
    """Estimates from independent draws of L under the law of the release.

    δ̂(ε) = mean of (1 − e^{ε − L})₊.

    Where both neighbours' losses have one law, as under symmetric noise, L is ±|L| with chances in
    the ratio e^{|L|} to 1; `symmetric` takes the mean given |L|, which varies less:

    δ̂(ε) = mean of (1 − e^{ε − |L|})₊/(1 + e^{−|L|}).

    `sup` stays infinite however small the draws are, unless a proved one is given: the largest
    draw bounds nothing. A δ below 1/r is out of reach of r draws; `epsilon` then returns what
    `sup` proves: infinity where nothing is known.

    Args:
      draws: (m, r) losses of the m differences, in nats, r ≥ 2; infinite ones are allowed.
      sup: (m,) proved bound of |L|, from elsewhere; infinite where there is none.
      sup_kind: whether it is the "exact" supremum or a "bound"; an infinite one only bounds.
      symmetric: whether log p/p′ under p and log p′/p under p′ have the same law.

    Raises:
      ValueError: fewer than two draws, one that is not a number, or one above `sup`.

    Example:
      >>> law = SampledLoss([[1.0] * 300 + [-1.0] * 100])  # randomised response at ε = 1
      >>> law.guess_rate.round(3).tolist(), law.stderr.round(3).tolist()
      ([0.737], [0.007])

    Reference: Balle and Wang 2018, Theorem 5; standard errors by the central limit theorem, of ε
    by the delta method.
    """

    draws: np.ndarray
    sup: np.ndarray = field(default_factory=lambda: np.array(np.inf))
    sup_kind: Kind = "exact"
    kind: Kind = "estimate"
    symmetric: bool = False

    def __post_init__(self) -> None:
        draws = np.atleast_2d(np.asarray(self.draws, dtype=float))
        if draws.ndim != 2 or draws.shape[1] < 2:
            raise ValueError(f"`draws` must have shape (m, r), r at least 2; got {draws.shape}.")
        if np.isnan(draws).any():
            raise ValueError("`draws` must be numbers; got nan. Check the log-density.")
        sup = np.broadcast_to(nonnegative("sup", self.sup), draws.shape[:1])
        if (draws > (sup + _SLACK * (1 + sup))[:, None]).any():
            raise ValueError(
                "`draws` must not exceed `sup`; got a loss above it by "
                f"{np.max((draws.T - sup)[sup < draws.T]):.3g}. One of the two is wrong."
            )
        object.__setattr__(self, "draws", np.minimum(draws, sup[:, None]))
        object.__setattr__(self, "sup", sup)
        if np.isinf(sup).all():
            object.__setattr__(self, "sup_kind", "bound")

    @property
    def stderr(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) standard error of `guess_rate`, half that of δ(0)."""
        return 0.5 * self.delta_stderr(0.0)

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return self._excess(epsilon).mean(axis=-1)

    @override
    def delta_stderr(self, epsilon: float | np.ndarray) -> np.ndarray:
        """(m,) standard error of δ(ε), never below what one more draw could add."""
        r = self.draws.shape[1]
        most, excess = self._most(epsilon), self._excess(epsilon)
        return np.maximum(excess.std(axis=-1, ddof=1) / np.sqrt(r), most / r)

    def delta_band(
        self, epsilon: float | np.ndarray, *, level: float = 0.99
    ) -> tuple[np.ndarray, np.ndarray]:
        """(m,) lower and upper ends that hold δ(ε) with probability `level` or more.

        Whatever the law and however few the draws, at each ε by itself: with V the variance of r
        draws that lie between 0 and c, and t = log 4/(1 − level), the ends are
        δ̂ ± (√(2Vt/r) + 7ct/(3(r − 1))).

        Args:
          epsilon: ε ≥ 0, broadcasts against (m,).
          level: between 0 and 1.

        Reference: Maurer and Pontil 2009, Empirical Bernstein bounds, Theorem 4.
        """
        excess, most = self._excess(epsilon), self._most(epsilon)
        r, t = self.draws.shape[1], np.log(4 / (1 - confidence(level)))
        half = np.sqrt(2 * excess.var(axis=-1, ddof=1) * t / r) + 7 * most * t / (3 * (r - 1))
        middle = excess.mean(axis=-1)
        return np.maximum(middle - half, 0.0), np.minimum(middle + half, most)

    @override
    def tradeoff(self, type_one: float | np.ndarray) -> np.ndarray:
        """(m,) f(a) of the profile δ̂: convex, and never below what `sup` proves."""
        return self._curves(type_one, 0.0)

    def tradeoff_band(
        self, type_one: float | np.ndarray, *, level: float = 0.99
    ) -> tuple[np.ndarray, np.ndarray]:
        """(m,) lower and upper curves that hold f(a) at *all* a with probability `level` or more.

        From δ̂ ± √(log(2/(1 − level))/(2r)), which hold δ at all ε together, and from `sup`.

        Reference: Massart 1990, The tight constant in the Dvoretzky–Kiefer–Wolfowitz inequality.
        """
        half = uniform(self.draws.shape[1], level)
        low, high = (self._curves(type_one, more) for more in (half, -half))
        a = probability("type_one", type_one)
        with np.errstate(over="ignore", invalid="ignore"):
            proved = np.where(a > 0, 1 - np.exp(self.sup) * a, 1.0)
        proved = np.maximum(proved, np.exp(-self.sup) * (1 - a))
        return np.maximum(low, np.maximum(proved, 0.0)), high

    def _curves(self, type_one: float | np.ndarray, more: float) -> np.ndarray:
        a = probability("type_one", type_one)
        a = np.broadcast_to(a, np.broadcast_shapes(a.shape, self.sup.shape))
        rows = zip(*self._weighed(self.draws), np.moveaxis(a, -1, 0), strict=True)
        return np.stack([curve_of_draws(*row, more=more) for row in rows], axis=-1)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        delta = np.asarray(probability("delta", delta))
        r = self.draws.shape[1]
        proved = BoundedLoss(self.sup).epsilon(delta)
        delta = np.broadcast_to(delta, proved.shape)
        found = np.empty(proved.shape)
        for row, draws in enumerate(self.draws):
            size, weight = self._weighed(draws)
            found[..., row] = invert(size, weight, delta[..., row])
        return np.where(delta < 1 / r, proved, found)

    @override
    def epsilon_stderr(self, delta: float | np.ndarray) -> np.ndarray:
        """(m,) standard error of ε(δ): that of δ over the slope; 0 where ε is proved instead."""
        epsilon = self.epsilon(delta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            size, weight = self._weighed(self.draws)
            gap = epsilon[..., None] - size
            slope = np.where(gap < 0, weight * np.exp(gap), 0.0).mean(axis=-1)
            error = self.delta_stderr(epsilon) / slope
        unresolved = np.broadcast_to(np.asarray(delta) < 1 / self.draws.shape[1], epsilon.shape)
        return np.where(np.isinf(epsilon), np.inf, np.where(unresolved, 0.0, error))

    @override
    def take(self, indices: np.ndarray) -> Self:
        return replace(self, draws=self.draws[indices], sup=self.sup[indices])

    def _excess(self, epsilon: float | np.ndarray) -> np.ndarray:
        epsilon = np.asarray(nonnegative("epsilon", epsilon))
        size, weight = self._weighed(self.draws)
        return weight * _excess(epsilon[..., None], size)

    def _most(self, epsilon: float | np.ndarray) -> np.ndarray:
        """What one draw adds at most."""
        size, weight = self._weighed(self.sup)
        return weight * _excess(nonnegative("epsilon", epsilon), size)

    def _weighed(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each draw as a positive loss and its chance."""
        if not self.symmetric:
            return draws, np.ones_like(draws)
        return np.abs(draws), expit(np.abs(draws))


def _excess(epsilon: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """(1 − e^{ε − L})₊, 1 for an infinite loss."""
    with np.errstate(invalid="ignore"):
        return np.where(loss == np.inf, 1.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))


def invert(draws: np.ndarray, weight: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """The root of δ̂(ε) = δ: between two draws δ̂ is (Σw − e^ε Σ we^{−L})/r over those above ε."""
    r = len(draws)
    certain = float(np.sum(weight[draws == np.inf]))
    use = (draws > 0) & (draws < np.inf)
    order = np.argsort(-draws[use], kind="stable")
    above, weight = draws[use][order], weight[use][order]
    log_sum = np.concatenate([[-np.inf], np.logaddexp.accumulate(np.log(weight) - above)])
    count = certain + np.concatenate([[0.0], np.cumsum(weight)])
    # δ̂ at each draw, and last at ε = 0.
    knots = (count - np.exp(np.append(above, 0.0) + log_sum)) / r
    knots = np.maximum.accumulate(knots)
    j = np.searchsorted(knots, delta, side="right")
    inside = np.minimum(j, len(above))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.log(count[inside] - r * delta) - log_sum[inside]
    return np.where(j > len(above), 0.0, np.where(j == 0, np.inf, np.maximum(root, 0.0)))
