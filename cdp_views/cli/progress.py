"""Progress on stderr, for a person at a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress(console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A bar that vanishes when the work is done; nothing at all where stderr is no terminal."""
    bar = Progress(
        SpinnerColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def report(done: int, everything: int, what: str) -> None:
            place = f"{done + 1} of {everything}: " if done < everything and everything > 1 else ""
            bar.update(task, completed=done, total=everything, description=place + what)

        yield report
