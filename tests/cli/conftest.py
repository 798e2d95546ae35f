"""Running the command as a person does, in this process."""

import sys

import pytest

from cdp_views.cli import main


@pytest.fixture
def command(monkeypatch, capsys):
    """A function: arguments in, (exit status, stdout, stderr) out."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cdp-views", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        return exit_.value.code, out, err

    return run


@pytest.fixture
def csv(tmp_path):
    """A function: text in, path of a CSV file out."""

    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
