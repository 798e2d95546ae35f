"""Arguments of the command line, and its errors in one line."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cdp_views.cli._help import print_help
from cdp_views.cli.ledger import app as ledger_app
from cdp_views.cli.release_command import EPILOG, release

app = typer.Typer(
    name="cdp-views",
    help="Differential privacy with exact totals: what each mechanism gives away and is good for.",
    no_args_is_help=True,
    add_completion=False,
    add_help_option=False,  # `_group` has its own: see there
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="`cdp-views compare` alone shows it on an embedded table. COMMAND --help explains each.",
)

app.add_typer(ledger_app, name="ledger")


def _print_version(wanted: bool) -> None:
    if wanted:
        from cdp_views import __version__

        print(f"cdp-views {__version__}")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[  # the callback does it all
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    # Typer's own is left unset by `compare --help`, and to read an unset value it imports pydantic,
    # which takes longer than all the rest. A flag with a default costs nothing.
    wanted: Annotated[
        bool,
        typer.Option(
            "--help", help="Show this message and exit.", callback=print_help, is_eager=True
        ),
    ] = False,
) -> None:
    """Differential privacy with exact totals: what each mechanism gives away and is good for."""


@app.command(
    epilog="Example: cdp-views compare counties.csv --count persons --within state --out results"
)
def compare(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, one row a cell. Left out: the embedded table midwest, "
            "437 counties of five US states, count popamerindian, exact within state.",
        ),
    ] = None,
    count: Annotated[str | None, typer.Option(metavar="COL", help="Column of true counts.")] = None,
    within: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="Column of groups whose totals stay exact; repeat to combine columns.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Published column of weights: Σ weight·count is exact per group."
        ),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(metavar="NUMBER", help="Privacy budget ε of all tables.")
    ] = 1.0,
    delta: Annotated[
        float, typer.Option(metavar="NUMBER", help="Its δ; keep it far below 1/records.")
    ] = 1e-10,
    noise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NOISE",
            help="normal (if left out), at ε and δ, or laplace, at ε alone; repeat for both.",
        ),
    ] = None,
    scales: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Published column of relative noise scales, beside equal ones."
        ),
    ] = None,
    tables: Annotated[
        int, typer.Option(metavar="N", help="Number of tables of this kind that share the budget.")
    ] = 1,
    names: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that names the cells.")
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Draws of the noise in noise.nc, 200 if they fit; 0 for none."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of all draws (for study, not release).")
    ] = 0,
    public: Annotated[
        bool, typer.Option("--public", help="The counts are public: mark nothing CONFIDENTIAL.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for report.html, comparison.csv, two figures and noise.nc."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace these files in the folder.")
    ] = False,
) -> None:
    """Compare unconstrained noise and its three views at equal privacy. Releases nothing.

    The views keep every total exactly: max-entropy also keeps each cell's own law of noise,
    conditioned is the noise given that the totals hold, imaged moves it to the closest table that
    keeps them. For each: what it gives away, and how far its counts are off.
    """
    from cdp_views.cli.compare import Request, run

    run(
        Request(
            table=table,
            count=count,
            within=tuple(within or ()),
            weights=weights,
            epsilon=epsilon,
            delta=delta,
            scales=scales,
            tables=tables,
            names=names,
            draws=draws,
            seed=seed,
            public=public,
            out=out,
            overwrite=overwrite,
            noises=tuple(dict.fromkeys(noise or ("normal",))),
        )
    )


app.command(epilog=EPILOG)(release)


@app.command(epilog="Exit status: 0 it verifies, 1 it does not, 2 it cannot be read.")
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Released table (its metadata is FILE.json), or the folder of a release in parts.",
        ),
    ],
) -> None:
    """Check that a release keeps its totals and was not changed."""
    from cdp_views.cli.verify import run

    if not run(file):
        raise typer.Exit(1)


@app.command(
    epilog="Example: cdp-views analyse released.csv --threshold 500 --out posterior. Exit status: "
    "0 done, 1 the draws are not fit to use (see diagnosis.txt), 2 bad input."
)
def analyse(
    released: Annotated[
        Path, typer.Argument(metavar="RELEASED", help="Released table; its metadata beside it.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="For posterior.nc, summary.csv, posterior.png, diagnosis."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="latent_counts (the true counts) or small_area (rates; needs --population and "
            "--state).",
        ),
    ] = "latent_counts",
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML", help="Describes a table that others released: see cdp.read_published."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="COUNT", help="Give the probability that each count is above it."),
    ] = None,
    typical: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Typical count (or rate), known beforehand; if left out, taken from the release.",
        ),
    ] = None,
    population: Annotated[
        str | None, typer.Option(metavar="COL", help="Public column of inhabitants, above 0.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Public column of the areas' state; may be repeated."),
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Public table, one row a cell, where the columns are."),
    ] = None,
    num_samples: Annotated[
        int, typer.Option(metavar="N", help="Draws of each of two chains.")
    ] = 1500,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the sampler.")] = 0,
) -> None:
    """Posterior of the true counts behind a release."""
    from cdp_views.cli.analyse import Request, run

    fit = run(
        Request(
            released=released,
            about=about,
            model=model,
            typical=typical,
            threshold=threshold,
            population=population,
            state=tuple(state or ()),
            covariates=covariates,
            samples=num_samples,
            seed=seed,
            out=out,
        )
    )
    if not fit:
        raise typer.Exit(1)


@app.command(
    epilog="Example: cdp-views study study.toml --out results --workers 2. In Python: "
    'cdp.read_study("results").'
)
def study(
    plan: Annotated[
        Path,
        typer.Argument(metavar="TOML", help="The study; its keys are the arguments of cdp.Study."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="For study.nc, and one small file per finished point: run it again to go on.",
        ),
    ],
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes; the numbers are the same for any.")
    ] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the result of another study in the folder.")
    ] = False,
) -> None:
    """Compare over many tables, totals, noises and budgets.

    Every combination of what the TOML file lists is measured; what cannot be had is skipped with
    its reason. Each finished point is kept, so that a run that was ended goes on. Releases nothing.

    \b
    epsilon = [0.5, 1, 2]
    delta = 1e-6
    views = ["conditioned", "imaged", "max-entropy", "raked"]
    noises = ["normal", "laplace"]
    [tables.mine]
    source = "table.csv"
    count = "persons"
    [invariants]
    state = ["state"]
    """  # noqa: D301 (the sign itself tells click to keep the lines)
    from cdp_views.cli.study import Request, run

    run(Request(plan=plan, out=out, workers=workers, overwrite=overwrite))


def main() -> None:
    """Run the command; bad input is one line on stderr and exit status 2, never a traceback.

    Raises:
        SystemExit: always, with the exit status.
    """
    # Without this JAX warns of a missing accelerator on some machines: this work needs none.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a sign shows ? instead of ending the run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        status = app(standalone_mode=False)
    except KeyboardInterrupt:
        _fail("interrupted.", 130)
    except SystemExit as ended:
        # Typer leaves in silence where the reader left (`| head`).
        sys.exit(141 if ended.code == 1 else ended.code)
    except BrokenPipeError:
        # The reader left (`| head`): silence, as other tools do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if isinstance(error, typer.Abort):
            _fail("interrupted.", 130)
        # Typer's usage errors (an unknown option, a word for a number) know their message.
        message = getattr(error, "format_message", None)
        if message is not None:
            if len(lines := message().splitlines()) > 1:  # a group alone, which shows its help
                print(*lines, sep="\n")
                sys.exit(0)
            _fail(message(), 2)
        # The system's own words name a path and no remedy.
        if isinstance(error, OSError) and error.strerror:
            where = f"`{error.filename}` cannot be used" if error.filename else "cannot go on"
            todo = "Check the path, its permissions and the space on the disk."
            _fail(f"{where} ({error.strerror}). {todo}", 2)
        # ValueError holds InfeasibleError, NotImplementedError holds UnsupportedError; an
        # ImportError is of an extra that is missing, and names it.
        if isinstance(error, ValueError | NotImplementedError | OSError | ImportError):
            from cdp_views.cli.options import in_options, options_of

            options = options_of(typer.main.get_command(app), sys.argv[1:])
            _fail(in_options(str(error), options), 2)
        raise
    if status == 130:  # Typer's answer to Ctrl-C
        _fail("interrupted.", 130)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> NoReturn:
    print("Error:", " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
