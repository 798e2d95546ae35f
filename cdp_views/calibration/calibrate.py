"""The least noise that keeps a privacy budget."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from cdp_views._checks import UnsupportedError, choice
from cdp_views.loss import analytic_gaussian_mu, tail_bound_mu
from cdp_views.neighbours import Neighbours
from cdp_views.privacy import PrivacyLoss, privacy_loss

_EPS = np.finfo(float).eps
_CLOSE_ENOUGH = 1e-13
_NOISE = 1e-6  # a view may hold its scale in float32
_FLOAT32_STEP = 2.5e-7
_LARGEST_SCALE = 1e100
_MOST_EVALUATIONS = 200


def calibrate(
    view_of_scale: Callable[[float], Any],
    neighbours: Neighbours,
    *,
    epsilon: float,
    delta: float = 0.0,
    bound: Literal["analytic", "tail"] = "analytic",
) -> float:
    """The smallest scale at which the worst difference has δ(ε) ≤ δ.

    Where only the supremum of the loss is known, as of Laplace noise, that is the smallest scale
    of pure differential privacy, sup ≤ ε, and δ stays unused.

    Args:
      view_of_scale: scale ↦ view; more scale must mean more privacy.
      neighbours: the unit of privacy, relocations(inv) for example.
      epsilon: ε > 0 (nats).
      delta: 0 ≤ δ < 1, well below 1 over the number of records; 0, the default, asks for pure
        differential privacy, which Normal noise can't give.
      bound: "analytic", exact; or "tail", [L] Theorem 1: simpler and larger, Normal noise only.

    Returns:
      The scale, rounded up: at it δ(ε) ≤ δ (or sup ≤ ε) was evaluated, not inferred.

    Raises:
      TypeError: a view in place of a function that makes one.
      ValueError: the budget is out of range, δ = 0 for an unbounded loss, or no scale keeps it.
      UnsupportedError: "tail" for a loss that is not normal.

    Example:
      >>> import cdp_views as cdp, jax.numpy as jnp, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a"])
      >>> view = lambda s: cdp.Conditioned(dist.Normal(jnp.zeros(3), s), inv)
      >>> round(cdp.calibrate(view, cdp.relocations(inv), epsilon=1.0, delta=1e-10), 4)
      8.2983

    Reference: Balle and Wang 2018, Theorem 8 ("analytic"); [L] Theorem 1 ("tail").
    """
    if not callable(view_of_scale) or hasattr(view_of_scale, "log_prob"):
        raise TypeError(
            f"`view_of_scale` must be a function of the scale; got {type(view_of_scale).__name__}. "
            "Write lambda scale: cdp.Conditioned(dist.Normal(loc, scale), inv)."
        )
    choice("bound", bound, ("analytic", "tail"))
    _check_budget(epsilon, delta)

    def attempt(scale: float) -> tuple[float, bool]:
        loss = privacy_loss(view_of_scale(scale), neighbours)
        if np.isfinite(loss.pure_epsilon) and (delta == 0 or loss.kind != "exact"):
            return _attempt_pure(loss, epsilon, bound)
        if delta == 0:
            raise ValueError(
                "`delta` must be above 0 for a loss without a largest value, as of Normal noise; "
                "got 0. Give delta, 1e-10 for example, or use Laplace noise."
            )
        goal = (analytic_gaussian_mu if bound == "analytic" else tail_bound_mu)(epsilon, delta)
        mu = _equivalent_mu(loss, epsilon, bound)
        return mu / goal, bool(mu <= goal and loss.delta(epsilon) <= delta)

    return _smallest(attempt)


def _attempt_pure(loss: PrivacyLoss, epsilon: float, bound: str) -> tuple[float, bool]:
    if bound == "tail":
        raise UnsupportedError(
            '`bound` "tail" is defined for a normal privacy loss only. Use "analytic".'
        )
    pure = loss.pure_epsilon
    return pure / epsilon, bool(pure <= epsilon)


def _check_budget(epsilon: float, delta: float) -> None:
    if not (np.ndim(epsilon) == 0 and np.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"`epsilon` must be positive; got {epsilon}. Give one finite number.")
    if not (np.ndim(delta) == 0 and 0 <= delta < 1):
        raise ValueError(
            f"`delta` must be at least 0 and below 1; got {delta}. "
            "Take it well below 1 over the number of records."
        )


def _equivalent_mu(loss: PrivacyLoss, epsilon: float, bound: str) -> float:
    """μ, or for another law the μ of the normal loss that has the same δ at this ε."""
    try:
        return loss.mu
    except UnsupportedError:
        if bound == "tail":
            raise
    delta = loss.delta(epsilon)
    if delta <= 0:
        return 0.0
    return np.inf if delta >= 1 else analytic_gaussian_mu(epsilon, delta)


def _smallest(attempt: Callable[[float], tuple[float, bool]]) -> float:
    """The smallest scale that `attempt` accepts; it also returns how many times too exposed.

    Loss is inversely proportional to scale for Normal and Laplace noise, so the second guess is
    right to rounding; otherwise secants in logarithms, kept inside a bracket.
    """
    scale, low, high = 1.0, 0.0, np.inf
    tried: list[tuple[float, float]] = []
    for _ in range(_MOST_EVALUATIONS):
        ratio, kept = attempt(scale)
        if kept:
            high = min(high, scale)
            if ratio >= 1 - _CLOSE_ENOUGH:
                return high
        else:
            low = max(low, scale)
        if 0 < ratio < np.inf:
            tried.append((np.log(scale), np.log(ratio)))
        _check_monotone(tried, low, high)
        if high <= low * (1 + (1.2 * _FLOAT32_STEP if _quantised(tried) else 4 * _EPS)):
            return high
        scale = _next(scale, tried, low, high)
        if not 1 / _LARGEST_SCALE < scale < _LARGEST_SCALE:
            break
    reached = "every scale tried keeps" if low == 0 else "no scale tried keeps"
    raise ValueError(
        f"`view_of_scale` must keep the budget from some scale on and break it below; {reached} "
        "it. Check that the view's noise is proportional to the argument."
    )


def _check_monotone(tried: list[tuple[float, float]], low: float, high: float) -> None:
    rises = [
        r1 > r0 + _NOISE if s1 > s0 else r0 > r1 + _NOISE for (s0, r0), (s1, r1) in pairwise(tried)
    ]
    stuck = len(tried) > 2 and tried[-1][1] == tried[-2][1] == tried[-3][1]
    flat = stuck and abs(tried[-1][0] - tried[-3][0]) > 1
    if any(rises) or flat or low > high * (1 + _NOISE):
        raise ValueError(
            "`view_of_scale` must give more privacy at a larger scale; got "
            f"{'no change' if flat else 'less'}. Check that the noise grows with the argument."
        )


def _quantised(tried: list[tuple[float, float]]) -> bool:
    """Whether two scales, nearly but not quite equal, gave the very same loss (float32)."""
    return any(0 < abs(s1 - s0) < 1e-6 and r0 == r1 for (s0, r0), (s1, r1) in pairwise(tried))


def _next(scale: float, tried: list[tuple[float, float]], low: float, high: float) -> float:
    """A secant step in logarithms if it stays inside (low, high), else the middle of it."""
    if tried and tried[-1][0] == np.log(scale):
        slope = -1.0
        if len(tried) > 1:
            (s0, r0), (s1, r1) = tried[-2:]
            if abs(s1 - s0) > 64 * _EPS and (r1 - r0) / (s1 - s0) < -0.05:
                slope = (r1 - r0) / (s1 - s0)
        if _quantised(tried):
            guess = scale * (1 + _FLOAT32_STEP) if tried[-1][1] > 0 else scale / (1 + _FLOAT32_STEP)
            if low < guess < high:
                return guess
        # Aim to the safe side of the root, by half of what is close enough.
        guess = scale * np.exp(-(tried[-1][1] + 0.5 * _CLOSE_ENOUGH) / slope)
        if low < guess < high:
            return float(guess)
    if high == np.inf:
        return 8.0 * low
    if low == 0:
        return high / 8.0
    return float(np.sqrt(low * high)) if high > 4 * low else 0.5 * (low + high)
