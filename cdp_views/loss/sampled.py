"""A privacy loss known through draws: estimates with their standard errors, never a guarantee."""

from dataclasses import dataclass, field
from typing import Self, override

import numpy as np

from cdp_views.loss._arguments import nonnegative, probability
from cdp_views.loss.base import Kind, Loss
from cdp_views.loss.bounded import BoundedLoss

# A draw may pass a proved supremum by the rounding of a density held in float32, not by more.
_SLACK = 1e-4


@dataclass(frozen=True, eq=False)
class SampledLoss(Loss):
    """Estimates from independent draws of L under the law of the release.

    δ̂(ε) = mean of (1 − e^{ε − L})₊.

    `sup` stays infinite however small the draws are, unless a proved one is given: the largest
    draw bounds nothing. A δ below 1/r is out of reach of r draws; `epsilon` then returns what
    `sup` proves: infinity where nothing is known.

    Args:
      draws: (m, r) losses of the m differences, in nats, r ≥ 2; infinite ones are allowed.
      sup: (m,) proved bound of |L|, from elsewhere; infinite where there is none.
      sup_kind: whether it is the "exact" supremum or a "bound"; an infinite one only bounds.

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
        most = _excess(nonnegative("epsilon", epsilon), self.sup)
        return np.maximum(self._excess(epsilon).std(axis=-1, ddof=1) / np.sqrt(r), most / r)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        delta = np.asarray(probability("delta", delta))
        r = self.draws.shape[1]
        proved = BoundedLoss(self.sup).epsilon(delta)
        delta = np.broadcast_to(delta, proved.shape)
        found = np.empty(proved.shape)
        for row, draws in enumerate(self.draws):
            found[..., row] = _invert(draws, delta[..., row])
        return np.where(delta < 1 / r, proved, found)

    @override
    def epsilon_stderr(self, delta: float | np.ndarray) -> np.ndarray:
        """(m,) standard error of ε(δ): that of δ over the slope; 0 where ε is proved instead."""
        epsilon = self.epsilon(delta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            gap = epsilon[..., None] - self.draws
            slope = np.where(gap < 0, np.exp(gap), 0.0).mean(axis=-1)
            error = self.delta_stderr(epsilon) / slope
        unresolved = np.broadcast_to(np.asarray(delta) < 1 / self.draws.shape[1], epsilon.shape)
        return np.where(np.isinf(epsilon), np.inf, np.where(unresolved, 0.0, error))

    @override
    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.draws[indices], self.sup[indices], self.sup_kind)

    def _excess(self, epsilon: float | np.ndarray) -> np.ndarray:
        epsilon = np.asarray(nonnegative("epsilon", epsilon))
        return _excess(epsilon[..., None], self.draws)


def _excess(epsilon: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """(1 − e^{ε − L})₊, 1 for an infinite loss."""
    with np.errstate(invalid="ignore"):
        return np.where(loss == np.inf, 1.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))


def _invert(draws: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """The root of δ̂(ε) = δ: between two draws δ̂ is (j − e^ε Σ e^{−L})/r over the j above ε."""
    r = len(draws)
    certain = int(np.sum(draws == np.inf))
    above = np.sort(draws[(draws > 0) & (draws < np.inf)])[::-1]
    log_sum = np.concatenate([[-np.inf], np.logaddexp.accumulate(-above)])
    count = certain + np.arange(len(above) + 1)
    # δ̂ at each draw, and last at ε = 0.
    knots = (count - np.exp(np.append(above, 0.0) + log_sum)) / r
    knots = np.maximum.accumulate(knots)
    j = np.searchsorted(knots, delta, side="right")
    inside = np.minimum(j, len(above))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.log(count[inside] - r * delta) - log_sum[inside]
    return np.where(j > len(above), 0.0, np.where(j == 0, np.inf, np.maximum(root, 0.0)))
