"""Help is there at once: it imports nothing heavy."""

import subprocess
import sys

HEAVY = ("jax", "numpyro", "pandas", "xarray", "scipy", "matplotlib", "numpy")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['cdp-views', '--help']\n"
        "from cdp_views.cli import main\n"
        "try: main()\n"
        f"finally: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "compare" in done.stdout
    assert done.stderr.strip() == "[]"


def test_compare_help_names_every_option(command):
    status, out, _ = command("compare", "--help")
    assert status == 0
    for option in ("count", "within", "epsilon", "delta", "scales", "tables", "draws", "seed"):
        assert f"--{option}" in out
    for option in ("--public", "--out", "TABLE"):
        assert option in out


def test_no_command_shows_the_help(command):
    status, out, err = command()
    assert status in (0, 2) and "compare" in out + err
