"""Every model on a small table: how its data come about, who reads them, and what is ranked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import jax
import numpy as np
import numpyro.distributions as dist
from jax import Array

import cdp_views as cdp
from cdp_views.models import (
    contingency,
    latent_counts,
    regression,
    shares,
    small_area,
    smart_meter,
    sufficient_statistics,
    sum_to_zero_effects,
    wearables,
)

View = Literal["max-entropy", "conditioned", "imaged"]
Noise = Literal["normal", "discrete-normal", "laplace", "discrete-laplace"]
# whole noise is read by its continuous extension: the same program, compiled once
READ_AS: dict[str, Any] = {"discrete-laplace": "laplace", "discrete-normal": "normal"}
_TWO = cdp.totals([0, 0, 0, 1, 1, 1])
_STATE = np.array([0, 0, 0, 1, 1, 1])
_PEOPLE = 10 * np.array([9e3, 2e4, 4e3, 8e3, 3e4, 1e4])  # hardly ever below one case
_AREAS = np.array([150.0, 400.0])
_BLOCK, _UNIT = np.array([0, 0, 0, 1, 1, 1]), np.tile(np.arange(6), 2)


@dataclass(frozen=True)
class Subject:
    """A model on a small table with exact totals and noise of one scale.

    `simulate(key, mechanism)` gives (truth by site, (released, what else is public)); `read` is the
    model of that; `cells` the site of the table, `sites` what else is ranked; `whole` whether its
    numbers may be whole.
    """

    invariant: Any
    scale: float
    cells: str
    sites: tuple[str, ...]
    simulate: Callable[[Array, Any], tuple[dict[str, Array], Any]]
    read: Callable[[cdp.Observed, Any], None]
    whole: bool = True


def _subject(
    simulate: Callable[..., Any],
    read: Callable[[cdp.Observed], None],
    sites: str,
    scale: float = 10.0,
    invariant: Any = _TWO,
    cells: str = "q",
    whole: bool = True,
) -> Subject:
    def with_nothing(key: Array, mechanism: Any) -> Any:
        truth, released = simulate(key, mechanism)
        return truth, (released, ())

    return Subject(
        invariant, scale, cells, tuple(sites.split()), with_nothing, lambda seen, _: read(seen),
        whole,
    )  # fmt: skip


SUBJECTS = {
    "latent_counts": _subject(latent_counts.simulate, latent_counts.model, "level spread"),
    "small_area": _subject(
        lambda key, m: small_area.simulate(key, m, _PEOPLE, _STATE),
        lambda seen: small_area.model(seen, _PEOPLE, _STATE),
        "alpha between within rate",
        scale=30.0,
    ),
    "shares": _subject(
        lambda key, m: shares.simulate(key, m, _AREAS),
        lambda seen: shares.model(seen, _AREAS),
        "concentration base",
    ),
    "contingency": _subject(
        lambda key, m: contingency.simulate(key, m, (2, 3)),
        lambda seen: contingency.model(seen, (2, 3)),
        "level beta tau odds",
        invariant=cdp.margins((2, 3), [(0,), (1,)]),
    ),
    "regression": Subject(
        _TWO, 20.0, "q", ("level", "spread", "alpha", "beta", "sigma"),
        regression.simulate, lambda seen, outcome: regression.model(seen, outcome),
    ),
    "smart_meter": _subject(
        lambda key, m: smart_meter.simulate(key, m, 2),
        lambda seen: smart_meter.model(seen, 2),
        "level between swing spread usual",
        scale=30.0,
        invariant=cdp.totals([0, 1, 0, 1, 0, 1, 0, 1]),
    ),
    "wearables": _subject(
        lambda key, m: wearables.simulate(key, m, 3),
        lambda seen: wearables.model(seen, 3),
        "active level swing profile spread",
        scale=40.0,
    ),
    "sufficient_statistics": _subject(
        lambda key, m: sufficient_statistics.simulate(key, m, 300),
        lambda seen: sufficient_statistics.model(seen, 300),
        "centre width alpha beta sigma",
        scale=4.0,
        invariant=cdp.linear(np.eye(5)[:1]),
        cells="sums",
        whole=False,
    ),
}  # fmt: skip


class _Unnoised:
    """Stands for a mechanism whose release is the true table."""

    def __init__(self, invariant: Any, noise: str) -> None:
        self.invariant, self.noise = invariant, noise

    def law(self, q: Array) -> dist.Distribution:
        return dist.Delta(q, event_dim=1)


def simulated(
    key: Array, name: str, view: View, noise: Noise, *, count: int, louder: float = 1.0
) -> tuple[dict[str, Array], Any]:
    """Truths and data of many tables; noise of `louder` times the scale that the reader knows of.

    Truth and noise apart, so that a model's truths are compiled once for all noises.
    """
    subject, (to_truth, to_noise) = SUBJECTS[name], jax.random.split(key)
    truth, (q, more) = _truths(name, noise.startswith("discrete"))(
        jax.random.split(to_truth, count)
    )
    scale = louder * subject.scale
    # other noise has the same law at every scale
    unit = scale if noise.startswith("discrete") else 1.0
    mechanism = cdp.Mechanism(view, noise, unit, subject.invariant)
    x = _noises(mechanism.view, noise, unit, subject.invariant)(jax.random.split(to_noise, count))
    return truth, (q + scale / unit * x, more)


@cache
def _truths(name: str, whole: bool) -> Callable[[Array], Any]:
    subject = SUBJECTS[name]
    unnoised = _Unnoised(subject.invariant, "discrete-normal" if whole else "normal")
    return jax.jit(jax.vmap(lambda key: subject.simulate(key, unnoised)))


@cache
def _noises(view: View, noise: Noise, scale: float, invariant: Any) -> Callable[[Array], Any]:
    law: Any = cdp.Mechanism(view, noise, scale, invariant).law(np.zeros(invariant.n))
    return jax.jit(jax.vmap(law.sample))


@cache
def reader(name: str, view: View, noise: Noise) -> Callable[[Any], None]:
    """`model(data)` of one table; the same function for whole noise and its extension."""
    subject = SUBJECTS[name]
    mechanism = cdp.Mechanism(view, noise, subject.scale, subject.invariant)

    def model(data: Any) -> None:
        released, more = data
        subject.read(cdp.Observed(mechanism, released), more)

    return model


EFFECTS = ("effect", "mu", "scale", "sigma")  # sites of `sum_to_zero_effects`


def simulated_effects(key: Array, tails: Any, *, count: int) -> tuple[dict[str, Array], Any]:
    """Truths and observations of `sum_to_zero_effects`, which has no release."""
    one = partial(sum_to_zero_effects.simulate, unit=_UNIT, block=_BLOCK, tails=tails)
    return jax.jit(jax.vmap(one))(jax.random.split(key, count))


@cache
def effects_reader(tails: Any) -> Callable[[Any], None]:
    """`model(y)`."""
    return partial(sum_to_zero_effects.model, unit=_UNIT, block=_BLOCK, tails=tails)
