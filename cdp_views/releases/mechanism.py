"""The law that a table was published under: a noise, a view of it, a scale, and what is exact."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import jax
import numpy as np
import numpyro.distributions as dist

from cdp_views import _checks
from cdp_views.invariants import Invariant
from cdp_views.noise import DiscreteLaplace, DiscreteNormal
from cdp_views.views import Conditioned, Imaged, MaxEntropy

View = Literal["max-entropy", "conditioned", "imaged"]
NoiseName = Literal["normal", "laplace", "discrete-normal", "discrete-laplace"]


class Noise(NamedTuple):
    """A family of base noises.

    `pure` says that its guarantee needs no δ; `density` is its law between the whole numbers, with
    the same logarithm up to a constant, where the noise itself is whole.
    """

    base: Callable[[Any, Any], dist.Distribution]
    density: Callable[[Any, Any], dist.Distribution]
    pure: bool
    whole: bool


NOISES: dict[str, Noise] = {
    "normal": Noise(dist.Normal, dist.Normal, pure=False, whole=False),
    "laplace": Noise(dist.Laplace, dist.Laplace, pure=True, whole=False),
    "discrete-normal": Noise(DiscreteNormal, dist.Normal, pure=False, whole=True),
    "discrete-laplace": Noise(DiscreteLaplace, dist.Laplace, pure=True, whole=True),
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
    _check_exists(view, noise)


def _check_exists(view: str, noise: str) -> None:
    if view == "max-entropy" and NOISES[noise].whole:
        raise _checks.UnsupportedError(
            f"There is no max-entropy view of {noise} noise. "
            'Release view="conditioned" or "imaged", or noise="normal".'
        )


def law(view: str, noise: str, loc: Any, scale: Any, invariant: Invariant) -> dist.Distribution:
    """The distribution of a release of true counts `loc` (…, n) with base scale () or (n,)."""
    return VIEWS[view](NOISES[noise].base(loc, scale), invariant)


def _independent(base: dist.Distribution, invariant: Invariant) -> dist.Distribution:
    return base.expand((invariant.n,)).to_event(1)


@final
@dataclass(frozen=True, eq=False)
class Mechanism:
    """How a table was made noisy, as far as a reader needs to know it.

    y = q + X. Under a view of the noise A X = 0, so that A y = A q; "independent" is noise that
    keeps no total, published beside exact totals A q (the 2020 Census's noisy measurements).

    Args:
        view: "max-entropy", "conditioned", "imaged", or "independent".
        noise: "normal", "laplace", "discrete-normal" or "discrete-laplace".
        scale: the base noise's scale in counts, positive, () or (n,): σ, λ, or that of the whole
            noise. A traced value too: an unknown scale is a parameter.
        invariant: the totals that are exact.

    Raises:
        ValueError: another view or noise, a scale of a wrong shape or not positive.
        UnsupportedError: the max-entropy view of whole noise, which there is not.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a", "a", "b", "b"])
        >>> made = cdp.Mechanism("imaged", "laplace", 2.0, inv)
        >>> float(made.law([3.0, 5.0, 8.0, 1.0]).log_prob([4.0, 4.0, 8.0, 1.0]))
        -3.7725...
    """

    view: Literal["max-entropy", "conditioned", "imaged", "independent"]
    noise: NoiseName
    scale: Any
    invariant: Invariant

    def __post_init__(self) -> None:
        _checks.choice("view", self.view, (*VIEWS, "independent"))
        _checks.choice("noise", self.noise, NOISES)
        _check_exists(self.view, self.noise)
        if np.shape(self.scale) not in ((), (self.invariant.n,)):
            raise ValueError(
                f"`scale` must be one number or have shape ({self.invariant.n},), one per cell; "
                f"got {np.shape(self.scale)}."
            )
        _checks.positive("scale", self.scale, "It is the published scale of the noise, in counts.")

    @property
    def keeps_totals(self) -> bool:
        """Whether A y = A q: the released table itself has the exact totals."""
        return self.view != "independent"

    def law(self, q: Any, *, scale: Any = None) -> dist.Distribution:
        """The law of the released table given true counts.

        Args:
            q: (n,) or batched (…, n), whole for whole noise.
            scale: instead of the mechanism's own, such as a parameter.
        """
        return self._around(NOISES[self.noise].base, q, scale)

    def density(self, q: Any, *, scale: Any = None) -> dist.Distribution:
        """The law of the released table given *real* counts q, a density in q and y.

        For Normal and Laplace noise it is `law`. Whole noise has probabilities only at whole
        q − y; between them this is its continuation, Laplace noise of the same λ or Normal noise of
        the same σ, whose logarithm differs from `law`'s by a constant at whole points. What this
        costs: it overstates the noise's sd by 4 % at λ = 1, 18 % at λ = .5 and 53 % at λ = .3
        (Laplace); by 1e-7 at σ = 1, 8 % at σ = .5 and 240 % at σ = .3 (Normal).
        """
        return self._around(NOISES[self.noise].density, q, scale)

    def _around(self, base: Callable[[Any, Any], Any], q: Any, scale: Any) -> dist.Distribution:
        scale = self.scale if scale is None else scale
        q = q if isinstance(q, jax.Array) else np.asarray(q, np.float64)
        view = VIEWS.get(self.view, _independent)
        # What follows from a known scale (the solve of maximum entropy) is computed here and now,
        # also inside a traced model: not again at every step of a sampler.
        if _checks.is_concrete(scale):
            with jax.ensure_compile_time_eval():
                return view(base(q, scale), self.invariant)
        return view(base(q, scale), self.invariant)
