"""`cdp-views --help` must answer at once, so it may not load what takes seconds.

The time itself (under half a second) is measured by `.ci/run`, alone on the machine.
"""

import subprocess
import sys

CODE = """
import sys
from cdp_views.cli import main
sys.argv = ["cdp-views", *ARGV]
status = 0
try:
    main()
except SystemExit as stop:
    status = stop.code or 0
heavy = {"jax", "numpyro", "scipy", "pandas", "xarray", "arviz", "matplotlib"} & set(sys.modules)
print(f"status={status} heavy={sorted(heavy)}")
"""


def last_line(*argv: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", CODE.replace("ARGV", repr(list(argv)))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.strip().splitlines()[-1]


def test_help_loads_nothing_heavy():
    assert last_line("--help") == "status=0 heavy=[]"


def test_help_of_the_main_job_loads_nothing_heavy():
    assert last_line("compare", "--help") == "status=0 heavy=[]"
