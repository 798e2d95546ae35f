"""What is told and not refused: labels nearly alike, parts of records, weighted totals."""

import numpy as np
import pandas as pd
import pytest

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


SHARES = "area,state,count\na,IL,62\nb,IL,38\nc,OH,17.5\nd,OH,82.5\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHARES, "The rows of each group add up to 100"),
        (SHARES.replace("17.5", "17").replace("82.5", "82"), "The rows of each group add up to 10"),
        ("area,state,count\na,IL,0.9\nb,IL,.4\nc,OH,.1\nd,OH,0\n", "All lie between 0 and 1"),
    ],
    ids=["shares", "whole and rounded", "rates"],
)
def test_percentages_are_no_counts(command, csv, tmp_path, text, words):
    given = [csv(text), "--count", "count", "--within", "state"]
    told = " ".join(command("compare", *given)[1].split())
    assert f"are these percentages or rates? {words}" in told
    given += ["--names", "area", "--view", "imaged", "--epsilon", 1, "--out", tmp_path / "o.csv"]
    status, out, err = command("release", *given)
    assert f"are these percentages or rates? {words}" in " ".join((out + err).split())
    assert status == (2 if "." in text else 0)  # whole ones may be meant: they are told


def test_a_row_of_totals_is_asked_for(command, csv, tmp_path):
    whole = TEXT.replace("il", "IL").replace("17.5", "17")
    total = f"{whole}g,US,207,1\n"  # 62 + 31 + 17 + 17 + 24 + 56
    given = ["--count", "count", "--within", "state", "--names", "area", "--view", "imaged"]
    given += ["--epsilon", 1, "--out", tmp_path / "o.csv"]
    status, _, err = command("release", csv(total), *given)
    assert status == 2 and "Is row 7 (US, g) a row of totals? Then leave it out." in err
    status, _, err = command("release", csv(total.replace("207", "206")), *given)
    assert status == 2 and "row 7 (US, g)" in err and "row of totals" not in err
    status, out, _ = command("release", csv(total.replace("g,US", "Total,IL")), *given)
    assert status == 0 and "Is data row 7 a row of totals (1 such)?" in out


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
