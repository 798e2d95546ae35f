"""`cdp-views release DIR` and `verify DIR`: a folder of Parquet parts on the command line."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(2):
        frame = pd.DataFrame(
            {"county": [f"c{i}"] * 5, "block": range(5), "persons": [3, 0, 8, 1, 9]}
        )
        frame.to_parquet(folder / f"p{i}.parquet", index=False)
    return folder


GIVEN = [
    "--count",
    "persons",
    "--within",
    "county",
    "--names",
    "block",
    "--view",
    "imaged",
    "--epsilon",
    "1",
]


def test_a_folder_is_released_and_verified(command, source, tmp_path):
    pytest.importorskip("cryptography")
    out = tmp_path / "out"
    status, said, _ = command("release", source, *GIVEN, "--bits", "aes256", "--out", out)
    assert status == 0
    assert "it is a cryptographic generator" in " ".join(said.split())
    assert f"wrote {out}" in said and f"wrote {out / '_about.html'}" in said
    assert "10 counts of persons were published" in (out / "_about.html").read_text()
    assert "Released 10 cells" in said and "in 2 parts" in " ".join(said.split())
    assert "relative to the exact totals" in " ".join(said.split())
    assert pd.read_parquet(out / "p0.parquet")["released"].sum() == 21
    status, said, _ = command("verify", out)
    assert status == 0 and "`p1.parquet`: 1 totals hold" in said and "verifies" in said
    status, _, error = command("verify", out / "p0.parquet")
    assert status == 2 and f"is a part of a release. Name the folder of the whole: `{out}`" in error
    assert "folder of a release in parts" in " ".join(command("verify", "--help")[1].split())
    frame = pd.read_parquet(out / "p0.parquet")
    frame.assign(released=np.roll(frame["released"], 1) + 1).to_parquet(out / "p0.parquet")
    status, said, _ = command("verify", out)
    assert status == 1 and "FAILED  `p0.parquet`: 1 totals differ" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--whole"], "--whole needs the table in one file"),
        (["--noise", "laplace"], "released with whole noise, not laplace"),
        (["--count", "block"], "--count names|twice, or a column of labels"),
        (["--out", "o.csv"], "--out o.csv is called like a file; parts are released into a new f"),
        (["--workers", "0"], "--workers must be a whole number"),
    ],
)
def test_what_a_folder_cannot_have_is_refused(command, source, tmp_path, more, words):
    status, _, error = command("release", source, *GIVEN, "--out", tmp_path / "out", *more)
    assert status == 2 and error.count("\n") == 1
    assert any(part in error for part in words.split("|"))


def test_structural_zeros_of_a_folder(command, source, tmp_path):
    for place in source.iterdir():
        frame = pd.read_parquet(place)
        frame.assign(water=(frame["persons"] == 0).astype(int)).to_parquet(place, index=False)
    out = tmp_path / "out"
    status, said, _ = command("release", source, *GIVEN, "--zeros", "water", "--out", out)
    assert status == 0 and "2 of the 10 cells can only be 0" in " ".join(said.split())
    found = pd.read_parquet(out / "p0.parquet")
    assert found["water"].tolist() == [0, 1, 0, 0, 0] and found["released"][1] == 0
    assert command("verify", out)[0] == 0


def test_a_budget_of_each_of_several_columns(command, source, tmp_path):
    for place in source.iterdir():
        frame = pd.read_parquet(place)
        frame.assign(voters=frame["persons"] // 2).to_parquet(place, index=False)
    out = tmp_path / "out"
    given = ["release", source, *GIVEN, "--count", "voters", "--per-column", "--out", out]
    status, _, error = command(*given)
    assert status == 2 and "--contribution is missing" in error
    status, _, error = command(*given, "--contribution", "1,1,1")
    assert status == 2 and "or 2 numbers for each kind of person" in error
    status, said, _ = command(*given, "--contribution", "1,1")
    said = " ".join(said.split())
    assert status == 0 and "with epsilon = 2 (pure" in said and "epsilon = 1." in said
    assert command("verify", out)[0] == 0


def test_workers_are_for_folders(command, source, tmp_path):
    one = source / "p0.parquet"
    status, _, error = command("release", one, *GIVEN, "--workers", 2, "--out", tmp_path / "o.csv")
    assert status == 2 and "--workers is for a folder" in error
