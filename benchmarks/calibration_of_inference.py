"""Is every model calibrated under every view? Ranks of the truth on small simulated tables.

    python -m benchmarks.calibration_of_inference                     # all: under 15 CPU-minutes
    python -m benchmarks.calibration_of_inference --only shares --simulations 1000
    python -m benchmarks.calibration_of_inference --only shares --sampler nuts
    python -m benchmarks.calibration_of_inference --table benchmarks/calibrated.md

One line each model, view and noise: coverage of 90 % intervals of the cells, and of the parameter
that is farthest off, with standard errors from simulation to simulation; p that all ranks are
uniform; divergent draws; autocorrelation and R-hat. Discrete noise is simulated whole and read by
its continuous extension. A reader who takes the noise for a quarter of what it is, is the negative
control and must fail. Nothing fails a run: a line that is off says OFF. Lines are kept in a file,
where a line that is run again takes the place of the old one; `--table` writes it as Markdown.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import jax
import numpy as np
from numpyro.infer import NUTS

import cdp_views as cdp
from benchmarks.calibrated_subjects import (
    EFFECTS,
    READ_AS,
    SUBJECTS,
    effects_reader,
    reader,
    simulated,
    simulated_effects,
)
from benchmarks.harness import machine
from benchmarks.side_by_side import run_side_by_side
from cdp_views import inference
from cdp_views.inference.calibrated import ranked

VIEWS = ("max-entropy", "conditioned", "imaged")
NOISES = ("normal", "discrete-normal", "laplace", "discrete-laplace")
CONTROL = "normal, a quarter known"
KEPT = Path(__file__).parent / "calibrated.json"
_DRAWS = 39
# parameters of a line are correlated; scales of effects, and tau of a small table, move slowly
_SLOWER: dict[str, Any] = {
    "contingency": {"thin": 10},
    "sufficient_statistics": {"steps": 40, "thin": 8},
    "effects": {"thin": 12},
}


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

    @property
    def verdict(self) -> str:
        """OFF; a control has to be."""
        if self.noise == CONTROL:
            return "off, as it must be" if self.off else "NOT CAUGHT"
        return "OFF" if self.off else ""

    def __str__(self) -> str:
        return (
            f"{self.model:<22}{self.view:<12}{self.noise:<24}{100 * self.coverage:5.1f} "
            f"±{100 * self.coverage_se:4.1f}  {self.worst:<13}{100 * self.worst_coverage:5.1f} "
            f"±{100 * self.worst_se:4.1f} {self.p_value:9.2g} {self.divergences:5d} "
            f"{self.autocorrelation:6.2f} {self.r_hat:6.3f} {self.seconds:5.0f}  {self.verdict}"
        )

    def row(self) -> str:
        """A row of the Markdown table."""
        return (
            f"| {self.model} | {self.view} | {self.noise} | {self.simulations} "
            f"| {100 * self.coverage:.1f} ± {100 * self.coverage_se:.1f} "
            f"| {self.worst} {100 * self.worst_coverage:.1f} ± {100 * self.worst_se:.1f} "
            f"| {self.p_value:.2g} | {self.divergences} | {self.autocorrelation:.2f} "
            f"| {self.seconds:.0f} | {self.verdict} |"
        )


HEADER = (
    f"{'model':<22}{'view':<12}{'noise':<24}{'cells, %':<14}{'farthest':<13}{'%':<12}{'p':>9} "
    f"{'div':>5} {'acf':>6} {'R-hat':>6} {'CPU s':>5}"
)


def run(
    name: str,
    view: Any,
    noise: Any,
    *,
    simulations: int,
    control: bool = False,
    sampler: str = "side by side",
) -> Line:
    """One combination; the reader of a control knows of a quarter of the noise.

    Raises:
        UnsupportedError: no such view of this noise.
    """
    subject, start = SUBJECTS[name], process_time()
    to_simulate, to_fit = jax.random.split(jax.random.key(7))
    # Its density has a step where scales cease to be kept. No step size lifts acceptance there, and
    # a high target makes it tiny. Each gradient costs ten times as much, so half as many are done.
    walled = (view, noise) == ("max-entropy", "laplace")
    simulations = simulations // 2 if walled else simulations
    truth, data = simulated(
        to_simulate, name, view, noise, count=simulations, louder=4.0 if control else 1.0
    )
    model, sites = reader(name, view, READ_AS.get(noise, noise)), (subject.cells, *subject.sites)
    how = _SLOWER.get(name, {}) | ({"accept": 0.6, "thin": 12} if walled else {})
    found = _fitted(to_fit, model, data, sites, sampler, **how)
    return _line((name, view, CONTROL if control else noise), truth, found, start)


def run_effects(tails: Any, *, simulations: int, sampler: str = "side by side") -> Line:
    """`sum_to_zero_effects`, which has no release: by the tails of its effects."""
    start = process_time()
    to_simulate, to_fit = jax.random.split(jax.random.key(7))
    truth, data = simulated_effects(to_simulate, tails, count=simulations)
    found = _fitted(to_fit, effects_reader(tails), data, EFFECTS, sampler, **_SLOWER["effects"])
    return _line(("sum_to_zero_effects", "-", tails), truth, found, start)


def _fitted(
    key: Any, model: Any, data: Any, sites: tuple[str, ...], sampler: str, **how: Any
) -> Any:
    size: dict[str, Any] = {"draws": _DRAWS, "warmup": 300, "thin": 4, "sites": sites} | how
    if sampler == "nuts":  # as `fitting.fit`
        size = {name: value for name, value in size.items() if name not in ("accept", "steps")}
        kernel = partial(NUTS, target_accept_prob=0.95)
        found, diverging = inference.run_many(key, model, data, kernel=kernel, **size)
    else:
        found, diverging = run_side_by_side(key, model, data, **size)
    return {site: np.asarray(found[site]) for site in sites}, np.asarray(diverging)


def _line(names: tuple[str, str, str], truth: Any, found: Any, start: float) -> Line:
    draws, diverging = found
    ranks = ranked({site: np.asarray(truth[site]) for site in draws}, draws, diverging, seed=0)
    cells, pooled = next(iter(draws)), ranks.pooled.set_index("site")
    rest = pooled.drop(index=cells)
    far = ((rest["coverage90"] - 0.9).abs() / rest["coverage90_se"].clip(lower=1e-3)).idxmax()
    return Line(
        *names, diverging.shape[0],
        float(pooled.loc[cells, "coverage90"]), float(pooled.loc[cells, "coverage90_se"]),
        str(far), float(rest.loc[far, "coverage90"]), float(rest.loc[far, "coverage90_se"]),
        ranks.p_value, ranks.divergences, diverging.size, ranks.autocorrelation,
        ranks.r_hat, process_time() - start,
    )  # fmt: skip


def lines(only: str = "", views: Any = VIEWS, noises: Any = NOISES, **how: Any) -> Iterator:
    """Every combination, and a message where there is no such view.

    A model's control follows the line whose compiled reader it shares.
    """
    for name in (name for name in SUBJECTS if only in name):
        for view in views:
            for noise in noises:
                if noise.startswith("discrete") and not SUBJECTS[name].whole:
                    continue
                try:
                    yield run(name, view, noise, **how)
                except (cdp.UnsupportedError, jax.errors.JaxRuntimeError) as error:
                    # what a draw on the host refuses comes wrapped in a traceback
                    why = str(error).rpartition("UnsupportedError: ")[2].split(". ")[0]
                    yield f"{name:<22}{view:<12}{noise:<24}{why}."
                if (view, noise) == (VIEWS[-1], NOISES[0]):
                    yield run(name, view, noise, control=True, **how)
    if only in "sum_to_zero_effects":
        for tails in ("normal", "laplace", "student-t"):
            yield run_effects(tails, **how)


def _kept(path: Path) -> list[Line]:
    names = [field.name for field in fields(Line)]
    rows = json.loads(path.read_text())["lines"] if path.exists() else []
    return [Line(**{name: row[name] for name in names}) for row in rows]


def _keep(path: Path, line: Line) -> None:
    """Into the file, in the place of the line that it repeats."""
    found = _kept(path)
    at = [_names(old) for old in found]
    place = at.index(_names(line)) if _names(line) in at else len(found)
    found[place : place + 1] = [line]
    rows = [asdict(line) | {"off": line.off} for line in found]
    path.write_text(json.dumps({"machine": machine(), "lines": rows}, indent=1) + "\n")


def _names(line: Line) -> tuple[str, str, str]:
    return line.model, line.view, line.noise


def markdown(found: list[Line], on: dict[str, Any]) -> str:
    """The table, and what its columns mean."""
    right = [line for line in found if line.noise != CONTROL]
    pooled = np.mean([line.coverage for line in right])
    error = np.sqrt(np.sum([line.coverage_se**2 for line in right])) / len(right)
    cpu = sum(line.seconds for line in found) / 60
    names = {_names(line) for line in found}
    missing = [
        " ".join(name)
        for name in product(SUBJECTS, VIEWS, NOISES)
        if name not in names and (SUBJECTS[name[0]].whole or not name[2].startswith("discrete"))
        if name[1] != VIEWS[0] or not name[2].startswith("discrete")
    ]
    return f"""\
# Calibration of inference: every model, view and noise

{on["processor"]}, {on["cores"]} cores, {on["system"]}; {cpu:.1f} CPU-minutes in all.
Coverage of the cells over all {len(right)} lines: {100 * pooled:.2f} ± {100 * error:.2f} %
of nominal 90 % intervals, were lines independent; those of a model share their true tables.

Written by `python -m benchmarks.calibration_of_inference --table FILE`. Cells: share of 90 %
intervals that hold the truth, ± a standard error clustered by release. Farthest: the parameter
whose coverage is farthest from 90 % in its standard errors. p: that all ranks are uniform (the
smallest p-value of a line times their number). Divergent: of {_DRAWS} kept draws a table; by
trajectories of fixed length (`side_by_side.py`), which NUTS would have cut short. Lag 1:
autocorrelation of kept draws, the worst quantity. A line is off if p is below 0.001 or a coverage
is off by 5 standard errors; a reader who knows of a quarter of the noise has to be.

| model | view | noise | tables | cells, % | farthest, % | p | divergent | lag 1 | CPU s | |
|---|---|---|---|---|---|---|---|---|---|---|
{"".join(line.row() + chr(10) for line in found)}
Not run, or not supported: {"; ".join(missing) or "none"}.
"""


def main(arguments: list[str] | None = None) -> None:
    """Print the table, line by line, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="models whose name contains it")
    parser.add_argument("--view", choices=VIEWS)
    parser.add_argument("--noise", choices=NOISES)
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--sampler", choices=("side by side", "nuts"), default="side by side")
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="FILE", help="JSON")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="write what is kept; run nothing"
    )
    chosen = parser.parse_args(arguments)
    if chosen.table:
        on = json.loads(chosen.keep.read_text())["machine"]
        chosen.table.write_text(markdown(_kept(chosen.keep), on))
        return
    jax.config.update("jax_enable_x64", True)
    print(HEADER)
    for line in lines(
        chosen.only,
        (chosen.view,) if chosen.view else VIEWS,
        (chosen.noise,) if chosen.noise else NOISES,
        simulations=chosen.simulations,
        sampler=chosen.sampler,
    ):
        print(line, flush=True)
        if isinstance(line, Line):
            _keep(chosen.keep, line)


if __name__ == "__main__":
    main()
