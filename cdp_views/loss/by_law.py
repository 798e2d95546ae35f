"""Profiles of many differences that share few laws, each worked out when first asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

Profile = Callable[[np.ndarray], np.ndarray]

_FEW = 4
# of the largest supremum, finer towards it as profiles fall to 0 there like straight lines
_GRID = np.concatenate([1 - np.square(1 - np.arange(72) / 72), [1 - 1e-6, 1.0]])
_MOST = 16


@dataclass(frozen=True, eq=False)
class ByLaw:
    """The profile of a `ProfileLoss` whose m differences have k different laws.

    Args:
      makers: k functions without arguments that make the profile of each law.
      law: (m,) which law each difference has.
      sup: (k,) where each profile is 0.
      cap: ε (p, 1), laws (q,) ↦ (p, q) cheap upper bounds of their profiles.
      over: (k,) a law whose profile is proved to lie above it at every ε, or −1.
      screens: the roughest first, (laws (q,), ε (p,) ↦ (p, q) their profiles, in less time and to
        within some relative error, infinite where it can't tell; that error).

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
    screens: Sequence[tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], float]] = ()
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
        """One difference of every law that is not proved to lie below another at every ε."""
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
        grid = self.sup[laws].max() * _GRID
        caps = self.cap(grid[:, None], laws)
        under, tried = np.zeros(grid.size), np.zeros(laws.size, dtype=bool)
        for _ in range(_MOST):
            over = _may_rise(grid, caps, under)
            left = np.flatnonzero(over & ~tried)
            if left.size <= _FEW:
                break
            # the one that promises most, where most is still open
            k = left[np.argmax(np.sum(np.maximum(caps[:, left] - under[:, None], 0.0), axis=0))]
            tried[k] = True
            caps[:, k] = self._of(int(laws[k]))(grid)
            under = np.maximum(under, caps[:, k])
        kept = _may_rise(grid, caps, under)
        for screen, slack in self.screens:
            left = np.flatnonzero(kept & ~tried)
            if left.size <= _FEW:
                break
            value = screen(laws[left], grid)
            caps[:, left] = np.minimum(caps[:, left], value * (1 + slack))
            value = np.where(np.isfinite(value), value, 0.0).max(axis=1)
            # once for its error, and three times for that of slopes from exact values to others
            lower = np.maximum(under, value * (1 - slack)) * (1 - 3 * slack)
            kept &= _may_rise(grid, caps, lower)
        return kept

    def _of(self, law: int) -> Profile:
        if law not in self._made:
            self._made[law] = self.makers[law]()
        return self._made[law]


def _may_rise(grid: np.ndarray, caps: np.ndarray, under: np.ndarray) -> np.ndarray:
    """Whether a profile that is at most `caps` (p, q) on a grid of ε may pass one of `under` (p,).

    Profiles are convex in x = e^ε, so between two points each is at most its chord, and `under` at
    least the lines through its two points on either side: chords are compared with it at the ends,
    and where those lines cross. In the last step profiles are straight but for a share of it.
    """
    x = np.exp(grid - grid[-1])
    slope = np.diff(under) / np.diff(x)
    before, after = np.append(slope[0], slope[:-1]), np.append(slope[1:], 0.0)
    before[0] = -1e300  # nothing is known before ε = 0
    left, right, width = under[:-1], under[1:], np.diff(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (right - left - after * width) / ((before - after) * width)
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 0.0)
    lowest = np.maximum(
        left + np.where(share > 0, before * share * width, 0.0), right - after * (1 - share) * width
    )
    lowest[0] = right[0] - after[0] * width[0]
    at = caps[:-1] + share[:, None] * np.diff(caps, axis=0)
    at[0] = caps[0]
    return np.any(caps > under[:, None], axis=0) | np.any((at > lowest[:, None])[:-1], axis=0)


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
