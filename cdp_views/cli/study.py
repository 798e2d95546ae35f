"""`cdp-views study`: a plan in, measured points and one result file out."""

import shlex
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

_WIDTH = 100
_ROWS = 60


@final
@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    plan: Path
    out: Path
    workers: int
    overwrite: bool


def run(request: Request) -> None:
    """Do it; what cannot be done is said before any work."""
    if request.workers < 1:
        raise ValueError(f"--workers must be at least 1; got {request.workers}.")

    from rich.console import Console

    from cdp_views.cli.progress import progress

    with progress(Console(stderr=True)) as report:
        report(0, 1, "loading NumPyro")
        from cdp_views.study import Study

        study = Study.from_toml(request.plan)
        tree = study.run(
            request.out,
            workers=request.workers,
            overwrite=request.overwrite,
            command=shlex.join(["cdp-views", *sys.argv[1:]]),
            progress=report,
        )
    _show(tree, request.out)


def _show(tree: "xr.DataTree", out: Path) -> None:
    """How much was measured, what could not be had and why, and where all of it lies."""
    points, workloads, skipped = (
        tree[name].to_dataset() for name in ("points", "workloads", "skipped")
    )
    kinds = workloads["error_kind"].values.ravel()
    print(
        f"{points.sizes['point']:,} points × {workloads.sizes['workload']} workloads: "
        f"{int((kinds == 'exact').sum()):,} with exact errors, "
        f"{int((kinds == 'estimate').sum()):,} estimated from draws, with standard errors."
    )
    _relative(workloads, "CONFIDENTIAL: " if tree.attrs["confidential"] else "")
    reasons = Counter(str(reason) for reason in skipped["reason"].values)
    for reason, number in reasons.items():
        which = "1 combination" if number == 1 else f"{number:,} combinations"
        said = f"skipped {which}: {reason}"
        print(textwrap.fill(said, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    for name in ("study.nc", "report.html"):
        print("wrote", out / name)


def _relative(workloads: "xr.Dataset", mark: str) -> None:
    """Median 90 % margin relative to the true answer, of the first workload of the first table."""
    names = ("table", "invariant", "scales")
    what = [str(workloads[name].values[0]) for name in names]
    same = np.all([workloads[n].values == one for n, one in zip(names, what, strict=True)], axis=0)
    shown = workloads.isel(point=same, workload=0, repetition=0)
    margins = shown["relative_margin90"].dropna("size", how="all")
    if not margins.size:
        return
    said = (
        f"{mark}median ± (90 %) relative to the true answer, by its size: table {what[0]}, "
        f"{what[1]} exact, {what[2]} scales, workload {shown['workload'].item()}"
    )
    print("\n" + textwrap.fill(said, _WIDTH, break_on_hyphens=False))
    sizes = [str(size) for size in margins["size"].values]
    print(f"{'noise':8} {'view':14} {'budget':22}" + "".join(f"{size:>11}" for size in sizes))
    rows = zip(shown["point"].values, shown["noise"].values, shown["view"].values, strict=True)
    for i, (label, noise, view) in enumerate(rows):
        if i == _ROWS:
            print(f"… and {len(shown['point']) - _ROWS} more in the result")
            break
        budget = str(label).split(f"{view}, ", 1)[1]
        figures = "".join(f"{100 * value:>10.3g}%" for value in margins.values[i])
        estimated = str(shown["error_kind"].values[i]) == "estimate"
        print(f"{noise:8} {view:14} {budget:22}{figures}" + " ≈" * estimated)
    if (shown["error_kind"].values == "estimate").any():
        print("≈ estimated from draws: the standard errors in study.nc tell what differs in truth.")
    print()
