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
        arguments, options = _arguments(request, seen)
        report(0, 1, f"sampling the posterior of {request.model} ({seen.invariant.n:,} cells)")
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPyro on the number of devices
            mcmc = _fit(request, seen, arguments, options)
            tree = to_datatree(mcmc, seen)
        diagnosis = diagnose(tree)
        summary = summarise(tree, threshold=request.threshold)
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


def _arguments(request: Request, seen: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the model is given beside the release."""
    if request.model == "latent_counts":
        start = np.asarray(seen.released if hasattr(seen, "table") else seen.start)
        typical = request.typical or float(max(np.mean(np.maximum(start, 0)), 1.0))
        return (), {"typical": typical}
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
    return (people, np.array([of_name[name] for name in names])), {"typical": rate}


def _fit(request: Request, seen: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    from importlib import import_module

    import jax

    from cdp_views.models import fitting

    model = import_module(f"cdp_views.models.{request.model}").model
    key = jax.random.key(request.seed)
    return fitting.fit(key, model, seen, *arguments, num_samples=request.samples, **options)


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
    print("q[…] in counts; 90 % from, to: interval with equal tails; sd: of the posterior.\n")
    columns = ["mean", "sd", "90 % from", "90 % to"]
    names = {"eti90_lower": columns[2], "eti90_upper": columns[3]}
    if request.threshold is not None:
        columns += [f"P(above {request.threshold:,g})"]
        names["probability_above"] = columns[-1]
    summary = summary.rename(columns=names)
    scalars = summary[summary["site"] != "q"]
    shown = scalars[~scalars.index.str.contains("[", regex=False)]
    if len(shown):
        print(shown[columns[:4]].to_string(float_format=lambda x: f"{x:.4g}"))
        print()
    cells = summary[summary["site"] == "q"]
    above = dict.fromkeys(columns[4:], chance)
    print(cells[columns].head(20).to_string(float_format=lambda x: f"{x:.4g}", formatters=above))
    if len(cells) > 20:
        print(f"… and {len(cells) - 20} more in {request.out / 'summary.csv'}")
    print(f"\n{diagnosis}\n\nFiles in {request.out}: {', '.join(_FILES)}")
