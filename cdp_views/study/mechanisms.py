"""The mechanisms that a comparison knows: base noises, and ways to make them keep the totals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpyro.distributions as dist

from cdp_views._checks import UnsupportedError
from cdp_views.invariants import linear
from cdp_views.views import Conditioned, Imaged, MaxEntropy

UNCONSTRAINED = "unconstrained"

NOISES: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {"normal": dist.Normal}


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
        base = NOISES[self.noise](self.counts, scale * self.pattern)
        return VIEWS[self.view](base, self.invariant)

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
        for noise in noises
        for scales, pattern in patterns.items()
        for view in VIEWS
    ]
