"""Trade-off curves from the privacy profile, and the Gaussian curve that lies below them."""

import numpy as np
from scipy.special import ndtri

from cdp_views.loss.divergences import Profile
from cdp_views.loss.pure import mu_of_pure

_GRID = 129
_ZOOMS = 20  # as many only where δ has a kink
_NOTHING = 1e-13
_ZOOM = 9
_VERTICES = 129
_REFINEMENTS, _AT_ONCE = 8, 16


def tradeoff_of_profile(profile: Profile, top: np.ndarray, type_one: np.ndarray) -> np.ndarray:
    """f(a) = max_ε max(0, 1 − δ(ε) − e^ε a, e^{−ε}(1 − δ(ε) − a)): the least type II error.

    Every ε gives a lower bound of f, so a search that misses the best one errs on the safe side.

    Args:
      profile: δ(ε), one column for each of m differences.
      top: (m,) finite, beyond which no ε is tried: the largest loss where it is finite.
      type_one: (…, m) type I error a in [0, 1].

    Returns:
      (…, m) f(a), the least type II error of any test between the neighbours.

    Reference: Dong, Roth and Su 2022, Proposition 2.12 (equation 6).
    """
    m = len(top)
    column = np.arange(m)
    a = type_one.reshape(-1, m)
    grid = np.linspace(np.zeros(m), top, _GRID)
    delta = profile(grid)
    # Each branch is unimodal (concave in e^ε, in e^{−ε}), so zooming in finds its maximum.
    found = [np.stack([branch(grid, delta, row) for row in a]) for branch in (_direct, _mirrored)]
    best = [value.max(axis=1) for value in found]
    mirrored = best[1] > best[0]
    place = np.where(mirrored, *(value.argmax(axis=1) for value in found[::-1]))
    best = np.maximum(np.maximum(best[0], best[1]), 0.0)
    low = grid[np.maximum(place - 1, 0), column]
    high = grid[np.minimum(place + 1, _GRID - 1), column]
    for _ in range(_ZOOMS):
        epsilon = np.linspace(low, high, _ZOOM)
        delta = profile(epsilon.reshape(-1, m)).reshape(epsilon.shape)
        value = np.where(mirrored, _mirrored(epsilon, delta, a), _direct(epsilon, delta, a))
        better = np.maximum(best, value.max(axis=0))
        gain, best = float(np.max(better - best)), better
        if gain < _NOTHING:
            break
        place = value.argmax(axis=0)[None]
        low = np.take_along_axis(epsilon, np.maximum(place - 1, 0), 0)[0]
        high = np.take_along_axis(epsilon, np.minimum(place + 1, _ZOOM - 1), 0)[0]
    return best.reshape(type_one.shape)


def mu_of_profile(profile: Profile, sup: np.ndarray) -> np.ndarray:
    """The smallest μ whose Gaussian trade-off curve lies below the profile's, from above.

    The lines 1 − δ(ε_i) − e^{ε_i} a of a grid lie below f; the Gaussian curve, being convex, lies
    below their maximum as soon as it does at its corners. Never above μ of pure ε = sup.

    Args:
      profile: δ(ε), one column for each of m differences.
      sup: (m,) the largest loss; where it is infinite no μ is proved, and μ is infinite.

    Returns:
      (m,) μ of Gaussian differential privacy.

    Reference: Dong, Roth and Su 2022, Definition 2.6 and Proposition 2.12.
    """
    finite = np.isfinite(sup)
    top = np.where(finite, sup, 1.0)
    epsilon = np.linspace(np.zeros(len(sup)), top, _VERTICES)
    delta = np.concatenate([profile(epsilon[:-1]), np.zeros((1, len(sup)))])
    for _ in range(_REFINEMENTS):
        # New lines where the corners are deepest: there they can only rise.
        deepest = np.argsort(-_needed(epsilon, delta), axis=0)[:_AT_ONCE]
        ends = [np.take_along_axis(epsilon, deepest + step, 0) for step in (0, 1)]
        middle = 0.5 * (ends[0] + ends[1])
        epsilon = np.concatenate([epsilon, middle])
        delta = np.concatenate([delta, profile(middle)])
        order = np.argsort(epsilon, axis=0, kind="stable")
        epsilon, delta = (np.take_along_axis(x, order, 0) for x in (epsilon, delta))
    mu = _needed(epsilon, delta).max(axis=0)
    return np.where(finite, np.minimum(mu * (1 + 1e-13), mu_of_pure(top)), np.inf)


def _needed(epsilon: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """(K − 1, m) the μ whose curve passes through the corner of lines i and i + 1."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # e^{−ε} outside so that nothing overflows.
        corner = (delta[:-1] - delta[1:]) * np.exp(-epsilon[1:])
        corner /= -np.expm1(-np.diff(epsilon, axis=0))
        corner = np.maximum.accumulate(np.nan_to_num(np.maximum(corner, 0.0))[::-1])[::-1]
        mu = np.zeros(corner.shape)
        # Each line is checked at both of its corners, so noise in δ cannot hide one.
        ends = np.concatenate([corner[1:], np.zeros((1, corner.shape[1]))])
        for a in (corner, ends):
            # Φ⁻¹(1 − a) − Φ⁻¹(b) with 1 − b at hand, which is small where a is.
            rest = np.minimum(delta[:-1] + np.exp(np.log(a) + epsilon[:-1]), 1.0)
            needed = np.where((a > 0) & (rest > 0), ndtri(rest) - ndtri(a), 0.0)
            # what is no profile (a slope beyond 1, by noise) gives NaN: nothing is proved of it
            mu = np.maximum(mu, np.where(np.isnan(needed), np.inf, needed))
    return mu


def _direct(epsilon: np.ndarray, delta: np.ndarray, a: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(a > 0, 1 - delta - np.exp(epsilon) * a, 1 - delta)


def _mirrored(epsilon: np.ndarray, delta: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.exp(-epsilon) * (1 - delta - a)
