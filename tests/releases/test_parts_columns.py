"""Several columns of counts in parts: people in more than one of them, a budget of each column."""

import numpy as np
import pandas as pd
import pytest

import cdp_views as cdp

from .test_parts import COLUMNS, CUTS, known, lay, make, rows, table

__all__ = ["known"]  # a fixture


@pytest.mark.parametrize("kinds", [[1, 1], [[1, 0], [1, 2]]])
def test_people_counted_in_several_columns_are_protected_as_by_cdp_release(known, tmp_path, kinds):
    frame = table()
    made = make(lay(tmp_path / "in", frame, CUTS), tmp_path / "out", contribution=kinds)
    made.verify()
    most = max(np.sum(np.atleast_2d(kinds), axis=1))
    assert made.metadata["scale"] == pytest.approx(2 * most / 0.7)  # Σ|v|/λ = ε
    assert made.metadata["contribution"] == np.atleast_2d(kinds).tolist()
    assert "counted in up to 2 of 2 columns, moves between two places" in made.metadata["guarantee"]
    labels = {n: [str(x) for x in frame[n] for _ in COLUMNS] for n in ("state", "county", "block")}
    labels["column"] = [*COLUMNS] * len(frame)
    inv = cdp.totals([f"{c} {k}" for c in frame["county"] for k in COLUMNS])
    whole = cdp.release(
        frame[[*COLUMNS]].to_numpy().ravel(), inv, view="conditioned", epsilon=0.7, names=labels,
        neighbours=cdp.relocations(inv, contribution=kinds), accept_exact=True,
    )  # fmt: skip
    assert made.metadata["neighbours"]["unit"] == whole.metadata["neighbours"]["unit"]
    same = whole.released.reshape(-1, 2)[np.argsort(frame["block"].to_numpy())]
    assert np.array_equal(rows(made)[["released_few", "released_many"]].to_numpy(), same)


def test_a_budget_of_each_column_is_stated_and_paid_for_all_together(known, tmp_path):
    source = lay(tmp_path / "in", table(), CUTS)
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=2.0)
    given = {"contribution": [1, 1], "per_column": True}
    made = make(source, tmp_path / "out", ledger=ledger, **given)
    m = made.metadata
    assert m["epsilon"] == 1.4 and m["epsilon_per_column"] == 0.7
    assert ledger.spent.epsilon == m["epsilon"]
    assert "Of each column alone, where one record moves, it keeps epsilon = 0.7." in m["guarantee"]
    # noise of the size that one column needs, and that people in one column only need
    disjoint = make(source, tmp_path / "one")
    for other in (disjoint, make(source, tmp_path / "two", per_column=True)):
        pd.testing.assert_frame_equal(rows(made), rows(other))
        assert other.metadata["epsilon"] == 0.7
    assert "epsilon_per_column" not in disjoint.metadata


def test_a_kill_before_the_last_step_is_finished_by_the_same_budget_only(tmp_path, monkeypatch):
    source = lay(tmp_path / "in", table(), CUTS)
    both = {"contribution": [1, 1], "per_column": True}
    one, two = both | {"contribution": [1, 2]}, both | {"per_column": False, "epsilon": 1.4}

    def never(*_):
        raise KeyboardInterrupt

    for given, others in ((both, (one, two, {})), ({}, (both, {"contribution": [1, 1]}))):
        out = tmp_path / f"out{len(given)}"
        with monkeypatch.context() as patch:
            patch.setattr(cdp.Ledger, "complete", never)
            with pytest.raises(KeyboardInterrupt):
                make(source, out, **given)
        for other in others:
            with pytest.raises(FileExistsError, match="never overwritten"):
                make(source, out, **other)
        make(source, out, **given).verify()


BAD = [
    ({"contribution": [1, 1, 1]}, '"disjoint", or 2 whole numbers'),
    ({"contribution": [1, 0.5]}, "whole numbers of at least 0"),
    ({"contribution": "all"}, '"disjoint", or 2 whole numbers'),
    ({"contribution": [1, 0]}, "must count somebody in every column"),
    ({"contribution": [[1, 1], [0, 0]]}, "must count somebody in every column"),
    ({"contribution": [1], "counts": "few"}, "is for several columns of counts. Leave it out"),
    ({"contribution": [1, 1], "delta": 1e-9}, "must be disjoint .* with discrete-normal noise"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_contributions_that_make_no_sense_are_refused(tmp_path, given, words):
    with pytest.raises((ValueError, cdp.UnsupportedError), match=words):
        make(tmp_path, tmp_path / "out", **given)
