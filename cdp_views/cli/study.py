"""`cdp-views study`: a plan in, measured points and one result file out."""

import shlex
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import xarray as xr

_WIDTH = 100


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
    reasons = Counter(str(reason) for reason in skipped["reason"].values)
    for reason, number in reasons.items():
        which = "1 combination" if number == 1 else f"{number:,} combinations"
        said = f"skipped {which}: {reason}"
        print(textwrap.fill(said, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    if tree.attrs["confidential"]:
        print("CONFIDENTIAL: what is marked so in the result depends on the true counts.")
    print("wrote", out / "study.nc")
