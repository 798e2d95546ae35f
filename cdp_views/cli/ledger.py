"""`cdp-views ledger`: a new budget for one table, and what was spent of it."""

from pathlib import Path
from typing import Annotated

import typer

from cdp_views.cli._help import print_help

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
        print(entries.to_string(index=False))
    print(f"spent: epsilon {spent.epsilon:.6g}, delta {spent.delta:.6g}")
    normal = f" ({left.epsilon_normal:.6g} of normal noise)" if left.epsilon_normal else ""
    print(f"left:  epsilon {left.epsilon:.6g}{normal}, delta {left.delta:.6g}")
    if 0 < (entries["noise"] == "normal").sum() < len(entries):
        print("Normal and other noise are mixed: their sizes must be decided beforehand.")
