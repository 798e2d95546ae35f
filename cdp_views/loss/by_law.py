"""Profiles of many differences that share few laws, each worked out when first asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

Profile = Callable[[np.ndarray], np.ndarray]

_FEW = 4
# of the largest supremum, finer towards it as profiles fall to 0 there like straight lines
_GRID = np.concatenate([1 - np.square(1 - np.arange(72) / 72), [1 - 1e-6, 1.0]])
_MOST, _BATCH = 16, 8
_ROUNDING = 1e-9  # of profiles worked out one by one


@dataclass(frozen=True, eq=False)
class ByLaw:
    """The profile of a `ProfileLoss` whose m differences have k different laws.

    Args:
      makers: k functions without arguments that make the profile of each law.
      law: (m,) which law each difference has.
      sup: (k,) where each profile is 0.
      cap: ε (p, 1), laws (q,) ↦ (p, q) cheap upper bounds of their profiles.
      over: (k,) a law whose profile is proved to lie above it at every ε, or −1.
      screen: laws (q,), ε (p,) ↦ (p, q) their profiles, in less time and to within a relative error
        of `slack`, infinite where it can't tell.

    Example:
      >>> flat = lambda height: lambda: lambda epsilon: np.full(epsilon.shape, height)
      >>> both = ByLaw([flat(0.1), flat(0.2)], np.array([1, 0, 1]), np.ones(2))
      >>> both(np.array(0.5)).tolist(), both.frontier().tolist()
      ([0.2, 0.1, 0.2], [0, 1])
    """

    makers: Sequence[Callable[[], Profile]]
    law: np.ndarray
    sup: np.ndarray
    cap: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    over: np.ndarray | None = None
    screen: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    slack: float = 0.0
    _made: dict[int, Profile] = field(default_factory=dict)

    def __call__(self, epsilon: np.ndarray) -> np.ndarray:
        epsilon = np.asarray(epsilon, float)
        laws, index = np.unique(self.law, return_inverse=True)
        if epsilon.ndim == 0 or epsilon.shape[-1] == 1:
            shape = np.broadcast_shapes(epsilon.shape, (1,))
            here = np.broadcast_to(epsilon, shape)[..., 0]
            return np.stack([self._of(k)(here) for k in laws.tolist()], axis=-1)[..., index]
        value = np.empty(np.broadcast_shapes(epsilon.shape, self.law.shape))
        for place, k in enumerate(laws.tolist()):
            columns = np.flatnonzero(index == place)
            # differences of one law are mostly asked at the same ε
            at, back = np.unique(epsilon[..., columns], return_inverse=True)
            value[..., columns] = self._of(k)(at)[back].reshape(*value.shape[:-1], columns.size)
        return value

    def take(self, indices: np.ndarray) -> "ByLaw":
        """The profiles of the differences at `indices`."""
        return replace(self, law=self.law[indices])

    def frontier(self) -> np.ndarray:
        """One difference of every law that is not proved to lie below others at every ε.

        Proved by `over`, or from upper ends of all profiles and lower ends of some on a grid (see
        `_may_rise`): what is left out can be worst by no more than these ends are wrong.
        """
        laws, first = np.unique(self.law, return_index=True)
        if self.over is not None:
            kept = ~np.isin(self.over[laws], laws)
            laws, first = laws[kept], first[kept]
        if self.cap is not None and laws.size > _FEW:
            kept = self._above(laws)
            first = first[kept]
        return np.sort(first)

    def _above(self, laws: np.ndarray) -> np.ndarray:
        """Whether each law may rise somewhere above the profiles of the likeliest others."""
        assert self.cap is not None
        sup = self.sup[laws]
        grid = sup.max() * _GRID
        high = self.cap(grid[:, None], laws)
        low, known = np.zeros_like(high), np.zeros(laws.size, dtype=bool)

        def may_rise() -> np.ndarray:
            return _may_rise(grid, high, low[:, known], high[:, known], sup, sup[known])

        for step in range(_MOST):
            left = np.flatnonzero(may_rise() & ~known)
            if left.size <= _FEW:
                break
            # those that promise most, where most is still open
            under = low.max(axis=1)
            open_ = np.sum(np.maximum(high[:, left] - under[:, None], 0.0), axis=0)
            left = left[np.argsort(-open_, kind="stable")]
            tried = left[: _BATCH * 2**step]
            value = np.full((grid.size, tried.size), np.inf)
            if self.screen is not None:
                value = self.screen(laws[tried], grid)
            told = np.isfinite(value).all(axis=0)
            slack = np.full(tried.size, self.slack)
            if not told[0]:
                value[:, 0], slack[0], told[0] = (
                    self._of(int(laws[tried[0]]))(grid),
                    _ROUNDING,
                    True,
                )
            tried, value, slack = tried[told], value[:, told], slack[told]
            known[tried] = True
            low[:, tried] = value * (1 - slack)
            high[:, tried] = np.minimum(high[:, tried], value * (1 + slack))
        return may_rise()

    def _of(self, law: int) -> Profile:
        if law not in self._made:
            self._made[law] = self.makers[law]()
        return self._made[law]


def _may_rise(
    grid: np.ndarray,
    caps: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    sup: np.ndarray,
    sup_known: np.ndarray,
) -> np.ndarray:
    """Whether each of q profiles, at most `caps` (p, q) on a grid of ε, may pass k known ones.

    Profiles are convex in x = e^ε, and so is W, the largest of the known ones. Between two points
    of the grid each of the q is at most its chord, and W at least the lines through what it is at
    the two points on either side: at least `low` (p, k) at the nearer, at most `high` at the other.
    Chords are compared with these at the ends, and where the two lines cross. In the last step,
    before the largest supremum, profiles are straight but for a share of it: there the one of two
    is larger that starts larger and ends no sooner.

    Args:
      grid: (p,) from 0 to the largest supremum.
      caps: (p, q).
      low, high: (p, k) what is proved of the known profiles.
      sup: (q,) where each profile is 0.
      sup_known: (k,) of the known ones.
    """
    if not low.shape[1]:
        return np.ones(caps.shape[1], dtype=bool)
    x = np.exp(grid - grid[-1])
    least, most = low.max(axis=1), high.max(axis=1)
    left, right, width = least[:-1], least[1:], np.diff(x)
    before = np.append(-1e300, (left[1:] - most[:-2]) / width[:-1])  # nothing before ε = 0
    after = np.append((most[2:] - right[:-1]) / width[1:], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (right - left - after * width) / ((before - after) * width)
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 0.0)
    lowest = np.maximum(
        left + np.where(share > 0, before * share * width, 0.0), right - after * (1 - share) * width
    )
    lowest[0] = right[0] - after[0] * width[0]
    at = caps[:-1] + share[:, None] * np.diff(caps, axis=0)
    at[0] = caps[0]
    over = np.any(caps > least[:, None], axis=0) | np.any((at > lowest[:, None])[:-1], axis=0)
    # the last step: what is largest there of those that end no sooner
    order = np.argsort(-sup_known, kind="stable")
    largest = np.maximum.accumulate(low[-2, order])
    later = np.searchsorted(-sup_known[order], -sup, side="right")
    return over | (later == 0) | (caps[-2] > largest[np.maximum(later - 1, 0)])


@dataclass(frozen=True, eq=False)
class Later:
    """A profile that is put together when first asked for: often only the supremum is."""

    make: Callable[[], ByLaw]

    @cached_property
    def profile(self) -> ByLaw:
        """What `make` gives."""
        return self.make()

    def __call__(self, epsilon: np.ndarray) -> np.ndarray:
        return self.profile(epsilon)

    def take(self, indices: np.ndarray) -> ByLaw:
        """The profiles of the differences at `indices`."""
        return self.profile.take(indices)

    def frontier(self) -> np.ndarray:
        """Which differences can be worst."""
        return self.profile.frontier()
