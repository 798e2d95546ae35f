"""Profiles of two cells of a total for many laws and many ε at once, where moves are short.

As `laplace_profile_pair`, folded to s ≥ 0: with T(s) = D_s + D_{−s},

    δ(ε) = ∫₀^∞ f(s) T(s) ds / (4 c_t c_u h),

h the density of all cells' sum at 0. All knots of T lie in [0, w]. Beyond w the corners of L_s keep
their order, and T(s) = A e^{−s/c_t} + B e^{−s/c_u} *exactly*: each of the four pieces of D_s is one
of these times what does not depend on s. And ∫₀^∞ f(s) e^{−s/c} ds = c·(density at 0 of the others'
sum and one more cell of scale c), so that what lies beyond w needs no quadrature along s at all.

How far this is right. Densities at 0 are right to rounding (trapezoid rule in log t at a step of ⅛,
error e^{−8π²}), which what lies beyond w carries e^{w/c} times: 1e-10 at w = 16c, c the least
scale. In [0, w] panels end at the knots and are at most 2c wide. There f T is a product of two
functions of which the m-th derivatives are at most (√2/c)^m times the largest density of some of
the cells' sum, as (1 − c²∂²)f is the density of the sum without one cell, and (4/c)^m times its own
size, a positive mixture of exponentials of rates up to 1/c_t + 1/c_u and their negatives.
Gauss–Legendre with n nodes is exact for degree 2n − 1, and the Chebyshev remainder of a panel of
half-width r is at most 2(r/2)^{2n}/(2n)! times the 2n-th derivative: for n = 12
2·(½(4 + √2))^{24}/24! < 1e-12 of the largest value.
"""

import numpy as np
from numpy.polynomial import chebyshev

from cdp_views.precision.laplace_profile_pair import excess_of_pairs
from cdp_views.precision.laplace_profile_rest import densities_of_sum

ERROR = 1e-8
"""Relative, of any short move; seen at the worst: 4e-10."""
NEAR = 1e-11
"""The same where moves are half as long; seen: 9e-12."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_WIDEST, _FARTHEST = 2.0, 16.0
_DEGREE = 16
_AT_ONCE = 2**15
_LOG_T = np.arange(-28.0, 28.0, 0.125)


def is_short(rest: np.ndarray, pair: tuple[float, float], move: float, share: float = 1.0) -> bool:
    """Whether the move is so short for the least of the scales that the errors above hold.

    `share` ½: half as short.
    """
    return move <= share * _FARTHEST * min(rest.min(), *pair)


class ManyPairs:
    """δ(ε) of k laws: what does not depend on ε is worked out once.

    Args:
      moves: (k,) as of `two_of_a_total`.
      pairs: (k, 2) scales of the two cells that move.
      rests: k arrays, the scales of all other cells of the total, one or more.

    Example:
      >>> third = ManyPairs(np.ones(1), np.ones((1, 2)), [np.ones(1)])
      >>> third(np.array([0.5]), np.array([0])).round(6).tolist()
      [0.444555]
    """

    def __init__(self, moves: np.ndarray, pairs: np.ndarray, rests: list[np.ndarray]) -> None:
        self.w, self.rates = moves, (1 / pairs).T
        least = np.minimum([rest.min() for rest in rests], pairs.min(axis=1))
        self.panels = max(int(np.ceil(np.max(moves / (_WIDEST * least)))), 1)
        width = moves / self.panels
        nodes = chebyshev.chebpts1(_DEGREE)
        basis = chebyshev.chebvander(nodes, _DEGREE - 1) * (2 / _DEGREE)
        basis[:, 0] /= 2
        at = (np.arange(self.panels)[:, None] + 0.5 + 0.5 * nodes).ravel()
        table, beyond, whole = [], [], []
        for own, pair, step in zip(rests, pairs, width.tolist(), strict=True):
            scales, counts = np.unique(own, return_counts=True)
            f = densities_of_sum(scales, counts, step * at)
            table.append(f.reshape(self.panels, _DEGREE) @ basis)
            one, two, both = _at_zero(scales, counts, pair)
            beyond.append(pair * [one, two])
            whole.append(4 * pair[0] * pair[1] * both)
        self.table = np.stack(table)
        self.whole = np.array(whole)
        # ∫_w^∞ f(s) e^{−(s − w)/c} ds
        edges = width[:, None] * np.arange(self.panels + 1)
        s, weight = _within(edges.T)
        inside = weight * self._density(s, np.arange(moves.size))
        near = [np.sum(inside * np.exp(-r * s), axis=(0, 1)) for r in self.rates]
        self.beyond = np.exp(self.rates * moves) * (np.array(beyond).T - np.stack(near))

    def __call__(self, epsilon: np.ndarray, law: np.ndarray) -> np.ndarray:
        """δ of each law (r,) at its own ε (r,)."""
        value = np.zeros(law.size)
        rows = max(_AT_ONCE // ((self.panels + 4) * _NODES.size), 1)
        order = np.flatnonzero(epsilon < self.w[law] * self.rates.sum(axis=0)[law])
        for i in range(0, order.size, rows):
            part = order[i : i + rows]
            value[part] = self._of_rows(epsilon[part], law[part])
        return value

    def _of_rows(self, epsilon: np.ndarray, law: np.ndarray) -> np.ndarray:
        w, rates = self.w[law], self.rates[:, law]

        def both(s: np.ndarray) -> np.ndarray:
            return excess_of_pairs(s, epsilon, w, rates) + excess_of_pairs(-s, epsilon, w, rates)

        # where L_s is ε at a corner, as in `laplace_profile_pair`; outside [0, w]: at its ends
        upper = np.clip((epsilon - rates * w) / rates[::-1], -w, w)
        lower = np.clip((epsilon + rates * w) / rates[::-1], -w, w)
        even = w * (np.arange(self.panels + 1)[:, None] / self.panels)
        edges = np.concatenate([0.5 * (w - upper), 0.5 * (w + lower), even])
        edges.sort(axis=0)
        s, weight = _within(edges)
        inside = np.sum(weight * self._density(s, law) * both(s), axis=(0, 1))
        # A + B and A e^{−t h} + B e^{−u h} at w and h beyond it
        step = 1 / rates.max(axis=0)
        start, later = both(w), both(w + step)
        fall = np.exp(-rates * step)
        apart = fall[1] - fall[0]
        share = np.divide(later - start * fall[0], apart, out=np.zeros_like(w), where=apart != 0)
        outside = (start - share) * self.beyond[0, law] + share * self.beyond[1, law]
        return np.clip((inside + outside) / self.whole[law], 0.0, 1.0)

    def _density(self, s: np.ndarray, law: np.ndarray) -> np.ndarray:
        """f of each law at its s (n, p, r), no panel p across two of the table's: Clenshaw."""
        width = self.w[law] / self.panels
        panel = np.minimum((s[len(s) // 2] / width).astype(np.int64), self.panels - 1)
        x = 2 * (s / width - panel) - 1
        terms = np.moveaxis(self.table[law, panel], -1, 0)
        b1 = b2 = np.zeros_like(x)
        for a in terms[:0:-1]:
            b1, b2 = 2 * x * b1 - b2 + a, b1
        return np.maximum(x * b1 - b2 + terms[0], 0.0)


def _within(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (n, p, r) between edges (p + 1, r)."""
    half = 0.5 * np.diff(edges, axis=0)
    return (edges[:-1] + half) + half * _NODES[:, None, None], half * _WEIGHTS[:, None, None]


def _at_zero(scales: np.ndarray, counts: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Densities at 0 of the sum of all cells and of the first of a pair, the second, and both."""
    unit = max(scales.max(), pair.max())
    t = np.exp(_LOG_T)
    log_phi = _LOG_T - counts @ np.log1p(np.square(scales[:, None] / unit * t))
    one, two = np.log1p(np.square(pair[:, None] / unit * t))
    parts = np.exp([log_phi - one, log_phi - two, log_phi - one - two])
    return parts.sum(axis=1) * (_LOG_T[1] - _LOG_T[0]) / (np.pi * unit)
