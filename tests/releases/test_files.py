"""A release on disk: read back without the confidential table, never half there or overwritten."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cdp_views as cdp
from cdp_views.releases import files, geometry
from cdp_views.releases.digest import digest

from .conftest import COUNTS


def same(a, b):
    pd.testing.assert_frame_equal(a.table, b.table, check_dtype=False)
    assert np.array_equal(a.released, b.released) and a.metadata == b.metadata


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "new/folder/r.csv"])
@pytest.mark.parametrize("view", ["max-entropy", "conditioned", "imaged"])
def test_back_as_it_was(make, tmp_path, name, view):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    made = make(view=view, scales=[1, 2, 2, 1, 3, 3, 2, 2.5], names=["01", "NA", "", *"défg "[:5]])
    made.save(tmp_path / name)
    back = cdp.read_release(tmp_path / name)
    same(made, back)
    back.verify(COUNTS)
    q = COUNTS + np.array([1.0, -1, 0, 0, 2, 0, 0, -2])
    assert back.view(q).log_prob(back.released) == made.view(q).log_prob(made.released) > -np.inf
    assert sorted(p.name for p in (tmp_path / name).parent.iterdir()) == [
        (tmp_path / name).name + end
        for end in ("", ".about.html", ".json")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "invariant",
    [
        cdp.totals(list("aabb")),
        cdp.totals([2, 2, 1, 1]),
        cdp.totals(["a", None, "a", "a"], missing="free"),
        cdp.totals(list("aabb"), weights=[1, 2, 0, -0.1]),
        cdp.linear([[1, 1, 0, 0], [0, 1, 1, 0]]),
        cdp.linear([[1, 1, 0, 0], [1, 1, 1, 1], [2, 2, 0, 0]]),
        cdp.linear(np.zeros((0, 4))),
        cdp.margins((2, 2), [0, 1]),
        cdp.margins((2, 2), [()]),
    ],
    ids=[
        "totals",
        "numbers",
        "free",
        "weights",
        "overlap",
        "nested",
        "none",
        "margins",
        "a margin",
    ],
)
def test_invariants_survive_json(invariant):
    values = invariant.matrix @ np.arange(4.0)
    back = geometry.from_json(json.loads(json.dumps(geometry.to_json(invariant, values))))
    assert np.array_equal(back.matrix.toarray(), invariant.matrix.toarray())
    assert type(back) is type(invariant)
    assert (back.n, back.rank) == (invariant.n, invariant.rank)
    assert np.array_equal(back.determined, invariant.determined)


@given(labels=st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_a_label_survives_csv_or_is_refused(labels, tmp_path_factory):
    table = pd.DataFrame({"cell": labels, "released": np.pi * np.arange(len(labels)) / 3})
    path = tmp_path_factory.mktemp("labels") / "t.csv"
    try:
        files._write(table, path)
        back = files._read(path)
    except ValueError:  # a surrogate, which UTF-8 does not have, or a table that cannot be read
        return
    # `save` compares exactly this, and refuses
    if digest(back) == digest(table):
        assert back["cell"].tolist() == labels
        assert np.array_equal(back["released"], table["released"])


def test_labels_that_csv_would_change_are_refused(make, tmp_path, monkeypatch):
    made = make()
    read = files._read
    monkeypatch.setattr(files, "_read", lambda path: read(path).assign(cell="0"))
    with pytest.raises(ValueError, match="would change labels of this table"):
        made.save(tmp_path / "r.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["r.csv", "r.csv.json", "r.csv.about.html", "r.print.csv"])
def test_never_overwritten(make, tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(FileExistsError, match="is there already, and a release is never"):
        make().save(tmp_path / "r.csv")
    assert [p.name for p in tmp_path.iterdir()] == [there] and (
        tmp_path / there
    ).read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_kept_too(make, tmp_path, monkeypatch):
    read = files._read

    def slow(path):
        (tmp_path / "r.csv").write_text("mine")
        return read(path)

    monkeypatch.setattr(files, "_read", slow)
    with pytest.raises(FileExistsError, match=r"r.csv` is there already"):
        make().save(tmp_path / "r.csv")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("r.csv", "mine")]


def test_a_failure_while_writing_leaves_nothing(make, tmp_path, monkeypatch):
    def fail(table, path):
        path.write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr(files, "_write", fail)
    with pytest.raises(OSError, match="the disk is full"):
        make().save(tmp_path / "r.csv")
    assert list(tmp_path.iterdir()) == []


def test_another_suffix(make, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.csv or \.parquet"):
        make().save(tmp_path / "r.xlsx")


def edit(path, **changes):
    told = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in told.items() if v != "gone"}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 7, "library": "L 9"}, r"version 7; cdp_views \S+ reads version 1\. Use L 9"),
        ({"schema": "other"}, "is no metadata of a release"),
        ({"guarantee": "gone"}, "lacks 'guarantee'"),
        ({"view": "projected"}, "names a 'projected' view"),
        ({"invariants": {"kind": "totals"}}, "has invariants that cannot be built"),
    ],
    ids=["version", "schema", "missing", "view", "invariants"],
)  # fmt: skip
def test_metadata_that_is_not_ours(make, tmp_path, changes, words):
    make().save(tmp_path / "r.csv")
    edit(tmp_path / "r.csv.json", **changes)
    with pytest.raises(ValueError, match=words) as error:
        cdp.read_release(tmp_path / "r.csv")
    assert "\n" not in str(error.value)


def test_a_folder_is_read_as_parts(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder. A release in parts: cdp\.read_parts"):
        cdp.read_release(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.csv.json", b"{half", "is not JSON"),
        ("r.csv.json", b"\xff\xfe", "is not JSON"),
        ("r.csv", b"", "cannot be read"),
        ("r.csv", b"cell,count\n1,2\n", 'has no column "released"'),
        ("r.csv", b"cell,released\n1,many\n", "cannot be read"),
        ("r.csv", None, "r.csv` is not there"),
        ("r.csv.json", None, "r.csv.json` is not there"),
    ],
)
def test_files_that_cannot_be_read(make, tmp_path, name, content, words):
    make().save(tmp_path / "r.csv")
    path = tmp_path / name
    path.unlink() if content is None else path.write_bytes(content)
    kind = FileNotFoundError if content is None else ValueError
    with pytest.raises(kind, match=words) as error:
        cdp.read_release(tmp_path / "r.csv")
    assert "\n" not in str(error.value)
