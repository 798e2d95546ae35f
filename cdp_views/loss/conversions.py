"""From one notion of privacy to another, each rounded to the safe side and in one direction only.

What a guarantee proves of another notion is an upper bound; the way back loses what the way there
gave away. Exact both ways are only μ, ρ and (ε, δ) of Normal noise (`gaussian_dp`) and guess rate
and total variation.
"""

from typing import Literal, NamedTuple

import numpy as np

from cdp_views._checks import choice
from cdp_views.loss._arguments import nonnegative, order, probability
from cdp_views.loss.gaussian_dp import analytic_gaussian_mu, tail_bound_mu

_EPS = np.finfo(float).eps
_GRID = np.log(10.0) * np.linspace(-12, 12, 241)  # of log(α − 1)
_ZOOMS = 8
_ZOOM = 17


def epsilon_of_rho(
    rho: float | np.ndarray,
    delta: float | np.ndarray,
    *,
    formula: Literal["optimal", "simple"] = "optimal",
) -> np.ndarray:
    """An ε such that ρ-zCDP implies (ε, δ)-DP: rounded up, and right for *any* ρ-zCDP mechanism.

    optimal: ε = min_{α>1} ρα + log(1 − 1/α) − log(δα)/(α − 1); simple: ε = ρ + 2√(ρ log(1/δ)).
    Normal noise of ρ = μ²/2 has a smaller ε: `epsilon_of_mu`.

    Args:
      rho: ρ ≥ 0, may be infinite; broadcasts against `delta`.
      delta: δ in [0, 1].
      formula: "optimal" over the orders, as the US Census Bureau reports; or "simple".

    Returns:
      ε ≥ 0; infinite for δ = 0 (if ρ > 0), zero for δ = 1.

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> round(float(epsilon_of_rho(2.556226, 1e-10)), 2)  # 2020 census, persons
      17.14

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12 and Corollary 13 (optimal); Bun and
    Steinke 2016, Proposition 1.3 (simple).
    """
    choice("formula", formula, ("optimal", "simple"))
    rho, delta = np.broadcast_arrays(nonnegative("rho", rho), probability("delta", delta))
    out = np.where((rho > 0) & (delta < 1), np.inf, 0.0)
    inside = (rho > 0) & (rho < np.inf) & (delta > 0) & (delta < 1)
    r, log_delta = rho[inside], np.log(delta[inside])
    simple = (r + 2 * np.sqrt(r * -log_delta)) * (1 + 8 * _EPS)
    if formula == "optimal":
        simple = np.minimum(simple, _over_orders(_EpsilonOfRho(r, log_delta)))
    out[inside] = np.maximum(simple, 0.0)
    return out


def delta_of_rho(rho: float | np.ndarray, epsilon: float | np.ndarray) -> np.ndarray:
    """A δ such that ρ-zCDP implies (ε, δ)-DP, rounded up.

    δ = min_{α>1} e^{(α−1)(αρ − ε)} (1 − 1/α)^α / (α − 1).

    Args:
      rho: ρ ≥ 0, may be infinite; broadcasts against `epsilon`.
      epsilon: ε ≥ 0 (nats).

    Returns:
      δ in [0, 1].

    Raises:
      ValueError: an argument is negative or not a number.

    Example:
      >>> f"{float(delta_of_rho(0.5, 5.0)):.4g}"
      '2.896e-06'

    Reference: Canonne, Kamath and Steinke 2020, Corollary 13.
    """
    rho, epsilon = np.broadcast_arrays(nonnegative("rho", rho), nonnegative("epsilon", epsilon))
    out = np.where((rho > 0) & (epsilon < np.inf), 1.0, 0.0)
    inside = (rho > 0) & (rho < np.inf) & (epsilon < np.inf)
    log_delta = _over_orders(_LogDeltaOfRho(rho[inside], epsilon[inside]))
    out[inside] = np.exp(np.minimum(log_delta, 0.0))
    return out


def rho_for(epsilon: float, delta: float) -> float:
    """The largest ρ that `epsilon_of_rho` turns into (ε, δ), rounded down: a budget in ρ.

    Args:
      epsilon: ε > 0, finite (nats).
      delta: 0 < δ < 1.

    Returns:
      ρ: whatever is ρ-zCDP is (ε, δ)-DP.

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> round(rho_for(17.14359, 1e-10), 4)
      2.5562

    Reference: Canonne, Kamath and Steinke 2020, Corollary 13, inverted.
    """
    epsilon, delta = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta))
    if not (0 < epsilon < np.inf and 0 < delta < 1):
        raise ValueError(
            f"`epsilon` must be positive and finite and `delta` strictly between 0 and 1; got "
            f"{epsilon:g} and {delta:g}. Use sup or pure epsilon for a delta of 0."
        )
    low, high = 0.0, epsilon
    while epsilon_of_rho(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high > low * (1 + 4 * _EPS):
        # Steps in the logarithm where the bracket still spans many orders.
        if low == 0:
            middle = high / 8
        else:
            middle = 0.5 * (low + high) if high < 4 * low else float(np.sqrt(low * high))
        low, high = (middle, high) if epsilon_of_rho(middle, delta) <= epsilon else (low, middle)
    return low


def epsilon_of_renyi(
    alpha: float | np.ndarray, divergence: float | np.ndarray, delta: float
) -> float:
    """An ε such that Rényi divergences D_α imply (ε, δ)-DP, rounded up.

    ε = min over the orders given of D_α + log(1 − 1/α) − log(δα)/(α − 1).

    Args:
      alpha: orders above 1, finite; (a,) or one.
      divergence: D_α of each, in nats, in both directions; may be infinite.
      delta: δ in [0, 1].

    Returns:
      ε ≥ 0, infinite if no order proves one.

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> alpha = np.linspace(1.1, 30, 300)
      >>> round(epsilon_of_renyi(alpha, alpha * 0.5, 1e-5), 4)  # Normal noise, mu = 1
      4.7284

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    t, divergence = _orders(alpha, divergence)
    delta = float(probability("delta", delta))
    if delta == 1 or (divergence == 0).all():
        return 0.0
    if delta == 0:
        return np.inf
    value, size = _epsilon(t, divergence, np.log(delta))
    return float(max(np.min(value + 8 * _EPS * size), 0.0))


def delta_of_renyi(
    alpha: float | np.ndarray, divergence: float | np.ndarray, epsilon: float
) -> float:
    """A δ such that Rényi divergences D_α imply (ε, δ)-DP, rounded up.

    δ = min over the orders given of e^{(α−1)(D_α − ε)} (1 − 1/α)^α / (α − 1), at most 1.

    Args:
      alpha: orders above 1, finite; (a,) or one.
      divergence: D_α of each, in nats, in both directions; may be infinite.
      epsilon: ε ≥ 0 (nats).

    Returns:
      δ in [0, 1].

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> round(delta_of_renyi([2.0, 4.0, 8.0], [1.0, 2.0, 4.0], 5.0), 6)
      1.3e-05

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    t, divergence = _orders(alpha, divergence)
    epsilon = float(nonnegative("epsilon", epsilon))
    if epsilon == np.inf or (divergence == 0).all():
        return 0.0
    value, size = _log_delta(t, divergence, epsilon)
    return float(np.exp(min(np.min(value + 8 * _EPS * size), 0.0)))


def renyi_of_rho(alpha: float, rho: float | np.ndarray) -> np.ndarray:
    """D_α ≤ αρ: what ρ-zCDP means, rounded up.

    Example:
      >>> float(renyi_of_rho(2.0, 0.5))
      1.0
    """
    with np.errstate(invalid="ignore"):
        value = np.asarray(order(alpha) * nonnegative("rho", rho))
    return np.where(np.isnan(value), 0.0, np.where(value % 1 == 0, value, value * (1 + _EPS)))


def rho_of_mu(mu: float | np.ndarray) -> np.ndarray:
    """ρ = μ²/2, rounded up: μ-GDP implies ρ-zCDP, and for Normal noise ρ is exact.

    Example:
      >>> round(float(rho_of_mu(2.0)), 6)
      2.0

    Reference: Bun and Steinke 2016, Proposition 1.6; Dong, Roth and Su 2022, Corollary B.6.
    """
    with np.errstate(over="ignore"):
        return 0.5 * nonnegative("mu", mu) ** 2 * (1 + 2 * _EPS)


def normal_mu_of_rho(rho: float | np.ndarray) -> np.ndarray:
    """μ = √(2ρ), rounded down: Normal noise with this μ costs no more than ρ.

    Of Normal noise only: ρ-zCDP alone proves no μ, as its trade-off curve may meet the axis at an
    error below 1.

    Example:
      >>> round(float(normal_mu_of_rho(2.0)), 6)
      2.0
    """
    return np.sqrt(2 * nonnegative("rho", rho)) * (1 - 2 * _EPS)


def guess_rate_of_total_variation(total_variation: float | np.ndarray) -> np.ndarray:
    """(1 + TV)/2: the best chance of telling two equally likely neighbours apart; exact.

    Example:
      >>> float(guess_rate_of_total_variation(0.5))
      0.75
    """
    return 0.5 + 0.5 * probability("total_variation", total_variation)


def total_variation_of_guess_rate(guess_rate: float | np.ndarray) -> np.ndarray:
    """TV = 2·guess rate − 1, exact; a guess rate lies between ½ and 1.

    Example:
      >>> float(total_variation_of_guess_rate(0.75))
      0.5
    """
    rate = probability("guess_rate", guess_rate)
    if (rate < 0.5).any():
        raise ValueError(
            f"`guess_rate` must lie between 0.5 and 1; got {float(rate.min()):g}. Below one half "
            "the opposite guess is the better one."
        )
    return 2 * rate - 1


class TailBoundPrice(NamedTuple):
    """Scales of Normal noise in units of ‖v‖_Σ (√a in [L]), and how many times one is the other."""

    analytic: float
    tail: float
    ratio: float


def tail_bound_price(epsilon: float, delta: float) -> TailBoundPrice:
    """What the tail bound of [L] Theorem 1 costs beside the exact condition: σ both ways.

    Args:
      epsilon: ε > 0 (nats).
      delta: 0 < δ < 1.

    Returns:
      TailBoundPrice: the two least scales σ/√a and their ratio, tail over analytic, at least 1.

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> [round(x, 4) for x in tail_bound_price(1.0, 1e-5)]
      [3.7306, 4.3791, 1.1738]

    Reference: [L] Theorem 1 (tail); Balle and Wang 2018, Theorem 8 (analytic).
    """
    if not nonnegative("epsilon", epsilon) > 0:
        raise ValueError(
            f"`epsilon` must be positive; got {epsilon}. At 0 the tail bound asks for no finite "
            "scale where delta is below one half."
        )
    analytic, tail = analytic_gaussian_mu(epsilon, delta), tail_bound_mu(epsilon, delta)
    return TailBoundPrice(1 / analytic, 1 / tail, analytic / tail)


class _EpsilonOfRho(NamedTuple):
    rho: np.ndarray
    log_delta: np.ndarray

    def __call__(self, log_t: np.ndarray) -> np.ndarray:
        t = np.exp(log_t)
        value, size = _epsilon(t, self.rho * (1 + t), self.log_delta)
        return value + 8 * _EPS * size


class _LogDeltaOfRho(NamedTuple):
    rho: np.ndarray
    epsilon: np.ndarray

    def __call__(self, log_t: np.ndarray) -> np.ndarray:
        t = np.exp(log_t)
        value, size = _log_delta(t, self.rho * (1 + t), self.epsilon)
        return value + 8 * _EPS * size


def _epsilon(
    t: np.ndarray, divergence: np.ndarray, log_delta: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bound on ε at α = 1 + t, and the size of the terms that rounding is a share of."""
    first, second = np.log1p(1 / t), (log_delta + np.log1p(t)) / t
    # log(1 − 1/α) = −log(1 + 1/t)
    parts = np.abs(log_delta) / t + np.log1p(t) / t
    return divergence - first - second, divergence + first + parts


def _log_delta(
    t: np.ndarray, divergence: np.ndarray, epsilon: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    shrink = (1 + t) * np.log1p(1 / t)
    value = t * (divergence - epsilon) - shrink - np.log(t)
    return value, t * (divergence + epsilon) + shrink + np.abs(np.log(t))


def _over_orders(bound: "_EpsilonOfRho | _LogDeltaOfRho") -> np.ndarray:
    """The least bound over α: every order gives one, so the search need not be perfect."""
    entries = np.zeros(bound[0].shape)
    grid = np.broadcast_to(_GRID[:, None], (len(_GRID), *entries.shape))
    values = bound(grid)
    place = values.argmin(axis=0)
    low, high = _GRID[np.maximum(place - 1, 0)], _GRID[np.minimum(place + 1, len(_GRID) - 1)]
    best = values.min(axis=0)
    for _ in range(_ZOOMS):
        zoom = np.linspace(low, high, _ZOOM)
        values = bound(zoom)
        place = values.argmin(axis=0)[None]
        best = np.minimum(best, values.min(axis=0))
        low = np.take_along_axis(zoom, np.maximum(place - 1, 0), 0)[0]
        high = np.take_along_axis(zoom, np.minimum(place + 1, _ZOOM - 1), 0)[0]
    return best


def _orders(
    alpha: float | np.ndarray, divergence: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    alpha = np.atleast_1d(np.asarray(alpha, dtype=float))
    if alpha.ndim != 1 or not ((alpha > 1) & np.isfinite(alpha)).all():
        raise ValueError(
            "`alpha` must be finite orders above 1. For order 1 or infinity use kl, sup."
        )
    divergence = nonnegative("divergence", divergence)
    return alpha - 1, np.broadcast_to(divergence, alpha.shape)
