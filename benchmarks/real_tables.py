"""Does every model sample well at its default settings, on its own data and on real tables?

    python -m benchmarks.real_tables DIR                              # all: some CPU-minutes
    python -m benchmarks.real_tables DIR --only small_area --noise normal laplace

DIR has the real tables (public ones, named at each model below; none is part of this project). Each
is published with noise as an office would, read back and fitted with `fitting.fit` as it stands.
"own" is what the model's `main` simulates. Prints one row of Markdown each: divergent draws, R-hat,
effective draws, CPU seconds with compilation. A row that is not fit to use says why.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any
from unittest import mock

import jax
import numpy as np
import pandas as pd
from numpyro.infer import MCMC

import cdp_views as cdp
from cdp_views.models import (
    contingency,
    fitting,
    latent_counts,
    regression,
    shares,
    small_area,
    smart_meter,
    sufficient_statistics,
    sum_to_zero_effects,
    wearables,
)

COLUMNS = (
    "model", "table", "quantities", "view, noise", "divergent", "worst R-hat", "above 1.01",
    "least effective draws (mean, 90 %)", "CPU s", "fit to use",
)  # fmt: skip
_KEY = 0


def _latent_counts(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Inhabitants of 20 counties in each of five states, 1990 (midwest)."""
    table = pd.read_csv(folder / "midwest_county_race_1990.csv").groupby("state").head(20)
    release = fitting.publish(table.poptotal.to_numpy(), cdp.totals(table.state.tolist()), chosen)
    return _fit(latent_counts.model, release, typical=3e4)


def _small_area(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Deaths in the 75 counties of six small states, 2019."""
    table = _counties(folder)
    names = ["Maine", "Vermont", "New Hampshire", "Delaware", "Arizona", "Nevada"]
    table = table[table.STNAME.isin(names)]
    state = pd.factorize(table.STNAME)[0]
    release = fitting.publish(table.DEATHS2019.to_numpy(), cdp.totals(state), chosen)
    return _fit(small_area.model, release, table.POPESTIMATE2019.to_numpy(float), state)


def _shares(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Four groups in the first 25 counties of Alabama, 2020."""
    table = pd.read_csv(folder / "census2020_pl94171_county_race_49states.csv").head(25)
    three = table[["pop_white", "pop_black", "pop_hisp"]].to_numpy()
    total = table["pop"].to_numpy()
    counts = np.column_stack([three, total - three.sum(1)])
    invariant = cdp.totals(np.repeat(np.arange(25), 4))
    return _fit(shares.model, fitting.publish(counts.ravel(), invariant, chosen), total)


def _contingency(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Schooling in four parts by age in five, 3,000 of UCI Adult."""
    people = pd.read_parquet(folder / "adult_encoded_pgm.parquet").head(3000)
    parts = (("education-num", 4), ("age", 5))
    schooling, age = (
        pd.qcut(people[name].rank(method="first"), k, labels=False) for name, k in parts
    )
    counts = pd.crosstab(schooling, age).to_numpy()
    invariant = cdp.margins(counts.shape, [(0,), (1,)])
    if chosen.noise.endswith("laplace"):
        release = fitting.drawn(counts.ravel(), invariant, chosen, 4.0 / chosen.epsilon)
    else:
        release = fitting.publish(counts.ravel(), invariant, chosen, cdp.exchanges(invariant))
    return _fit(contingency.model, release, counts.shape)


def _regression(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Log density of 70 counties on their graduates, 1990 (midwest)."""
    table = pd.read_csv(folder / "midwest_county_race_1990.csv").groupby("state").head(14)
    graduates = np.rint(table.popadults * table.percollege / 100)
    density = np.log(table.popdensity)
    outcome = np.asarray((density - density.mean()) / density.std())
    release = fitting.publish(graduates, cdp.totals(table.state.tolist()), chosen)
    return _fit(regression.model, release, outcome, typical=3000.0)


def _smart_meter(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Steps of 20 people by hour, 10 to 17, over a month: each hour's sum exact (Fitbit)."""
    steps = _steps(folder)
    table = steps.pivot_table(index="Id", columns="hour", values="StepTotal", aggfunc="sum")
    # one unit is ten steps
    counts = np.rint(table.loc[:, 10:17].to_numpy()[:20] / 10.0)
    invariant = cdp.totals(np.tile(np.arange(8), 20))
    return _fit(smart_meter.model, fitting.publish(counts.ravel(), invariant, chosen), 8,
                typical=1000.0)  # fmt: skip


def _births(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Births of 20 states in eight months of 1988: each month's sum exact; nearly additive."""
    births = pd.read_parquet(folder / "us_births_state_day_1969_1988.parquet").query("year == 1988")
    table = births.pivot_table(index="state", columns="month", values="births", aggfunc="sum")
    counts = table.to_numpy()[:20, :8]
    invariant = cdp.totals(np.tile(np.arange(8), 20))
    return _fit(smart_meter.model, fitting.publish(counts.ravel(), invariant, chosen), 8,
                typical=3000.0)  # fmt: skip


def _wearables(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Three weeks of one person's steps, 8 to 19 o'clock (Fitbit)."""
    steps = _steps(folder)
    steps = steps[steps.Id == steps.Id.iloc[0]]
    table = steps.pivot_table(index="ActivityDay", columns="hour", values="StepTotal").fillna(0)
    table = table.loc[:, 8:19]
    counts = table[table.sum(axis=1) > 0].head(21).to_numpy()
    invariant = cdp.totals(np.repeat(np.arange(len(counts)), 12))
    release = fitting.publish(counts.ravel(), invariant, chosen)
    return _fit(wearables.model, release, 12, rest=5.0, num_samples=3000)  # as its `main`


def _sufficient_statistics(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Schooling on age from five noisy sums over 48,842 people (UCI Adult)."""
    people = pd.read_parquet(folder / "adult_encoded_pgm.parquet")
    x, z = (2 * people[name] / people[name].max() - 1 for name in ("age", "education-num"))
    mechanism = cdp.Mechanism("independent", chosen.noise, 50.0, cdp.linear(np.zeros((1, 5))))
    law: Any = mechanism.law(sufficient_statistics.sums_of(x, z))
    seen = cdp.Observed(mechanism, np.asarray(law.sample(jax.random.key(3))))
    return _fit(sufficient_statistics.model, seen, len(people))


def _sum_to_zero_effects(folder: Path, chosen: argparse.Namespace) -> MCMC:
    """Growth of five counties of each of eight states in three periods; no release."""
    table = _counties(folder).groupby("STNAME").head(5)
    table = table.groupby("STNAME").filter(lambda rows: len(rows) == 5).head(40)
    years = ((2010, 2015), (2015, 2019), (2019, 2020))
    growth = [
        np.log(table[f"POPESTIMATE{b}"] / table[f"POPESTIMATE{a}"]) / (b - a) for a, b in years
    ]
    y = np.concatenate(growth)
    y, block = (y - y.mean()) / y.std(), pd.factorize(table.STNAME)[0]
    tails = "laplace" if chosen.noise == "laplace" else "student-t"
    how: dict[str, Any] = {"tails": tails, "num_samples": 2000}  # as its `main`
    return _fit(sum_to_zero_effects.model, y, np.tile(np.arange(40), 3), block, **how)


def _counties(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "census_popest_co-est2020_county.csv", encoding="latin1")
    return table[table.COUNTY != 0]


def _steps(folder: Path) -> pd.DataFrame:
    steps = pd.read_csv(folder / "fitbit_hourly_steps.csv")
    return steps.assign(hour=pd.to_datetime(steps.ActivityHour, format="%H:%M:%S").dt.hour)


def _fit(model: Callable[..., None], *args: Any, **how: Any) -> MCMC:
    return fitting.fit(jax.random.key(_KEY), model, *args, **how)


REAL = {
    "latent_counts": _latent_counts,
    "small_area": _small_area,
    "shares": _shares,
    "contingency": _contingency,
    "regression": _regression,
    "smart_meter": _smart_meter,
    "smart_meter (births)": _births,
    "wearables": _wearables,
    "sufficient_statistics": _sufficient_statistics,
    "sum_to_zero_effects": _sum_to_zero_effects,
}
_NO_VIEW = ("sufficient_statistics", "sum_to_zero_effects")


def own(name: str, chosen: argparse.Namespace) -> Iterator[MCMC]:
    """What the model's `main` fits to the data that it simulates."""
    module, caught = import_module(f"cdp_views.models.{name}"), []
    asked = [name, "--seed", str(chosen.seed)]
    if name != "sum_to_zero_effects":
        asked += ["--view", chosen.view, "--noise", chosen.noise]
    with (
        mock.patch.object(fitting, "diagnose", caught.append),
        mock.patch.object(sys, "argv", asked),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        module.main()
    return iter(caught)


def line(name: str, table: str, chosen: argparse.Namespace, fit: Callable[[], MCMC]) -> str:
    """One row of Markdown."""
    start = process_time()
    said = cdp.diagnose(cdp.to_datatree(fit(), cells=()))
    seconds = process_time() - start
    law = chosen.noise if name in _NO_VIEW else f"{chosen.view} {chosen.noise}"
    return (
        f"| `{name}` | {table} | {said.quantities} | {law} "
        f"| {said.divergences} of {said.chains * said.draws} "
        f"| {said.rhat_worst:.3f} (`{said.rhat_worst_at}`) | {said.rhat_above_1_01:.1%} "
        f"| {said.ess_bulk_least:.0f}, {said.ess_tail_least:.0f} | {seconds:.0f} "
        f"| {'yes' if said.ok else ' '.join(said.problems)} |"
    )


def main() -> None:
    """Every model on its own data and on a real table, under the views and noises asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=list(REAL))
    parser.add_argument("--data", nargs="*", choices=["own", "real"], default=["own", "real"])
    parser.add_argument("--view", nargs="*", default=["imaged"])
    parser.add_argument("--noise", nargs="*", default=["normal", "laplace"])
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    fitting.in_float64()
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for name in asked.only:
        views = asked.view[:1] if name in _NO_VIEW else asked.view
        for view, noise in [(view, noise) for view in views for noise in asked.noise]:
            chosen = argparse.Namespace(
                view=view, noise=noise, epsilon=asked.epsilon, seed=asked.seed
            )
            if "real" in asked.data:
                what = (REAL[name].__doc__ or "").rstrip(".")
                print(
                    line(name, what, chosen, partial(REAL[name], asked.folder, chosen)), flush=True
                )
            if "own" in asked.data and "(" not in name:
                print(
                    line(name, "own", chosen, lambda n=name, c=chosen: next(own(n, c))), flush=True
                )


if __name__ == "__main__":
    main()
