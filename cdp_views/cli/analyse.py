"""`cdp-views analyse`: a release in; a posterior, its summary and a figure out."""

import importlib.util
import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cdp_views._checks import writable_folder
from cdp_views.cli.tables import labels, numbers, read_table

if TYPE_CHECKING:
    import pandas as pd

MODELS = ("latent_counts", "small_area")
_MEANINGS = {
    "level": "natural logarithm of a typical count",
    "spread": "sd of the logarithms of the counts: how much cells differ",
    "alpha": "natural logarithm of the rate of a typical state",
    "between": "sd of the logarithms of the rates among states",
    "within": "sd of the logarithms of the rates among areas of one state",
}
_STATES = "state_group"  # the dimension of states in the posterior's file
_FILES = ("posterior.nc", "summary.csv", "posterior.png", "diagnosis.txt")


@final
@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    released: Path
    about: Path | None
    model: str
    typical: float | None
    threshold: float | None
    population: str | None
    state: tuple[str, ...]
    covariates: Path | None
    samples: int
    seed: int
    out: Path


def run(request: Request) -> bool:
    """Do it; whether the draws are fit to use. Every refusal comes before anything is written."""
    _check(request)
    writable_folder(request.out)
    for module, extra in (("h5netcdf", "io"), ("matplotlib", "plot")):
        if importlib.util.find_spec(module) is None:
            raise ValueError(
                f"A posterior's files need the extra {extra}: pip install 'cdp-views[{extra}]'."
            )
    for name in _FILES:
        if (request.out / name).exists():
            raise ValueError(
                f"`{request.out / name}` is there already, and a result is never overwritten. "
                "Name another --out."
            )

    from rich.console import Console

    from cdp_views.cli.progress import progress

    with progress(Console(stderr=True)) as report:
        report(0, 1, "loading NumPyro")
        import jax

        from cdp_views.inference import diagnose, summarise, to_datatree

        seen = _seen(request)
        arguments, options, states = _arguments(request, seen)
        report(0, 1, f"sampling the posterior of {request.model} ({seen.invariant.n:,} cells)")
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPyro on the number of devices
            mcmc = _fit(request, seen, arguments, options)
            tree = to_datatree(mcmc, seen, cells=("q", "rate", "county") if states else ("q",))
        if states:
            tree = _named(tree, states)
        diagnosis = diagnose(tree)
        summary = _of_model(summarise(tree, threshold=request.threshold), seen)
        report(0, 1, "writing files")
        tree.attrs["command"] = f"cdp-views analyse, model {request.model}, seed {request.seed}"
        told = _told(request, seen, diagnosis.ok)
        _write(request, tree, summary, diagnosis.text, seen, told)
    _show(request, summary, diagnosis.text, told)
    return diagnosis.ok


def _check(request: Request) -> None:
    if request.model not in MODELS:
        raise ValueError(f"--model must be one of {', '.join(MODELS)}; got {request.model!r}.")
    if request.samples < 100:
        raise ValueError(f"--num-samples must be at least 100; got {request.samples}.")
    if not 0 <= request.seed < 2**32:
        raise ValueError(f"--seed must be at least 0 and below 2^32; got {request.seed}.")
    for option, value in (("--threshold", request.threshold), ("--typical", request.typical)):
        if value is not None and not np.isfinite(value):
            raise ValueError(f"{option} must be a finite number; got {value}.")
    if request.typical is not None and request.typical <= 0:
        raise ValueError(f"--typical must be above 0; got {request.typical}.")
    if request.model == "small_area" and request.threshold is not None and request.threshold < 1:
        raise ValueError(
            f"--threshold is a count, not a rate; got {request.threshold:g}. Give a count of at "
            "least 1; rates and their intervals are printed anyway."
        )
    if request.model == "small_area" and (request.population is None or not request.state):
        raise ValueError(
            "--model small_area needs --population COL and --state COL, public columns of the "
            "release or of --covariates FILE."
        )


def _seen(request: Request) -> Any:
    """The release, checked; or another office's table and what is told about it."""
    from cdp_views.releases import read_published, read_release

    if request.about is not None:
        return read_published(request.released, request.about)
    made = read_release(request.released)
    made.verify()
    return made


def _arguments(
    request: Request, seen: Any
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[str, ...]]:
    """What the model is given beside the release, and the names of its states."""
    if request.model == "latent_counts":
        start = np.asarray(seen.released if hasattr(seen, "table") else seen.start)
        typical = request.typical or float(max(np.mean(np.maximum(start, 0)), 1.0))
        return (), {"typical": typical}, ()
    source = request.released if request.covariates is None else request.covariates
    table = read_table(source)
    if len(table) != seen.invariant.n:
        raise ValueError(
            f"`{source}` has {len(table)} rows where {seen.invariant.n} cells were released. Give "
            "one row per cell, in the order of the release."
        )
    assert request.population is not None
    people = numbers(table, request.population, "--population", positive=True)
    names = labels(table, request.state, "--state")
    of_name = {name: index for index, name in enumerate(dict.fromkeys(names))}
    rate = request.typical or float(
        max(np.sum(np.asarray(seen.released)), 1.0) / max(np.sum(people), 1.0)
    )
    return (people, np.array([of_name[name] for name in names])), {"typical": rate}, tuple(of_name)


def _fit(request: Request, seen: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    from importlib import import_module

    import jax

    from cdp_views.models import fitting

    model = import_module(f"cdp_views.models.{request.model}").model
    key = jax.random.key(request.seed)
    return fitting.fit(key, model, seen, *arguments, num_samples=request.samples, **options)


def _named(tree: Any, states: tuple[str, ...]) -> Any:
    """The posterior with states by name; a threshold is one of counts, not of rates."""
    import xarray as xr

    posterior = tree["posterior"].to_dataset().rename(state_dim_0=_STATES)
    posterior = posterior.assign_coords({_STATES: list(states)})
    named = xr.DataTree.from_dict(
        {name: node.to_dataset() for name, node in tree.children.items()} | {"posterior": posterior}
    )
    named.attrs = tree.attrs | {"cells": "q"}
    return named


def _of_model(summary: "pd.DataFrame", seen: Any) -> "pd.DataFrame":
    """The rows that say something: of an area that can only be 0 there is no rate."""
    zeros = getattr(seen, "observed", seen).zeros
    if zeros is not None:
        names = np.asarray(seen.coords["cell"])[np.asarray(zeros)]
        of_zero = summary.get("cell", summary["site"]).isin(names)
        summary = summary[~(of_zero & summary["site"].isin(["rate", "county"]))]
    return summary.drop(columns=_STATES, errors="ignore")


def _told(request: Request, seen: Any, fit: bool) -> str:
    """What this is a posterior of, under which law of noise and model, from how many draws."""
    told = getattr(seen, "metadata", None)
    if told is None:
        view = seen.mechanism.view
        law = "independent" if view == "independent" else f"{view} view of"
        law += f" {seen.mechanism.noise} noise"
    else:
        delta = f", delta {told['delta']:g}" if told["delta"] else ""
        law = f"{told['view']} view of {told['noise']} noise, epsilon {told['epsilon']:g}{delta}"
    unfit = "" if fit else "; not fit to use yet, see diagnosis.txt"
    return (
        f"True counts behind {request.released.name} ({law}), given what was released: model "
        f"{request.model}, 2 chains of {request.samples:,} draws, seed {request.seed}{unfit}"
    )


def _write(
    request: Request,
    tree: Any,
    summary: "pd.DataFrame",
    diagnosis: str,
    seen: Any,
    told: str,
) -> None:
    """All files beside their place, then put there."""
    import os
    import shutil
    import tempfile

    from cdp_views.report.posterior import posterior_figure

    request.out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".analyse-", dir=request.out))
    try:
        summary.to_csv(scratch / "summary.csv", index_label="quantity")
        (scratch / "diagnosis.txt").write_text(f"{told}.\n{diagnosis}\n", encoding="utf-8")
        made = ["summary.csv", "diagnosis.txt"]
        try:
            tree.to_netcdf(scratch / "posterior.nc")
        except (ImportError, ValueError) as reason:
            raise ValueError(
                f"The posterior cannot be written ({type(reason).__name__}). "
                "It needs the extra io: pip install 'cdp-views[io]'."
            ) from None
        figure = posterior_figure(
            summary[summary["site"] == "q"],
            released=seen.released,
            threshold=request.threshold,
            title=told,
        )
        figure.savefig(scratch / "posterior.png", dpi=120)
        for name in (*made, "posterior.nc", "posterior.png"):
            os.replace(scratch / name, request.out / name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _show(request: Request, summary: "pd.DataFrame", diagnosis: str, told: str) -> None:
    from cdp_views.report.rows import chance

    print(textwrap.fill(f"{told}.", 100, break_on_hyphens=False))
    print("90 % from, to: interval with equal tails; sd: of the posterior.\n")
    bounds = {"eti90_lower": "90 % from", "eti90_upper": "90 % to"}
    columns = ["mean", "sd", *bounds.values()]
    summary = summary.rename(columns=bounds)
    named = summary[summary["site"].isin(_MEANINGS)]
    if len(named):
        print(named[columns].to_string(float_format=lambda x: f"{x:.4g}"))
        for site in dict.fromkeys(named["site"]):
            print(f"  {site}: {_MEANINGS[site]}")
        print()
    cells = _by_area(summary, "q")[columns]
    above = {}
    if request.threshold is not None:
        above = {f"P(above {request.threshold:,g})": chance}
        cells = cells.assign(**{next(iter(above)): _by_area(summary, "q")["probability_above"]})
    rates = _by_area(summary, "rate")
    what = "True counts (q)"
    if len(rates):
        what = "Rates (cases per inhabitant) and true counts (q)"
        counts = cells.rename(columns={"mean": "q"}).drop(columns=columns[1:])
        cells = rates[columns].rename(columns={"mean": "rate"}).join(counts, how="right")
    asked = ""
    if request.threshold is not None:
        asked = f"; P: that the count is above {request.threshold:,g} (a count, not a share)"
    print(f"{what}{asked}:")
    shown = cells.head(20)
    print(shown.to_string(float_format=lambda x: f"{x:.4g}", formatters=above, na_rep="–"))
    if len(cells) > 20:
        print(f"… and {len(cells) - 20} more in {request.out / 'summary.csv'}")
    print(f"\n{diagnosis}\n\nFiles in {request.out}: {', '.join(_FILES)}")


def _by_area(summary: "pd.DataFrame", site: str) -> "pd.DataFrame":
    """Its rows, called by their cells."""
    own = summary[summary["site"] == site]
    return own.set_axis([name[len(site) + 1 : -1] for name in own.index])
