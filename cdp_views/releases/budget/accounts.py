"""What the releases of one table cost together, and what a budget has left."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cdp_views.loss import GaussianLoss, analytic_gaussian_mu, compose_losses

_ROUNDING = 1e-12  # of ε and δ, relative: a release of the whole budget must fit


class Price(NamedTuple):
    """What one release costs: μ of Gaussian differential privacy where it is one, else (ε, δ)."""

    epsilon: float
    delta: float
    mu: float | None


class Spent(NamedTuple):
    """(ε, δ)-differential privacy of all releases together."""

    epsilon: float
    delta: float


class Left(NamedTuple):
    """What a further release may cost: of any noise, or (more) of Normal noise alone."""

    epsilon: float
    delta: float
    epsilon_normal: float
    """ε at the whole ledger's δ, for Normal noise, which composes better than by adding up."""


def spent(prices: Sequence[Price], delta: float) -> Spent:
    """The guarantee of all together, at the δ of the budget where Normal noise needs one.

    Normal noise composes in closed form, μ = √Σμ², and is read at the δ that the others leave; all
    others add up (basic composition): ε = ε(δ − Σδ_k; μ) + Σε_k.

    Args:
        prices: of each release.
        delta: of the budget.

    Returns:
        ε is infinite where nothing of δ is left for the Normal noise.

    Example:
        >>> spent([Price(0.5, 0.0, None), Price(0.25, 1e-7, None)], 1e-6)
        Spent(epsilon=0.75, delta=1e-07)

    Reference: Dong, Roth and Su 2022, Corollary 3.3; Dwork and Roth 2014, Theorem 3.16.
    """
    epsilon, used, mu = _parts(prices)
    if mu == 0:
        return Spent(epsilon, used)
    rest = delta - used
    if rest <= 0:
        return Spent(np.inf, used)
    normal = float(GaussianLoss(np.array([mu])).epsilon(rest)[0])
    return Spent(epsilon + normal, delta)


def fits(prices: Sequence[Price], epsilon: float, delta: float) -> bool:
    """Whether all together keep the budget (ε, δ)."""
    whole = spent(prices, delta)
    return bool(
        whole.epsilon <= epsilon * (1 + _ROUNDING) and whole.delta <= delta * (1 + _ROUNDING)
    )


def left(prices: Sequence[Price], epsilon: float, delta: float) -> Left:
    """What a further release may cost, of a budget (ε, δ) of which `prices` are spent."""
    adding, used, mu = _parts(prices)
    whole = spent(prices, delta)
    rest = max(delta - used, 0.0)
    normal = 0.0
    if rest > 0 and epsilon > adding:
        most = analytic_gaussian_mu(epsilon - adding, rest)
        if most > mu:
            own = np.sqrt((most - mu) * (most + mu))
            normal = float(GaussianLoss(np.array([own])).epsilon(rest)[0])
    return Left(max(epsilon - whole.epsilon, 0.0), rest, normal)


def way_out(rest: Left, asked: Price) -> str:
    """What still fits: a smaller ε, a smaller δ, or noise that needs none."""
    if max(rest.epsilon, rest.epsilon_normal) <= 1e-9:  # rounding of what was all of it
        return "No further release fits."
    # Normal noise is read at the δ that is left, whatever its own; of all other δ adds up.
    if asked.delta > 0 and (rest.delta <= 0 or (asked.mu is None and asked.delta > rest.delta)):
        pure = 'noise="discrete-laplace" or "laplace" (conditioned or imaged) without `delta`'
        fewer = f"a `delta` of at most {rest.delta:g}, or " if rest.delta > 0 else ""
        why = "" if rest.delta > 0 else "No delta is left, and this noise needs some. "
        return f"{why}Release with {fewer}{pure}."
    most = rest.epsilon if asked.mu is None else rest.epsilon_normal
    if most <= 0:
        return 'Release with noise="normal" and a smaller `epsilon`: all other adds up.'
    digits = 3 - int(np.floor(np.log10(most)))
    most = np.floor(most * (1 + 1e-9) * 10.0**digits) / 10.0**digits  # downwards: it must fit
    at = "" if asked.mu is None else f" at delta {rest.delta:g}"
    return f"Release with a smaller budget: an `epsilon` of at most {most:g}{at}."


def _parts(prices: Sequence[Price]) -> tuple[float, float, float]:
    """Σε and Σδ of all but Normal noise, and the μ of that."""
    others = [price for price in prices if price.mu is None]
    epsilon, delta = sum(p.epsilon for p in others), sum(p.delta for p in others)
    losses = [GaussianLoss(np.array([p.mu])) for p in prices if p.mu is not None]
    mu = float(compose_losses(losses).gdp[0]) if losses else 0.0
    return float(epsilon), float(delta), mu
