"""A belief over finitely many possible worlds, and the two ways in which it changes."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdp_views import _checks
from cdp_views.worlds.closest import closest

World = Hashable
Event = Callable[[Any], bool] | Collection[World]


@dataclass(frozen=True, eq=False)
class Belief:
    """A probability measure P on a finite set Ω of possible worlds.

    `condition` is revision, the same world seen better; `image` is update, a world that has
    changed. (Neither is "Bayesian updating": that is revision.)

    Args:
        worlds: (m,) distinct hashable names, such as tuples of counts.
        probability: (m,) nonnegative, of sum 1; None for equal ones.

    Raises:
        ValueError: repeated worlds, or probabilities that are no such numbers.

    Example:
        >>> from cdp_views.worlds import Belief
        >>> counts = Belief([(a, b) for a in range(4) for b in range(4)])
        >>> total = lambda world: sum(world) == 3
        >>> counts.condition(total)((0, 3)), counts.image(total)((0, 3))
        (0.25, 0.125)

    Reference: [TV] §2; Lewis 1976 (imaging); Gärdenfors 1982 (its characterisation).
    """

    worlds: tuple[World, ...]
    probability: np.ndarray

    def __init__(self, worlds: Iterable[World], probability: Any = None) -> None:
        worlds = tuple(worlds)
        if not worlds or len(set(worlds)) < len(worlds):
            raise ValueError(
                f"`worlds` must be distinct, and at least one; got {len(worlds)} of which "
                f"{len(set(worlds))} differ. Name each world once."
            )
        m = len(worlds)
        p = np.full(m, 1 / m) if probability is None else np.array(probability, dtype=np.float64)
        if p.shape != (m,) or not np.all(p >= 0) or abs(p.sum() - 1) > 1e-9:
            raise ValueError(
                f"`probability` must be {m} numbers of at least 0 and of sum 1. Divide them by "
                "their sum."
            )
        object.__setattr__(self, "worlds", worlds)
        object.__setattr__(self, "probability", p)

    def __call__(self, event: Any) -> float:
        """P(event), of one world, a collection of worlds, or a predicate."""
        return float(self.probability[self._inside(event)].sum())

    def condition(self, event: Event) -> "Belief":
        """Revision: P(· | C), the belief after learning that C holds in the world as it is.

        Worlds outside C are dropped and the rest keep their ratios; of all beliefs with P′(C) = 1
        it has the least Kullback–Leibler distance Σ P′ log(P′/P) from P.

        Raises:
            ValueError: P(C) = 0, where revision says nothing (`image` does).
        """
        inside = self._inside(event)
        mass = self.probability[inside].sum()
        if not mass > 0:
            raise ValueError(
                "`event` has probability 0, and revision has no answer to what was held "
                "impossible. Use image(event), or a belief that allows it."
            )
        return Belief(self.worlds, np.where(inside, self.probability, 0) / mass)

    def image(
        self, event: Event, nearest: Callable[[Any], Mapping[Any, float]] | None = None
    ) -> "Belief":
        """Update: P_C(ω) = Σ {P(ω′) : ω′_C = ω}, every world moved to its closest one in C.

        Args:
            event: C, of which at least one world exists.
            nearest: world ↦ {closest world in C: share of its mass}; None for Euclidean distance
                of worlds that are numbers or tuples, the closest ones sharing equally.

        Raises:
            ValueError: no world is in C, or `nearest` leaves C or loses mass.
        """
        inside = self._inside(event)
        target = [world for world, kept in zip(self.worlds, inside, strict=True) if kept]
        if not target:
            raise ValueError("`event` holds in no world of this belief. Add the worlds it needs.")
        move = closest(target) if nearest is None else nearest
        place = {world: i for i, world in enumerate(self.worlds)}
        moved = np.zeros(len(self.worlds))
        for world, mass in zip(self.worlds, self.probability, strict=True):
            shares = move(world)
            if any(w not in place or not inside[place[w]] for w in shares) or (
                abs(sum(shares.values()) - 1) > 1e-9
            ):
                raise ValueError(
                    f"`nearest` must send world {world!r} into `event`, with shares of sum 1."
                )
            for to, share in shares.items():
                moved[place[to]] += mass * share
        return Belief(self.worlds, moved)

    def mix(self, other: "Belief", weight: float) -> "Belief":
        """(1 − weight) P + weight P′, on the same worlds."""
        _checks.instance("other", other, Belief, "Mix two beliefs.")
        if other.worlds != self.worlds or not 0 <= weight <= 1:
            raise ValueError(
                f"`mix` needs the same worlds and a weight from 0 to 1; got weight {weight} and "
                f"{len(self.worlds)} against {len(other.worlds)} worlds. Name all worlds in both."
            )
        return Belief(self.worlds, (1 - weight) * self.probability + weight * other.probability)

    def divergence(self, other: "Belief") -> float:
        """I(P, P′) = Σ P′ log(P′/P) of `other` from this belief, in nats; inf where P′ is new."""
        p, q = self.probability, other.probability
        seen = q > 0
        if np.any(p[seen] == 0):
            return float("inf")
        return float(np.sum(q[seen] * np.log(q[seen] / p[seen])))

    def _inside(self, event: Any) -> np.ndarray:
        if callable(event):
            return np.array([bool(event(world)) for world in self.worlds])
        known = set(self.worlds)
        named = event if isinstance(event, set | frozenset | list) else [event]
        unknown = [world for world in named if world not in known]
        if unknown:
            raise ValueError(
                f"`event` names {unknown[0]!r}, which is no world of this belief. Give worlds, or "
                "a function of a world."
            )
        wanted = set(named)
        return np.array([world in wanted for world in self.worlds])
