"""The privacy profile of three Laplace cells of which only the differences are published.

Cells of rates r at places x have the image density, up to a common shift s,

    f(x) = Π(r_i/2) ∫ e^{−Σ r_i|x_i − s|} ds = Π(r_i/2) Σ_j A_j e^{g_j}, g_j = −Σ_i r_i|x_i − x_j|,

with A_j = 2r_j/(r_j² − D_j²) and D_j the rates to the right of x_j less those to its left. As log f
is concave, the loss log f(x) − log f(x − d) falls along d, so on every line x + τd the profile is

    max_τ ∫_{−∞}^τ f(x + td) − e^ε f(x + (t − 1)d) dt,

in closed form between the places where two cells pass each other; Gauss–Legendre across the lines.

More cells reduce to three, and never lose more: with S the shift, cells of rates r that move alike
have the likelihood h(s) = e^{−Σ r_i|x_i − s|}, and for κ = Σ r_i the function (1 − D²/κ²)h is not
negative (|h′| ≤ κh), so h is the likelihood of one cell of rate κ, blurred: given that cell, the
others can be drawn without knowing S. So the profile of one cell of rate κ in their place bounds
theirs, and a larger rate never lowers a profile.
"""

from collections.abc import Callable

import numpy as np

Profile = Callable[[np.ndarray], np.ndarray]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_DEAD = 50.0
_TINY = np.finfo(float).tiny
_INNER, _OUTER = 48, 12  # points of a line at which the loss is known beforehand
_STEPS = 8  # from there to where it is ε; the error enters squared
_NEAREST = 1e-15
_AT_ONCE = 2**14
_APART = 1e-7
_UP, _ABOVE = 1 + 1e-6, 1e-15


def three_along_a_fibre(moves: tuple[float, float], rates: tuple[float, float, float]) -> Profile:
    """ε ≥ 0 ↦ δ(ε) of three cells seen along a fibre, to 1e-6 relative, from above.

    Args:
      moves: how far the first two cells move, in the fibre's units; the third stays.
      rates: of the three cells, in the inverse of these units.

    Example:
      >>> third = three_along_a_fibre((1.0, -1.0), (1.0, 1.0, 1.0))
      >>> third(np.array([0.0, 0.5, 1.0])).round(4).tolist()
      [0.4482, 0.3003, 0.1451]

    Reference: Blackwell 1953, Equivalent comparisons of experiments, for the order of profiles.
    """
    lines = _Lines(np.array([*moves, 0.0]), _told_apart(np.asarray(rates, float)))

    def profile(epsilon: np.ndarray) -> np.ndarray:
        epsilon = np.asarray(epsilon, float)
        value, flat = np.zeros(epsilon.size), epsilon.ravel()
        rows, inside = max(_AT_ONCE // lines.weight.size, 1), np.flatnonzero(flat < lines.sup)
        for i in range(0, inside.size, rows):
            part = inside[i : i + rows]
            value[part] = lines.delta(flat[part, None])
        return value.reshape(epsilon.shape)

    return profile


def _told_apart(rates: np.ndarray) -> np.ndarray:
    """Rates a little larger, of which sums are exact and none is the sum of the others.

    Two terms of f cancel there, all the more precisely as both come from the very same numbers.
    """
    unit = 2.0 ** (np.floor(np.log2(rates.sum())) - 44)
    whole = np.ceil(rates / unit)
    top = int(np.argmax(whole))
    rest = whole.sum() - whole[top]
    if abs(whole[top] - rest) < _APART * rest:
        whole[top] = np.ceil(rest * (1 + _APART))
    return whole * unit


class _Lines:
    """Lines x + τd that cross the plane of differences, in bundles for quadrature."""

    def __init__(self, moves: np.ndarray, rates: np.ndarray) -> None:
        self.moves, self.rates = moves, rates
        order = np.argsort(moves)
        reached = np.cumsum(rates[order]) >= 0.5 * rates.sum()
        middle = moves[order[np.argmax(reached)]]
        self.sup = float(rates @ np.abs(moves - middle))
        p, q, _ = moves
        # y = p x₂ − q x₁ tells the lines apart; x₃ = 0
        size = np.array([q / rates[0], p / rates[1], (p - q) / rates[2]])
        y, self.weight = _across(np.abs(size[size != 0]))
        if (
            p == -q and rates[0] == rates[1]
        ):  # −x, one and two changing places: lines y and −y agree
            y, self.weight = y[y > 0], 2 * self.weight[y > 0]
        self.start = np.stack([-q * y, p * y, 0 * y])[:, None] / (p * p + q * q)
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = ((0, 1), (0, 2), (1, 2))
            meet = np.stack(
                [(self.start[i] - self.start[j]) / (moves[j] - moves[i]) for i, j in pairs]
            )
        parallel = np.array([moves[i] == moves[j] for i, j in pairs])
        meet[parallel] = meet[int(np.argmin(parallel))]
        self.meet = np.sort(meet, axis=0)
        self.factors = np.stack([self._factors(k) for k in range(4)])
        self.known = self._known()

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        """At ε (p, 1): (p,)."""
        at = self._where(epsilon)
        excess = self._below(at) - np.exp(epsilon) * self._below(at - 1)
        return np.minimum(np.maximum(excess, 0.0) @ self.weight * _UP + _ABOVE, 1.0)

    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Some τ of each line, where cells meet among them, and the losses there (k, lines)."""
        first, last = self.meet[0], self.meet[2] + 1
        inner = first + (last - first) * np.linspace(0, 1, _INNER)[:, None]
        outer = _DEAD / self.sup * 2.0 ** -np.arange(_OUTER)[:, None]
        meet = self.meet[:, 0]
        tau = np.concatenate([first - outer, inner, meet, meet + 1, last + outer])
        tau.sort(axis=0)
        return tau, self._bent(self._loss(tau))

    def _bent(self, loss: np.ndarray) -> np.ndarray:
        """−log(sup − L), straight in τ far out, where L comes near `sup` like 1 − e^{kτ}."""
        return -np.log(np.maximum(self.sup - loss, _NEAREST * self.sup))

    def _where(self, epsilon: np.ndarray) -> np.ndarray:
        """τ (p, lines) where the loss falls to ε: false position from known losses around it."""
        tau, loss = self.known
        goal = self._bent(epsilon)
        after = np.clip(np.sum(loss[:, None] > goal, axis=0), 1, len(tau) - 1)
        low, high = (np.take_along_axis(tau, after - k, 0) for k in (1, 0))
        above, below = (np.take_along_axis(loss, after - k, 0) - goal for k in (1, 0))
        at, last = low, np.zeros(low.shape, dtype=np.int64)
        for step in range(_STEPS):
            fall = above - below
            share = np.where(fall > 0, above / np.where(fall > 0, fall, 1.0), 0.5)
            at = low + np.clip(share, 0.0, 1.0) * (high - low)
            if step == _STEPS - 1:
                break
            here = self._bent(self._loss(at)) - goal
            over = here > 0
            # an end that stays a second time counts half, so that both come near (Illinois)
            above = np.where(over, here, np.where(last < 0, 0.5, 1.0) * above)
            below = np.where(over, np.where(last > 0, 0.5, 1.0) * below, here)
            low, high = np.where(over, at, low), np.where(over, high, at)
            last = np.where(over, 1, -1)
        return at

    def _loss(self, tau: np.ndarray) -> np.ndarray:
        return self._log_density(tau) - self._log_density(tau - 1)

    def _places(self, tau: np.ndarray) -> np.ndarray:
        return self.start + self.moves[:, None, None] * tau

    def _logs(self, tau: np.ndarray) -> np.ndarray:
        """g_j (3, …)."""
        x, r = self._places(tau), self.rates
        one, two, three = np.abs(x[0] - x[1]), np.abs(x[0] - x[2]), np.abs(x[1] - x[2])
        return -np.stack([
            r[1] * one + r[2] * two,
            r[0] * one + r[2] * three,
            r[0] * two + r[1] * three,
        ])  # fmt: skip

    def _factors(self, region: int) -> np.ndarray:
        """Π(r_i/2) A_j between two meetings (3, 1, lines)."""
        left = self.meet[max(region - 1, 0)] - (region == 0)
        right = self.meet[min(region, 2)] + (region == 3)
        x = self._places(0.5 * (left + right))
        r = self.rates[:, None, None]
        side = np.einsum("i,ij...->j...", self.rates, np.sign(x[:, None] - x[None, :]))
        # where two cells stay together, a region has no width, and its factor no meaning
        balance = (r - side) * (r + side)
        return (
            np.prod(self.rates)
            / 4
            * np.divide(r, balance, out=np.zeros_like(balance), where=balance != 0)
        )

    def _log_density(self, tau: np.ndarray) -> np.ndarray:
        region = np.sum(tau > self.meet, axis=0)
        line = np.arange(tau.shape[-1])
        factors = np.moveaxis(self.factors[region, :, 0, line], -1, 0)
        logs = self._logs(tau)
        top = logs.max(axis=0)
        return top + np.log(np.maximum(np.sum(factors * np.exp(logs - top), axis=0), _TINY))

    def _below(self, tau: np.ndarray) -> np.ndarray:
        """∫_{−∞}^τ f along each line."""
        edge = np.minimum(self.meet[0], tau)
        start = self._logs(edge)
        total = np.sum(self.factors[0] * np.exp(start) / (start - self._logs(edge - 1)), axis=0)
        for k, upper in enumerate((self.meet[1], self.meet[2], tau)):
            following = np.minimum(upper, tau) if k < 2 else np.maximum(tau, edge)
            end = self._logs(following)
            total += np.sum(self.factors[k + 1] * _straight(start, end, following - edge), axis=0)
            edge, start = following, end
        return total


def _across(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on panels that double from 0 to where nothing is left."""
    first, widest, reach = 0.5 * sizes.min(), 3 * sizes.max(), _DEAD * sizes.max()
    edges = [0.0, first]
    while edges[-1] < reach:
        edges.append(edges[-1] + min(edges[-1], widest))
    half = 0.5 * np.diff(edges)
    y = ((np.array(edges[:-1]) + half)[:, None] + half[:, None] * _NODES).ravel()
    weight = np.outer(half, _WEIGHTS).ravel()
    return np.concatenate([-y[::-1], y]), np.concatenate([weight[::-1], weight])


def _straight(start: np.ndarray, end: np.ndarray, length: np.ndarray) -> np.ndarray:
    """∫ of e^{straight line} from `start` to `end` over `length`."""
    fall = np.abs(end - start)
    safe = np.where(fall > 0, fall, 1.0)
    share = np.where(fall > 0, -np.expm1(-safe) / safe, 1.0)
    return length * np.exp(np.maximum(start, end)) * share
