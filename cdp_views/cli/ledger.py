"""`cdp-views ledger`: a new budget for one table, and what was spent of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdp_views.cli._help import print_help

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(
    help="The budget of one table: create it, or see what was spent.",
    no_args_is_help=True,
    add_help_option=False,  # `_group` has its own, as that of the whole command line
    rich_markup_mode=None,
)


@app.callback()
def _group(
    wanted: Annotated[
        bool,
        typer.Option(
            "--help", help="Show this message and exit.", callback=print_help, is_eager=True
        ),
    ] = False,
) -> None:
    """The budget of one table: create it, or see what was spent."""


@app.command(epilog="Example: cdp-views ledger new counties.ledger --epsilon 2 --delta 1e-9")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New ledger; never overwritten.")],
    epsilon: Annotated[
        float, typer.Option(metavar="NUMBER", help="What all releases may cost together, ε.")
    ],
    delta: Annotated[
        float, typer.Option(metavar="NUMBER", help="The same of δ; 0 admits pure noise only.")
    ] = 0.0,
) -> None:
    """Create the ledger of one table, with the budget of all its releases."""
    from cdp_views.releases import Ledger

    made = Ledger.create(file, epsilon=epsilon, delta=delta)
    print(f"wrote {file}: epsilon {made.epsilon:g}, delta {made.delta:g}, nothing spent")


@app.command(epilog="A release that is reserved is paid for; the same command finishes it.")
def show(file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger.")]) -> None:
    """List the releases of a ledger, what they cost together, and what is left."""
    from cdp_views.releases import Ledger

    ledger = Ledger(file)
    entries, spent, left = ledger.entries, ledger.spent, ledger.remaining
    print(f"{file}: budget epsilon {ledger.epsilon:g}, delta {ledger.delta:g}")
    if len(entries):
        print("\n" + _table(entries) + "\n")
    print(f"spent: epsilon {spent.epsilon:.6g}, delta {spent.delta:.6g}, by all releases together")
    pure = "laplace and discrete-laplace noise, which need no delta"
    kinds = "any noise" if ledger.delta else pure
    print(f"left:  epsilon {left.epsilon:.6g}, delta {left.delta:.6g}, for {kinds}")
    if left.epsilon_normal > left.epsilon * (1 + 1e-9):
        print(
            f"or:    epsilon {left.epsilon_normal:.6g}, delta {left.delta:.6g}, for normal noise "
            "alone, which adds up to less"
        )
    if 0 < (entries["noise"] == "normal").sum() < len(entries):
        print("Normal and other noise are mixed: their sizes must be decided beforehand.")
    for sentence in ledger.loose_ends:
        print(sentence)


@app.command(epilog='Example: cdp-views ledger also-counts counties.ledger "households"')
def also_counts(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger.")],
    counted: Annotated[str, typer.Argument(metavar="WORDS", help="As --counted says it.")],
) -> None:
    """Say that these words mean another thing than all that was counted: neither is compared."""
    from cdp_views.releases import Ledger

    Ledger(file).also_counts(counted)
    print(f'{file}: "{counted}" is another thing than what was counted before')


def _table(entries: "pd.DataFrame") -> str:
    """What, when, how and for how much, one line a release."""
    rows = [("release", "when (UTC)", "counted", "view", "noise", "scale", "epsilon", "delta", "")]
    for row in entries.to_dict("records"):
        least, most = row["smallest_scale"], row["largest_scale"]
        totals = _totals(row["added_totals"], "new") if row["added_totals"] else "no new totals"
        saved = row["state"] == "complete"
        if row["corrected"]:
            changed = f"{_totals(row['corrected'], 'changed')} of release {row['supersedes']}"
            totals = f"{totals}, {changed}" if row["added_totals"] else changed
        rows.append(
            (
                str(row["release"]),
                row["reserved"][:16].replace("T", " "),
                row["counted"] or "(not said)",
                row["view"],
                row["noise"],
                f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}",
                f"{row['epsilon']:g}",
                f"{row['delta']:g}",
                f"{'complete' if saved else 'reserved (paid for, not yet saved)'}, {totals}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _totals(count: int, kind: str) -> str:
    return f"{count} {kind} total{'' if count == 1 else 's'}"
