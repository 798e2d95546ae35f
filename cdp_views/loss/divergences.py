"""Divergences between neighbours from their privacy profile alone, and the ρ that they prove."""

from collections.abc import Callable

import numpy as np

from cdp_views.loss._quadrature import integrate
from cdp_views.loss.pure import renyi_of_pure, rho_of_pure

Profile = Callable[[np.ndarray], np.ndarray]
"""ε (p, m) ↦ δ(ε) (p, m)."""

_FINEST_ORDER = 1e-6
_NEGLIGIBLE = 1e-18
_FARTHEST = 1e6
_NEAREST = 1e-9
_MOST_HALVES = 24
_UNDERFLOW, _FAR_BELOW = -450.0, 25.0
# Beside the difference between two rules, which kinks of δ can make a little too small.
_UP = 1 + 1e-10


def renyi_of_profile(
    profile: Profile, sup: np.ndarray, alpha: np.ndarray, *, tolerance: float = 1e-10
) -> np.ndarray:
    """D_α = log(1 + α(α−1) ∫₀^∞ [e^{(α−1)ε} + e^{−αε}] δ(ε) dε) / (α−1), and KL at α = 1.

    KL = ∫₀^∞ (1 + e^{−ε}) δ(ε) dε. Right where (p, p′) and (p′, p) have one profile, and an upper
    bound for both where δ bounds both.

    Args:
      profile: δ(ε), zero from `sup` on, one column for each of m differences.
      sup: (m,) the largest loss, may be infinite: the integral then ends where nothing is left.
      alpha: (a,) orders from 1 upwards, finite.
      tolerance: relative, of the quadrature.

    Returns:
      (a, m), the error of the quadrature added; infinite where the integral does not end.

    Reference: Sason and Verdú 2016, "f-divergence inequalities", Theorem 7 (f-divergences from
    hockey-stick divergences).
    """
    out = np.zeros((len(alpha), len(sup)))
    bounded = np.flatnonzero(np.isfinite(sup) & (sup > 0))
    if bounded.size:
        top = sup[bounded]
        part = _columns(profile, bounded, len(sup))
        edges = _graded(part, top, float(alpha.max()))
        out[:, bounded] = _renyi(part, top, alpha, edges, tolerance)
    for row in np.flatnonzero(np.isinf(sup)):
        part = _columns(profile, np.array([row]), len(sup))
        for i, a in enumerate(alpha):
            top, edges = _around_the_peak(part, float(a))
            where = np.array([top])
            out[i, row] = (
                _renyi(part, where, alpha[[i]], edges, tolerance)[0, 0]
                if np.isfinite(top)
                else np.inf
            )
    return out


def _renyi(
    profile: Profile, top: np.ndarray, alpha: np.ndarray, edges: np.ndarray, tolerance: float
) -> np.ndarray:
    """(a, m) by quadrature over ε = x·top, x between the edges."""
    t = (alpha - 1)[:, None]
    # What would overflow is kept in a logarithm: the integrand's at its largest node, roughly.
    grid = edges[:, None] * top
    with np.errstate(divide="ignore"):
        log_delta = np.log(profile(grid))[:, None]
    shift = np.max(np.maximum(t * grid[:, None] + log_delta, log_delta), axis=0)
    shift = np.where(np.isfinite(shift), shift, 0.0)

    def integrand(x: np.ndarray) -> np.ndarray:
        epsilon = x[:, None] * top
        with np.errstate(divide="ignore"):
            log_delta, at = np.log(profile(epsilon))[:, None], epsilon[:, None]
        return np.exp(t * at + log_delta - shift) + np.exp(-at * (1 + t) + log_delta - shift)

    scaled, error = integrate(integrand, edges, tolerance=tolerance)
    with np.errstate(divide="ignore", over="ignore"):
        log_integral = np.log((scaled + 2 * error) * top * _UP) + shift
        inside = np.log(t * (1 + t)) + log_integral
        # Where z is tiny, log(1 + z)/t is (1 + t) times the integral, as it is at t = 0.
        tiny = (1 + t) * np.exp(log_integral)
        return np.where(inside < -37, tiny, np.logaddexp(0.0, inside) / np.where(t > 0, t, 1.0))


def rho_of_profile(profile: Profile, sup: np.ndarray, *, tolerance: float = 1e-10) -> np.ndarray:
    """ρ = sup_{α > 1} D_α/α, from above: proved for the given profile, tight to about 1e-3.

    (α−1) D_α is convex in α (a cumulant generating function), so between orders it lies below its
    chord; beyond the last order D_α ≤ sup does. Never above ρ of pure ε = sup.

    Args:
      profile: δ(ε), one column for each of m differences.
      sup: (m,) the largest loss; where it is infinite nothing is proved, and ρ is infinite.
      tolerance: relative, of the quadrature.

    Returns:
      (m,) ρ of zero-concentrated differential privacy.

    Reference: Bun and Steinke 2016, Definition 1.1; van Erven and Harremoës 2014, Theorem 11.
    """
    finite = np.isfinite(sup)
    if not (finite & (sup > 0)).any():
        return np.where(sup > 0, np.inf, 0.0)
    kl = renyi_of_profile(profile, sup, np.ones(1), tolerance=tolerance)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        last = np.where(finite & (kl > 0), sup / kl, 2.0)
    t = np.concatenate(
        [
            np.geomspace(_FINEST_ORDER, 1e-2, 40)[:-1],
            np.geomspace(1e-2, max(2.0, min(float(last.max()), 1e6)), 160),
        ]
    )
    divergence = renyi_of_profile(profile, sup, 1 + t, tolerance=tolerance)
    cumulant = np.concatenate([np.zeros((1, len(sup))), t[:, None] * divergence])
    best = np.maximum(_chords(np.append(0.0, t), cumulant), sup / (1 + t[-1]))
    return np.where(finite, np.minimum(best, rho_of_pure(sup)), np.inf)


def within_pure(values: np.ndarray, alpha: float, sup: np.ndarray) -> np.ndarray:
    """The smaller of D_α as integrated and what the supremum alone proves."""
    return np.minimum(values, renyi_of_pure(alpha, sup))


def _chords(t: np.ndarray, cumulant: np.ndarray) -> np.ndarray:
    """max over the chords c₀ + c₁t of a convex K with K(0) = 0 of (c₀ + c₁t)/(t(t+1))."""
    a, b = t[:-1, None], t[1:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(cumulant, axis=0) / (b - a)
        intercept = np.minimum(cumulant[1:] - slope * b, 0.0)
        r = np.where(slope > 0, -intercept / slope, 0.0)
        peak = np.clip(r + np.sqrt(r * r + r), a, b)
        at_peak = (slope + intercept / peak) / (peak + 1)
        ends = np.maximum(
            np.where(a > 0, cumulant[:-1] / (a * (a + 1)), slope), cumulant[1:] / (b * (b + 1))
        )
    return np.maximum(np.where(peak > 0, at_peak, 0.0), ends).max(axis=0)


def _columns(profile: Profile, rows: np.ndarray, m: int) -> Profile:
    """The profile of some of the m differences."""
    if len(rows) == m:
        return profile

    def part(epsilon: np.ndarray) -> np.ndarray:
        whole = np.zeros((len(epsilon), m))
        whole[:, rows] = epsilon
        return profile(whole)[:, rows]

    return part


def _graded(profile: Profile, top: np.ndarray, alpha: float) -> np.ndarray:
    """Edges in [0, 1] so fine at both ends that neither e^{(α−1)ε} nor δ(ε) hides between them."""
    far = int(np.ceil(np.log2(max(1.0, (alpha - 1) * float(top.max()))))) + 3
    halves = 2.0 ** -np.arange(_MOST_HALVES)
    here, start = profile(halves[:, None] * top), profile(np.zeros((1, len(top))))
    flat = (here >= 0.9 * start).all(axis=1)
    near = int(flat.argmax()) + 2 if flat.any() else _MOST_HALVES
    left, right = 2.0 ** -np.arange(1, near + 1), 1 - 2.0 ** -np.arange(1, min(far, 52) + 1)
    return np.unique(np.concatenate([[0.0, 1.0], left, right]))


def _around_the_peak(profile: Profile, alpha: float) -> tuple[float, np.ndarray]:
    """For an endless loss: an ε beyond which the integrand holds nothing, and edges (0 to 1).

    Where it still grows at ε = 10⁶, or never falls far below its peak, the end is infinite.
    """
    ends = np.geomspace(_NEAREST, _FARTHEST, 512)

    def log_of(epsilon: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(profile(epsilon[:, None])[:, 0]) + (alpha - 1) * epsilon

    log_value = log_of(ends)
    place = int(log_value.argmax())
    negligible = np.flatnonzero(log_value[place:] < log_value[place] + np.log(_NEGLIGIBLE))
    unit = np.array([0.0, 1.0])
    if not np.isfinite(log_value[place]):
        return 0.0, unit
    if not negligible.size:
        return np.inf, unit
    last = place + int(negligible[0]) - 1
    ended = log_value[last + 1] == -np.inf and log_value[last] > log_value[place] - _FAR_BELOW
    # δ ended before the integrand did: by underflow, or because there is no more of it.
    if ended and log_value[last] - (alpha - 1) * ends[last] < _UNDERFLOW:
        return np.inf, unit
    top = float(ends[place + negligible[0]])
    low, high = ends[max(place - 1, 0)], ends[min(place + 1, len(ends) - 1)]
    for _ in range(8):
        zoom = np.linspace(low, high, 33)
        best = int(log_of(zoom).argmax())
        low, high = zoom[max(best - 1, 0)], zoom[min(best + 1, 32)]
    peak = min(0.5 * (low + high) / top, 1.0)
    steps = 2.0 ** -np.arange(_MOST_HALVES)
    edges = np.concatenate([[0.0, 1.0, peak], peak * (1 - steps), peak + (1 - peak) * steps])
    return top, np.unique(edges)
