"""Profiles of many differences that share few laws, each worked out when first asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

Profile = Callable[[np.ndarray], np.ndarray]

_FEW = 4
_STEPS = 32


@dataclass(frozen=True, eq=False)
class ByLaw:
    """The profile of a `ProfileLoss` whose m differences have k different laws.

    Args:
      makers: k functions without arguments that make the profile of each law.
      law: (m,) which law each difference has.
      sup: (k,) where each profile is 0.
      cap: ε (p, 1), laws (q,) ↦ (p, q) cheap upper bounds of their profiles.
      over: (k,) a law whose profile is proved to lie above it at every ε, or −1.

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
        return ByLaw(self.makers, self.law[indices], self.sup, self.cap, self.over, self._made)

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
        """Whether the cap of each law rises somewhere above the law of largest supremum.

        Between two points of the grid the cap is at most its value at the left one, and the
        profile at least its value at the right one.
        """
        assert self.cap is not None
        top = laws[np.argmax(self.sup[laws])]
        grid = self.sup[top] * np.linspace(0, 1, _STEPS + 1)
        reached = self._of(int(top))(grid[1:])
        under = np.all(self.cap(grid[:-1, None], laws) <= reached[:, None], axis=0)
        return ~under | (laws == top)

    def _of(self, law: int) -> Profile:
        if law not in self._made:
            self._made[law] = self.makers[law]()
        return self._made[law]


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
