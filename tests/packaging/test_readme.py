"""The README is run: its Python as written, its commands by `.ci/run`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = ["pip install uv && uv run cdp-views compare", "pip install uv && uv run pytest"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_python_of_the_readme_runs_top_to_bottom(tmp_path):
    """In a process of its own: the README sets JAX to float64 for good."""
    assert blocks("python"), "The README shows no Python."
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks("python")), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_ci_runs_the_commands_of_the_readme(command):
    assert command in README
    *_, without_setup = command.partition(" && ")
    assert without_setup in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", README)
    missing = [link for link in links if not (ROOT / link).exists()]
    assert missing == []
