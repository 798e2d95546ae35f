"""Exact totals that were published before and are others now: refused until that is said."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import cdp_views as cdp
from cdp_views.releases import geometry
from cdp_views.releases.budget import earlier
from cdp_views.releases.budget.cost import structure
from cdp_views.releases.noise.closing import totals_of

from .conftest import COUNTS
from .test_parts import CUTS, lay, table
from .test_parts import make as release

WHOLE = {"noise": "discrete-laplace", "delta": 0.0, "epsilon": 0.1}
MOVED = COUNTS + np.array([1, -1, 0, 0, 0, 0, 0, 0])  # within a group
ADDED = COUNTS + np.array([1, 0, 0, 0, 0, 0, 0, 0])
REFUSED = r"1 of the 2 exact totals that release 1 published differs by these counts.*--correct"


@pytest.fixture
def ledger(make, tmp_path):
    """With one release that is published, of persons."""
    made = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.0, delta=1e-6)
    make(**WHOLE, ledger=made, counted="persons").save(tmp_path / "r.csv")
    return made


def stored(ledger):
    with closing(sqlite3.connect(ledger.path)) as database:
        return database.execute("SELECT totals FROM releases ORDER BY number").fetchall()


def test_totals_that_changed_stop_a_release_until_that_is_said(make, ledger):
    coarse = cdp.totals([0] * 8)  # other groups: those published before changed nevertheless
    for given in ({}, {"invariant": coarse}, {"counted": "persons"}):
        with pytest.raises(ValueError, match=REFUSED) as error:
            make(ADDED, **WHOLE, ledger=ledger, **given)
        assert "\n" not in str(error.value) and "593" not in str(error.value)
    assert len(ledger.entries) == 1
    make(MOVED, **WHOLE, ledger=ledger)  # the same totals
    said = []
    speaking = cdp.Ledger(ledger.path, announce=said.append)
    made = make(ADDED, **WHOLE, ledger=speaking, corrected=True, counted="persons")
    assert "It supersedes release 2: 1 of the exact totals published before differs by" in said[0]
    assert (
        made.metadata["ledger"]["corrected_totals"] == 1 and made.metadata["counted"] == "persons"
    )
    day = made.metadata["ledger"]["supersedes"]["reserved"]
    assert f"1 exact total of release 2 (of {day}) was changed" in made.metadata["guarantee"]
    assert ledger.entries["corrected"].tolist() == [0, 0, 1]
    assert ledger.entries["counted"].tolist() == ["persons", "", "persons"]
    again = make(ADDED, **WHOLE, ledger=ledger, counted="persons")  # resumes: said once is enough
    assert again.metadata == made.metadata and len(ledger.entries) == 3
    # what was said once is known: the same totals again show nothing new, the old ones would
    make(ADDED, **(WHOLE | {"epsilon": 0.2}), ledger=ledger)
    with pytest.raises(ValueError, match="release 4 is about to publish differs"):
        make(**(WHOLE | {"epsilon": 0.2}), ledger=ledger, counted="persons")
    with pytest.raises(ValueError, match="release 4 is about to publish"):  # other groups do
        make(ADDED[::-1], **WHOLE, ledger=ledger, invariant=coarse)


def test_other_things_are_counted_beside_these(make, ledger):
    ledger.also_counts("households")
    made = make(COUNTS * 2, **WHOLE, ledger=ledger, counted="households")
    assert made.metadata["ledger"]["added_totals"] == 2  # not published before
    said = []
    speaking = cdp.Ledger(ledger.path, announce=said.append)
    speaking.also_counts("dogs")  # of persons and households no column is known
    series = pd.Series(COUNTS * 3, name="dogs")
    assert make(series, **WHOLE, ledger=speaking).metadata["counted"] == "dogs"
    assert 'compared with none of "persons", "households"' in said[0]
    with pytest.raises(ValueError, match="where something else was counted, say what"):
        make(COUNTS * 2, **WHOLE, ledger=ledger)
    with pytest.raises(ValueError, match="`corrected` needs `ledger`"):
        make(**WHOLE, corrected=True)


def test_other_words_for_one_column_do_not_switch_the_comparison_off(make, tmp_path):
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.0)
    employed, changed = (pd.Series(own, name="employed") for own in (COUNTS, ADDED))
    make(employed, **WHOLE, ledger=ledger).save(tmp_path / "r.csv")
    for given in ({}, {"corrected": True}):  # the words must be settled first
        with pytest.raises(ValueError, match=r'holds totals of "employed", .*the same thing') as e:
            make(changed, **WHOLE, ledger=ledger, counted="employed people", **given)
        assert "also-counts" in str(e.value) and "593" not in str(e.value)
    # the same totals tell nothing new, whatever they are called; the next change is seen
    make(employed, **WHOLE, ledger=ledger, counted="people").save(tmp_path / "s.csv")
    with pytest.raises(ValueError, match="release 2 published differs"):
        make(changed, **WHOLE, ledger=ledger, counted="people")
    # another column needs no word
    other = make(pd.Series(COUNTS * 2, name="unemployed"), **WHOLE, ledger=ledger)
    assert ledger.entries["added_totals"].tolist() == [2, 0, 2] and other.metadata["counted"]
    ledger.also_counts("employed people")
    make(changed, **WHOLE, ledger=ledger, counted="employed people")
    assert len(ledger.entries) == 4


def test_an_unfinished_release_is_compared_too_and_tells_nobody(make, tmp_path):
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.0)
    first = make(**WHOLE, ledger=ledger)
    (keyed,) = stored(ledger)[0]
    open_ = earlier.hashes(earlier.as_bytes([593, 9684]))
    assert keyed != open_  # what could be guessed from
    with (
        pytest.warns(UserWarning, match="made from other counts"),
        pytest.raises(ValueError, match="release 1 is about to publish differs"),
    ):
        make(ADDED, **WHOLE, ledger=ledger)
    first.save(tmp_path / "r.csv")
    assert stored(ledger)[0] == (open_,)
    # one that was given up is not in the way
    second = cdp.Ledger.create(tmp_path / "c.ledger", epsilon=1.0)
    make(**WHOLE, ledger=second)
    for secret in tmp_path.glob("c.ledger.*.secret"):
        secret.unlink()
    make(ADDED, **WHOLE, ledger=second)


@pytest.mark.parametrize(
    "inv",
    [
        cdp.totals(list("yyxxyyxx")),
        cdp.totals(list("ababcc.."), [1.5, 2, 1, 0.1, 7, 1, 1, 3]),
        cdp.margins((2, 2, 2), keep=[(0, 1), (2,)]),
        cdp.totals(list("aabbccdd")) & cdp.totals(list("abababab")),
        cdp.structural_zeros(cdp.totals(list("xxxxyyyy")), [1]),
    ],
    ids=["totals", "weights", "margins", "joint", "zeros"],
)
def test_totals_are_those_that_the_ledger_adds_up(inv):
    told = json.loads(json.dumps(structure(inv)))
    x = COUNTS + 0.1
    assert np.array_equal(totals_of(geometry.from_json(told), x), totals_of(inv, x))


def test_a_ledger_of_version_1_is_brought_up_to_date(make, ledger, tmp_path):
    with closing(sqlite3.connect(ledger.path)) as database:
        for name in ("counted", "totals", "corrected", "source", "output", "supersedes"):
            database.execute(f"ALTER TABLE releases DROP COLUMN {name}")
        database.execute("DROP TABLE apart")
        database.execute("PRAGMA user_version = 1")
    said = []
    old = cdp.Ledger(ledger.path, announce=said.append)
    assert old.spent.epsilon == 0.1 and old.entries["state"].tolist() == ["complete"]
    make(ADDED, **WHOLE, ledger=old).save(tmp_path / "s.csv")  # nothing is known of the first
    assert "An exact total that was corrected shows by how much" in said[0]
    with pytest.raises(ValueError, match="that release 2 published differs"):
        make(COUNTS, **WHOLE, ledger=old)


def test_a_ledger_of_version_2_keeps_its_words_apart(make, ledger):
    ledger.also_counts("dogs")
    make(COUNTS * 2, **WHOLE, ledger=ledger, counted="dogs")
    with closing(sqlite3.connect(ledger.path)) as database:
        for name in ("source", "output", "supersedes"):
            database.execute(f"ALTER TABLE releases DROP COLUMN {name}")
        database.execute("DROP TABLE apart")
        database.execute("PRAGMA user_version = 2")
    old = cdp.Ledger(ledger.path)
    make(COUNTS, **WHOLE, ledger=old, counted="persons")
    with pytest.raises(
        ValueError, match="2 of the 2 exact totals that release 2 is about to publish differ"
    ):
        make(COUNTS * 3, **(WHOLE | {"epsilon": 0.2}), ledger=old, counted="dogs")
    with pytest.raises(ValueError, match=r'holds totals of .*"cats" the same thing'):
        make(COUNTS * 4, **WHOLE, ledger=old, counted="cats")


def test_what_was_counted_is_a_line_of_text(make):
    for bad in ("", " ", "a\nb", 3, "x" * 201):
        with pytest.raises(ValueError, match=r"`counted` must be a few words on one line"):
            make(**WHOLE, counted=bad)
    assert "counted" not in make(pd.Series(COUNTS, name=7), **WHOLE).metadata


def test_totals_of_parts_are_compared_however_they_are_dealt(tmp_path):
    frame = table()
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=3.0)
    release(lay(tmp_path / "in", frame, CUTS), tmp_path / "one", ledger=ledger)
    moved = frame.copy()  # between two rows of county c0: every total is as it was
    moved.loc[:1, "many"] += [5, -5]
    release(lay(tmp_path / "moved", moved, [range(7)]), tmp_path / "two", ledger=ledger)
    across = frame.copy()  # between two counties: the sum of all is as it was
    across.loc[[0, 40], "many"] += [5, -5]
    source = lay(tmp_path / "across", across, CUTS)
    with pytest.raises(ValueError, match="exact totals that release 2 published differ"):
        release(source, tmp_path / "three", ledger=ledger)
    made = release(source, tmp_path / "three", ledger=ledger, corrected=True)
    assert made.metadata["ledger"]["corrected_totals"] == 1 and len(ledger.entries) == 3
    assert "by how much is public to the last unit" in made.metadata["guarantee"]
    with pytest.raises(ValueError, match="`corrected` needs `ledger`"):
        release(source, tmp_path / "four", corrected=True)
