"""The harness runs, prints a ratio, and writes the raw numbers; no timing is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.table import markdown

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


def test_a_run_becomes_a_table(tmp_path):
    row = {"rival": "r", "target": 2.0, "dtype": "float32", "sizes": {}}
    ours = {"subject_raw": [3.0, 6.0, 9.0], "rival_raw": [1.0, 2.0, 3.0]}
    met = {"subject_raw": [1.0, 1.0, 1.0], "rival_raw": [1.0, 2.0, 4.0]}
    rows = [row | ours | {"name": "draw, sorted"}, row | met | {"name": "draw, scrambled"}]
    run = {"machine": {"processor": "P", "cores": 2}, "versions": {"jax": "1"}, "commit": "abc"}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run | {"rows": rows}))
    lines = list(markdown([path, path]))  # a row measured again counts once
    assert "| draw | r | 2 | 0.5 (0.25–1) | **3** | – |" in lines
    assert lines[0] == "Machine: P, 2 cores."
    assert lines[-1] == "1 of 2 rows miss their target."
