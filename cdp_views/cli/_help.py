"""`--help` as an option of one's own, where a group of commands has others beside it."""

import typer


def print_help(context: typer.Context, wanted: bool) -> None:
    """Print the help and end, if it was asked for."""
    if wanted:
        print(context.get_help())
        raise typer.Exit
