"""Conversions between μ, ρ and (ε, δ) for a normal privacy loss L ~ N(μ²/2, μ²).

ρ = μ²/2 is zero-concentrated DP (Bun and Steinke 2016); μ is Gaussian DP (Dong, Roth and Su
2022, "Gaussian differential privacy", J. R. Stat. Soc. B 84); (ε, δ) is exact by Balle and Wang
2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from cdp_views.loss._arguments import finite_epsilon, nonnegative, probability
from cdp_views.loss.mills import mills_difference, mills_ratio

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_EPS = np.finfo(float).eps
# log δ is right to well under this share of itself (measured, tests/loss): aiming below by as much
# makes ε round up, and μ down, in exact arithmetic too and not only by our own reckoning.
_SAFETY = 2e-14


def delta_of_mu(epsilon: float | np.ndarray, mu: float | np.ndarray) -> np.ndarray:
    """δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), exact for a normal loss.

    Args:
      epsilon: ε ≥ 0 (nats), broadcast against `mu`.
      mu: μ ≥ 0, may be infinite.

    Returns:
      δ in [0, 1], broadcast shape, to 1e-12 relative wherever it can be represented.

    Raises:
      ValueError: an argument is negative or not a number.

    Example:
      >>> round(float(delta_of_mu(1.0, 1.0)), 8)
      0.12693674

    Reference: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 2.13.
    """
    epsilon, mu = nonnegative("epsilon", epsilon), nonnegative("mu", mu)
    return np.exp(_log_delta(*np.broadcast_arrays(epsilon, mu)))


def epsilon_of_mu(delta: float | np.ndarray, mu: float | np.ndarray) -> np.ndarray:
    """The smallest ε ≥ 0 with δ(ε) ≤ δ, rounded up: `delta_of_mu(epsilon, mu) <= delta` holds.

    Args:
      delta: δ in [0, 1], broadcast against `mu`.
      mu: μ ≥ 0, may be infinite.

    Returns:
      ε, broadcast shape; infinite for δ = 0 (if μ > 0), zero for δ ≥ δ(0).

    Raises:
      ValueError: `delta` lies outside [0, 1] or `mu` is negative.

    Example:
      >>> round(float(epsilon_of_mu(1e-10, (2 * 2.556226) ** 0.5)), 4)
      16.4652

    Reference: Balle and Wang 2018, Theorem 8, inverted.
    """
    delta, mu = np.broadcast_arrays(probability("delta", delta), nonnegative("mu", mu))
    shape, delta, mu = delta.shape, delta.ravel(), mu.ravel()
    epsilon = np.zeros(delta.shape)
    needed = _log_delta(epsilon, mu) > _log(delta)
    epsilon[needed & ((delta == 0) | np.isinf(mu))] = np.inf
    solve = needed & np.isfinite(epsilon) & (delta < 1) & np.isfinite(mu) & (delta > 0)
    epsilon[solve] = _solve_epsilon(delta[solve], mu[solve])
    return epsilon.reshape(shape)


def analytic_gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ with δ(ε) ≤ δ, rounded down: calibration of Normal noise without slack.

    Args:
      epsilon: ε ≥ 0 (nats).
      delta: 0 < δ < 1.

    Returns:
      μ; noise of scale σ on a difference of weighted norm √a has μ = √a/σ.

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> round(1 / analytic_gaussian_mu(1.0, 1e-5), 8)
      3.73063163

    Reference: Balle and Wang 2018, Algorithm 1 (here by bracketing; nothing cancels).
    """
    epsilon, delta = _budget(epsilon, delta)
    goal = float(_log(np.asarray(delta))) * (1 + _SAFETY)

    def excess(mu: float) -> float:
        return max(float(_log_delta(np.asarray(epsilon), np.asarray(mu))) - goal, -1e300)

    low = high = 1.0
    while excess(low) > 0:
        low, high = 0.5 * low, low
    while excess(high) <= 0:
        low, high = high, 2.0 * high
    root: Any = brentq(excess, low, high, xtol=_EPS * low, rtol=4 * _EPS, maxiter=500)
    return _round_down(
        float(root), lambda mu: excess(mu) <= 0 and bool(delta_of_mu(epsilon, mu) <= delta)
    )


def tail_bound_mu(epsilon: float, delta: float) -> float:
    """The largest μ with P(L > ε) ≤ δ: simpler than the exact condition, and stricter.

    μ = √(z² + 2ε) − z, z = Φ⁻¹(1 − δ): the least scale is σ = √a (z + √(z² + 2ε)) / (2ε).

    Args:
      epsilon: ε ≥ 0 (nats).
      delta: 0 < δ < 1.

    Returns:
      μ, never above `analytic_gaussian_mu(epsilon, delta)`.

    Raises:
      ValueError: an argument lies outside its range.

    Example:
      >>> round(1 / tail_bound_mu(1.0, 1e-5), 8)
      4.37907028

    Reference: [L] Theorem 1.
    """
    epsilon, delta = _budget(epsilon, delta)
    z = -float(ndtri(delta))
    root = np.hypot(z, np.sqrt(2 * epsilon))
    mu = 2 * epsilon / (z + root) if z > 0 else root - z

    def holds(mu: float) -> bool:
        x, _ = _arguments(np.asarray(epsilon), np.asarray(mu))
        return mu == 0 or float(log_ndtr(-x)) <= np.log(delta) * (1 + _SAFETY)

    return _round_down(float(mu), holds)


def _log_delta(epsilon: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """log δ(ε), right to 1e-14 of itself: for δ near 1 too."""
    shape, epsilon, mu = epsilon.shape, epsilon.ravel(), mu.ravel()
    out = np.full(epsilon.shape, -np.inf)
    # e^ε φ(y) = φ(x) turns both terms into one: δ = φ(x) (R(x) − R(y)).
    x, y = _arguments(epsilon, mu)
    right = (x >= -0.5) & (x < np.inf) & (mu > 0)
    out[right] = _log_phi(x[right]) + _log(mills_difference(x[right], mu[right]))
    # Left of that 1 − δ = Φ(x) + φ(x) R(y): a sum of two positive terms, so log δ near 0 is right.
    left = (x < -0.5) & (mu > 0)
    rest = ndtr(x[left]) + np.exp(_log_phi(x[left])) * mills_ratio(y[left])
    out[left] = np.log1p(-rest)
    return out.reshape(shape)


def _arguments(epsilon: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x = ε/μ − μ/2 and y = ε/μ + μ/2, each right to an ulp although x may cancel."""
    with np.errstate(all="ignore"):
        quotient = epsilon / mu
        rest = _remainder(epsilon, quotient, mu) / mu
        rest = np.where(np.isfinite(rest), rest, 0.0)
        x, y = (quotient - mu / 2) + rest, (quotient + mu / 2) + rest
    return np.where(np.isinf(epsilon), np.inf, x), np.where(np.isinf(epsilon), np.inf, y)


def _remainder(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a − b·c where b·c ≈ a, exactly (Dekker's product of two floats)."""
    product = b * c
    high_b, high_c = (v * 134217729.0 - (v * 134217729.0 - v) for v in (b, c))
    low_b, low_c = b - high_b, c - high_c
    error = ((high_b * high_c - product) + high_b * low_c + low_b * high_c) + low_b * low_c
    return (a - product) - error


def _solve_epsilon(delta: np.ndarray, mu: np.ndarray) -> np.ndarray:
    # log δ(ε) is concave and decreasing (a tail integral of the log-concave e^t Φ(−t/μ − μ/2)), so
    # Newton from the right never crosses the root: every iterate is a valid ε. The start is the
    # tail bound δ(ε) ≤ Φ(−x), which is to the right.
    goal = _log(delta) * (1 + _SAFETY)
    with np.errstate(over="ignore"):
        epsilon = np.maximum(mu * (mu / 2 - ndtri(delta)), 0.0)
    active = np.flatnonzero(np.isfinite(epsilon))
    for _ in range(100):
        if not active.size:
            break
        e, m = epsilon[active], mu[active]
        value = _log_delta(e, m)
        x, y = _arguments(e, m)
        slope = np.exp(_log_phi(x) + _log(mills_ratio(y)) - value)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = np.maximum(e + (value - goal[active]) / slope, 0.0)
        # Near the root rounding may say "go right": the nudge below decides by evaluation.
        usable = np.isfinite(new)
        epsilon[active[usable]] = new[usable]
        moving = usable & (np.abs(new - e) > 4 * _EPS * e)
        active = active[moving]
    return _round_up(epsilon, delta, mu)


def _round_up(epsilon: np.ndarray, delta: np.ndarray, mu: np.ndarray) -> np.ndarray:
    goal = _log(delta) * (1 + _SAFETY)
    step = 1.0
    while True:
        value = _log_delta(epsilon, mu)
        short = (value > goal) | (np.exp(value) > delta)
        if not short.any():
            return epsilon
        grown = np.nextafter(epsilon[short] * (1 + step * _EPS), np.inf)
        # An ε that should be zero has no scale of its own: give it that of one ulp of δ.
        epsilon[short] = np.maximum(grown, step * _EPS * delta[short])
        step *= 2.0


def _round_down(mu: float, holds: Callable[[float], bool]) -> float:
    step = 1.0
    while not holds(mu):
        mu = float(np.nextafter(mu * (1 - step * _EPS), 0.0))
        step *= 2.0
    return mu


def _log_phi(x: np.ndarray) -> np.ndarray:
    return -0.5 * np.square(np.clip(x, -1e150, 1e150)) - _LOG_SQRT_2PI  # no overflow


def _log(value: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(value)


def _budget(epsilon: float, delta: float) -> tuple[float, float]:
    epsilon = finite_epsilon(epsilon)
    delta = float(probability("delta", delta))
    if not 0 < delta < 1:
        raise ValueError(f"`delta` must lie strictly between 0 and 1; got {delta:g}.")
    return epsilon, delta
