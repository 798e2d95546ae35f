"""`cdp-views release` of a folder of Parquet parts."""

import warnings
from typing import TYPE_CHECKING

from cdp_views.cli.release import Request, check_numbers, say
from cdp_views.cli.several import DISJOINT, matrix_of

if TYPE_CHECKING:
    from cdp_views.releases import ReleasedParts


def run_parts(request: Request) -> None:
    """Release part by part; every refusal is raised before anything is printed."""
    _refuse_options(request)
    check_numbers(request)
    contribution = request.contribution
    if contribution not in (None, DISJOINT):
        contribution = matrix_of(contribution, len(request.counts))
    from rich.console import Console

    from cdp_views.cli.progress import progress

    with progress(Console(stderr=True)) as report:
        report(0, 1, "loading NumPyro")
        from cdp_views.releases import Ledger, release_parts

        ledger = None if request.ledger is None else Ledger(request.ledger, announce=say)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            made = release_parts(
                request.table,
                request.out,
                counts=request.counts,
                within=request.within,
                names=request.names,
                zeros=request.zeros,
                view=request.view,  # pyright: ignore[reportArgumentType]
                noise=request.noise,  # pyright: ignore[reportArgumentType]
                epsilon=request.epsilon,
                delta=request.delta or 0.0,
                records=request.records,
                contribution=contribution,
                per_column=request.per_column,
                accept_exact=request.accept_exact,
                bits=request.bits,  # pyright: ignore[reportArgumentType]
                ledger=ledger,
                corrected=request.corrected,
                counted=request.counted,
                about=request.about,
                workers=request.workers,
                progress=report,
            )
    _show(made, request, [str(w.message) for w in caught if w.category is UserWarning])


def _refuse_options(request: Request) -> None:
    asked = {
        "--weights": request.weights,
        "--scales": request.scales,
        "--whole": request.whole,
        "--publishable": request.publishable,
    }
    if request.out.suffix.lower() in (".csv", ".parquet", ".pq"):
        raise ValueError(
            f"--out {request.out} is called like a file; parts are released into a new folder. "
            f"Name one, such as {request.out.with_suffix('')}."
        )
    for option, given in asked.items():
        if given:
            raise ValueError(
                f"{option} needs the table in one file; `{request.table}` is a folder."
            )


def _show(made: "ReleasedParts", request: Request, heard: list[str]) -> None:
    told = made.metadata
    say(
        f"Released {told['cells']:,} cells of {request.table} in "
        f"{_several(len(made.names), 'part')}: count {' and '.join(request.counts)}, "
        f"{told['groups']:,} totals exact within {' and '.join(request.within)}. "
        f"{request.view} view of {told['noise']} noise, base scale "
        f"{told['scale']:,.4g} counts."
    )
    say(told["guarantee"], "• ")
    for warning in heard:
        say(f"Warning: {warning}", "! ")
    say(told["caveat"], "! ")
    print("wrote", request.out)
    if request.about:
        print("wrote", request.out / "_about.html")


def _several(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
