"""Profiles of two cells of a total for many laws at once, nearly: which may be worst.

As `laplace_profile_pair`, on nodes that do not depend on ε, with the density of the
other cells' sum by the trapezoid rule along the imaginary axis.
"""

from typing import NamedTuple

import numpy as np

from cdp_views.precision.laplace_profile_pair import excess_of_pairs, mass_of_pairs

_PANELS = 7
_SPREAD, _FARTHEST = 20.0, 8.0
_AT_ONCE = 2**21


class Fineness(NamedTuple):
    """Nodes to a panel and on the imaginary axis, and scales to which they reach."""

    nodes: int
    steps: int
    reach: float
    error: float
    """Relative, with room: half of it seen at the worst."""


ROUGH = Fineness(6, 300, 25.0, 2e-3)
FINE = Fineness(20, 1000, 35.0, 5e-5)


def can_be_screened(rest: np.ndarray, pair: tuple[float, float], move: float) -> bool:
    """Whether all scales and the move are of one order, and nodes can be few."""
    low, high = min(rest.min(), *pair), max(rest.max(), *pair)
    return high <= _SPREAD * low and move <= _FARTHEST * low


def screened(
    moves: np.ndarray,
    pairs: np.ndarray,
    rests: list[np.ndarray],
    epsilon: np.ndarray,
    how: Fineness = ROUGH,
) -> np.ndarray:
    """δ(ε) of k laws at p values of ε, to `how.error`: (p, k).

    Args:
      moves: (k,) as of `two_of_a_total`.
      pairs: (k, 2) scales of the two cells that move.
      rests: k arrays, the scales of all other cells of the total, one or more.
      epsilon: (p,).
      how: ROUGH or FINE.

    Example:
      >>> third = screened(np.ones(1), np.ones((1, 2)), [np.ones(1)], np.array([0.5]))
      >>> bool(abs(third[0, 0] - 0.444607) < 1e-4)
      True
    """
    value = np.empty((epsilon.size, moves.size))
    rows = max(_AT_ONCE // (how.steps * _PANELS * how.nodes), 1)
    for i in range(0, moves.size, rows):
        part = slice(i, i + rows)
        value[:, part] = _screened(moves[part], pairs[part], rests[part], epsilon, how)
    return value


def _screened(
    moves: np.ndarray,
    pairs: np.ndarray,
    rests: list[np.ndarray],
    epsilon: np.ndarray,
    how: Fineness,
) -> np.ndarray:
    nodes, weights = np.polynomial.legendre.leggauss(how.nodes)
    w, widest = moves[:, None], pairs.max(axis=1)[:, None]
    # two panels up to w, then panels that double
    tail = how.reach * widest * (2.0 ** np.arange(_PANELS - 1) - 1) / (2.0 ** (_PANELS - 2) - 1)
    edges = np.concatenate([np.zeros_like(w), 0.5 * w, w + tail], axis=1)
    half = 0.5 * np.diff(edges)
    s = ((edges[:, :-1] + half)[..., None] + half[..., None] * nodes).reshape(len(w), -1)
    weight = (half[..., None] * weights).reshape(len(w), -1)
    weight = weight * _density(rests, s, how)
    rates = (1 / pairs).T[..., None]
    whole = 2 * np.sum(weight * mass_of_pairs(s, rates), axis=1)
    value = np.empty((epsilon.size, len(w)))
    for k, e in enumerate(epsilon.tolist()):
        excess = excess_of_pairs(s, e, w, rates) + excess_of_pairs(-s, e, w, rates)
        value[k] = np.sum(weight * excess, axis=1) / whole
    return value


def _density(rests: list[np.ndarray], s: np.ndarray, how: Fineness) -> np.ndarray:
    """f of every row at its s."""
    sizes = np.array([rest.size for rest in rests])
    c = np.concatenate(rests)
    heads = np.cumsum(sizes) - sizes
    widest = np.maximum.reduceat(c, heads)
    norm = np.sqrt(np.add.reduceat(np.square(c), heads))
    reach = s.max(axis=1) + how.reach * np.maximum(widest, 0.3 * norm)
    step = 2 * np.pi / reach
    # φ falls like (|c|t)⁻⁴ at the least, and like e^{−|c|²t²/2}… where cells are many
    t = step[:, None] * np.arange(how.steps)
    log_phi = np.empty(t.shape)
    for k, (head, size) in enumerate(zip(heads.tolist(), sizes.tolist(), strict=True)):
        own, count = np.unique(c[head : head + size], return_counts=True)
        log_phi[k] = -count @ np.log1p(np.square(own[:, None] * t[k]))
    phi = np.exp(log_phi) * step[:, None]
    phi[:, 0] /= 2
    f = np.einsum("kst,kt->ks", np.cos(s[..., None] * t[:, None]), phi) / np.pi
    one = sizes == 1
    f[one] = np.exp(-s[one] / widest[one, None]) / (2 * widest[one, None])
    return np.maximum(f, 0.0)
