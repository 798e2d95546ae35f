"""Arguments of `cdp-views release`."""

from pathlib import Path
from typing import Annotated

import typer

EPILOG = (
    "Example: cdp-views release counties.csv --count persons --within state "
    "--names county --view conditioned --epsilon 0.1 --out released.csv"
)


def release(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, one row a cell; or a folder of Parquet parts.",
        ),
    ],
    count: Annotated[
        list[str],
        typer.Option(metavar="COL", help="Column of true counts; repeat for several."),
    ],
    within: Annotated[
        list[str],
        typer.Option(
            metavar="COL",
            help="Column of groups whose totals stay exact; repeat to combine columns.",
        ),
    ],
    view: Annotated[str, typer.Option(metavar="VIEW", help="max-entropy, conditioned or imaged.")],
    epsilon: Annotated[float, typer.Option(metavar="NUMBER", help="Privacy budget ε.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="New .csv or .parquet file; the metadata goes to FILE.json. Of parts: a new "
            "folder.",
        ),
    ],
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="NOISE",
            help="normal, laplace, discrete-normal or discrete-laplace. Left out: whole numbers, "
            "discrete-laplace, or discrete-normal with --delta.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Its δ, far below 1/records; none for pure noise."),
    ] = None,
    contribution: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="How a person is counted in several columns: disjoint (in one of them only), or "
            "a number for each, such as 1,1,0;1,0,1 for two kinds of people.",
        ),
    ] = None,
    per_column: Annotated[
        bool,
        typer.Option(
            "--per-column", help="ε is of each column; the release states that of all together."
        ),
    ] = False,
    records: Annotated[
        int,
        typer.Option(metavar="K", help="Records that one person may move at once: the unit."),
    ] = 1,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Published column of weights: Σ weight·count is exact per group."
        ),
    ] = None,
    scales: Annotated[
        str | None, typer.Option(metavar="COL", help="Published column of relative noise scales.")
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="Public column that tells the rows of a group apart; repeat for several.",
        ),
    ] = None,
    zeros: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Public column: 1 for rows that are 0 whatever the data."),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Round real noise to whole numbers; every total stays."),
    ] = False,
    publishable: Annotated[
        bool,
        typer.Option(
            "--publishable",
            help="Also FILE.print: nonnegative and whole, to be printed, not to be analysed.",
        ),
    ] = False,
    about: Annotated[
        bool,
        typer.Option(
            "--about/--no-about",
            help="Also FILE.about.html: anybody checks totals and reads margins in a browser.",
        ),
    ] = True,
    accept_exact: Annotated[
        bool,
        typer.Option(
            "--accept-exact", help="Publish also where totals alone determine cells, exactly."
        ),
    ] = False,
    bits: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Generator: threefry, or aes256 (cryptographic, extra secure)."
        ),
    ] = "threefry",
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ledger of this table: refuses what exceeds its budget."),
    ] = None,
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected",
            help="Go on where exact totals differ from those published before: by how much is "
            "public then.",
        ),
    ] = False,
    counted: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="What was counted, such as persons; left out: the column's name."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes, for a folder of parts; the same bits.")
    ] = 1,
) -> None:
    """Publish one private table whose totals are exact. Each release spends its budget."""
    from cdp_views.cli.release import Request, run

    run(
        Request(
            table=table,
            counts=tuple(count),
            within=tuple(within),
            weights=weights,
            view=view,
            noise=noise,
            epsilon=epsilon,
            delta=delta,
            records=records,
            contribution=contribution,
            per_column=per_column,
            scales=scales,
            names=tuple(names or ()),
            zeros=zeros,
            whole=whole,
            publishable=publishable,
            about=about,
            accept_exact=accept_exact,
            bits=bits,
            ledger=ledger,
            out=out,
            workers=workers,
            counted=counted,
            corrected=corrected,
        )
    )
