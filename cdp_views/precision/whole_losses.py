"""Laws of the privacy loss of whole-number noise, listed value by value.

A cell's loss is ℓ(x) = log p(x) − log p(x − v): of discrete Laplace noise (|x − v| − |x|)/λ, which
takes |v| + 1 values, of discrete normal noise (v² − 2vx)/2σ². Losses of independent cells add. In a
class of cells whose sum is fixed, the losses of those that change add given that
Σ x = −(the sum of the others), whose law is `rest`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cdp_views.precision.whole_sums import Mass, convolve

_MOST_STATES = 4096
MOST_ENTRIES = 4_000_000
_COARSE = 2000
_BEYOND = 1e-35  # of a cell's noise lies beyond its listed masses
_FFT = 1e-12  # what the FFT of long masses leaves of all chances
_LONG = 3000  # masses from which on sums go through it

Rest = Callable[[np.ndarray], np.ndarray]


class Listed(NamedTuple):
    """Losses (k,), ascending, their chances (k,), and what the list may leave out of δ."""

    loss: np.ndarray
    chance: np.ndarray
    slack: float

    def profile(self) -> Callable[[np.ndarray], np.ndarray]:
        """ε ↦ Σ_{ℓ>ε} p (1 − e^{ε − ℓ}), rounded up."""
        keep = self.chance > 0
        loss, chance = self.loss[keep], self.chance[keep]
        above = np.append(np.cumsum(chance[::-1])[::-1], 0.0)
        log_sum = np.logaddexp.accumulate((np.log(chance) - loss)[::-1])[::-1]
        log_sum = np.append(log_sum, -np.inf)
        rounding = 8 * np.finfo(float).eps * np.sqrt(loss.size)

        def delta(epsilon: np.ndarray) -> np.ndarray:
            epsilon = np.asarray(epsilon, dtype=float)
            j = np.searchsorted(loss, epsilon, side="right")
            value = above[j] - np.exp(epsilon + log_sum[j])
            return np.maximum(value, 0.0) + rounding * above[j] + self.slack

        return delta


def cell_loss(family: str, v: int, scale: float, x: np.ndarray) -> np.ndarray:
    """log p(x) − log p(x − v) at whole numbers x."""
    if family == "discrete-laplace":
        return (np.abs(x - v) - np.abs(x)) / scale
    return (v * v - 2.0 * v * x) / (2 * scale * scale)


def alone(family: str, mass: Mass, v: int, scale: float) -> Listed:
    """The loss of one independent cell."""
    x = mass.low + np.arange(mass.p.size)
    return _merged(cell_loss(family, v, scale, x), mass.p, _BEYOND)


def together(laws: Sequence[Listed]) -> tuple[Listed, bool]:
    """The sum of independent losses, and whether it is exact; too long lists are rounded up."""
    found, exact = Listed(np.zeros(1), np.ones(1), 0.0), True
    for law in laws:
        if found.loss.size * law.loss.size > MOST_ENTRIES:
            found, law, exact = _coarse(found), _coarse(law), False
        loss = found.loss[:, None] + law.loss
        chance = found.chance[:, None] * law.chance
        found = _merged(loss.ravel(), chance.ravel(), found.slack + law.slack)
    return found, exact


def given_sum(
    family: str,
    masses: Sequence[Mass],
    changes: Sequence[int],
    scales: Sequence[float],
    rest: Rest,
) -> Listed | None:
    """The loss of some cells of a class, given what their sum z must be.

    Args:
      family: of the noise.
      masses: laws of the k cells that change.
      changes: v of each.
      scales: of each.
      rest: z ↦ the weight of Σ x = z over these cells, which is that of the others making up for
        it; any constant factor.

    Returns:
      The law, or None where it has too many values to list.
    """
    if family == "discrete-laplace":
        return _steps(masses, changes, scales, rest)
    if len(masses) == 1:
        x = masses[0].low + np.arange(masses[0].p.size)
        loss = cell_loss(family, changes[0], scales[0], x)
        return _normalised(loss, masses[0].p * rest(x))
    if len(masses) != 2:
        return None
    one, two = masses
    if scales[0] == scales[1] and changes[0] == -changes[1]:
        return _by_parity(one, changes[0], scales[0], rest)
    if one.p.size * two.p.size > MOST_ENTRIES:
        return None
    x, y = one.low + np.arange(one.p.size), two.low + np.arange(two.p.size)
    z = x[:, None] + y
    at = rest(np.arange(z.min(), z.max() + 1))[z - z.min()]
    losses = [cell_loss(family, changes[i], scales[i], (x, y)[i]) for i in range(2)]
    weight = one.p[:, None] * two.p * at
    return _normalised((losses[0][:, None] + losses[1]).ravel(), weight.ravel())


def listable(family: str, sizes: Sequence[int], changes: Sequence[int], equal: bool) -> bool:
    """Whether `given_sum` lists the exact law of cells with so many masses that change so much."""
    if family == "discrete-laplace":
        return float(np.prod([abs(v) + 1.0 for v in changes])) <= _MOST_STATES
    if len(sizes) == 2:
        opposite = equal and changes[0] == -changes[1]
        return opposite or sizes[0] * sizes[1] <= MOST_ENTRIES
    return len(sizes) == 1


def _by_parity(mass: Mass, v: int, scale: float, rest: Rest) -> Listed:
    """Two cells of equal σ that change by v and −v: the loss (v² − v(x − y))/σ².

    p(x) p(y) = e^{−(z² + d²)/4σ²} for the sum z and the difference d, which have one parity and are
    otherwise independent given that e^{−z²/4σ²} is weighed by `rest`.
    """
    z = np.arange(2 * mass.low, 2 * mass.high + 1)
    weight = np.exp(-((z / (2 * scale)) ** 2)) * rest(z)
    odd = z % 2 == 1
    by_parity = np.array([weight[~odd].sum(), weight[odd].sum()])
    chance = np.exp(-((z / (2 * scale)) ** 2)) * by_parity[odd.astype(int)]
    return _normalised((v * v - v * z.astype(float)) / (scale * scale), chance)


def _steps(
    masses: Sequence[Mass], changes: Sequence[int], scales: Sequence[float], rest: Rest
) -> Listed | None:
    """Discrete Laplace cells: the masses of their sum, for each of few values of the loss."""
    if not listable("discrete-laplace", [], changes, False):
        return None
    states: dict[float, Mass] = {0.0: Mass(0, np.ones(1))}
    for mass, v, scale in zip(masses, changes, scales, strict=True):
        after: dict[float, list[Mass]] = {}
        for own, part in _pieces(mass, v, scale):
            for loss, sum_so_far in states.items():
                key = float(np.round(loss + own, 11))
                after.setdefault(key, []).append(convolve(sum_so_far, part))
        states = {loss: _added(parts) for loss, parts in after.items()}
    loss = np.array(sorted(states))
    weight = np.array([float(states[k].p @ rest(_places(states[k]))) for k in loss.tolist()])
    found = _normalised(loss, weight)
    long = max(mass.p.size for mass in masses) > _LONG
    return found._replace(slack=max(found.slack, _FFT)) if long else found


def _pieces(mass: Mass, v: int, scale: float) -> list[tuple[float, Mass]]:
    """The cell's mass cut where its loss steps: beyond 0 and v it is ±|v|/λ."""
    x = _places(mass)
    inner = np.arange(min(v, 0) + 1, max(v, 0))
    below, above = x <= min(v, 0), x >= max(v, 0)
    step = v / scale
    ends = [(step, Mass(mass.low, mass.p[below])), (-step, Mass(int(x[above][0]), mass.p[above]))]
    losses, own = cell_loss("discrete-laplace", v, scale, inner), mass.at(inner)
    middle = [(float(losses[k]), Mass(int(inner[k]), own[k : k + 1])) for k in range(inner.size)]
    return ends + middle


def _places(mass: Mass) -> np.ndarray:
    return mass.low + np.arange(mass.p.size)


def _added(parts: list[Mass]) -> Mass:
    if len(parts) == 1:
        return parts[0]
    low, high = min(m.low for m in parts), max(m.high for m in parts)
    p = np.zeros(high - low + 1)
    for part in parts:
        p[part.low - low : part.low - low + part.p.size] += part.p
    return Mass(low, p)


def _normalised(loss: np.ndarray, weight: np.ndarray) -> Listed:
    total = float(weight.sum())
    return _merged(loss, weight / total, _BEYOND / total)


def _merged(loss: np.ndarray, chance: np.ndarray, slack: float) -> Listed:
    """Equal losses (to 12 digits of the largest) as one, at the larger value."""
    order = np.argsort(loss, kind="stable")
    loss, chance = loss[order], chance[order]
    near = np.diff(loss) <= 1e-12 * np.abs(loss).max(initial=0.0)
    starts = np.flatnonzero(np.append(True, ~near))
    return Listed(np.maximum.reduceat(loss, starts), np.add.reduceat(chance, starts), slack)


def _coarse(law: Listed) -> Listed:
    """At most `_COARSE` values, each rounded up."""
    if law.loss.size <= _COARSE:
        return law
    low, high = law.loss[0], law.loss[-1]
    step = (high - low) / (_COARSE - 1)
    place = np.minimum(np.ceil((law.loss - low) / step), _COARSE - 1).astype(int)
    chance = np.bincount(place, law.chance, _COARSE)
    return Listed(low + step * np.arange(_COARSE) * (1 + 1e-15), chance, law.slack)
