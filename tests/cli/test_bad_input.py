"""Bad input: one line on stderr, exit status 2, no traceback, nothing written, no count shown."""

import pytest

GOOD = "area,group,count,size\na,x,812345,10\nb,x,3,20\nc,y,5,30\nd,y,7,45\n"
SECRET = "812345"

# (what is wrong, the table's text, arguments after the table, words of the message)
CASES = [
    ("no rows", "group,count\n", [], "no rows"),
    ("nothing at all", "", [], "is empty"),
    ("no such count", GOOD, ["--count", "persons"], "columns are area, group, count, size"),
    ("no such group", GOOD, ["--within", "state"], "columns are area, group, count, size"),
    ("no such scales", GOOD, ["--scales", "weight"], "columns are"),
    ("no such names", GOOD, ["--names", "label"], "columns are"),
    (
        "negative",
        GOOD.replace("3,20", "-3,20"),
        [],
        "1 of 4 entries that are negative, first in da",
    ),
    ("a word", GOOD.replace("5,30", "five,30"), [], "1 of 4 entries that are not finite numbers"),
    ("infinite", GOOD.replace("5,30", "inf,30"), [], "not finite numbers, first in data row 3"),
    ("NaN", GOOD.replace("5,30", "nan,30"), [], "not finite numbers, first in data row 3"),
    ("missing count", GOOD.replace("5,30", ",30"), [], "1 of 4 entries that are missing"),
    ("missing label", GOOD.replace("c,y", "c,"), [], "1 of 4 labels missing, first in data row 3"),
    ("epsilon 0", GOOD, ["--epsilon", "0"], "--epsilon must be a finite number above 0; got 0.0"),
    ("epsilon below", GOOD, ["--epsilon", "-1"], "--epsilon must be"),
    ("epsilon NaN", GOOD, ["--epsilon", "nan"], "--epsilon must be"),
    ("epsilon inf", GOOD, ["--epsilon", "inf"], "--epsilon must be"),
    ("epsilon a word", GOOD, ["--epsilon", "much"], "--epsilon"),
    ("delta 0", GOOD, ["--delta", "0"], "--delta must be between 0 and 1"),
    ("delta 1", GOOD, ["--delta", "1"], "--delta must be between 0 and 1"),
    ("no tables", GOOD, ["--tables", "0"], "--tables must be at least 1"),
    ("half a table", GOOD, ["--tables", "1.5"], "--tables"),
    ("negative draws", GOOD, ["--draws", "-1"], "--draws must be at least 0"),
    ("unknown option", GOOD, ["--loudness", "laplace"], "--loudness"),
    ("unknown noise", GOOD, ["--noise", "cauchy"], "--noise must be normal or laplace; got cauchy"),
    ("scales are the counts", GOOD, ["--scales", "count"], "count column"),
    ("weights are the counts", GOOD, ["--weights", "count"], "count column"),
    ("no such weights", GOOD, ["--weights", "w"], "columns are"),
    ("scale 0", GOOD.replace("5,30", "5,0"), ["--scales", "size"], "a scale must be positive"),
    ("scale below 0", GOOD.replace("5,30", "5,-1"), ["--scales", "size"], "negative"),
    ("ragged", GOOD + "e,y,1,1,1,1\n", [], "cannot be read (ParserError)"),
    (
        "more fields than the header",
        GOOD.replace("a,x,", "a,x,5,"),
        [],
        "more fields than the head",
    ),
    ("semicolons", GOOD.replace(",", ";"), [], "Separate columns with commas"),
    ("a header twice", GOOD.replace("size", "count"), [], "names several columns"),
    ("names are the counts", GOOD, ["--names", "count"], "is the count column"),
    ("groups are the counts", GOOD, ["--within", "count"], "is the count column"),
    ("too many tables", GOOD, ["--tables", f"{10**20}"], "--tables must be at least 1 and below"),
    ("too large a seed", GOOD, ["--seed", f"{10**20}"], "--seed must be at least 0 and below"),
    ("out below a file", GOOD, ["--out", __file__ + "/x"], "is a file where a folder is needed"),
    ("every group one cell", "group,count\na,1\nb,2\n", [], "--within leaves every cell alone"),
]


@pytest.mark.parametrize(
    ("text", "arguments", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_line_and_status_2(command, csv, tmp_path, text, arguments, words):
    out = tmp_path / "out"
    given = ["--count", "count", "--within", "group", "--out", out]
    # A later option replaces an earlier one; of --within both would count.
    if "--within" in arguments:
        given = ["--count", "count", "--out", out]
    status, stdout, stderr = command("compare", csv(text), *given, *arguments)
    assert status == 2
    assert stderr.count("\n") == 1 and stderr.startswith("Error: ")
    assert words in stderr
    assert "Traceback" not in stderr and SECRET not in stderr
    assert stdout == "" and [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_scales_out_of_balance_name_the_cell_as_the_table_does(command, csv):
    """The geometry knows it as cell 2; a group that is called so keeps its name."""
    path = csv("area,group,count,size\na,cell 1,5,1\nb,cell 1,3,1\nc,cell 1,4,9\n")
    given = [path, "--count", "count", "--within", "group", "--scales", "size"]
    status, stdout, _ = command("compare", *given, "--names", "area")
    said = " ".join(stdout.split())
    assert status == 0 and 'of cell "c (cell 1)" is 0.8182 of the sum in group cell 1;' in said
    assert "or use conditioned or imaged, which" in said and "cell 2" not in said
    spend = ["--noise", "normal", "--epsilon", 1, "--delta", 1e-6, "--out", "r.csv"]
    spend += ["--names", "area"]
    status, _, stderr = command("release", *given, "--view", "max-entropy", *spend)
    assert status == 2 and 'cell "row 3 (cell 1, c)" is 0.8182 of the sum in group cell 1' in stderr
    assert "or use --view conditioned or --view imaged" in stderr


def test_scales_proportional_to_the_counts_under_another_name(command, csv):
    text = "group,count,size\nx,1,2.5\nx,3,7.5\nx,4,10\n"
    path = csv(text)
    status, _, stderr = command(
        "compare", path, "--count", "count", "--within", "group", "--scales", "size"
    )
    assert status == 2 and "must not be taken from the counts" in stderr


@pytest.mark.parametrize("arguments", [["--count", "count"], ["--within", "group"]])
def test_an_option_that_a_file_needs(command, csv, arguments):
    status, _, stderr = command("compare", csv(GOOD), *arguments)
    assert status == 2 and "is missing: name the column" in stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [("gone.csv", "is not there"), ("", "is a folder"), ("x.xlsx", "neither CSV nor Parquet")],
)
def test_files_that_are_no_tables(command, tmp_path, name, words):
    (tmp_path / "x.xlsx").write_text("a")
    status, _, stderr = command("compare", tmp_path / name, "--count", "count", "--within", "group")
    assert status == 2 and words in stderr and stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["bytes.csv", "bytes.parquet"])
def test_files_that_cannot_be_read(command, tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00count,812345\n")
    status, _, stderr = command("compare", tmp_path / name, "--count", "count", "--within", "group")
    assert status == 2 and "cannot be read" in stderr and SECRET not in stderr
    assert stderr.count("\n") == 1


def test_files_that_are_there_are_not_overwritten(command, csv, tmp_path):
    (tmp_path / "noise.nc").write_text("mine")
    given = ["compare", csv(GOOD), "--count", "count", "--within", "group", "--out"]
    status, _, stderr = command(*given, tmp_path)
    assert status == 2 and "already holds noise.nc" in stderr and "--overwrite" in stderr
    assert (tmp_path / "noise.nc").read_text() == "mine"
    status, _, stderr = command(*given, tmp_path / "noise.nc")
    assert status == 2 and "is a file" in stderr
