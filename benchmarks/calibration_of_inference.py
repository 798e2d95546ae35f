"""Is every model calibrated under every view? Ranks of the truth on small simulated tables.

    python -m benchmarks.calibration_of_inference                     # all: 15 CPU-minutes
    python -m benchmarks.calibration_of_inference --only shares --simulations 500

One line each model, view and noise: coverage of 90 % intervals of the cells, and of the parameter
that is farthest off, with standard errors from simulation to simulation; p that all ranks are
uniform; divergent draws; autocorrelation and R-hat. Discrete noise is simulated whole and read by
its continuous extension. A reader who takes the noise for a quarter of what it is, is the negative
control and must fail. Nothing fails a run: a line that is off says OFF.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import jax
import numpy as np
from jax import Array
from numpyro.infer import NUTS

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

VIEWS = ("max-entropy", "conditioned", "imaged")
NOISES = ("normal", "laplace", "discrete-laplace", "discrete-normal")
_READ_AS = {"discrete-laplace": "laplace", "discrete-normal": "normal"}
_TWO = cdp.totals([0, 0, 0, 1, 1, 1])
_STATE = np.array([0, 0, 0, 1, 1, 1])
_PEOPLE = 10 * np.array([9e3, 2e4, 4e3, 8e3, 3e4, 1e4])  # hardly ever below one case
_AREAS = np.array([150.0, 400.0])
_BLOCK, _UNIT = np.array([0, 0, 0, 1, 1, 1]), np.tile(np.arange(6), 2)


@dataclass(frozen=True)
class Subject:
    """A model on a small table: how data come about, who reads them, and what is ranked."""

    invariant: Any
    scale: float
    cells: str
    sites: tuple[str, ...]
    simulate: Callable[[Array, cdp.Mechanism], tuple[dict[str, Array], Any]]
    read: Callable[[cdp.Observed, Any], None]
    whole: bool = True  # also under whole noise


def _plain(simulate: Callable[..., Any]) -> Callable[..., Any]:
    """Data as (released, nothing more)."""

    def with_nothing(key: Array, mechanism: cdp.Mechanism) -> Any:
        truth, released = simulate(key, mechanism)
        return truth, (released, ())

    return with_nothing


def _subject(
    simulate: Callable[..., Any],
    read: Callable[[cdp.Observed], None],
    sites: str,
    scale: float = 10.0,
    invariant: Any = _TWO,
    cells: str = "q",
    whole: bool = True,
) -> Subject:
    return Subject(
        invariant, scale, cells, tuple(sites.split()), _plain(simulate),
        lambda seen, _: read(seen), whole,
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
        "level between swing spread household",
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


@dataclass(frozen=True)
class Line:
    """What one combination gave."""

    model: str
    view: str
    noise: str
    simulations: int
    coverage: float
    coverage_se: float
    worst: str
    worst_coverage: float
    worst_se: float
    p_value: float
    divergences: int
    draws: int
    autocorrelation: float
    r_hat: float
    seconds: float

    @property
    def off(self) -> bool:
        """Whether it is not calibrated: by ranks, or by coverage beyond 5 standard errors."""
        far = abs(self.coverage - 0.9) > 5 * self.coverage_se
        return far or abs(self.worst_coverage - 0.9) > 5 * self.worst_se or self.p_value < 1e-3

    def __str__(self) -> str:
        return (
            f"{self.model:<22}{self.view:<12}{self.noise:<26}{100 * self.coverage:5.1f} "
            f"±{100 * self.coverage_se:4.1f}  {self.worst:<13}{100 * self.worst_coverage:5.1f} "
            f"±{100 * self.worst_se:4.1f} {self.p_value:9.2g} {self.divergences:5d} "
            f"{self.autocorrelation:6.2f} {self.r_hat:6.3f} {self.seconds:5.0f}"
            f"{'  OFF' if self.off else ''}"
        )


HEADER = (
    f"{'model':<22}{'view':<12}{'noise':<26}{'cells, %':<14}{'farthest':<13}{'%':<12}{'p':>9} "
    f"{'div':>5} {'acf':>6} {'R-hat':>6} {'CPU s':>5}"
)


def run(
    name: str,
    view: Any,
    noise: Any,
    *,
    simulations: int,
    believed: float = 1.0,
    draws: int = 39,
    warmup: int = 250,
    thin: int = 3,
) -> Line:
    """One combination; `believed` is the part of the noise's scale that the reader knows of.

    Raises:
        UnsupportedError: no such view of this noise.
    """
    subject, start = SUBJECTS[name], process_time()
    simulate = _simulate(name, view, noise)
    ranks = cdp.simulation_based_calibration(
        jax.random.key(7), simulate, _reader(name, view, _READ_AS.get(noise, noise), believed),
        sites=(subject.cells, *subject.sites), simulations=simulations, draws=draws,
        warmup=warmup, thin=thin, kernel=_KERNEL,
    )  # fmt: skip
    shown = noise if believed == 1 else f"{noise}, {believed:g} known"
    return _line(name, view, shown, subject.cells, ranks, simulations, process_time() - start)


def run_effects(tails: Any, *, simulations: int, draws: int = 39, warmup: int = 250) -> Line:
    """`sum_to_zero_effects`, which has no release: by the tails of its effects."""
    start = process_time()
    ranks = cdp.simulation_based_calibration(
        jax.random.key(7),
        partial(sum_to_zero_effects.simulate, unit=_UNIT, block=_BLOCK, tails=tails),
        partial(sum_to_zero_effects.model, unit=_UNIT, block=_BLOCK, tails=tails),
        sites=("effect", "mu", "scale", "sigma"), simulations=simulations, draws=draws,
        warmup=warmup, thin=3, kernel=_KERNEL,
    )  # fmt: skip
    seconds = process_time() - start
    return _line("sum_to_zero_effects", "-", tails, "effect", ranks, simulations, seconds)


_KERNEL = partial(NUTS, target_accept_prob=0.95)  # as `fitting.fit`


@cache
def _simulate(name: str, view: Any, noise: Any) -> Callable[[Array], Any]:
    subject = SUBJECTS[name]
    mechanism = cdp.Mechanism(view, noise, subject.scale, subject.invariant)
    return lambda key: subject.simulate(key, mechanism)


@cache
def _reader(name: str, view: Any, noise: Any, believed: float) -> Callable[[Any], None]:
    """The same function for whole noise and its extension, so that it is compiled once."""
    subject = SUBJECTS[name]
    mechanism = cdp.Mechanism(view, noise, believed * subject.scale, subject.invariant)

    def model(data: Any) -> None:
        released, more = data
        subject.read(cdp.Observed(mechanism, released), more)

    return model


def _line(
    name: str, view: str, noise: str, cells: str, ranks: Any, simulations: int, seconds: float
) -> Line:
    pooled = ranks.pooled.set_index("site")
    rest = pooled.drop(index=cells)
    far = ((rest["coverage90"] - 0.9).abs() / rest["coverage90_se"].clip(lower=1e-3)).idxmax()
    return Line(
        name, view, noise, simulations,
        float(pooled.loc[cells, "coverage90"]), float(pooled.loc[cells, "coverage90_se"]),
        str(far), float(rest.loc[far, "coverage90"]), float(rest.loc[far, "coverage90_se"]),
        ranks.p_value, ranks.divergences, ranks.draws * simulations, ranks.autocorrelation,
        ranks.r_hat, seconds,
    )  # fmt: skip


def lines(simulations: int, only: str = "", views: Any = VIEWS, noises: Any = NOISES) -> Iterator:
    """Every combination, and a message where there is no such view; controls at the end."""
    names = [name for name in SUBJECTS if only in name]
    for name in names:
        for view in views:
            for noise in noises:
                if noise.startswith("discrete") and not SUBJECTS[name].whole:
                    continue
                try:
                    yield run(name, view, noise, simulations=simulations)
                except cdp.UnsupportedError as error:
                    yield f"{name:<22}{view:<12}{noise:<26}{str(error).split('. ')[0]}."
    if only in "sum_to_zero_effects":
        for tails in ("normal", "laplace", "student-t"):
            yield run_effects(tails, simulations=simulations)
    for name in names:
        yield run(name, views[-1], noises[0], simulations=simulations, believed=0.25)


def main(arguments: list[str] | None = None) -> None:
    """Print the table, line by line, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="models whose name contains it")
    parser.add_argument("--view", choices=VIEWS)
    parser.add_argument("--noise", choices=NOISES)
    parser.add_argument("--simulations", type=int, default=50)
    parser.add_argument("--write", type=Path, metavar="FILE", help="the lines as JSON")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    print(HEADER)
    found = []
    for line in lines(
        chosen.simulations,
        chosen.only,
        (chosen.view,) if chosen.view else VIEWS,
        (chosen.noise,) if chosen.noise else NOISES,
    ):
        print(line, flush=True)
        if isinstance(line, Line):
            found.append(asdict(line) | {"off": line.off})
            if chosen.write:
                chosen.write.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
