"""The mechanisms that a comparison knows: base noises, and ways to make them keep the totals."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpyro.distributions as dist

from cdp_views._checks import UnsupportedError
from cdp_views.invariants import linear
from cdp_views.study.compiled import Compiled
from cdp_views.views import Conditioned, Imaged, MaxEntropy

UNCONSTRAINED = "unconstrained"
NOT_PROVED = "none proved"

NOISES: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "normal": dist.Normal,
    "laplace": dist.Laplace,
}
# Noises whose loss is bounded: they keep ε with δ = 0.
PURE = frozenset({"laplace"})


def _unconstrained(base: Any, inv: Any) -> Any:
    """Independent noise: the base conditioned on nothing."""
    return Conditioned(base, linear(np.zeros((0, inv.n))))


VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    UNCONSTRAINED: _unconstrained,
    "max-entropy": MaxEntropy,
    "conditioned": Conditioned,
    "imaged": Imaged,
}


@final
@dataclass(frozen=True)
class Mechanism:
    """One row: a noise with a pattern of scales, made to keep the invariants in one way."""

    noise: str
    scales: str
    view: str
    counts: np.ndarray
    pattern: np.ndarray
    invariant: Any

    def __call__(self, scale: float) -> Any:
        """The view whose cells have noise of scale `scale` × pattern."""
        scales = scale * self.pattern
        if self.pure and self.view != "imaged" and np.ptp(self.pattern) == 0:
            # One number says that all are equal, which has quicker draws; an imaged view draws
            # alike whatever the scales, and one shape compiles once.
            scales = scales[:1]
        view = VIEWS[self.view](NOISES[self.noise](self.counts, scales), self.invariant)
        return Compiled(view) if self.pure else view

    @property
    def pure(self) -> bool:
        """Whether it is calibrated to ε alone."""
        return self.noise in PURE

    @property
    def proved(self) -> bool:
        """Whether a guarantee of the whole release is proved."""
        return not (self.pure and self.view == "max-entropy")

    @property
    def calibrated(self) -> "Mechanism":
        """Whose scale it takes: its own, or conditioned's where it has no guarantee to keep."""
        return self if self.proved else replace(self, view="conditioned")

    def guarantee(self, epsilon: float, delta: float, tables: int) -> str:
        """What is kept, in words, by all tables together."""
        if not self.proved:
            return NOT_PROVED
        shared = "" if tables == 1 else f" over {tables} tables"
        if self.pure:
            return f"ε = {epsilon:g} (pure; δ unused){shared}"
        return f"({epsilon:g}, {delta:g})-DP{shared}"

    @property
    def label(self) -> str:
        return f"{self.noise}, {self.scales} scales, {self.view}"


def mechanisms(
    counts: np.ndarray, inv: Any, noises: tuple[str, ...], patterns: dict[str, np.ndarray]
) -> list[Mechanism]:
    """Every noise × pattern × view, the unconstrained base first in each."""
    unknown = [noise for noise in noises if noise not in NOISES]
    if unknown:
        raise UnsupportedError(
            f'`noises` must be among {", ".join(NOISES)}; got "{unknown[0]}". '
            "Compare the noises that are there."
        )
    return [
        Mechanism(noise, scales, view, counts, pattern, inv)
        for noise in dict.fromkeys(noises)
        for scales, pattern in patterns.items()
        for view in VIEWS
    ]
