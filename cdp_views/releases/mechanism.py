"""The laws that may be published: a noise, a view of it, and what it guarantees."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpyro.distributions as dist

from cdp_views import _checks
from cdp_views.invariants import Invariant
from cdp_views.views import Conditioned, Imaged, MaxEntropy

View = Literal["max-entropy", "conditioned", "imaged"]


class Noise(NamedTuple):
    """A family of base noises; `pure` says that its guarantee needs no δ."""

    base: Callable[[Any, Any], dist.Distribution]
    pure: bool


NOISES: dict[str, Noise] = {
    "normal": Noise(dist.Normal, pure=False),
    "laplace": Noise(dist.Laplace, pure=True),
}

VIEWS: dict[str, Callable[[Any, Invariant], dist.Distribution]] = {
    "max-entropy": MaxEntropy,
    "conditioned": Conditioned,
    "imaged": Imaged,
}

_UNPROVED = {
    ("max-entropy", "laplace"): "No guarantee is proved for the max-entropy view of Laplace noise. "
    'Release view="conditioned" or "imaged", or noise="normal".'
}


def check_mechanism(view: str, noise: str) -> None:
    """Raise unless this view of this noise exists and has a proved guarantee."""
    _checks.choice("view", view, VIEWS)
    if (view, noise) in _UNPROVED:
        raise _checks.UnsupportedError(_UNPROVED[view, noise])
    _checks.choice("noise", noise, NOISES)


def law(view: str, noise: str, loc: Any, scale: Any, invariant: Invariant) -> dist.Distribution:
    """The distribution of a release of true counts `loc` (…, n) with base scale () or (n,)."""
    return VIEWS[view](NOISES[noise].base(loc, scale), invariant)
