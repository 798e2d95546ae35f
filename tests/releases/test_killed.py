"""SIGKILL at any moment: a release is whole or not there, paid once, and has one noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killing.py")


def kill(folder, kills, seed):
    given = [sys.executable, "-W", "ignore", str(SCRIPT), str(folder), str(kills), str(seed)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_a_few_kills(tmp_path):
    assert kill(tmp_path, 8, 1)["kills"] == 8


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    found = kill(tmp_path, 200, 2)
    assert found["kills"] == 200
    # moments of every kind were met
    assert found["killed_before_spending"] > 10 and found["killed_with_output"] > 3
