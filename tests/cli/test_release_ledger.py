"""A budget on the command line: created, spent, shown, exhausted, resumed."""

import pytest

import cdp_views as cdp

TABLE = (
    "area,group,count\na,x,11\nb,x,502\nc,x,77\nd,x,3\n"
    "e,y,9001\nf,y,12\ng,y,640\nh,y,31\n"
)  # fmt: skip
GIVEN = ["--count", "count", "--within", "group", "--names", "area", "--view", "conditioned"]
PURE = ["--noise", "discrete-laplace"]


@pytest.fixture
def ledger(command, tmp_path):
    path = tmp_path / "b.ledger"
    status, stdout, stderr = command("ledger", "new", path, "--epsilon", "1", "--delta", "1e-6")
    assert (status, stderr) == (0, "") and "nothing spent" in stdout
    return path


def test_a_ledger_is_spent_shown_and_exhausted(command, csv, tmp_path, ledger):
    table, out = csv(TABLE), tmp_path / "r.csv"
    given = ["release", table, *GIVEN, *PURE, "--ledger", ledger]
    status, stdout, stderr = command(*given, "--epsilon", "0.75", "--out", out)
    said = " ".join(stdout.split())
    assert (status, stderr) == (0, "")
    # the cost is said before what was done
    assert said.startswith("Release 1 of this table costs epsilon 0.75, delta 0. Afterwards")
    assert said.index("Afterwards epsilon 0.25") < said.index("Released 8 cells")
    status, stdout, _ = command("ledger", "show", ledger)
    assert status == 0 and "complete" in stdout and "discrete-laplace" in stdout
    assert "spent: epsilon 0.75, delta 0" in stdout and "left:  epsilon 0.25, delta 1e-06" in stdout
    status, stdout, stderr = command(*given, "--epsilon", "0.5", "--out", tmp_path / "s.csv")
    assert status == 2 and stdout == "" and stderr.count("\n") == 1
    assert "has epsilon 0.25 left" in stderr and "Nothing was spent" in stderr
    # the file is there: refused before anything is spent
    status, stdout, stderr = command(*given, "--epsilon", "0.25", "--out", out)
    assert status == 2 and "is there already" in stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "b.ledger", "r.csv", "r.csv.about.html", "r.csv.json", "table.csv",
    ]  # fmt: skip
    assert command("verify", out)[0] == 0
    assert len(cdp.Ledger(ledger).entries) == 1


def test_what_was_cut_short_is_resumed(command, csv, tmp_path, ledger, monkeypatch):
    from cdp_views.releases import files

    given = ["release", csv(TABLE), *GIVEN, *PURE, "--ledger", ledger, "--epsilon", "0.75"]
    given += ["--out", tmp_path / "r.csv"]
    place = files.place_new

    def full(made, target):
        raise OSError("the disk is full")

    monkeypatch.setattr(files, "place_new", full)
    status, _, stderr = command(*given)
    assert status == 2 and "the disk is full" in stderr
    assert "reserved" in command("ledger", "show", ledger)[1]
    monkeypatch.setattr(files, "place_new", place)
    # another epsilon to the same file would pay again: said, and nothing spent
    changed = [x if x != "0.75" else "0.1" for x in given]
    status, stdout, stderr = command(*changed)
    assert status == 2 and stdout == "" and "repeat its command to finish it" in stderr
    status, stdout, _ = command(*changed[:-1], tmp_path / "s.csv")
    assert status == 0 and "Release 1 (epsilon 0.75, conditioned view" in " ".join(stdout.split())
    shown = command("ledger", "show", ledger)[1]
    assert "or delete `" in shown and f"to {tmp_path / 'r.csv'}" in shown
    status, stdout, _ = command(*given)
    assert status == 0 and "Resumes a release that was cut short: the same noise" in stdout
    assert command("verify", tmp_path / "r.csv")[0] == 0
    assert len(cdp.Ledger(ledger).entries) == 2 and cdp.Ledger(ledger).loose_ends == []


def test_other_columns_of_the_table_are_not_called_another_table(command, csv, tmp_path, ledger):
    lines = TABLE.split()
    table = csv(
        "\n".join([f"{lines[0]},more", *(f"{line},{i}" for i, line in enumerate(lines[1:]))])
    )
    given = [*GIVEN, *PURE, "--ledger", ledger, "--out", tmp_path]
    both = ["--count", "more", "--contribution", "disjoint", "--epsilon", "0.6"]
    assert command("release", table, *given[:-1], tmp_path / "r.csv", *both)[0] == 0
    for epsilon, words in (
        ("0.1", "other count columns together (count and more): of 16"),
        ("0.9", "has epsilon 0.4 left of epsilon 1"),
    ):
        status, _, stderr = command(
            "release", table, *given[:-1], tmp_path / "s.csv", "--epsilon", epsilon
        )
        assert status == 2 and words in stderr and stderr.count("\n") == 1


def test_a_corrected_figure_is_said_and_what_was_counted_too(command, csv, tmp_path, ledger):
    given = [*GIVEN, *PURE, "--ledger", ledger, "--epsilon", "0.2", "--out"]
    assert command("release", csv(TABLE), *given, tmp_path / "r.csv")[0] == 0
    corrected = csv(TABLE.replace("502", "503"), "new.csv")
    status, stdout, stderr = command("release", corrected, *given, tmp_path / "s.csv")
    assert status == 2 and stdout == "" and stderr.count("\n") == 1
    assert "1 of the 2 exact totals that release 1 published" in stderr and "--corrected" in stderr
    status, stdout, _ = command("release", corrected, *given, tmp_path / "s.csv", "--corrected")
    said = " ".join(stdout.split())
    assert status == 0 and "It supersedes release 1: 1 of the exact totals" in said
    assert "no new" not in command("ledger", "show", ledger)[1].split("changed")[1]
    assert "1 changed total of release 1" in command("ledger", "show", ledger)[1]
    assert "no noise covers it" in said[said.index("Released") :]
    assert "s.csv: counts of count, " in command("verify", tmp_path / "s.csv")[1]
    # something else, in words that a page must not take for its own
    other = [*given, tmp_path / "t.csv", "--counted", "cats <i>"]
    cats = csv(TABLE.replace("31", "7"), "cats.csv")
    status, _, stderr = command("release", cats, *other)
    assert status == 2 and 'Is "cats <i>" the same thing?' in stderr and stderr.count("\n") == 1
    assert command("ledger", "also-counts", ledger, "cats <i>")[0] == 0
    assert command("release", cats, *other)[0] == 0
    page = (tmp_path / "t.csv.about.html").read_text()
    assert "cats &lt;i&gt;" in page and "cats <i>" not in page
    shown = command("ledger", "show", ledger)[1]
    assert "count " in shown and "cats <i>" in shown
    status, _, stderr = command("release", csv(TABLE), *given, tmp_path / "u.csv", "--counted", " ")
    assert status == 2 and "must be a few words on one line" in stderr


def test_what_another_process_made_meanwhile_is_not_paid_for(
    command, csv, tmp_path, ledger, monkeypatch
):
    out = tmp_path / "r.csv"
    given = ["release", csv(TABLE), *GIVEN, *PURE, "--ledger", ledger, "--epsilon", "0.2"]
    real = cdp.Ledger.reserve

    def late(self, *args, **kwargs):
        out.write_text("made by another one")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(cdp.Ledger, "reserve", late)
    status, stdout, stderr = command(*given, "--out", out)
    assert status == 2 and stdout == "" and "never overwritten" in stderr
    assert len(cdp.Ledger(ledger).entries) == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["show", "gone.ledger"], "gone.ledger` is not there"),
        (["new", "x.ledger", "--epsilon", "0"], "--epsilon must be positive"),
        (["new", "x.ledger"], "Missing option '--epsilon'"),
        (["show", "table.csv"], "is no ledger"),
    ],
    ids=["gone", "epsilon 0", "no epsilon", "no ledger"],
)
def test_bad_input_is_one_line(command, csv, tmp_path, given, words):
    csv(TABLE * 20)
    status, stdout, stderr = command("ledger", given[0], tmp_path / given[1], *given[2:])
    assert status == 2 and stdout == "" and words in stderr and stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_help_of_the_ledger(command):
    status, out, _ = command("ledger", "--help")
    assert status == 0 and "new" in out and "show" in out
    assert "--ledger" in command("release", "--help")[1]
