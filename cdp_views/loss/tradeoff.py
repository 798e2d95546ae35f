"""Trade-off curves from the privacy profile, and the Gaussian curve that lies below them."""

import numpy as np
from scipy.special import ndtri

from cdp_views.loss.divergences import Profile
from cdp_views.loss.pure import mu_of_pure

_GRID = 513
_ZOOMS = 5
_ZOOM = 17
_VERTICES = 2049


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
    a = type_one.reshape(-1, m)
    grid = np.linspace(np.zeros(m), top, _GRID)
    delta = profile(grid)
    best = np.zeros(a.shape)
    column = np.arange(m)
    # Each branch is unimodal (concave in e^ε, in e^{−ε}), so zooming in finds its maximum.
    for branch in (_direct, _mirrored):
        place = np.stack([branch(grid, delta, row).argmax(axis=0) for row in a])
        low = grid[np.maximum(place - 1, 0), column]
        high = grid[np.minimum(place + 1, _GRID - 1), column]
        for _ in range(_ZOOMS):
            epsilon = np.linspace(low, high, _ZOOM)
            value = branch(epsilon, profile(epsilon.reshape(-1, m)).reshape(epsilon.shape), a)
            best = np.maximum(best, value.max(axis=0))
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
    delta = profile(epsilon)
    delta[-1] = 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # The corner of lines i and i + 1; e^{−ε} outside so that nothing overflows.
        corner = (delta[:-1] - delta[1:]) * np.exp(-epsilon[1:])
        corner /= -np.expm1(-np.diff(epsilon, axis=0))
        corner = np.maximum.accumulate(np.maximum(corner, 0.0)[::-1])[::-1]
        mu = np.zeros(len(sup))
        # Each line is checked at both of its corners, so noise in δ cannot hide one.
        ends = np.concatenate([corner[1:], np.zeros((1, len(sup)))])
        for a in (corner, ends):
            # Φ⁻¹(1 − a) − Φ⁻¹(b) with 1 − b at hand, which is small where a is.
            rest = np.minimum(delta[:-1] + np.exp(np.log(a) + epsilon[:-1]), 1.0)
            needed = np.where((a > 0) & (rest > 0), ndtri(rest) - ndtri(a), 0.0)
            # what is no profile (a slope beyond 1, by noise) gives NaN: nothing is proved of it
            needed = np.where(np.isnan(needed), np.inf, needed)
            mu = np.maximum(mu, np.max(needed, axis=0))
    return np.where(finite, np.minimum(mu * (1 + 1e-13), mu_of_pure(top)), np.inf)


def _direct(epsilon: np.ndarray, delta: np.ndarray, a: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(a > 0, 1 - delta - np.exp(epsilon) * a, 1 - delta)


def _mirrored(epsilon: np.ndarray, delta: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.exp(-epsilon) * (1 - delta - a)
