"""The harness runs, prints a ratio, and writes the raw numbers; no timing is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_rows_are_printed_and_written():
    asked = ["--cells", "2000", "--pairs", "2", "--only", "normal imaged equal, one group"]
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks", *asked],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = answer.stdout.splitlines()
    assert any(line.startswith("draw normal imaged equal, one group") for line in lines)
    path = Path(lines[-1].split("; ")[1])
    content = json.loads(path.read_text())
    path.unlink()
    assert {row["dtype"] for row in content["rows"]} == {"float32", "float64"}
    assert all(len(row["subject_raw"]) == len(row["rival_raw"]) == 2 for row in content["rows"])
    assert {"commit", "machine", "versions"} <= set(content)
