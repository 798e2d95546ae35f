"""From a released file to a posterior on the command line."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdp_views as cdp

PUBLISHED = "county,state,people,noisy\n" + "".join(
    f"c{i},{'x' if i < 4 else 'y'},{1000 * (i + 1)},{y}\n"
    for i, y in enumerate([52, 110, -4, 60, 33, 80, 71, 25])
)
ABOUT = """
released = "noisy"
names = ["county"]
[noise]
view = "imaged"
family = "normal"
scale = 12.0
[totals]
within = ["state"]
"""


@pytest.fixture
def about(csv):
    return csv(ABOUT, "about.toml")


@pytest.mark.slow
def test_a_posterior_from_another_offices_table(command, csv, about, tmp_path):
    out = tmp_path / "out"
    status, stdout, stderr = command(
        "analyse", csv(PUBLISHED), "--about", about, "--threshold", 50, "--num-samples", 400,
        "--out", out,
    )  # fmt: skip
    assert stderr == "" and status in (0, 1)
    assert "P(above " in stdout and "2 chains of 400 draws" in stdout and "90 % from" in stdout
    assert (status == 0) == ("The draws may be used." in stdout)
    assert sorted(p.name for p in out.iterdir()) == [
        "diagnosis.txt", "posterior.nc", "posterior.png", "summary.csv"
    ]  # fmt: skip
    summary = pd.read_csv(out / "summary.csv", index_col="quantity")
    cells = summary[summary["site"] == "q"]
    np.testing.assert_allclose(cells["mean"][:4].sum(), 218, rtol=1e-9)
    assert cells.loc["q[c2]", "eti90_lower"] > 0
    assert cells.loc["q[c1]", "probability_above"] > 0.99
    with xr.open_datatree(out / "posterior.nc") as tree:
        assert tree["posterior"]["q"].dims == ("chain", "draw", "cell")
        assert list(tree["posterior"]["state"].values) == ["x"] * 4 + ["y"] * 4
    status, _, stderr = command("analyse", csv(PUBLISHED), "--about", about, "--out", out)
    assert status == 2 and "never overwritten" in stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "latent"], "--model must be one of latent_counts, small_area"),
        (["--num-samples", "10"], "--num-samples must be at least 100; got 10."),
        (["--threshold", "nan"], "--threshold must be a finite number"),
        (["--typical", "-1"], "--typical must be above 0; got -1.0."),
        (
            ["--model", "small_area", "--threshold", "0.05"],
            "--threshold is a count, not a rate; got",
        ),
        (["--model", "small_area"], "needs --population COL and --state COL"),
        (
            ["--model", "small_area", "--population", "inhabitants", "--state", "state"],
            '--population "inhabitants" is not a column',
        ),
    ],
)
def test_bad_input_is_one_line(command, csv, about, tmp_path, options, message):
    out = tmp_path / "out"
    status, _, stderr = command("analyse", csv(PUBLISHED), "--about", about, "--out", out, *options)
    assert status == 2 and message in stderr and len(stderr.splitlines()) == 1
    assert not out.exists()


@pytest.mark.slow
def test_small_areas_are_printed_as_rates_by_name(command, csv, tmp_path):
    """A column called as a site of the model, and an area that can only be 0."""
    inv = cdp.structural_zeros(cdp.totals(list("xxxxyyyy")), [2])
    made = cdp.release(
        [50, 100, 0, 60, 33, 80, 71, 25], inv, view="conditioned", epsilon=0.5, zeros=[2],
        neighbours=cdp.relocations(inv),
        names={"county": [f"c{i}" for i in range(8)], "state": list("xxxxyyyy")},
    )  # fmt: skip
    path, out = tmp_path / "r.csv", tmp_path / "out"
    made.save(path, about=False)
    status, stdout, stderr = command(
        "analyse", path, "--model", "small_area", "--covariates", csv(PUBLISHED), "--population",
        "people", "--state", "state", "--threshold", 40, "--num-samples", 100, "--out", out,
    )  # fmt: skip
    assert stderr == "" and status in (0, 1)
    assert "within: sd of the logarithms of the rates among areas of one state" in stdout
    first = next(line for line in stdout.splitlines() if line.startswith("c0 ")).split()
    zero = next(line for line in stdout.splitlines() if line.startswith("c2 ")).split()
    assert 0.02 < float(first[1]) < 0.08 and 30 < float(first[5]) < 70
    assert zero[1] == "–" and float(zero[5]) == 0
    summary = pd.read_csv(out / "summary.csv", index_col="quantity")
    assert {"rate[c0]", "county[c7]", "state[x]", "state[y]", "q[c2]"} <= set(summary.index)
    assert "rate[c2]" not in summary.index and not any("dim" in c for c in summary)
    assert summary["probability_above"].notna().sum() == 8


def test_a_release_that_does_not_verify_is_not_analysed(command, csv, tmp_path):
    inv = cdp.totals(list("xxxyyy"))
    made = cdp.release(
        [5, 20, 30, 7, 8, 9], inv, view="imaged", noise="normal", epsilon=1, delta=1e-6,
        neighbours=cdp.relocations(inv),
    )  # fmt: skip
    path = tmp_path / "r.csv"
    made.save(path)
    changed = pd.read_csv(path)
    changed.loc[0, "released"] += 1.0
    changed.to_csv(path, index=False)
    status, _, stderr = command("analyse", path, "--out", tmp_path / "out")
    assert status == 2 and "The release does not verify" in stderr and 'total "x"' in stderr


def test_a_missing_extra_is_named_before_anything_is_sampled(command, csv, tmp_path, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == "matplotlib" else real(n)
    )
    status, stdout, stderr = command("analyse", csv(PUBLISHED), "--out", tmp_path / "out")
    assert (status, stdout) == (2, "") and "pip install 'cdp-views[plot]'" in stderr
    assert not (tmp_path / "out").exists()
