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


@pytest.mark.parametrize(
    ("ends", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "Error: interrupted.\n"),
        (OSError(28, "No space left on device"), 2, "Error: cannot go on (No space left"),
        (
            PermissionError(13, "Permission denied", "x.csv"),
            2,
            "Error: `x.csv` cannot be used (Perm",
        ),
    ],
)
def test_what_ends_a_run_is_said_in_one_line(command, monkeypatch, tmp_path, ends, status, words):
    def run(*_):
        raise ends

    monkeypatch.setattr("cdp_views.cli.verify.run", run)
    code, out, err = command("verify", tmp_path / "r.csv")
    assert (code, out) == (status, "") and err.startswith(words) and err.count("\n") == 1
