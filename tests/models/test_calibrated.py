"""Two of the lines of `benchmarks.calibration_of_inference`, which runs every model and view."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_model_is_calibrated_and_who_knows_a_quarter_of_the_noise_is_not(tmp_path):
    asked = ["--only", "regression", "--view", "imaged", "--noise", "normal"]
    subprocess.run(
        [
            sys.executable, "-m", "benchmarks.calibration_of_inference", *asked,
            "--simulations", "60", "--write", str(tmp_path / "lines.json"),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )  # fmt: skip
    right, wrong = json.loads((tmp_path / "lines.json").read_text())
    assert not right["off"], right
    assert abs(right["coverage"] - 0.9) < 5 * right["coverage_se"]
    assert wrong["off"] and wrong["coverage"] < 0.7, wrong
