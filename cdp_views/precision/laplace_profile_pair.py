"""The privacy profile of Laplace cells given their total, for a difference of two of them.

Cells are y_i = b_i x_i with scales c_i = |b_i|λ_i, and Σ y_i = 0; the difference moves y_t by w and
y_u by −w. The loss depends on y_t and s = y_t + y_u only, and with g_s(y) = −|y|/c_t − |s − y|/c_u

    δ(ε) = ∫ f(s) D_s(ε) ds / ∫ f(s) N_s ds,    N_s = ∫ e^{g_s(y)} dy,
    D_s(ε) = ∫ e^{g_s(y)} (1 − e^{ε − L_s(y)})₊ dy,   L_s(y) = g_s(y) − g_s(y + w),

f the density of the sum of all other cells. L_s increases in y, in straight pieces, so N_s and D_s
are closed forms; D_s is analytic in s between the points where L_s is ε at a corner, which are
known. Gauss–Legendre between them does the rest.

Given s, e^{g_s} is a Laplace density of rate 1/c_t + 1/c_u convolved with a positive measure
((1 − D²/rate²) e^{g_s} ≥ 0), so δ is at most that of two cells alone, 1 − e^{(ε − sup)/2}.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from cdp_views.precision.laplace_profile import two_cells
from cdp_views.precision.laplace_profile_rest import density_of_sum, farthest

Profile = Callable[[np.ndarray], np.ndarray]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_DEAD = 42.0
_FINEST = 1e-9
_UP = 1 + 1e-11


def two_of_a_total(
    move: float, pair: tuple[float, float], scales: np.ndarray, counts: np.ndarray
) -> Profile:
    """ε ≥ 0 ↦ δ(ε) of moving `move` from one cell of a total to another, to 1e-11 relative.

    Args:
      move: w = |b_t v_t| = |b_u v_u|, in units of the total.
      pair: c_t and c_u.
      scales: (k,) the distinct c of all other cells.
      counts: (k,) how many cells have each; none: the total has two cells.

    Example:
      >>> alone = two_of_a_total(1.0, (1.0, 1.0), np.zeros(0), np.zeros(0, int))
      >>> third = two_of_a_total(1.0, (1.0, 1.0), np.ones(1), np.ones(1, int))
      >>> [round(float(f(np.array(0.5))), 4) for f in (alone, third)]
      [0.5276, 0.4446]
    """
    rates = 1 / np.asarray(pair)
    if not counts.sum():
        return lambda epsilon: two_cells(epsilon, 0.0, move * float(rates.sum()))
    reach = min(move + _DEAD * max(pair), farthest(scales, counts))
    density = density_of_sum(scales, counts, reach)
    first = max(min(8 / rates.sum(), 2 * scales.min()), _FINEST * reach)
    widest = 1.5 * float(np.sqrt(counts @ scales**2))
    s, weight = _quadrature(np.array([0.0, reach]), first, widest)
    whole = 2 * float((weight * density(s)) @ mass_of_pairs(s, rates))

    def one(epsilon: float) -> float:
        knots = _knots(epsilon, move, rates)
        knots = np.unique(np.concatenate([knots[np.abs(knots) < reach], [-reach, reach]]))
        s, weight = _quadrature(knots, first, widest)
        excess = float((weight * density(s)) @ excess_of_pairs(s, epsilon, move, rates))
        return min(excess / whole * _UP, 1.0)

    def profile(epsilon: np.ndarray) -> np.ndarray:
        epsilon = np.asarray(epsilon, float)
        value = [one(e) if e < move * rates.sum() else 0.0 for e in epsilon.ravel().tolist()]
        return np.reshape(value, epsilon.shape)

    return profile


def _knots(epsilon: float, move: float, rates: np.ndarray) -> np.ndarray:
    """The s at which corners of L_s meet, or L_s is ε at one."""
    knots = [0.0, move, -move]
    for sign, (own, other) in ((1, rates), (-1, rates[::-1])):
        upper, lower = (epsilon - own * move) / other, (epsilon + own * move) / other
        if abs(upper) < move:  # at y = 0, or y = s
            knots.append(sign * 0.5 * (move - upper))
        if abs(lower) < move:  # at y = −w, or y = s − w
            knots.append(-sign * 0.5 * (move + lower))
    return np.array(knots)


def _quadrature(knots: np.ndarray, first: float, widest: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on panels that grow with the distance from each knot."""
    edges = [knots[:1]]
    for left, right in pairwise(knots):
        half = 0.5 * (right - left)
        sizes = [min(first, half)]
        while sizes[-1] < half:
            sizes.append(min(2 * sizes[-1], sizes[-1] + widest, half))
        from_end = np.array(sizes)
        edges.extend([left + from_end, right - from_end[-2::-1], knots[knots == right]])
    edge = np.concatenate(edges)
    middle, half = 0.5 * (edge[1:] + edge[:-1]), 0.5 * np.diff(edge)
    return (middle[:, None] + half[:, None] * _NODES).ravel(), np.outer(half, _WEIGHTS).ravel()


def mass_of_pairs(s: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """N_s: both tails, and what lies between 0 and s."""
    at_zero, at_s = -rates[1] * np.abs(s), -rates[0] * np.abs(s)
    return (np.exp(at_zero) + np.exp(at_s)) / rates.sum(axis=0) + _straight(
        at_zero, at_s, np.abs(s)
    )


def excess_of_pairs(
    s: np.ndarray, epsilon: float | np.ndarray, move: float | np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """D_s(ε): three pieces between the four corners of L_s, and the tail where L_s is largest."""
    t, u = rates
    corners = np.stack(np.broadcast_arrays(-move, 0.0, s - move, s))
    corners.sort(axis=0)
    g = -t * np.abs(corners) - u * np.abs(corners - s)
    loss = t * np.clip(2 * corners + move, -move, move)
    loss += u * np.clip(2 * (corners - s) + move, -move, move)
    over = loss - epsilon
    left, right = over[:-1], over[1:]
    # the part of each piece on which L > ε, from the left end of which k and g count
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(left >= 0, 1.0, np.where(right > 0, right / (right - left), 0.0))
    length = part * np.diff(corners, axis=0)
    ends = np.stack([g[1:] - part * np.diff(g, axis=0), g[1:]])
    k = np.maximum(left, 0.0)
    rise = np.maximum(right, 0.0) - k
    whole = _straight(ends[0], ends[1], length)
    # e^{g}(1 − e^{−k}) + e^{−k}(e^{g} − e^{g − rise}): what does not rise cancels nothing
    pieces = -np.expm1(-k) * whole
    pieces += np.exp(-k) * (whole - _straight(ends[0], ends[1] - rise, length))
    tail = -np.expm1(-np.maximum(over[-1], 0.0)) * np.exp(g[-1]) / (t + u)
    return np.where(right > 0, pieces, 0.0).sum(axis=0) + tail


def _straight(start: np.ndarray, end: np.ndarray, length: np.ndarray) -> np.ndarray:
    """∫ of e^{straight line} from `start` to `end` over `length`."""
    fall = np.abs(end - start)
    safe = np.where(fall > 0, fall, 1.0)
    return (
        length * np.exp(np.maximum(start, end)) * np.where(fall > 0, -np.expm1(-safe) / safe, 1.0)
    )
