"""The curator's path runs as it is written."""

import re
import shlex
from pathlib import Path

import pytest

from cdp_views.cli import main

TEXT = (Path(__file__).parents[2] / "docs" / "releasing.md").read_text(encoding="utf-8")


def test_every_step_runs(monkeypatch, tmp_path, capsys):
    """Commands and Python in order; `compare`, which takes a minute, has tests of its own."""
    monkeypatch.chdir(tmp_path)
    names, ran = {}, []
    for kind, name, block in re.findall(r"```(\w+) ?(\S*)\n(.*?)```", TEXT, re.S):
        if kind == "csv":
            (tmp_path / name).write_text(block, encoding="utf-8")
        elif kind == "python":
            exec(block, names)
        else:
            command = shlex.split(block.removeprefix("$ "))
            ran.append(command[1])
            if command[1] == "compare":
                continue
            monkeypatch.setattr("sys.argv", command)
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0, capsys.readouterr()
    said = capsys.readouterr().out
    assert ran == ["compare", "ledger", "release", "verify", "ledger"]
    assert "The release verifies." in said and "left:  epsilon 0.5" in said
    there = {path.name for path in tmp_path.iterdir()}
    listed = set(re.findall(r"^\| `([\w.]+)` \|", TEXT, re.M))
    assert listed <= there and not any(name.endswith(".secret") for name in there)
    margins = names["made"].margin({"Ohio": ["Adams", "Brown", "Clark", "Darke"]})["margin"]
    assert margins.tolist() == [0]


def test_threat_notes_name_tests_that_exist():
    folder = Path(__file__).parents[2]
    text = (folder / "docs" / "threats.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(named) >= 4 and all((folder / name).is_file() for name in named)
