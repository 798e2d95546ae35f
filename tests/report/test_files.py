"""Files appear complete or not at all."""

import pandas as pd
import pytest
import xarray as xr

from cdp_views.report import write_csv, write_netcdf, write_together


def fail(path):
    path.write_text("half")
    raise OSError("the disk is full")


def test_all_or_nothing(tmp_path):
    with pytest.raises(OSError, match="full"):
        write_together(tmp_path / "new", {"a": lambda p: p.write_text("a"), "b": fail})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").write_text("kept")
    with pytest.raises(OSError, match="full"):
        write_together(tmp_path / "old", {"a": lambda p: p.write_text("a"), "b": fail})
    assert (tmp_path / "old" / "a").read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_a_new_folder_and_its_parents(tmp_path):
    paths = write_together(tmp_path / "x" / "y", {"a": lambda p: p.write_text("a")})
    assert [p.read_text() for p in paths] == ["a"]
    assert [p.name for p in (tmp_path / "x").iterdir()] == ["y"]


def test_csv_keeps_every_digit(tmp_path):
    write_csv(pd.DataFrame({"x": [0.1 + 0.2]}), tmp_path / "a.csv")
    assert float((tmp_path / "a.csv").read_text().split()[1]) == 0.1 + 0.2
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_netcdf_round_trip(tmp_path):
    pytest.importorskip("h5netcdf")
    dataset = xr.Dataset({"noise": ("cell", [1.5, 2.5], {"confidential": 0})})
    write_netcdf(dataset, tmp_path / "a.nc")
    xr.testing.assert_identical(
        xr.load_dataset(tmp_path / "a.nc", engine="h5netcdf")["noise"], dataset["noise"]
    )


def test_netcdf_without_the_extra_says_how_to_get_it(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    with pytest.raises(ImportError, match=r"pip install 'cdp-views\[io\]'"):
        write_netcdf(xr.Dataset(), tmp_path / "a.nc")
