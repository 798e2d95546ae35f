"""A person at a terminal sees what is being done; a file or a pipe sees nothing of it."""

import io

import pytest
from rich.console import Console

from cdp_views.cli.progress import progress


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_says_which_of_how_many(terminal):
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=terminal, width=100, legacy_windows=False)
    with progress(console) as report:
        report(1, 4, "measuring laplace, imaged")
    text = seen.getvalue()
    assert ("2 of 4: measuring laplace, imaged" in text) is terminal
    assert terminal or text == ""
