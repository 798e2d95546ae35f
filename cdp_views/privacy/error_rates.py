"""What two counts of wrong guesses prove about a privacy loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincc, betainccinv, ndtr, ndtri

from cdp_views.loss import Loss

Curve = Callable[[np.ndarray], np.ndarray]
"""Trade-off curve: false positive rate α ↦ the least false negative rate β that is claimed."""

_LEAST = 1e-250  # chances below it count as none
_MOST_EPSILON = 500.0
_NODES, _ZOOMS = 65, 8


@dataclass(frozen=True)
class ErrorRates:
    """A test that tells table from neighbour, tried on `draws` fresh releases of each.

    A claimed trade-off curve f says β ≥ f(α) for its rates of false positives α and negatives β.
    With a and b errors among N draws of either, the claim's p-value is

      sup over β ≥ f(α) of  w (1 − log w),  w = P(Bin(N, α) ≤ a) · P(Bin(N, β) ≤ b):

    the two binomial tails of Clopper and Pearson, joined by Fisher's product (exact for any N, and
    sharper than a union of the two bounds). log w is concave along a convex f, so one search
    finds the sup. The lower bounds of μ and ε invert it: every smaller value is rejected.

    Args:
      false_positives: a, releases of the table taken for its neighbour's.
      false_negatives: b, releases of the neighbour taken for the table's.
      draws: N of each, not those that chose the test.

    Example:
      >>> rates = ErrorRates(500, 500, 10_000)  # both rates 0.05: μ = 3.29 if they were exact
      >>> round(rates.mu(0.99), 2), round(rates.epsilon(0.99), 2)
      (3.21, 2.86)

    Reference: Clopper and Pearson 1934; Kairouz, Oh and Viswanath 2015, Theorem 2.1 (region of
    (ε, δ)); Dong, Roth and Su 2022, Proposition 2.4 (trade-off curves); Nasr et al. 2023, "Tight
    auditing of differentially private machine learning", §4 (bounds of μ from two error rates).
    """

    false_positives: int
    false_negatives: int
    draws: int

    def upper(self, level: float) -> tuple[float, float]:
        """Clopper–Pearson upper bounds of α and of β, each right with chance `level`."""
        wrong = np.array([self.false_positives, self.false_negatives])
        alpha, beta = _upper(wrong, self.draws, 1 - level)
        return float(alpha), float(beta)

    def log_p(self, curve: Curve) -> float:
        """log p-value of the claim β ≥ f(α); −inf if there is no such chance in float64."""
        a, b, n = self.false_positives, self.false_negatives, self.draws
        # Within [low, high] neither tail is below what float64 can hold.
        high, most = _upper(np.array([a, b]), n, _LEAST)
        if curve(np.array(high)) > most:
            return -np.inf
        low = 0.0
        if curve(np.array(0.0)) > most:
            outside, inside = 0.0, float(high)
            for _ in range(200):
                middle = 0.5 * (outside + inside)
                if curve(np.array(middle)) > most:
                    outside = middle
                else:
                    inside = middle
            low = inside
        best = -np.inf
        for _ in range(_ZOOMS):
            alpha = np.linspace(low, high, _NODES)
            joint = _log_tail(a, n, alpha) + _log_tail(b, n, curve(alpha))
            top = int(np.argmax(joint))
            best = max(best, float(joint[top]))
            low, high = alpha[max(top - 1, 0)], alpha[min(top + 1, _NODES - 1)]
        return min(best + np.log1p(-best), 0.0)

    def mu(self, level: float, steps: int = 1) -> float:
        """μ of Gaussian DP is at least this, with chance `level`; tables `steps` records apart.

        k records that move lose at most kμ (group privacy), so a bound for them is k times one.
        """
        return self._least(lambda mu: gaussian_curve(steps * mu), level, np.inf)

    def epsilon(self, level: float, delta: float = 0.0, steps: int = 1) -> float:
        """ε at δ is at least this, with chance `level`; tables `steps` records apart.

        By group privacy (ε, δ) implies (kε, δ(e^{kε} − 1)/(e^ε − 1)) for k records.
        """
        return self._least(lambda e: budget_curve(e, delta, steps), level, _MOST_EPSILON / steps)

    def _least(self, curve_of: Callable[[float], Curve], level: float, most: float) -> float:
        goal = np.log(1 - level)

        def excess(value: float) -> float:
            return max(self.log_p(curve_of(value)) - goal, -1e3)

        if excess(0.0) >= 0:
            return 0.0
        high = 1.0
        while excess(min(high, most)) < 0:
            if high >= most:
                return most
            high *= 2
        root: Any = brentq(excess, 0.0, min(high, most), xtol=1e-10)
        return max(float(root) - 1e-9, 0.0)


def gaussian_curve(mu: float) -> Curve:
    """f(α) = Φ(Φ⁻¹(1 − α) − μ)."""
    return lambda alpha: ndtr(-ndtri(alpha) - mu)


def budget_curve(epsilon: float, delta: float, steps: int = 1) -> "Lines":
    """f(α) = max(0, 1 − δ − e^ε α, e^{−ε}(1 − δ − α)), of `steps` records by group privacy."""
    total = steps * epsilon
    ratio = float(steps) if epsilon == 0 else np.expm1(total) / np.expm1(epsilon)
    return profile_curve(np.array([total]), np.array([min(ratio * delta, 1.0)]))


def profile_curve(epsilon: np.ndarray, delta: np.ndarray) -> "Lines":
    """f(α) = max_ε max(0, 1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α)), for both directions."""
    offset = np.concatenate([1 - delta, np.exp(-epsilon) * (1 - delta), [0.0]])
    slope = np.concatenate([np.exp(epsilon), np.exp(-epsilon), [0.0]])
    return Lines(offset, slope)


@dataclass(frozen=True, eq=False)
class Lines:
    """The convex curve f(α) = max_j (offset_j − slope_j α)."""

    offset: np.ndarray
    slope: np.ndarray

    def __call__(self, alpha: np.ndarray) -> np.ndarray:
        return np.max(self.offset - self.slope * np.asarray(alpha)[..., None], axis=-1)

    def excess(self, a: np.ndarray, b: np.ndarray, draws: int) -> np.ndarray:
        """By how many standard errors a and b errors fall below f: quick, for choosing a test."""
        alpha, beta = (a[:, None] + 1) / (draws + 2), (b[:, None] + 1) / (draws + 2)
        below = self.offset - self.slope * alpha - beta
        # the variance that the claim would give: a rare error not seen at all proves little
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = np.clip(np.nan_to_num((self.offset - beta) / self.slope), alpha, 0.5)
        beta = np.clip(beta + below, beta, 0.5)
        variance = self.slope**2 * alpha * (1 - alpha) + beta * (1 - beta)
        return np.sqrt(draws) * np.max(below / np.sqrt(variance), axis=1)


def loss_curve(law: Loss, draws: int) -> Lines:
    """The trade-off curve of one claimed law, rounded down, as far as `draws` can tell."""
    most = min(float(np.max(law.epsilon(0.01 / draws))), 60.0)
    epsilon = np.linspace(0.0, most, 257)
    return profile_curve(epsilon, np.max(law.delta(epsilon[:, None]), axis=-1))


def mu_at_once(
    false_positives: np.ndarray, false_negatives: np.ndarray, draws: int, level: float
) -> np.ndarray:
    """Φ⁻¹(1 − ᾱ) − Φ⁻¹(β̄) of Clopper–Pearson bounds: quick, for choosing among many tests."""
    alpha, beta = _both(false_positives, false_negatives, draws, level)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(-ndtri(alpha) - ndtri(beta), nan=-np.inf)


def epsilon_at_once(
    false_positives: np.ndarray,
    false_negatives: np.ndarray,
    draws: int,
    level: float,
    delta: float,
) -> np.ndarray:
    """max of log((1 − δ − ᾱ)/β̄) and its mirror: quick, for choosing among many tests."""
    alpha, beta = _both(false_positives, false_negatives, draws, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(1 - delta - alpha, 0) / beta)
        other = np.log(np.maximum(1 - delta - beta, 0) / alpha)
    return np.maximum(one, other)


def _both(a: np.ndarray, b: np.ndarray, draws: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    chance = 0.5 * (1 - level)
    return _upper(a, draws, chance), _upper(b, draws, chance)


def _upper(wrong: np.ndarray, draws: int, chance: float) -> np.ndarray:
    """The largest rate at which `wrong` errors or fewer of `draws` have this chance."""
    inside = wrong < draws
    spread = np.where(inside, draws - wrong, 1)
    return np.where(inside, betainccinv(wrong + 1.0, spread, chance), 1.0)


def _log_tail(wrong: int, draws: int, rate: np.ndarray) -> np.ndarray:
    """log P(Bin(N, rate) ≤ wrong)."""
    if wrong >= draws:
        return np.zeros(np.shape(rate))
    with np.errstate(divide="ignore"):
        return np.log(betaincc(wrong + 1.0, draws - wrong, np.clip(rate, 0.0, 1.0)))
