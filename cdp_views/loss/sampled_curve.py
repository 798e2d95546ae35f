"""The trade-off curve of a sample of losses, and how far the sample can be from the truth."""

import numpy as np

from cdp_views.loss._arguments import confidence

_AT_ONCE = 2**22


def curve_of_draws(
    draws: np.ndarray, weight: np.ndarray, type_one: np.ndarray, *, more: float = 0.0
) -> np.ndarray:
    """f(a) of the profile δ̂(ε) + `more`, δ̂(ε) = mean of w (1 − e^{ε − L})₊: shaped as `type_one`.

    f(a) = max_ε max(0, 1 − δ(ε) − e^ε a, e^{−ε}(1 − δ(ε) − a)).

    δ̂ is straight in e^ε between two draws, and e^{−ε} δ̂ in e^{−ε}, so that both branches are
    largest at a draw, at ε = 0, or, if δ falls to 0 earlier, there: the curve is that of all ε,
    convex, and no search can miss a corner.

    Args:
      draws: (r,) losses L, infinite ones allowed.
      weight: (r,) their chances w.
      type_one: type I errors a in [0, 1].
      more: added to δ̂, for the ends of a band.

    Returns:
      f(a), the least type II error.

    Example:
      >>> response = np.array([1.0] * 3 + [-1.0])  # of ε = log 3, three of four times
      >>> curve_of_draws(response, np.ones(4), np.array([0.0, 0.25, 1.0])).round(4).tolist()
      [1.0, 0.3204, 0.0]

    Reference: Dong, Roth and Su 2022, Proposition 2.12 (equation 6).
    """
    r = draws.size
    use = (draws > 0) & (draws < np.inf) & (weight > 0)
    order = np.argsort(draws[use], kind="stable")
    knots, own = draws[use][order], weight[use][order]
    epsilon = np.concatenate([[0.0], knots])
    # Σ w and Σ w e^{−L} of the draws beyond each of these
    count = np.append(np.cumsum(own[::-1])[::-1], 0.0) + np.sum(weight[draws == np.inf])
    tail = np.append(np.cumsum((own * np.exp(-knots))[::-1])[::-1], 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = np.nan_to_num(np.exp(epsilon) * tail, nan=0.0, posinf=0.0)
    delta = (count - inside) / r + more
    if more < 0:
        delta, epsilon = _to_nothing(delta, epsilon)
    return _largest(delta, epsilon, np.asarray(type_one, dtype=float))


def uniform(r: int, level: float, samples: int = 1) -> float:
    """What |δ̂ − δ| stays below at all ε together, with probability `level`.

    δ(ε) is the mean of an increasing function of the loss with values in [0, 1], so no farther off
    than the distribution function of r draws is: √(log(2k/(1 − level))/(2r)) for the mean of k
    samples of r.

    Reference: Massart 1990, The tight constant in the Dvoretzky–Kiefer–Wolfowitz inequality.
    """
    return float(np.sqrt(np.log(2 * samples / (1 - confidence(level))) / (2 * r)))


def curve_above(epsilon: np.ndarray, delta: np.ndarray, type_one: np.ndarray) -> np.ndarray:
    """A curve above f, from lower bounds of δ at increasing ε from 0 (k,); δ does not increase.

    Between two points δ is at least what it is at the right one, and both branches are at most what
    they would be with that δ and the ε of the left one.
    """
    after = np.append(np.maximum.accumulate(delta[::-1])[::-1][1:], 0.0)
    a = np.asarray(type_one, dtype=float)
    return np.minimum(_largest(after, epsilon, a), 1 - a)


def _to_nothing(delta: np.ndarray, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of max(δ, 0): where a straight piece in e^ε crosses 0 is one more."""
    k = int(np.argmax(delta <= 0)) if np.any(delta <= 0) else delta.size
    if k == delta.size:
        return delta, epsilon
    if k == 0:
        return np.zeros(1), np.zeros(1)
    share = delta[k - 1] / (delta[k - 1] - delta[k])
    with np.errstate(divide="ignore"):
        crossing = np.logaddexp(np.log1p(-share) + epsilon[k - 1], np.log(share) + epsilon[k])
    return np.append(delta[:k], 0.0), np.append(epsilon[:k], crossing)


def _largest(delta: np.ndarray, epsilon: np.ndarray, type_one: np.ndarray) -> np.ndarray:
    """max over pairs (ε, δ) of both branches and 0."""
    flat, rows = type_one.reshape(-1), max(_AT_ONCE // delta.size, 1)
    best = np.empty(flat.size)
    with np.errstate(over="ignore", invalid="ignore"):
        steep, gentle = np.exp(epsilon), np.exp(-epsilon)
        for i in range(0, flat.size, rows):
            a = flat[i : i + rows, None]
            direct = np.where(a > 0, 1 - delta - steep * a, 1 - delta)
            best[i : i + rows] = np.maximum(direct, gentle * (1 - delta - a)).max(axis=1)
    return np.maximum(best, 0.0).reshape(type_one.shape)
