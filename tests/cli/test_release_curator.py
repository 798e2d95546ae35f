"""A curator's table: whole by default, several columns, structural zeros, a file to print."""

import json

import numpy as np
import pandas as pd
import pytest

TABLE = (
    "area,group,adults,voters,none,half\n"
    "a,x,812,502,0,0.5\nb,x,502,411,0,1\nc,x,77,3,0,2\nd,x,0,0,1,3\n"
    "e,y,9001,640,0,4\nf,y,12,12,0,5\ng,y,640,31,0,6\nh,y,31,9,0,7\n"
)
GIVEN = ["--within", "group", "--names", "area", "--view", "conditioned", "--epsilon", "1"]
BOTH = ["--count", "adults", "--count", "voters"]


def test_whole_numbers_are_the_default(command, csv, tmp_path):
    for delta, noise in ((None, "discrete-laplace"), ("1e-6", "discrete-normal")):
        out = tmp_path / f"{noise}.csv"
        more = [] if delta is None else ["--delta", delta]
        status, stdout, stderr = command(
            "release", csv(TABLE), "--count", "adults", *GIVEN, *more, "--out", out
        )
        assert (status, stderr) == (0, "") and f"conditioned view of {noise} noise" in stdout
        table = pd.read_csv(out)
        assert np.array_equal(table["released"], np.rint(table["released"]))
        assert table.groupby("group")["released"].sum().to_dict() == {"x": 1391, "y": 9684}
        assert command("verify", out)[0] == 0


@pytest.mark.parametrize(
    ("contribution", "norm", "unit"),
    [("disjoint", 2, "one record moves"), ("1,1;1,0", 4, "counted in up to 2 of 2 columns")],
)
def test_two_columns_share_the_budget(command, csv, tmp_path, contribution, norm, unit):
    out = tmp_path / "r.csv"
    given = ["release", csv(TABLE), *BOTH, *GIVEN, "--contribution", contribution, "--out", out]
    status, stdout, stderr = command(*given)
    assert (status, stderr) == (0, "") and unit in " ".join(stdout.split())
    table = pd.read_csv(out)
    assert list(table.columns) == ["group", "area", "column", "released"] and len(table) == 16
    assert table["column"].tolist() == ["adults", "voters"] * 8
    sums = table.groupby(["group", "column"])["released"].sum()
    assert sums.tolist() == [1391, 916, 9684, 692]
    told = json.loads((tmp_path / "r.csv.json").read_text())
    assert told["scale"] == pytest.approx(norm, rel=1e-9)  # ε = norm/λ: the pure loss of a move
    assert told["invariants"]["names"][0] == "x, adults"
    assert command("verify", out)[0] == 0


def test_a_budget_of_each_column_is_stated_for_all_together(command, csv, tmp_path):
    given = ["release", csv(TABLE), *BOTH, *GIVEN, "--contribution", "1,1", "--per-column"]
    status, _, stderr = command(*given, "--out", tmp_path / "r.csv")
    told = json.loads((tmp_path / "r.csv.json").read_text())
    assert (status, stderr) == (0, "") and told["epsilon"] == pytest.approx(2, rel=1e-6)
    assert np.allclose(told["scale"], 2, rtol=1e-6)  # as if each were released alone at ε = 1


def test_structural_zeros_print_file_and_ledger(command, csv, tmp_path):
    out, ledger = tmp_path / "r.csv", tmp_path / "b.ledger"
    command("ledger", "new", ledger, "--epsilon", "3")
    given = ["release", csv(TABLE), "--count", "adults", *GIVEN, "--zeros", "none"]
    given += ["--ledger", ledger, "--publishable", "--out", out]
    status, stdout, stderr = command(*given)
    assert (status, stderr) == (0, "") and "Published exactly" not in stdout
    table, printed = pd.read_csv(out), pd.read_csv(tmp_path / "r.print.csv")
    assert table["released"][3] == printed["released"][3] == 0 and printed["released"].min() >= 0
    assert printed.groupby("group")["released"].sum().to_dict() == {"x": 1391, "y": 9684}
    for companion, what in (("r.print.csv", "table for print"), ("r.csv.json", "metadata")):
        status, _, stderr = command("verify", tmp_path / companion)
        assert status == 2 and f"is the {what} of a release. Name the release: `{out}`" in stderr
    (tmp_path / "r.print.csv").unlink()
    assert "  skipped no print file" in command("verify", out)[1]
    assert f"wrote {tmp_path / 'r.print.csv'}" in stdout and "Analyse this release" in stdout
    assert json.loads((tmp_path / "r.csv.json").read_text())["structural_zeros"] == [3]


def test_real_noise_rounded(command, csv, tmp_path):
    out = tmp_path / "r.csv"
    given = ["release", csv(TABLE), "--count", "adults", *GIVEN, "--noise", "laplace", "--whole"]
    assert command(*given, "--out", out)[0] == 0
    table = pd.read_csv(out)
    assert np.array_equal(table["released"], np.rint(table["released"]))
    assert table.groupby("group")["released"].sum().to_dict() == {"x": 1391, "y": 9684}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (BOTH, "--contribution is missing: say how one person is counted in adults, voters"),
        ([*BOTH, "--contribution", "1,1,1"], "or 2 numbers for each kind of person"),
        ([*BOTH, "--contribution", "all"], "must be disjoint, or 2 numbers for each"),
        (["--count", "adults", "--contribution", "1"], "is for several columns"),
        (["--count", "adults", "--count", "adults"], "names a column twice"),
        (["--count", "half"], "--noise is missing: the counts are not whole"),
        (
            ["--count", "adults", "--zeros", "half"],
            "must hold 1 for a structural zero and 0 for all",
        ),
        (["--count", "voters", "--zeros", "gone"], '--zeros "gone" is not a column'),
        (["--count", "adults", "--view", "max-entropy"], "no max-entropy view of discrete-laplace"),
    ],
)
def test_bad_input_is_one_line_and_shows_no_count(command, csv, tmp_path, given, words):
    status, stdout, stderr = command(
        "release", csv(TABLE), *GIVEN, *given, "--out", tmp_path / "r.csv"
    )
    assert status == 2 and stdout == "" and words in stderr and stderr.count("\n") == 1
    assert "9001" not in stderr and [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_a_structural_zero_that_is_none(command, csv, tmp_path):
    text = TABLE.replace("d,x,0,0,1,3", "d,x,8123,0,1,3")
    given = ["--count", "adults", "--zeros", "none", "--out", tmp_path / "r.csv"]
    status, _, stderr = command("release", csv(text), *GIVEN, *given)
    assert status == 2 and 'first "adults" in data row 4' in stderr and "8123" not in stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TABLE.replace("812,", ","), '--count "adults" has 1 of 8 entries that are missing, first'),
        (TABLE.replace("502,411", "502.5,411"), "must be whole with discrete-laplace noise"),
        (TABLE.replace("a,x", "a,"), '--within "group" has 1 of 8 labels missing'),
    ],
    ids=["null", "not whole", "no group"],
)
def test_columns_with_holes_are_named(command, csv, tmp_path, content, words):
    given = ["--count", "adults", "--noise", "discrete-laplace", "--out", tmp_path / "r.csv"]
    status, stdout, stderr = command("release", csv(content), *GIVEN, *given)
    assert (status, stdout) == (2, "") and words in stderr and stderr.count("\n") == 1


def test_parquet_in_and_out_and_a_truncated_file(command, csv, tmp_path):
    pytest.importorskip("pyarrow")
    table = tmp_path / "t.parquet"
    pd.read_csv(csv(TABLE)).to_parquet(table)
    given = ["--count", "adults", *GIVEN]
    out = tmp_path / "r.parquet"
    assert command("release", table, *given, "--out", out)[0] == 0
    assert pd.read_parquet(out).groupby("group")["released"].sum().to_dict() == {
        "x": 1391,
        "y": 9684,
    }
    assert command("verify", out)[0] == 0
    table.write_bytes(table.read_bytes()[:-200])
    status, _, stderr = command("release", table, *given, "--out", tmp_path / "s.parquet")
    assert status == 2 and "t.parquet` cannot be read" in stderr and stderr.count("\n") == 1
