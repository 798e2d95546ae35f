"""`cdp-views study`: a TOML file in, one result out; bad input in one line."""

import os

import pytest

import cdp_views as cdp

TABLE = "area,group,count\na,x,812345\nb,x,502\nc,x,77\nd,y,3\ne,y,9001\nf,y,12\n"
TOML = """
epsilon = [1]
delta = 1e-6
views = ["imaged"]
noises = ["normal", "laplace"]
notions = ["native", "pure"]
draws = 50
[tables.mine]
source = "table.csv"
count = "count"
[invariants]
group = "group"
"""


@pytest.fixture
def plan(csv):
    csv(TABLE)
    return lambda text=TOML: csv(text, "study.toml")


def test_a_study_end_to_end(command, plan, tmp_path):
    pytest.importorskip("h5netcdf")
    out = tmp_path / "deep" / "out"
    status, stdout, stderr = command("study", plan(), "--out", out)
    assert status == 0 and stderr == ""
    assert "2 points × 1 workloads: 1 with exact errors, 1 estimated from draws" in stdout
    assert "skipped 1 combination: Normal noise has no pure epsilon" in stdout
    assert "CONFIDENTIAL: median ± (90 %) relative to the true answer" in stdout
    assert (
        stdout.count("imaged") == 2
        and "(1, 1e-06)-DP" in stdout
        and f"wrote {out / 'study.nc'}" in stdout
    )
    marked = [line.split()[0] for line in stdout.splitlines() if line.endswith("≈")]
    assert marked == ["laplace"] and "≈ estimated from draws" in stdout
    lines = stdout.splitlines()
    assert "812345" not in stdout and max(map(len, lines[:-1])) <= 120
    tree = cdp.read_study(out)
    assert tree.attrs["command"].startswith("cdp-views study ")
    assert sorted(p.name for p in out.iterdir()) == [
        "points", "report.html", "study.json", "study.nc"
    ]  # fmt: skip
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "cdp-views study" in page and "812345" not in page and "CONFIDENTIAL" in page
    status, again, _ = command("study", plan(), "--out", out)
    assert status == 0 and again == stdout
    status, _, stderr = command("study", plan(TOML.replace("[1]", "[2]")), "--out", out)
    assert status == 2 and "another study" in stderr


@pytest.mark.parametrize(
    ("old", "new", "arguments", "words"),
    [
        ("draws", "drows", [], 'has no key "drows". Did you mean "draws"?'),
        ("table.csv", "gone.csv", [], "is not there"),
        ('count = "count"', 'count = "area"', [], "6 entries that are no numbers"),
        ('group = "group"', 'group = "area"', [], "Nothing of this study can be had"),
        ("[1]", "[1]", ["--workers", 0], "--workers must be at least 1"),
    ],
)
def test_bad_input_is_one_line(command, plan, tmp_path, old, new, arguments, words):
    given = ["study", plan(TOML.replace(old, new, 1)), "--out", tmp_path / "out", *arguments]
    status, stdout, stderr = command(*given)
    assert status == 2 and stdout == "" and stderr.count("\n") == 1 and words in stderr
    assert "812345" not in stderr and not (tmp_path / "out" / "study.nc").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to(command, plan, tmp_path):
    (tmp_path / "shut").mkdir(mode=0o500)
    status, _, stderr = command("study", plan(), "--out", tmp_path / "shut" / "out")
    assert status == 2 and "Permission denied" in stderr and stderr.count("\n") == 1
