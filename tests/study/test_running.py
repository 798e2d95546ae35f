"""A study on disk: the same bits however it is run, nothing lost, nothing torn."""

import json

import numpy as np
import pytest

import cdp_views as cdp
from cdp_views.study import running


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch, found, study, same):
    pytest.importorskip("h5netcdf")
    real, calls = running.measure, []

    def dying(inputs, point):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(point.label)
        return real(inputs, point)

    monkeypatch.setattr(running, "measure", dying)
    with pytest.raises(KeyboardInterrupt):
        study().run(tmp_path)
    kept = sorted((tmp_path / "points").iterdir())
    assert len(kept) == 3 and not (tmp_path / "study.nc").exists()
    kept[0].write_bytes(kept[0].read_bytes()[:100])  # torn: as if it were not there
    again = []
    monkeypatch.setattr(running, "measure", lambda i, p: again.append(p.label) or real(i, p))
    tree = study().run(tmp_path, command="made so")
    assert len(again) == 8 - 2 and same(tree, found)
    stored = cdp.read_study(tmp_path)
    assert same(stored, tree) and stored.attrs["command"] == "made so"
    assert json.loads(stored.attrs["versions"])["cdp-views"] == cdp.__version__
    monkeypatch.setattr(running, "measure", None)  # nothing is left to do
    assert same(study().run(tmp_path), found)
    # Another study in the same folder must be meant, and then uses what both share.
    with pytest.raises(ValueError, match="holds the result of another study"):
        study(epsilon=1.0).run(tmp_path)
    assert study(epsilon=1.0).run(tmp_path, overwrite=True)["points"].sizes["point"] == 4


def test_a_result_of_another_version(tmp_path, found, study):
    pytest.importorskip("h5netcdf")
    tree = found.copy()
    tree.attrs["format"] = 99
    tree.to_netcdf(tmp_path / "study.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="has format 99; this version of cdp_views reads format 2"):
        cdp.read_study(tmp_path)
    (tmp_path / "study.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="has format 99"):
        study().run(tmp_path)
    (tmp_path / "study.json").write_text("[]")
    with pytest.raises(ValueError, match="is not what a study writes"):
        study().run(tmp_path)
    for name, text in (("study.nc", "no netCDF"), ("gone.nc", None)):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=r"cannot be read|is not there"):
            cdp.read_study(tmp_path / name)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch, study):
    pytest.importorskip("h5netcdf")

    def full(file, **arrays):
        file.write(b"a part")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(
        OSError, match=r"out cannot be written to \(No space left on device\)\. Finished points"
    ):
        study(noises="normal").run(tmp_path / "out")
    left = sorted(p.name for p in (tmp_path / "out").rglob("*"))
    assert left == ["points", "study.json"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"is a file\. Name a folder"):
        study().run(tmp_path / "file")


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bits(tmp_path, found, study, same):
    pytest.importorskip("h5netcdf")
    assert same(study().run(tmp_path, workers=2), found)


@pytest.mark.slow
def test_dask_with_a_worker_killed_midway_gives_the_same_bits(found, study, same):
    distributed = pytest.importorskip("distributed")
    import os
    import signal

    done = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)

        def kill_one(number, everything, what):
            if number == 1 and not done:
                done.append(os.kill(next(iter(pids.values())), signal.SIGKILL))

        tree = study().run(client=client, progress=kill_one)
    assert done and same(tree, found)
