"""Help is there at once: it imports nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "numpyro", "pandas", "xarray", "scipy", "matplotlib", "numpy", "pydantic")


@pytest.mark.parametrize("given", [["--help"], ["compare", "--help"], ["release", "--help"]])
def test_help_imports_nothing_heavy(given):
    code = (
        f"import sys; sys.argv = ['cdp-views', *{given}]\n"
        "from cdp_views.cli import main\n"
        "try: main()\n"
        f"finally: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Show this message and exit" in done.stdout
    assert done.stderr.strip() == "[]"


def test_compare_help_names_every_option(command):
    status, out, _ = command("compare", "--help")
    assert status == 0
    for option in ("count", "within", "epsilon", "delta", "scales", "tables", "draws", "seed"):
        assert f"--{option}" in out
    for option in ("--public", "--out", "[TABLE]", "Example: cdp-views compare", "max-entropy"):
        assert option in out


def test_the_short_help_is_not_cut(command):
    status, out, _ = command("--help")
    assert status == 0 and "..." not in out.partition("Commands:")[2]


def test_no_command_shows_the_help(command):
    status, out, err = command()
    assert status in (0, 2) and "compare" in out + err
