"""Bad input to release and verify: one line, exit status 2, nothing written, no count shown."""

import json

import pytest

GOOD = "area,group,count,size\na,x,812345,10\nb,x,3,20\nc,y,5,30\nd,y,7,45\n"
USUAL = {
    "--count": "count", "--within": "group", "--view": "conditioned", "--noise": "normal",
    "--epsilon": "1", "--delta": "1e-9", "--names": "area",
}  # fmt: skip

WHOLE = {"--noise": "discrete-laplace", "--delta": None}

CASES = [
    ("no count", GOOD, {"--count": None}, "Missing option '--count'"),
    ("no within", GOOD, {"--within": None}, "Missing option '--within'"),
    ("no view", GOOD, {"--view": None}, "Missing option '--view'"),
    ("no epsilon", GOOD, {"--epsilon": None}, "Missing option '--epsilon'"),
    ("no delta", GOOD, {"--delta": None}, "--delta is missing: normal noise needs one"),
    ("other view", GOOD, {"--view": "projected"}, '--view must be one of "max-entropy"'),
    ("other noise", GOOD, {"--noise": "cauchy"}, '--noise must be one of "normal"'),
    ("not proved", GOOD, {"--noise": "laplace", "--view": "max-entropy"}, "No guarantee is proved"),
    ("delta unused", GOOD, {"--noise": "laplace"}, "--delta must be 0 with laplace noise"),
    ("no names", GOOD, {"--names": None}, "--names is missing: 2 of 4 cells have the labels of"),
    ("a blank at an end", GOOD.replace("b,x", "b,x "), {}, 'first "x " in data row 2'),
    ("a blank in quotes", GOOD.replace("b,x", 'b," x"'), {}, 'first " x" in data row 2'),
    ("no such count", GOOD, {"--count": "persons"}, "columns are area, group, count, size"),
    ("no such names", GOOD, {"--names": "label"}, "columns are"),
    ("names are counts", GOOD, {"--names": "count"}, "which must stay secret"),
    (
        "names missing",
        GOOD.replace("c,y", ",y"),
        {"--names": "area"},
        "1 of 4 entries that are mis",
    ),
    ("named twice", GOOD.replace("b,x", "a,x"), {"--names": "area"}, 'call two cells "x / a"'),
    ("released is taken", GOOD.replace("area", "released"), {"--names": "released"}, "Rename it"),
    ("scales are counts", GOOD, {"--scales": "count"}, "is the count column"),
    ("scale 0", GOOD.replace("5,30", "5,0"), {"--scales": "size"}, "a scale must be positive"),
    ("out of balance", GOOD, {"--scales": "size", "--view": "max-entropy"}, "out of balance"),
    ("negative", GOOD.replace("3,20", "-3,20"), {}, "1 of 4 entries that are negative"),
    ("a word", GOOD.replace("5,30", "five,30"), {}, "not finite numbers"),
    ("epsilon 0", GOOD, {"--epsilon": "0"}, "--epsilon must be a finite number above 0"),
    ("epsilon nan", GOOD, {"--epsilon": "nan"}, "--epsilon must be a finite number above 0"),
    ("delta 1", GOOD, {"--delta": "1"}, "--delta must be above 0 and below 1"),
    ("no records", GOOD, {"--records": "0"}, "--records must be at least 1"),
    ("other suffix", GOOD, {"--out": "r.xlsx"}, "must end in .csv or .parquet"),
    ("beyond float64", GOOD.replace("3,20", f"{2**53},20"), WHOLE, "must sum to less than 2**53"),
    ("out below a file", GOOD, {"--out": "table.csv/r.csv"}, "is a file where a folder is needed"),
    ("budget of nothing", GOOD, {"--epsilon": "1e-300", **WHOLE}, "The budget is too small"),
    ("no rows", "group,count\n", {}, "no rows"),
]


@pytest.mark.parametrize(
    ("text", "changes", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_line_and_status_2(command, csv, tmp_path, text, changes, words):
    options = USUAL | {"--out": "r.csv"} | changes
    if options["--out"]:
        options["--out"] = tmp_path / options["--out"]
    given = [part for pair in options.items() if pair[1] is not None for part in pair]
    status, stdout, stderr = command("release", csv(text), *given)
    assert status == 2 and words in stderr
    assert stderr.count("\n") == 1 and stderr.startswith("Error: ")
    assert "Traceback" not in stderr and "812345" not in stderr
    assert stdout == "" and [p.name for p in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("there", ["r.csv", "r.csv.json"])
def test_a_release_is_never_overwritten(command, csv, tmp_path, there):
    (tmp_path / there).write_text("mine")
    given = [part for pair in USUAL.items() for part in pair]
    status, stdout, stderr = command("release", csv(GOOD), *given, "--out", tmp_path / "r.csv")
    assert status == 2 and stdout == "" and "a release is never overwritten" in stderr
    assert (tmp_path / there).read_text() == "mine" and len(list(tmp_path.iterdir())) == 2


def test_verify_of_what_is_no_release(command, csv, tmp_path):
    status, _, stderr = command("verify", tmp_path / "gone.csv")
    assert status == 2 and "gone.csv` is not there" in stderr and stderr.count("\n") == 1
    status, _, stderr = command("verify", csv(GOOD))
    assert status == 2 and "table.csv.json` is not there" in stderr


def test_verify_of_another_version(command, csv, tmp_path):
    given = [part for pair in USUAL.items() for part in pair]
    command("release", csv(GOOD), *given, "--out", tmp_path / "r.csv")
    path = tmp_path / "r.csv.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 9}))
    status, stdout, stderr = command("verify", tmp_path / "r.csv")
    assert status == 2 and stdout == "" and stderr.count("\n") == 1
    assert "has metadata of version 9" in stderr and "reads version 1" in stderr
