"""`cdp-views compare`: read, compare, show, write."""

import importlib.util
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cdp_views._checks import writable_folder
from cdp_views.cli.doubts import doubts
from cdp_views.cli.options import in_options
from cdp_views.cli.tables import (
    column,
    errors_in_words,
    in_words,
    labels,
    numbers,
    published,
    read_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from cdp_views.study import Comparison

_DRAWS, _FILE = 200, 2**25  # draws, and numbers (256 MiB), unless asked for more
NOISES = ("normal", "laplace")
FILES = ("comparison.csv", "report.html", "comparison.png", "profiles.png", "noise.nc")


@final
@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    table: Path | None
    count: str | None
    within: tuple[str, ...]
    epsilon: float
    delta: float
    scales: str | None
    tables: int
    names: str | None
    draws: int | None
    seed: int
    public: bool
    out: Path | None
    overwrite: bool
    noises: tuple[str, ...] = ("normal",)
    weights: str | None = None

    @property
    def command(self) -> str:
        """What to type to get this again, folders left out."""
        typed = ["cdp-views", "compare"]
        if self.table is not None:
            typed += [self.table.name, "--count", str(self.count)]
            typed += [word for name in self.within for word in ("--within", name)]
        typed += ["--epsilon", str(self.epsilon), "--delta", str(self.delta)]
        typed += [word for name in self.noises for word in ("--noise", name)]
        for option in ("scales", "weights", "names", "draws"):
            if getattr(self, option) is not None:
                typed += [f"--{option}", str(getattr(self, option))]
        typed += ["--tables", str(self.tables), "--seed", str(self.seed), "--out", "DIR"]
        return shlex.join([*typed, *(["--public"] if self.public and self.table else [])])


def run(request: Request) -> None:
    """Do it; every refusal is a ValueError raised before anything is printed or written."""
    request, table, patterns, intro = _input(request)
    if request.count is None:
        raise ValueError("--count is missing: name the column of true counts.")
    counts = numbers(table, request.count, "--count")
    for option, names in (("--within", request.within), ("--names", (request.names,))):
        if request.count in names:
            raise ValueError(f'{option} "{request.count}" is the count column. Name another one.')
    groups = labels(table, request.within, "--within")
    weights = published(table, request.weights, "--weights", request.count, signed=True)
    cells = _cell_names(table, request, groups)
    if len(set(groups)) == len(groups):
        raise ValueError(
            "--within leaves every cell alone in its group: the totals publish the whole table "
            "exactly, and no record can move unseen. Choose coarser groups."
        )
    _check_numbers(request)
    _check_folder(request)

    # The heavy imports come after all that a look at the table can refuse.
    from rich.console import Console

    from cdp_views.cli.progress import progress

    with progress(Console(stderr=True)) as report:
        report(0, 1, "loading NumPyro")
        import jax

        from cdp_views.invariants import totals
        from cdp_views.study import compare

        draws = request.draws
        if draws is None:
            # Four views of equal scales and of every pattern.
            rows = 4 * len(request.noises) * (1 + len(patterns))
            draws = min(_DRAWS, _FILE // (rows * len(table)))
        if request.out is None:
            draws = 0
        # Without draws or Laplace noise, nothing is random and no key is needed.
        random = draws > 0 or "laplace" in request.noises
        with warnings.catch_warnings(record=True) as caught, errors_in_words(lambda: cells):
            warnings.simplefilter("always", UserWarning)
            comparison = compare(
                counts,
                totals(groups, weights),
                epsilon=request.epsilon,
                delta=request.delta,
                noises=request.noises,
                scales=patterns,
                tables=request.tables,
                public=request.public,
                key=jax.random.key(request.seed) if random else None,
                draws=draws,
                names=cells,
                progress=lambda done, everything, what: report(
                    done, everything, what if done == everything else f"measuring {what}"
                ),
            )
        said = [str(w.message) for w in caught if w.category is UserWarning]
        heard = tuple(f"Warning: {text}" for text in said + doubts(counts, groups))
        notes = tuple(in_options(in_words(note, cells), {}) for note in comparison.notes)
        comparison = replace(comparison, notes=heard + notes)
        if request.out is not None:
            report(0, 1, "writing files")
            comparison, written = _write(comparison, request.out, request)
        else:
            written = ()

    from cdp_views.cli.show import show

    show(comparison, intro)
    for path in written:
        print("wrote", path)


def _input(request: Request) -> tuple[Request, "pd.DataFrame", dict[str, np.ndarray], list[str]]:
    """The table, the patterns of scales, and sentences that say what is compared."""
    patterns: dict[str, np.ndarray] = {}
    if request.table is not None:
        table = read_table(request.table)
        source = str(request.table)
    else:
        from cdp_views.datasets import midwest

        table = midwest()
        source = "the embedded table midwest (1990 census, counties of five US states)"
        request = replace(
            request,
            count=request.count or "popamerindian",
            within=request.within or ("state",),
            names=request.names or "county",
            public=True,  # a published census
        )
        if request.scales is None and request.count != "poptotal":
            # Larger counties bear larger noise: the total population is published anyway.
            patterns["√poptotal"] = np.sqrt(table["poptotal"].to_numpy(dtype=float))
    within = " and ".join(request.within)
    intro = [f"{len(table):,} cells of {source}: count {request.count}, exact within {within}."]
    if request.scales is not None:
        pattern = published(table, request.scales, "--scales", request.count or "")
        assert pattern is not None
        patterns[request.scales] = pattern
        intro.append(f"Unequal scales are proportional to {request.scales}, taken to be published.")
    elif patterns:
        intro.append(
            "Unequal scales are proportional to the root of each county's total population "
            "(poptotal), which is published: large counties can bear more noise."
        )
    return request, table, patterns, intro


def _cell_names(table: "pd.DataFrame", request: Request, groups: list[str]) -> list[str]:
    """Names that a person can find again: a column's, with the group; else the row."""
    if request.names is not None:
        values = column(table, request.names, "--names").astype(str)
        return [f"{value} ({group})" for value, group in zip(values, groups, strict=True)]
    return [f"row {i} ({group})" for i, group in enumerate(groups, start=1)]


def _check_numbers(request: Request) -> None:
    """Refuse here, in the words of the command line, what the library would refuse later."""
    if not (np.isfinite(request.epsilon) and request.epsilon > 0):
        raise ValueError(f"--epsilon must be a finite number above 0; got {request.epsilon}.")
    unused = set(request.noises) == {"laplace"}
    if not (0 < request.delta < 1 or (unused and request.delta == 0)):
        raise ValueError(f"--delta must be between 0 and 1; got {request.delta}.")
    unknown = [noise for noise in request.noises if noise not in NOISES]
    if unknown:
        raise ValueError(f"--noise must be {' or '.join(NOISES)}; got {unknown[0]}.")
    for option, value, least in (
        ("tables", request.tables, 1),
        ("draws", request.draws or 0, 0),
        ("seed", request.seed, 0),
    ):
        if not least <= value < 2**32:
            raise ValueError(f"--{option} must be at least {least} and below 2^32; got {value}.")


def _check_folder(request: Request) -> None:
    """Refuse a folder that cannot take the files, before the work and not after."""
    if request.out is None:
        return
    if request.out.exists() and not request.out.is_dir():
        raise ValueError(f"--out {request.out} is a file. Name a folder.")
    writable_folder(request.out)
    there = [name for name in FILES if (request.out / name).exists()]
    if there and not request.overwrite:
        raise ValueError(
            f"--out {request.out} already holds {', '.join(there)}. Name another folder, or add "
            "--overwrite."
        )


def _write(
    comparison: "Comparison", out: Path, request: Request
) -> tuple["Comparison", tuple[Path, ...]]:
    """All files that the installed extras allow, or none; a note says what is missing."""
    from cdp_views.report import write_figure, write_netcdf, write_together

    writers: dict[str, Callable[[Path], None]] = {
        "comparison.csv": lambda path: comparison.table.to_csv(path, index=False),
        "report.html": lambda path: comparison.to_html(path, command=request.command),
    }
    notes = []
    if _installed("matplotlib"):
        writers["comparison.png"] = lambda path: write_figure(comparison.plot(), path)
        if comparison.losses:
            writers["profiles.png"] = lambda path: write_figure(comparison.plot_profiles(), path)
    else:
        notes.append(
            "comparison.png and profiles.png are left out: pip install 'cdp-views[plot]' to get "
            "them."
        )
    if "noise" not in comparison.dataset:
        pass
    elif _installed("h5netcdf"):
        noise = _noise(comparison.dataset, request.seed)
        writers["noise.nc"] = lambda path: write_netcdf(noise, path)
    else:
        notes.append("noise.nc is left out: pip install 'cdp-views[io]' to get it.")
    paths = write_together(out, writers)
    return replace(comparison, notes=(*comparison.notes, *notes)), tuple(paths)


def _noise(dataset: Any, seed: int) -> Any:
    """The noise and what describes it, nothing that depends on the counts, marked or not."""
    told = [n for n, v in dataset.data_vars.items() if v.attrs.get("depends_on_counts")]
    noise = dataset.drop_vars(told).drop_dims("size", errors="ignore")
    noise.attrs["about"] = (
        f"Draws of the noise, seed {seed}, for study. Never added to counts, never to be used for "
        "a release: whoever knows the seed can subtract the noise."
    )
    return noise


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
