"""What is told and not refused: labels nearly alike, parts of records, weighted totals."""

import numpy as np
import pandas as pd

import cdp_views as cdp

TEXT = "area,state,count,w\na,IL,62,1\nb,IL,31,-2\nc,il,17,1\nd,il,17.5,1\ne,OH,24,1\nf,OH,56,1\n"


def test_doubts_are_told(command, csv):
    given = ["--count", "count", "--within", "state"]
    _, out, _ = command("compare", csv(TEXT), *given)
    words = " ".join(out.split())
    assert '"IL" and "il" differ only in case or spaces, and are kept exact apart' in words
    assert "1 of 6 entries are not whole numbers" in words
    _, out, _ = command("compare", csv(TEXT.replace("il", "IL").replace("17.5", "17")), *given)
    assert "differ only" not in out and "whole numbers" not in out


def test_weighted_totals_are_kept(command, csv, tmp_path):
    given = ["--count", "count", "--within", "state", "--names", "area", "--weights", "w"]
    spend = [
        "--view",
        "conditioned",
        "--noise",
        "normal",
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--accept-exact",
    ]
    status, out, err = command("release", csv(TEXT), *given, *spend, "--out", tmp_path / "o.csv")
    assert status == 0, err
    assert out.count("differ only") == 1
    made = cdp.read_release(tmp_path / "o.csv")
    weights, table = [1.0, -2, 1, 1, 1, 1], pd.read_csv(csv(TEXT))
    want = [62 - 2 * 31, 17 + 17.5, 24 + 56]
    groups = [np.flatnonzero(table["state"] == state) for state in ("IL", "il", "OH")]
    found = [made.released[g] @ np.array(weights)[g] for g in groups]
    np.testing.assert_allclose(found, want, atol=1e-9)
    assert command("verify", tmp_path / "o.csv")[0] == 0


def test_the_version(command):
    assert command("--version") == (0, f"cdp-views {cdp.__version__}\n", "")
