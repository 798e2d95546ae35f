"""A table in many files: the same release as in one piece, once, whole, and with every total."""

import functools
import json
import os
import secrets
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdp_views as cdp
from cdp_views.releases.parts import drawn, release_parts

ROOT = bytes(range(32))
COLUMNS: tuple[str, ...] = ("few", "many")


def table() -> pd.DataFrame:
    """Groups of 1 to 90 blocks with other labels in each, in no order within a county."""
    rng = np.random.default_rng(3)
    sizes = [40, 3, 90, 1, 8, 8, 33]
    county = np.repeat([f"c{i}" for i in range(7)], sizes)
    frame = pd.DataFrame({"state": [int(c[1]) // 3 for c in county], "county": county})
    frame["block"] = [f"b{i:03}" for i in rng.permutation(len(frame))]
    frame["few"], frame["many"] = rng.poisson(2, len(frame)), rng.poisson(900, len(frame))
    return frame


def lay(folder, frame, cuts):
    """Write parts that hold the counties of each cut."""
    folder.mkdir()
    for i, counties in enumerate(cuts):
        own = frame[frame["county"].isin([f"c{c}" for c in counties])]
        own.to_parquet(folder / f"p{i}.parquet", index=False)
    return folder


CUTS = ([0, 1], [4, 2, 3], [5, 6])


@pytest.fixture
def known(monkeypatch):
    """The secret is known, so that two releases can be compared; names of reservations differ."""
    monkeypatch.setattr(
        secrets, "token_bytes", lambda n=None: ROOT if n == 32 else os.urandom(n or 32)
    )


def make(source, out, **changes) -> Any:
    given: dict[str, Any] = {
        "counts": COLUMNS, "within": ("state", "county"), "names": "block", "view": "conditioned",
        "epsilon": 0.7, "contribution": "disjoint", "accept_exact": True,
    }  # fmt: skip
    return cdp.release_parts(source, out, **given | changes)


def rows(made) -> pd.DataFrame:
    """The whole release, in the order of the labels."""
    whole = pd.concat([made.part(name) for name in made.names])
    return whole.sort_values("block").reset_index(drop=True)


@pytest.mark.parametrize("view", ["conditioned", "imaged"])
def test_parts_are_the_release_in_one_piece_bit_for_bit(known, tmp_path, view):
    frame = table()
    made = make(lay(tmp_path / "in", frame, CUTS), tmp_path / "out", view=view)
    found = rows(made)
    other = rows(make(lay(tmp_path / "one", frame, [range(7)]), tmp_path / "out1", view=view))
    pd.testing.assert_frame_equal(found, other)
    # and `cdp.release` of all cells, as the command line stacks them
    labels = {n: [str(x) for x in frame[n] for _ in COLUMNS] for n in ("state", "county", "block")}
    labels["column"] = [*COLUMNS] * len(frame)
    inv = cdp.totals([f"{c} {k}" for c in frame["county"] for k in COLUMNS])
    whole = cdp.release(
        frame[list(COLUMNS)].to_numpy().ravel(), inv, view=view, epsilon=0.7, names=labels,
        neighbours=cdp.relocations(inv), accept_exact=True,
    )  # fmt: skip
    same = whole.released.reshape(-1, 2)[np.argsort(frame["block"].to_numpy())]
    assert np.array_equal(found[["released_few", "released_many"]].to_numpy(), same)
    assert np.any(same != frame.sort_values("block")[list(COLUMNS)].to_numpy())


def test_every_total_is_exact_and_the_folder_says_what_it_is(tmp_path):
    frame = table()
    frame.attrs["note"] = "confidential"  # pandas writes it, and all names of columns, to a schema
    made = make(lay(tmp_path / "in", frame, CUTS), tmp_path / "out")
    made.verify()
    for file in (tmp_path / "out").rglob("*.parquet"):
        assert pq.read_schema(file).metadata is None and b"confidential" not in file.read_bytes()
    sums = rows(made).groupby("county")[["released_few", "released_many"]].sum()
    assert np.array_equal(sums.to_numpy(), frame.groupby("county")[list(COLUMNS)].sum().to_numpy())
    listed = pd.concat([made.totals(name) for name in made.names]).set_index("county").sort_index()
    assert np.array_equal(listed[list(COLUMNS)].to_numpy(), sums.to_numpy())
    m = made.metadata
    assert (m["cells"], m["groups"], m["determined"]) == (2 * len(frame), 14, 2)
    assert "2 of the 366 cells are alone in their group" in m["guarantee"]
    assert len(json.dumps(m)) < 6_000  # and not an entry for each cell
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]
    alone = frame["county"] == "c3"
    assert rows(made).query("county == 'c3'")["released_many"].item() == frame[alone]["many"].item()
    observed = made.observed("p1.parquet", "few")
    assert np.allclose(observed.mechanism.invariant.evaluate(observed.released), observed.totals)
    # read as any dataset: neither totals nor metadata are in the way
    import pyarrow.dataset as ds

    assert ds.dataset(tmp_path / "out").count_rows() == len(frame)


def test_another_generator_is_named_and_used(known, tmp_path):
    pytest.importorskip("cryptography")
    source = lay(tmp_path / "in", table(), CUTS)
    one, two = (make(source, tmp_path / bits, bits=bits) for bits in ("threefry", "aes256"))
    two.verify()
    assert not rows(one).equals(rows(two))
    assert "is a cryptographic generator" in two.metadata["caveat"]
    assert "not a cryptographic generator" in one.metadata["caveat"]


def test_verify_sees_every_change(tmp_path):
    out = tmp_path / "out"
    made = make(lay(tmp_path / "in", table(), CUTS), out)
    for change, words in (
        (lambda t: t.assign(released_few=t["released_few"] + 1), "totals differ"),
        (lambda t: t.assign(block=t["block"].to_numpy()[::-1]), "not the part released"),
        (lambda t: t.iloc[1:], "differ"),
        (lambda t: t.assign(true=1), 'have a column "true" more'),
    ):
        before = made.part("p0.parquet")
        change(before).to_parquet(out / "p0.parquet", index=False)
        with pytest.raises(ValueError, match=words):
            made.verify()
        before.to_parquet(out / "p0.parquet", index=False, compression="gzip")
        made.verify()  # another compression is no change
    there = made.totals("p1.parquet")
    for change, words in (
        (lambda t: t.assign(county=t["county"].to_numpy()[::-1]), "totals of `p1.parquet` are not"),
        (lambda t: t.assign(few=t["few"] + 0.4), "not whole numbers"),
    ):
        change(there).to_parquet(out / "_totals" / "p1.parquet", index=False)
        with pytest.raises(ValueError, match=words):
            made.verify()
    there.to_parquet(out / "_totals" / "p1.parquet", index=False)
    made.verify()
    (out / "p9.parquet").write_bytes((out / "p0.parquet").read_bytes())
    with pytest.raises(ValueError, match=r"`p9.parquet` is no part of the release"):
        made.verify()
    (out / "p9.parquet").unlink()
    (out / "p2.parquet").write_bytes((out / "p2.parquet").read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"`p2.parquet` or its totals cannot be read"):
        made.verify()
    about = out / "_release.json"
    about.write_text(about.read_text().replace('"epsilon": 0.7', '"epsilon": 0.1'))
    with pytest.raises(ValueError, match="the metadata are not those"):
        cdp.read_parts(out).verify()


BAD = [
    (lambda t: {"block": ["b"] * len(t)}, r"rows with the labels of another row"),
    (
        lambda t: {"few": pd.array([None, *t["few"][1:]], "Int64")},
        r'"few" has 1 of 43 entries missing in',
    ),
    (
        lambda t: {"county": [*t["county"][:-1], f"{t['county'].iloc[-1]} "]},
        r'"county" has labels with a blank at an end in .*p0.parquet`, first ".* " in data row 43',
    ),
    (lambda t: {"county": [None, *t["county"][1:]]}, r'"county" has 1 of 43 entries missing'),
    (lambda t: {"few": t["few"] + 0.5}, r'"few" is int64 in .*p1.parquet` and double in .*p0'),
    (lambda t: {"few": -1 - t["few"]}, r"not whole numbers of at least 0, first in data row 1"),
    (lambda t: {"few": t["few"].astype(str)}, r'"few" is'),
    (lambda t: {"many": t["many"] + 2**47}, r'"many" adds up to more than 2\*\*52 in .*p0'),
    (
        lambda t: {"block": [[i] for i in range(len(t))]},
        r'"block" is list.* text|"block" is .*p1.parquet` and list',
    ),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_parts_are_refused_with_their_place(tmp_path, change, words):
    frame = table()
    source = lay(tmp_path / "in", frame, CUTS)
    first = pd.read_parquet(source / "p0.parquet")
    first.assign(**change(first)).to_parquet(source / "p0.parquet", index=False)
    with pytest.raises(ValueError, match=words):
        make(source, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


def test_nan_is_no_label_whatever_its_bits(tmp_path):
    """Two patterns of bits are two values of one text: cells of one id would share their noise."""
    nan = np.array([0x7FF8000000000000, 0x7FF8000000000001], np.uint64).view(float)
    for own in (pa.array([*nan, 1.5]), pa.DictionaryArray.from_arrays([0, 1, 2], [*nan, 1.5])):
        (tmp_path / "in").mkdir(exist_ok=True)
        there = pa.table({"county": ["a"] * 3, "block": own, "few": [1, 2, 3]})
        pq.write_table(there, tmp_path / "in" / "p.parquet")
        for within, names in (("county", "block"), ("block", "county")):
            with pytest.raises(ValueError, match='"block" has 2 of 3 entries missing'):
                make(tmp_path / "in", tmp_path / "out", counts="few", within=within, names=names)


def test_what_cannot_be_released_is_refused_before_anything_is_spent(tmp_path):
    frame = table()
    source, out = lay(tmp_path / "in", frame, CUTS), tmp_path / "out"
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.0)
    again = functools.partial(make, source, out, ledger=ledger)
    split = lay(tmp_path / "split", frame, [[0], [1]])
    frame.iloc[:5].assign(block=list("vwxyz")).to_parquet(split / "q.parquet", index=False)
    with pytest.raises(
        ValueError,
        match=r'The group state "0", county "c0" lies .*: in `p0.parquet` and `q.parquet`\. Put',
    ):
        make(split, out, ledger=ledger)
    with pytest.raises(ValueError, match=r"determine 2 cells.*in `p1.parquet`"):
        again(accept_exact=False)
    with pytest.raises(ValueError, match="state contribution"):
        again(contribution=None)
    with pytest.raises(cdp.UnsupportedError, match="whole noise, not normal"):
        again(noise="normal", delta=1e-9)
    with pytest.raises(ValueError, match='no column "who"'):
        again(names="who")
    with pytest.raises(ValueError, match="No group of block has two rows"):
        again(within="block", names=())
    with pytest.raises(ValueError, match="twice, or a column of labels"):
        again(counts=("few", "few"))
    with pytest.raises(ValueError, match="lies in the folder of the confidential parts"):
        make(source, source / "out")
    with pytest.raises(ValueError, match="`workers` must be"):
        again(workers=0)
    (source / "p2.parquet").write_bytes((source / "p2.parquet").read_bytes()[:-9])
    with pytest.raises(
        ValueError, match=r"p2.parquet` cannot be read \(Arrow\w+\). Is the Parquet"
    ):
        again()
    (source / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"notes.txt` is no Parquet file"):
        again()
    with pytest.raises(ValueError, match="is not a folder"):
        make(tmp_path / "nowhere", out)
    assert ledger.spent.epsilon == 0 and not out.exists()
    out.mkdir()
    with pytest.raises(FileExistsError, match="never overwritten"):
        again()


def test_a_release_that_was_cut_short_goes_on_with_the_same_noise(known, tmp_path, monkeypatch):
    """Stopped after the first part: that one is looked at, not drawn again; the rest follows."""
    frame = table()
    source = lay(tmp_path / "in", frame, CUTS)
    whole = rows(make(source, tmp_path / "whole"))
    real, seen = drawn.make, []

    def stops(job, name):
        if seen:
            raise KeyboardInterrupt
        seen.append(name)
        return real(job, name)

    monkeypatch.setattr(release_parts, "make", stops)
    with pytest.raises(KeyboardInterrupt):
        make(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    hidden = tmp_path / ".out-unfinished"
    (secret,) = hidden.glob("*.secret")
    assert secret.stat().st_mode & 0o777 == 0o600
    (first,) = hidden.glob("*/parts/p0.parquet")
    before = first.stat().st_mtime_ns, first.read_bytes()
    with pytest.raises(ValueError, match="another design or table"):
        make(source, tmp_path / "out", epsilon=0.2)
    changed = pd.read_parquet(source / "p2.parquet")
    changed.assign(few=changed["few"] + 1).to_parquet(source / "p2.parquet", index=False)
    with pytest.raises(ValueError, match=r"p2.parquet` is another file than when this release"):
        make(source, tmp_path / "out")
    swapped = changed["block"].to_numpy()[[1, 0, *range(2, len(changed))]]  # counts of other cells
    changed.assign(block=swapped).to_parquet(source / "p2.parquet", index=False)
    with pytest.raises(ValueError, match=r"p2.parquet` is another file than when this release"):
        make(source, tmp_path / "out")
    changed.to_parquet(source / "p2.parquet", index=False)

    def looks(job, name):
        if name == "p0.parquet":
            assert (first.stat().st_mtime_ns, first.read_bytes()) == before
            done = real(job, name)
            assert first.stat().st_mtime_ns == before[0]  # not written again
            first.write_bytes(b"")  # but a broken one is
            real(job, name)
            assert first.read_bytes() == before[1]
            return done
        return real(job, name)

    monkeypatch.setattr(release_parts, "make", looks)
    monkeypatch.setattr(secrets, "token_bytes", os.urandom)  # the secret is the one that was kept
    pd.testing.assert_frame_equal(rows(make(source, tmp_path / "out")), whole)
    assert not hidden.exists()


def test_a_kill_between_the_last_two_steps_is_finished(tmp_path, monkeypatch):
    source = lay(tmp_path / "in", table(), CUTS)
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=2.0)

    def never(*_):
        raise KeyboardInterrupt

    for own in (ledger, None):
        out = tmp_path / f"out{own is None}"
        with monkeypatch.context() as patch:
            patch.setattr(cdp.Ledger, "complete", never)
            with pytest.raises(KeyboardInterrupt):
                make(source, out, ledger=own)
        for other in ({"epsilon": 0.2}, {"records": 3}):  # another release than is there
            with pytest.raises(FileExistsError, match="never overwritten"):
                make(source, out, ledger=own, **other)
        make(source, out, ledger=own).verify()
        assert not list(tmp_path.glob("**/*.secret"))
        with pytest.raises(FileExistsError, match="never overwritten"):
            make(source, out, ledger=own)
    assert list(ledger.entries["state"]) == ["complete"]


@pytest.mark.parametrize("ledger_too", [False, True])
def test_a_kill_while_the_hidden_folder_is_removed_leaves_nothing(
    tmp_path, monkeypatch, ledger_too
):
    source, out = lay(tmp_path / "in", table(), [range(7)]), tmp_path / "out"

    def stops(hidden, **_):
        if ledger_too:
            (hidden / "ledger").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(release_parts.shutil, "rmtree", stops)
        with pytest.raises(KeyboardInterrupt):
            make(source, out)
    assert (tmp_path / ".out-unfinished").is_dir()
    with pytest.raises(FileExistsError, match=r"`.*out` is there already.*never overwritten"):
        make(source, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    cdp.read_parts(out).verify()


def test_releases_of_parts_compose_in_a_ledger(tmp_path):
    source = lay(tmp_path / "in", table(), CUTS)
    ledger = cdp.Ledger.create(tmp_path / "b.ledger", epsilon=1.5)
    one = make(source, tmp_path / "one", ledger=ledger)
    dealt = lay(tmp_path / "dealt", table(), [range(7)])  # the same table, dealt otherwise
    two = make(dealt, tmp_path / "two", ledger=ledger)
    assert not rows(one).equals(rows(two))
    assert ledger.spent.epsilon == pytest.approx(1.4)
    assert list(ledger.entries["added_totals"]) == [14, 0]
    assert "release 2 of the table: together they keep epsilon = 1.4" in two.metadata["guarantee"]
    with pytest.raises(ValueError, match="Nothing was spent"):
        make(source, tmp_path / "three", ledger=ledger)
    with pytest.raises(cdp.UnsupportedError, match="other exact totals"):
        make(dealt, tmp_path / "four", ledger=ledger, within="state", names=("county", "block"))
    other = lay(tmp_path / "other", table().assign(block=[str(i) for i in range(183)]), CUTS)
    with pytest.raises(ValueError, match=r'ledger of another table: its cells .* in "block"'):
        make(other, tmp_path / "five", ledger=ledger, epsilon=0.1)


@pytest.mark.slow
def test_two_processes_one_of_which_is_killed_change_nothing(known, tmp_path):
    import multiprocessing

    frame = table()
    source = lay(tmp_path / "in", frame, [[i] for i in range(7)])
    alone = rows(make(source, tmp_path / "alone"))
    killed = []

    def kill(done, _, __):
        if done > 8 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    found = make(source, tmp_path / "out", workers=2, progress=kill)
    assert killed
    pd.testing.assert_frame_equal(rows(found), alone)
    for name in found.names:  # the files too
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_changes_nothing(known, tmp_path):
    distributed = pytest.importorskip("distributed")
    source = lay(tmp_path / "in", table(), [[i] for i in range(7)])
    alone = rows(make(source, tmp_path / "alone"))
    killed = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill(done, _, __):
            if done > 8 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        found = make(source, tmp_path / "out", client=client, progress=kill)
    assert killed
    pd.testing.assert_frame_equal(rows(found), alone)


_ORPHANS = """
import multiprocessing, os, signal
from cdp_views.releases.parts.workers import Workers
with Workers(2, None) as crew:
    list(crew.each(os.path.exists, ["a", "b"]))
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed():
    """They hold the other end of the pipe: as long as one lives, this waits."""
    ended = subprocess.run(
        [sys.executable, "-c", _ORPHANS], stdout=subprocess.PIPE, timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGKILL and len(ended.stdout.split()) == 2
