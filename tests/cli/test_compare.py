"""The main job, end to end."""

import numpy as np
import pandas as pd
import pytest

TABLE = (
    "area,group,sort,count,size\n"
    "a,x,p,11,1\nb,x,p,502,4\nc,x,q,77,9\nd,x,q,3,2\n"
    "e,y,p,9001,5\nf,y,p,12,1\ng,y,q,640,2\nh,y,q,31,3\ni,z,p,45,2\n"
)
GIVEN = ["--count", "count", "--within", "group", "--names", "area", "--delta", "1e-6"]


def test_the_embedded_table(command, tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "out"
    status, stdout, stderr = command("compare", "--out", out, "--draws", 20)
    assert status == 0 and stderr == ""
    assert "437 cells of the embedded table midwest" in stdout and "√poptotal" in stdout
    assert max(map(len, stdout.splitlines())) <= 110 and "\x1b" not in stdout
    assert stdout.count("are the same mechanism here") == 1
    assert stdout.count("(1, 1e-10)-DP") == 9 and "53.40 %" in stdout
    assert "CONFIDENTIAL" not in stdout  # a published census
    assert sorted(p.name for p in out.iterdir()) == [
        "comparison.csv",
        "comparison.png",
        "noise.nc",
        "profiles.png",
        "report.html",
    ]
    assert "cdp-views compare --epsilon 1.0" in (out / "report.html").read_text("utf-8")
    table = pd.read_csv(out / "comparison.csv")
    assert len(table) == 8 and not any(c.startswith("CONFIDENTIAL_") for c in table)
    noise = xr.load_dataset(out / "noise.nc", engine="h5netcdf")
    assert noise["noise"].dims == ("mechanism", "draw", "cell")
    assert not any(v.attrs.get("depends_on_counts") for v in noise.data_vars.values())
    # Counts would show at once: the largest is over 10,000.
    equal = noise["noise"].values[noise["mechanism_scales"].values == "equal"]
    assert np.abs(equal).max() < 100


def test_a_table_of_ones_own(command, csv, tmp_path):
    path = csv(TABLE)
    status, stdout, stderr = command("compare", path, *GIVEN, "--scales", "size")
    assert "CONFIDENTIAL (depends on the true counts)" in stdout
    assert status == 0 and stderr == "" and [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert "i (z)" in stdout and "Published exactly, not protected" in " ".join(stdout.split())
    assert "proportional to size, taken to be published" in stdout


def test_two_noises(command, csv, tmp_path, monkeypatch, lightly_compiled):
    from cdp_views.study import comparing

    monkeypatch.setattr(comparing, "_UNPROVED_DRAWS", 200)  # a place for a figure is asked for
    given = ["--noise", "normal", "--noise", "laplace", "--noise", "normal", "--draws", 0]
    out = tmp_path / "out"
    # eight cells in two groups, as in tests/study/test_laplace.py: compiled once for both
    table = TABLE.partition("i,z")[0]
    status, stdout, stderr = command("compare", csv(table), *GIVEN, *given, "--out", out)
    assert status == 0 and stderr == "" and not (out / "noise.nc").exists()
    said = " ".join(stdout.split())
    assert max(map(len, stdout.splitlines())) <= 110 and "none proved" in said
    assert "≈ estimate; standard errors in comparison.csv" in said and said.count("≈") == 1 + 2 * 3
    assert " kind " in said and said.count(" exact ") >= 7
    assert "ε = 1 (pure; δ unused)" in said and "±" in said and "equal ε misleads" in said
    table = pd.read_csv(out / "comparison.csv")
    assert sum(c.startswith("CONFIDENTIAL_") for c in table) > 0
    assert list(table["noise"]) == ["normal"] * 4 + ["laplace"] * 4
    known = table["guess_rate_kind"] == "estimate"
    # the others have exact profiles
    assert list(table["view"][known]) == ["max-entropy", "imaged"]
    assert (table["guess_rate_stderr"].notna() == known).all()
    assert (table["guarantee"] == "none proved").sum() == 1


def test_delta_0_with_laplace_alone(command, csv):
    given = ["--count", "count", "--within", "group", "--delta", 0, "--noise", "laplace"]
    status, stdout, stderr = command("compare", csv(TABLE), *given)
    assert status == 0 and stderr == "" and "(pure; δ unused)" in " ".join(stdout.split())
    # A column that does not fit is left out, never cut.
    shown = any(line.rstrip().endswith("entropy") for line in stdout.splitlines())
    assert shown == ("entropy in nats" in " ".join(stdout.split()))


def test_two_groupings_combine(command, csv):
    status, stdout, _ = command("compare", csv(TABLE), *GIVEN, "--within", "sort", "--tables", "3")
    said = " ".join(stdout.split())
    assert status == 0 and "exact within group and sort" in said
    assert "i (z, p)" in said and "3 tables share the budget" in said


def test_parquet_gives_what_csv_gives(command, csv, tmp_path):
    pytest.importorskip("pyarrow")
    pd.read_csv(csv(TABLE)).to_parquet(tmp_path / "t.parquet")
    _, from_csv, _ = command("compare", tmp_path / "table.csv", *GIVEN)
    _, from_parquet, _ = command("compare", tmp_path / "t.parquet", *GIVEN)
    assert from_csv.split("\n", 3)[-1] == from_parquet.split("\n", 3)[-1]


def test_public_marks_nothing_and_a_large_delta_is_noted(command, csv, tmp_path):
    given = ["--count", "count", "--within", "group", "--delta", "0.01", "--public", "--draws", 0]
    out = tmp_path / "out"
    status, stdout, stderr = command("compare", csv(TABLE), *given, "--out", out)
    assert status == 0 and stderr == "" and "CONFIDENTIAL" not in stdout
    assert "! Warning: delta = 0.01 is above 1 / (sum of the counts)" in stdout
    assert "CONFIDENTIAL" not in (out / "comparison.csv").read_text()
    assert not (out / "noise.nc").exists()
    status, _, stderr = command("compare", csv(TABLE), *given, "--out", out)
    assert status == 2 and "--overwrite" in stderr
    assert command("compare", csv(TABLE), *given, "--out", out, "--overwrite")[0] == 0


def test_missing_extras_are_noted_and_the_rest_is_written(command, csv, tmp_path, monkeypatch):
    from cdp_views.cli import compare

    monkeypatch.setattr(compare, "_installed", lambda module: False)
    status, stdout, _ = command("compare", csv(TABLE), *GIVEN, "--out", tmp_path / "out")
    found = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert status == 0 and found == ["comparison.csv", "report.html"]
    assert "cdp-views[plot]" in stdout and "cdp-views[io]" in stdout


def test_a_failure_while_writing_leaves_nothing(command, csv, tmp_path, monkeypatch):
    import cdp_views.report

    def fail(figure, path):
        raise OSError("the disk is full")

    monkeypatch.setattr(cdp_views.report, "write_figure", fail)
    path = csv(TABLE)
    status, stdout, stderr = command("compare", path, *GIVEN, "--out", tmp_path / "out")
    assert status == 2 and stderr == "Error: the disk is full\n" and stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
