"""Structural zeros of a table in parts: 0 without noise, as if those rows were not there."""

import json

import jax
import numpy as np
import pandas as pd
import pytest

import cdp_views as cdp

from .test_folder_page import in_node
from .test_parts import COLUMNS, CUTS, known, lay, make, rows, table

__all__ = ["known"]  # a fixture
RELEASED = ["released_few", "released_many"]
PART = "p2.parquet"


def zeroed() -> pd.DataFrame:
    """c1 keeps one cell, c2 and c6 many, c3 and c4 none, and c0 and c5 all."""
    frame = table()
    place = frame.groupby("county").cumcount()
    at = np.select(
        [frame["county"] == "c1", frame["county"].isin(["c2", "c6"])], [place != 1, place % 3 == 0]
    )
    frame["empty"] = (at == 1) | frame["county"].isin(["c3", "c4"])
    frame.loc[frame["empty"], [*COLUMNS]] = 0
    return frame


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("zeros")
    return make(lay(home / "in", zeroed(), CUTS), home / "out", zeros="empty")


@pytest.mark.parametrize("view", ["conditioned", "imaged"])
def test_the_noise_is_that_of_the_table_without_these_rows(known, tmp_path, view):
    frame = zeroed()
    free = ~frame.sort_values("block")["empty"].to_numpy()
    # groups not one after another, in one part; then as they are; then without the zeros
    mixed = frame.iloc[np.argsort(frame.groupby("county").cumcount(), kind="stable")]
    one = make(lay(tmp_path / "a", mixed, [range(7)]), tmp_path / "1", view=view, zeros="empty")
    two = make(lay(tmp_path / "b", frame, CUTS), tmp_path / "2", view=view, zeros="empty")
    less = make(lay(tmp_path / "c", frame[~frame["empty"]], CUTS), tmp_path / "3", view=view)
    pd.testing.assert_frame_equal(rows(one), rows(two))
    pd.testing.assert_frame_equal(
        rows(two)[free].drop(columns="empty").reset_index(drop=True), rows(less)
    )
    assert np.all(rows(two)[~free][RELEASED] == 0)
    noise = rows(two)[RELEASED].to_numpy() - frame.sort_values("block")[[*COLUMNS]].to_numpy()
    assert np.count_nonzero(noise) > 100
    assert two.metadata["scale"] == less.metadata["scale"]
    # and the release of all cells at once, as the command line stacks them
    labels = {n: [str(x) for x in frame[n] for _ in COLUMNS] for n in ("state", "county", "block")}
    labels["column"] = [*COLUMNS] * len(frame)
    zeros = frame["empty"].to_numpy().repeat(2)
    inv = cdp.structural_zeros(
        cdp.totals([f"{c} {k}" for c in frame["county"] for k in "fm"]), zeros
    )
    whole = cdp.release(
        frame[[*COLUMNS]].to_numpy().ravel(), inv, view=view, epsilon=0.7, names=labels,
        zeros=zeros, neighbours=cdp.relocations(inv), accept_exact=True,
    )  # fmt: skip
    same = whole.released.reshape(-1, 2)[np.argsort(frame["block"].to_numpy())]
    assert np.array_equal(rows(two)[RELEASED].to_numpy(), same)


def test_the_release_says_which_cells_can_only_be_zero(made):
    made.verify()
    frame, m = zeroed(), made.metadata
    many = 2 * int(frame["empty"].sum())
    assert (m["structural_zeros"], m["groups"], m["determined"]) == (many, 14, 2)
    assert m["columns"]["zeros"] == "empty" and made.columns.zeros == "empty"
    assert f"{many} of the 366 cells can only be 0, whatever the data" in m["guarantee"]
    assert "2 of the 366 cells are alone in their group, those left out that" in m["guarantee"]
    found = rows(made)
    assert found["empty"].tolist() == frame.sort_values("block")["empty"].tolist()
    sums = found.groupby("county")[RELEASED].sum().to_numpy()
    assert np.array_equal(sums, frame.groupby("county")[[*COLUMNS]].sum().to_numpy())
    assert (made.totals("p1.parquet").set_index("county").loc[["c3", "c4"], "many"] == 0).all()
    page = (made.folder / "_about.html").read_text()
    assert "Cells that can only be 0, whatever the data" in page and "leave them out of k" in page


def test_a_model_has_no_doubt_about_zeros(made):
    seen, zeros = made.observed(PART, "many"), made.part(PART)["empty"].to_numpy()
    assert np.array_equal(seen.invariant.determined, zeros)
    assert seen.invariant.rank == 2 + zeros.sum() and "empty" not in seen.coords
    support = seen.mechanism.law(np.asarray(seen.released)).support
    moved = np.zeros(zeros.size)
    moved[[np.flatnonzero(zeros)[0], np.flatnonzero(~zeros)[-1]]] = 2, -2  # within c6
    inv = cdp.structural_zeros(cdp.totals(made.part(PART)["county"]), zeros)
    assert np.allclose(seen.invariant.project(moved), inv.project(moved))
    assert support(seen.released) and not support(seen.released + moved)
    assert made.observed("p0.parquet", "few").invariant.determined.sum() == 3
    assert f"{zeros.sum()} that can only be 0, 2 exact totals" in repr(seen)


def test_the_page_knows_that_zeros_have_no_noise(made):
    page, part = (made.folder / "_about.html").read_text(), made.part(PART)
    dropped = json.dumps(part.to_csv(index=False))
    c6, zeros = part["county"] == "c6", part["empty"]
    group, zero = np.flatnonzero(c6 & ~zeros).tolist(), np.flatnonzero(c6 & zeros).tolist()
    model = f"folder.check(folder.parse({dropped}), told, folder.inside(told)), told, 1"
    sums = json.dumps([zero, group, group[:1], [*zero, group[0]]])
    found = in_node(
        page,
        f"((m) => {sums}.map((c) => core.margin(m.law, c.map((r) => m.rows.indexOf(r)), 0.9).sd))"
        f"(folder.model({model}))",
    )
    with jax.enable_x64(True):
        law = made.observed(PART, "many").mechanism.law(np.zeros(len(part)))
        sd = np.sqrt(np.asarray(law.variance))
    assert found == pytest.approx([0, 0, sd[group[0]], sd[group[0]]], rel=1e-6)


def test_verify_sees_a_zero_that_was_filled_or_moved(made):
    place = made.folder / PART
    before, bytes_ = made.part(PART), place.read_bytes()
    zero, free = (int(np.flatnonzero(before["empty"] == x)[-1]) for x in (True, False))
    filled, moved = before.copy(), before.copy()
    filled.loc[zero, "released_many"] += 3
    filled.loc[free, "released_many"] -= 3  # the total holds
    moved.loc[zero, "empty"] = False
    for changed, words in (
        (filled, rf'"released_many" is not 0 in 1 rows that "empty" says .* data row {zero + 1}'),
        (moved, "is not the part released"),
        (before.drop(columns="empty"), 'has no column "empty"|cannot be read'),
    ):
        changed.to_parquet(place, index=False)
        with pytest.raises(ValueError, match=words):
            made.verify()
    before.assign(empty=before["empty"].astype(float)).to_parquet(place, index=False)
    made.verify()  # another type is no change
    place.write_bytes(bytes_)


FALSE = (
    r'"empty" says of 1 rows in .*p0.parquet` .*"few" is not 0 there, first in data row 2\. Correct'
)
BAD = [
    (lambda t: {"few": t["few"] + (t.index == 1)}, FALSE),
    (lambda t: {"empty": 2 * t["empty"].astype(int)}, r"else in data row 2 of `.*p0.parquet`"),
    (lambda t: {"empty": [None, *t["empty"][1:]]}, r'"empty" has 1 of 43 entries missing in'),
    (lambda t: {"empty": t["empty"].astype(str)}, r"else in data row 1 of `.*p0.parquet`"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_what_is_no_structural_zero_is_refused_with_its_place(tmp_path, change, words):
    frame = zeroed()[lambda t: t["county"].isin(["c0", "c1"])].reset_index(drop=True)
    frame.loc[1, ["empty", *COLUMNS]] = [True, 0, 0]
    source = lay(tmp_path / "in", frame.assign(**change(frame)), [[0, 1]])
    with pytest.raises(ValueError, match=words):
        make(source, tmp_path / "out", zeros="empty")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


def test_refused_before_anything_is_spent_and_a_ledger_knows_the_zeros(tmp_path):
    frame = zeroed()
    source, out = lay(tmp_path / "in", frame, CUTS), tmp_path / "out"
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=3.0)
    with pytest.raises(ValueError, match=r"determine 2 cells.* alone with zeros .*in `p0.parquet`"):
        make(source, out, zeros="empty", ledger=ledger, accept_exact=False)
    for given, words in (
        ("block", '`zeros` is "block", which is a column of counts or labels too'),
        ("few", '`zeros` is "few"'),
        ([3, 5], r"`zeros` must name a column of all parts; got \[3, 5\]"),
        ("who", 'no column "who"'),
    ):
        with pytest.raises(ValueError, match=words):
            make(source, out, zeros=given, ledger=ledger)
    alone = lay(tmp_path / "alone", frame[frame["county"].isin(["c1", "c3", "c4"])], [range(7)])
    with pytest.raises(
        ValueError, match="No group of state, county has two rows that can be other"
    ):
        make(alone, out, zeros="empty", ledger=ledger)
    assert ledger.spent.epsilon == 0
    make(source, tmp_path / "one", zeros="empty", ledger=ledger)
    renamed = frame.rename(columns={"empty": "none"})
    make(lay(tmp_path / "in2", renamed, [range(7)]), tmp_path / "two", zeros="none", ledger=ledger)
    assert list(ledger.entries["added_totals"]) == [14, 0]
    place, other = np.flatnonzero(frame["county"] == "c6")[1:3], frame.copy()
    other.loc[place, ["empty", *COLUMNS]] = [True, 0, 0]
    other.loc[place[0] - 1, "empty"] = other.loc[place[1], "empty"] = False  # as many of them
    other = lay(tmp_path / "in3", other, CUTS)
    for folder, zeros in ((source, None), (other, "empty")):
        with pytest.raises(cdp.UnsupportedError, match="other exact totals"):
            make(folder, tmp_path / "three", zeros=zeros, ledger=ledger)


@pytest.mark.slow
def test_two_processes_have_the_same_zeros_and_noise(known, tmp_path):
    source = lay(tmp_path / "in", zeroed(), [[i] for i in range(7)])
    one, two = (make(source, tmp_path / f"{n}", zeros="empty", workers=n) for n in (1, 2))
    for name in one.names:
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()
