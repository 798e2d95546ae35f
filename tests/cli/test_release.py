"""A release from the command line: what it says, what it writes, and how it is checked."""

import json

import numpy as np
import pandas as pd
import pytest

import cdp_views as cdp

TABLE = (
    "area,group,sort,count,size,income\n"
    "a,x,p,11,1,5\nb,x,p,502,4,5\nc,x,q,77,9,5\nd,x,q,3,2,5\n"
    "e,y,p,9001,5,5\nf,y,p,12,1,5\ng,y,q,640,2,5\nh,y,q,31,3,5\n"
)
ALONE = TABLE + "i,z,p,45,2,5\n"
GIVEN = ["--count", "count", "--within", "group", "--names", "area", "--noise", "normal"]
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.mark.parametrize("view", ["max-entropy", "conditioned", "imaged"])
def test_release_and_verify(command, csv, tmp_path, view):
    out = tmp_path / "new" / "r.csv"
    status, stdout, stderr = command(
        "release", csv(TABLE), *GIVEN, *BUDGET, "--view", view, "--out", out
    )
    said = " ".join(stdout.split())
    assert status == 0 and stderr == ""
    assert "Released 8 cells" in said and "2 totals exact within group" in said
    assert (
        "Unit of privacy: one record moves between two cells without changing a published" in said
    )
    assert f"{view} view of normal noise" in said and f"wrote {out} wrote {out}.json" in said
    *said, new = stdout.splitlines()
    assert max(map(len, said[:-3])) <= 100 and new == f"in a new folder, {out.parent}"
    table = pd.read_csv(out)
    assert list(table.columns) == ["group", "area", "released"]  # and nothing else of the table
    assert table.groupby("group")["released"].sum().to_dict() == {"x": 593, "y": 9684}
    status, stdout, stderr = command("verify", out)
    assert status == 0 and stderr == "" and "FAILED" not in stdout
    assert stdout.splitlines()[-1] == "The release verifies." and "2 totals hold" in stdout
    status, _, stderr = command("verify", out.parent)
    assert status == 2 and f"Name a released table, such as `{out}`" in stderr
    with pytest.raises(FileNotFoundError, match=r"in one file: cdp\.read_release"):
        cdp.read_parts(out)


def test_laplace_needs_no_delta(command, csv, tmp_path):
    out = tmp_path / "r.csv"
    given = [*GIVEN, "--noise", "laplace", "--epsilon", "1"]
    status, stdout, _ = command("release", csv(TABLE), *given, "--view", "imaged", "--out", out)
    assert status == 0 and "epsilon-differential privacy with epsilon = 1 (pure" in stdout
    assert command("verify", out)[0] == 0


def test_scales_records_and_two_groupings(command, csv, tmp_path):
    options = ["--view", "conditioned", "--scales", "size", "--records", "3", "--within", "sort"]
    status, stdout, _ = command(
        "release", csv(TABLE), *GIVEN, *BUDGET, *options, "--out", tmp_path / "r.csv"
    )
    assert status == 0 and "4 totals exact within group and sort" in " ".join(stdout.split())
    assert "3 records move together" in stdout
    told = json.loads((tmp_path / "r.csv.json").read_text())
    ratio = np.asarray(told["scale"]) / told["scale"][0]
    np.testing.assert_allclose(ratio, [1, 4, 9, 2, 5, 1, 2, 3])
    assert told["invariants"]["names"] == ["x, p", "x, q", "y, p", "y, q"]


def test_parquet(command, csv, tmp_path):
    pytest.importorskip("pyarrow")
    out = tmp_path / "r.parquet"
    command("release", csv(TABLE), *GIVEN, *BUDGET, "--view", "imaged", "--out", out)
    assert command("verify", out)[0] == 0


def test_determined_cells_are_listed_and_must_be_accepted(command, csv, tmp_path):
    out = tmp_path / "r.csv"
    given = ["release", csv(ALONE), *GIVEN, *BUDGET, "--view", "imaged", "--out", out]
    status, stdout, stderr = command(*given)
    assert status == 2 and stdout == "" and stderr.count("\n") == 1
    assert "determine 1 of 9 cells" in stderr and "row 9 (z, i)" in stderr
    assert "--accept-exact" in stderr and "45" not in stderr
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    status, stdout, _ = command(*given, "--accept-exact")
    assert status == 0 and "Published exactly, not protected: row 9 (z, i)." in stdout
    assert pd.read_csv(out)["released"].iloc[-1] == 45


def test_a_changed_table_fails_and_the_total_is_named(command, csv, tmp_path):
    out = tmp_path / "r.csv"
    command("release", csv(TABLE), *GIVEN, *BUDGET, "--view", "imaged", "--out", out)
    table = pd.read_csv(out)
    table.loc[1, "released"] += 1
    table.to_csv(out, index=False)
    status, stdout, stderr = command("verify", out)
    assert status == 1 and stderr == ""
    assert 'FAILED  total "x" sums to 594.0, published as 593.0' in stdout
    assert '"y"' not in stdout and stdout.endswith("The release does not verify.\n")
