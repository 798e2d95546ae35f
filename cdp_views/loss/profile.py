"""A privacy loss known through its profile δ(ε), whatever the law behind it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, override

import numpy as np

from cdp_views.loss._arguments import nonnegative, probability
from cdp_views.loss._inverse import smallest_epsilon
from cdp_views.loss.base import Kind, Loss
from cdp_views.precision.laplace_profile_sum import convolved

Profile = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class ProfileLoss(Loss):
    """The laws of m losses by way of their profiles, δ(ε) = E[max(0, 1 − e^{ε − L})].

    Args:
      profile: ε ≥ 0, finite, in float64 and of a shape that broadcasts against (m,), ↦ δ(ε) in the
        broadcast shape: entry j of the last axis belongs to difference j. It does not increase in
        ε and is rounded up by whoever wrote it. A profile that has `take(indices)` is asked for
        its part by it; any other is evaluated for all m, and what was not asked for is dropped.
        One that has `frontier()` is asked which differences can be worst. See `ByLaw`.
      sup: (m,) the largest loss, where δ is 0; infinite where there is none.
      sup_kind: "exact" if the loss comes as near to `sup` as one likes, else "bound".
      kind: "exact" or "bound", of the profile.
      alike: (m,) integers, equal where two differences have the same law; None: all may differ.
      by_exposure: whether of all pairs of cells of one block the two most exposed are proved worst
        at every ε, so that no other pair need be looked at.

    Raises:
      ValueError: `sup` has a negative entry or one that is not a number.

    Example:
      >>> sup = np.array([1.0, 2.0])  # Laplace noise on one cell
      >>> law = ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - sup, 0)), sup)
      >>> law.delta(0.5).round(6).tolist(), law.epsilon(0.1).round(6).tolist()
      ([0.221199, 0.527633], [0.789279, 1.789279])

    Reference: Balle and Wang 2018, Theorem 5.
    """

    profile: Profile
    sup: np.ndarray
    sup_kind: Kind = "exact"
    kind: Kind = "exact"
    alike: np.ndarray | None = None
    by_exposure: bool = False

    def __post_init__(self) -> None:
        sup = np.atleast_1d(nonnegative("sup", self.sup)).copy()
        sup.setflags(write=False)
        object.__setattr__(self, "sup", sup)

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        epsilon = np.asarray(nonnegative("epsilon", epsilon))
        shape = np.broadcast_shapes(epsilon.shape, self.sup.shape)
        value = np.broadcast_to(self.profile(np.minimum(epsilon, _LARGEST)), shape)
        # the profile need not know what to do at infinity, or beyond the largest loss
        return np.where(epsilon < self.sup, np.clip(value, 0.0, 1.0), 0.0)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        """(m,) smallest ε with δ(ε) ≤ δ to rounding; infinite if there is none up to 10⁴.

        δ(ε) ≤ δ was evaluated at the ε returned. At δ = 0 that is `sup`: a profile of 0 before it
        may be an underflow.
        """
        delta, sup = np.broadcast_arrays(probability("delta", delta), self.sup)
        return np.where(delta > 0, smallest_epsilon(self.delta, delta, sup), sup)

    def repeated(self, times: int) -> "ProfileLoss":
        """The losses of `times` independent releases together, from above: a bound by 1e-6 or so.

        For finite `sup`, and profiles that are the same both ways, as under symmetric noise.
        """
        laws = [self.take(np.array([j])) for j in range(self.sup.size)]
        profiles = [
            convolved(
                [(lambda e, law=law: law.delta(e[..., None])[..., 0], float(law.sup[0]))] * times
            )
            for law in laws
        ]

        def profile(epsilon: np.ndarray) -> np.ndarray:
            epsilon = np.broadcast_to(epsilon, np.broadcast_shapes(epsilon.shape, self.sup.shape))
            return np.stack([f(epsilon[..., j]) for j, f in enumerate(profiles)], axis=-1)

        return ProfileLoss(profile, times * self.sup, self.sup_kind, "bound")

    @override
    def take(self, indices: np.ndarray) -> Self:
        indices = np.asarray(indices)
        part = getattr(self.profile, "take", None)
        profile = part(indices) if part else _Rows(self.profile, self.sup.size, indices)
        alike = None if self.alike is None else self.alike[indices]
        return replace(self, profile=profile, sup=self.sup[indices], alike=alike)

    @override
    def frontier(self) -> np.ndarray:
        """One difference of each law, unless the profile knows better: profiles may cross."""
        known = getattr(self.profile, "frontier", None)
        if known is not None:
            return known()
        if self.alike is None:
            return super().frontier()
        return np.sort(np.unique(self.alike, return_index=True)[1])


_LARGEST = 1e100


@dataclass(frozen=True)
class _Rows:
    """Some of the m entries of a profile."""

    whole: Profile
    m: int
    indices: np.ndarray

    def __call__(self, epsilon: np.ndarray) -> np.ndarray:
        epsilon = np.asarray(epsilon)
        if epsilon.ndim == 0 or epsilon.shape[-1] == 1:
            value = self.whole(epsilon)
            return np.broadcast_to(value, (*epsilon.shape[:-1], self.m))[..., self.indices]
        value = np.empty(epsilon.shape)
        for j, index in enumerate(self.indices):
            whole = np.broadcast_to(
                self.whole(epsilon[..., j : j + 1]), (*epsilon.shape[:-1], self.m)
            )
            value[..., j] = whole[..., index]
        return value
