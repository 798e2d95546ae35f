"""A study: the same bits however it is run, nothing lost, every figure with its kind."""

import json
import re
import tomllib
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import cdp_views as cdp
from cdp_views.study import running
from cdp_views.study.divergence import estimated_divergence
from cdp_views.study.inputs import Inputs
from cdp_views.study.points import points

BLOCKS = {"blocks": {"source": "lafferty_blocks", "count": "count"}}
GIVEN = {
    "tables": BLOCKS,
    "invariants": {"state": "state"},
    "workloads": {"cells": "cells", "county": {"by": "county", "thresholds": [600.0]}},
    "views": ("conditioned", "imaged"),
    "noises": ("normal", "laplace"),
    "epsilon": (0.5, 1.0),
    "delta": 1e-6,
    "draws": 300,
    "seed": 5,
}


def study(**changed):
    return cdp.Study(**{**GIVEN, **changed})


def same(one: xr.DataTree, other: xr.DataTree) -> bool:
    """Bit for bit, NaN included, whatever the order of points."""
    for node in ("points", "workloads", "skipped"):
        a, b = one[node].to_dataset(), other[node].to_dataset()
        if "point" in a.dims:
            b = b.sel(point=a["point"].values)
        if not a.identical(b):
            return False
    return True


@pytest.fixture(scope="module")
def found():
    return study().run()


def test_points_are_those_of_compare(found):
    table = cdp.datasets.lafferty_blocks()
    known = cdp.compare(
        table["count"], cdp.totals(table["state"]), epsilon=1.0, delta=1e-6, public=True
    ).table.set_index("view")
    points = found["points"].to_dataset()
    for view in ("conditioned", "imaged"):
        (i,) = np.flatnonzero(
            (points["noise"] == "normal") & (points["view"] == view) & (points["budget"] == 1.0)
        )
        for name in ("scale", "mu", "rho", "guess_rate", "entropy"):
            assert float(points[name][i]) == known.loc[view, name]
        cells = found["workloads"].to_dataset().isel(point=i, repetition=0).sel(workload="cells")
        np.testing.assert_allclose(cells["sd"], known.loc[view, "mean_sd"], rtol=1e-12)
        np.testing.assert_allclose(cells["mae"], known.loc[view, "mean_absolute_error"])
        np.testing.assert_allclose(cells["margin90_worst"], known.loc[view, "margin90_worst"])
        assert cells["error_kind"] == "exact" and cells["rmse_stderr"] == 0


def test_laplace_figures_are_exact_where_they_can_be_and_else_within_their_error(found):
    """Sums of imaged Laplace noise: W P U from NumPy's own draws, 2λ² W P Wᵀ from dense algebra."""
    frame = cdp.datasets.lafferty_blocks()
    W = pd.get_dummies(frame["county"]).T.to_numpy(dtype=float)
    A = pd.get_dummies(frame["state"]).T.to_numpy(dtype=float)
    P = np.eye(13) - A.T @ np.linalg.solve(A @ A.T, A)
    U = np.random.default_rng(0).laplace(size=(100_000, 13))
    mae = np.abs(U @ (W @ P).T).mean()
    data = found["workloads"].to_dataset().sel(workload="county").isel(repetition=0)
    points = found["points"].to_dataset()
    here = (points["noise"] == "laplace") & (points["view"] == "imaged")
    for i in np.flatnonzero(here):
        scale, one = float(points["scale"][i]), data.isel(point=i)
        exact = np.sqrt(2 * scale**2 * np.trace(W @ P @ W.T) / len(W))
        np.testing.assert_allclose(one["rmse"], exact, rtol=1e-10)
        assert one["error_kind"] == "estimate" and one["rmse_stderr"] == 0 < one["mae_stderr"]
        assert abs(one["mae"] - scale * mae) < 5 * one["mae_stderr"]
        # Negative control: unconstrained noise would not be within.
        free = scale * np.abs(U @ W.T).mean()
        assert abs(one["mae"] - free) > 5 * one["mae_stderr"]
        assert points["kl_stderr"][i] > 0 and points["total_correlation_stderr"][i] > 0
    # Conditioned noise in groups of m: E|X| = λ(m − 1)/m, Var = λ²(2m − 1)(m − 1)/(m(m + 1)).
    m = np.repeat([6.0, 7.0], [6, 7])
    cells = found["workloads"].to_dataset().sel(workload="cells").isel(repetition=0)
    there = (points["noise"] == "laplace") & (points["view"] == "conditioned")
    for i in np.flatnonzero(there):
        scale, one = float(points["scale"][i]), cells.isel(point=i)
        exact = scale * np.sqrt(np.mean((2 * m - 1) * (m - 1) / (m * (m + 1))))
        np.testing.assert_allclose(one["rmse"], exact, rtol=1e-10)
        assert abs(one["mae"] - scale * np.mean((m - 1) / m)) < 5 * one["mae_stderr"]
    known = (points["noise"] == "normal") | (points["view"] == "conditioned")
    assert (points["kl_stderr"][known] == 0).all() and (points["kl"][known].values < 0.1).all()


def test_the_divergence_of_imaged_from_conditioned_laplace_noise_against_quadrature():
    """Cells (u, −u): conditioned u ~ e^{−2|u|}, imaged 2u = U₁ − U₂ ~ (1 + |d|)e^{−|d|}/4."""
    inv, noise = cdp.totals(["a", "a"]), dist.Laplace(np.zeros(2), 1.0)
    found = estimated_divergence(
        cdp.Imaged(noise, inv), cdp.Conditioned(noise, inv), jax.random.key(0)
    )
    u = np.linspace(0, 40, 400_001)
    log_imaged = np.log((1 + 2 * u) / 2) - 2 * u
    kl = 2 * np.trapezoid(np.exp(log_imaged) * (log_imaged + 2 * u), u)
    # On V the length of (u, −u) is √2 u.
    entropy = -2 * np.trapezoid(np.exp(log_imaged) * log_imaged, u) + np.log(np.sqrt(2))
    assert abs(found["kl"] - kl) < 5 * found["kl_stderr"] < 0.5
    assert abs(found["entropy"] - entropy) < 5 * found["entropy_stderr"] < 0.5
    assert abs(found["entropy"] - 2 * entropy) > 5 * found["entropy_stderr"]


def test_numbers_of_a_point_depend_on_nothing_but_itself(found):
    other = study(
        epsilon=(1.0,),
        views=("imaged", "unconstrained"),
        noises=("laplace",),
        workloads={"pairs": {"lengths": [2]}, **GIVEN["workloads"]},
    ).run()
    shared = [p for p in other["points"]["point"].values if p in found["points"]["point"].values]
    assert len(shared) == 1
    one, two = (t["workloads"].to_dataset().sel(point=shared) for t in (found, other))
    assert one.identical(two.sel(workload=["cells", "county"]))
    third = study(seed=6).run()["workloads"].to_dataset().sel(point=shared)
    assert not (third["mae"] == one["mae"]).any()


def test_repetitions_are_independent_and_exact_figures_repeat():
    data = study(repetitions=3, epsilon=1.0).run()["workloads"].to_dataset()
    exact, estimated = data["error_kind"] == "exact", data["error_kind"] == "estimate"
    spread = np.ptp(data["mae"].values, axis=2)
    assert (spread[exact.values] == 0).all() and (spread[estimated.values] > 0).all()
    gap = data["mae"] - data["mae"].mean("repetition")
    assert (abs(gap).values <= 5 * data["mae_stderr"].values + 1e-12).all()


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch, found):
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


def test_a_result_of_another_version(tmp_path, found):
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


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
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


def test_what_cannot_be_had_is_skipped_with_its_reason():
    frame = cdp.datasets.lafferty_blocks().assign(size=[50.0] + [1.0] * 4 + [1.0] * 8)
    tree = study(
        tables={"blocks": {"source": frame, "count": "count"}},
        scales={"size": "size"},
        views=("max-entropy", "imaged"),
        noises="normal",
        notions=("approximate", "pure"),
        epsilon=1.0,
    ).run()
    reasons = dict(
        zip(tree["skipped"]["combination"].values, tree["skipped"]["reason"].values, strict=True)
    )
    pure = [what for what in reasons if "(pure)" in what]
    assert len(pure) == 4 and all("no pure epsilon" in reasons[what] for what in pure)
    (unbalanced,) = [what for what in reasons if "(pure)" not in what]
    assert "size scales, max-entropy" in unbalanced and "cell" in reasons[unbalanced]
    assert tree["points"].sizes["point"] == 3
    with pytest.raises(cdp.UnsupportedError, match="Nothing of this study can be had"):
        study(noises="normal", delta=0.0).run()


def test_budgets_that_print_alike_are_two_and_notions_that_mean_the_same_are_one():
    inputs = Inputs(study(epsilon=[1.0, 1.0 + 1e-9], notions=("native", "pure"), views="imaged"))
    found, skipped = points(inputs)
    assert len(found) == 4 and len({p.label for p in found}) == 4 == len(
        {p.identity for p in found}
    )
    assert [p.noise for p in found] == ["normal"] * 2 + ["laplace"] * 2 and len(skipped) == 2


def test_budgets_in_other_notions():
    found = study(
        epsilon=(), rho=[0.5], mu=[1.0], guess_rate=[0.6], noises="normal", views="imaged"
    ).run()["points"]
    assert list(found["notion"].values) == ["rho", "mu", "guess-rate"]
    np.testing.assert_allclose(found["mu"][:2], 1.0, rtol=1e-9)
    np.testing.assert_allclose(found["guess_rate"][2], 0.6, rtol=1e-9)


def test_the_plan_of_the_docs_is_described():
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text("utf-8")
    plan = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    told = json.loads(cdp.Study(**plan).described())
    assert told["workloads"]["levels"]["marginals"] == [["state"], ["state", "race"]]
    assert told["invariants"]["table"]["margins"] == [["county"], ["race"]]


def test_workloads_are_what_they_say(tmp_path):
    own = np.zeros((2, 13))
    own[0, :3], own[1, 12] = 1, -2
    np.save(tmp_path / "own.npy", own)
    inputs = Inputs(
        study(
            workloads={
                "ranges": {"lengths": [5, 13]},
                "margins": {"marginals": ["state", ["state", "county"]]},
                "own": {"matrix": tmp_path / "own.npy"},
            }
        )
    )
    counts = cdp.datasets.lafferty_blocks()["count"].to_numpy(dtype=float)
    ranges = inputs.workload("blocks", "ranges").toarray()
    assert (ranges @ counts).tolist() == [
        counts[:5].sum(), counts[5:10].sum(), counts[10:].sum(), counts.sum()
    ]  # fmt: skip
    margins = inputs.workload("blocks", "margins").toarray()
    assert (margins @ counts).tolist() == [2576, 2674, 1239, 1337, 546, 461, 1667]
    np.testing.assert_array_equal(inputs.workload("blocks", "own").toarray(), own)


FULL = pd.DataFrame(
    [
        (f"s{i // 2}", f"c{i}", race, 20 * i + 7 * ord(race) % 50)
        for i in range(4)
        for race in "xyz"
    ],
    columns=["state", "county", "race", "count"],
)


def test_invariants_that_overlap_and_ratios():
    """Each combination is built, or skipped with a reason; ratios over exact totals are exact."""
    tree = study(
        tables={"full": {"source": FULL, "count": "count"}},
        invariants={
            "county": "county",
            "state": "state",
            "table": {"margins": [["county"], ["race"]]},
            "both": {"all_of": ["state", "county"]},
            "own": {"matrix": np.eye(12)[:1]},
            "race": "race",
            "stuck": {"all_of": ["county", "race"]},
        },
        workloads={
            "share": {"cells": True, "over": "county", "thresholds": [0.3]},
            "odds": {"matrix": np.eye(12)[:2], "over_matrix": np.eye(12)[2:4]},
        },
        views=("unconstrained", "conditioned", "raked"),
        noises="normal",
        epsilon=1.0,
        draws=100,
    ).run()
    held = tree["workloads"].to_dataset().isel(repetition=0)
    had = list(zip(held["invariant"].values, held["view"].values, strict=True))
    skipped = dict(
        zip(tree["skipped"]["combination"].values, tree["skipped"]["reason"].values, strict=True)
    )
    assert {name for name, _ in had} == {"county", "state", "table", "both", "own", "race"}
    assert [name for name, view in had if view == "raked"] == ["county", "state", "both", "race"]
    stuck = [why for what, why in skipped.items() if "stuck" in what]
    assert len(stuck) == 3 and "lets no record move alone" in stuck[0]
    units = dict(zip(held["invariant"].values, tree["points"]["neighbours"].values, strict=True))
    assert "table move" in units["table"] and "relocation" in units["both"]
    share = held.sel(workload="share")
    exact = {
        one for one, kind in zip(had, share["error_kind"].values, strict=True) if kind == "exact"
    }
    assert exact == {(name, "conditioned") for name in ("county", "table", "both")}
    (i,) = [k for k, one in enumerate(had) if one == ("county", "conditioned")]
    scale = float(tree["points"]["scale"][i])
    county = FULL.groupby("county")["count"].transform("sum").to_numpy()
    sd = scale * np.sqrt(2 / 3) / county
    np.testing.assert_allclose(share["rmse"][i], np.sqrt(np.mean(sd**2)), rtol=1e-10)
    np.testing.assert_allclose(share["best_gaussian_rmse"][i], share["rmse"][i], rtol=1e-6)
    assert share["unit"] == "1" and share["mae"].attrs["confidential"] == 1
    odds = held.sel(workload="odds")
    assert (odds["first_order"] == 1).all() and (odds["error_kind"] == "estimate").all()
    # No Gaussian that keeps the same hides as much with less error.
    free = (held["view"] == "conditioned") & (held["noise"] == "normal")
    ratio = (held["rmse"] / held["best_gaussian_rmse"]).where(free, drop=True)
    assert (ratio > 1 - 1e-9).all() and (ratio.max() > 1.05)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"invariants": {"i": {"within": "state", "margins": [["state"]]}}},
            "must be one of within",
        ),
        ({"invariants": {"i": {"margins": [["state"]], "weights": "w"}}}, "`weights` belong to"),
        ({"invariants": {"i": {"all_of": ["j"]}}}, "`invariants.i.all_of` has no key"),
        (
            {"workloads": {"w": {"cells": True, "over": [], "over_matrix": "d.npy"}}},
            "one denominator",
        ),
        ({"workloads": {"w": {"by": "state", "over": "county"}}}, "lies in more than one group"),
        (
            {"workloads": {"w": {"by": "state", "over_matrix": np.eye(13)[:1]}}},
            "a row for each of the 2",
        ),
    ],
)
def test_invariants_and_ratios_that_make_no_sense(changed, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        study(noises="normal", **changed).run()


def test_tables_that_lack_a_column_are_skipped_and_a_column_that_none_has_is_refused():
    frame = cdp.datasets.lafferty_blocks().drop(columns="state")
    tables = {**BLOCKS, "stateless": {"source": frame, "count": "count"}}
    tree = study(
        tables=tables, invariants={"state": "state", "all": ()}, noises="normal", views="imaged"
    ).run()
    assert "stateless, invariants.state" in tree["skipped"]["combination"].values
    assert set(tree["points"]["invariant"].values[tree["points"]["table"] == "stateless"]) == {
        "all"
    }
    with pytest.raises(ValueError, match='no column "province"; the columns are state'):
        study(invariants={"province": "province"}).run()


TOML = """
epsilon = [0.5, 1]
delta = 1e-6
views = ["conditioned", "imaged"]
noises = ["normal", "laplace"]
draws = 300
seed = 5
[tables.blocks]
source = "lafferty_blocks"
count = "count"
[invariants]
state = "state"
[workloads]
cells = "cells"
county = { by = "county", thresholds = [600] }
"""


def test_toml_says_the_same_as_python(tmp_path, found):
    path = tmp_path / "study.toml"
    path.write_text(TOML)
    tree = cdp.Study.from_toml(path).run()
    assert same(tree, found)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("draws = 300", "drawz = 300", 'A study has no key "drawz". Did you mean "draws"?'),
        ("count = ", "cuont = ", '`tables.blocks` has no key "cuont". Did you mean "count"?'),
        ("by = ", "bye = ", '`workloads.county` has no key "bye". Did you mean "by"?'),
        ('"imaged"', '"image"', '`views` has no key "image". Did you mean "imaged"?'),
        ("epsilon = [0.5, 1]", "epsilon = [0.5, -1]", "`epsilon` must be positive; got -1.0"),
        ("epsilon = [0.5, 1]", 'epsilon = "1"', "`epsilon` must be numbers"),
        ("epsilon = [0.5, 1]", "", "at least one budget"),
        ("draws = 300", "draws = 1.5", "`draws` must be a whole number of at least 2"),
        ("delta = 1e-6", "delta = 1", "`delta` must be at least 0 and below 1"),
        ('count = "count"', "", "`tables.blocks` must have the key count"),
        ('cells = "cells"', 'cells = "cell"', "`workloads.cells` must be a table of keys"),
        ('by = "county"', 'by = "county", cells = true', "exactly one of"),
        ("[invariants]", "[invariant]", 'no key "invariant". Did you mean "invariants"?'),
        ("seed = 5", "seed = ", "is no TOML"),
    ],
)
def test_bad_toml_is_named(tmp_path, old, new, words):
    path = tmp_path / "study.toml"
    assert old in TOML
    path.write_text(TOML.replace(old, new, 1))
    with pytest.raises(ValueError, match=re.escape(words)):
        cdp.Study.from_toml(path)


def test_scales_and_weights_are_never_the_counts():
    for changed in ({"scales": {"s": "count"}}, {"invariants": {"i": {"weights": "count"}}}):
        with pytest.raises(ValueError, match="must not be taken from the counts"):
            study(**changed).run()
    frame = cdp.datasets.lafferty_blocks().assign(other=lambda t: 2 * t["count"])
    with pytest.raises(ValueError, match="must not be taken from the counts"):
        study(
            tables={"t": {"source": frame, "count": "count"}},
            scales={"s": {"column": "other", "power": 0.5}},
        ).run()


def test_what_depends_on_the_counts_is_marked(found):
    data = found["workloads"].to_dataset()
    marked = {name for name, v in data.data_vars.items() if v.attrs.get("confidential")}
    stems = {"relative_margin90", "relative_mae", "bias_by_size", "queries"}
    stems |= {"wrong_side", "misallocated"}
    assert {name.removesuffix("_stderr") for name in marked} == stems
    assert found.attrs["confidential"] == 1
    open_ = study(tables={"blocks": {**BLOCKS["blocks"], "public": True}}, noises="normal").run()
    assert not any(v.attrs.get("confidential") for v in open_["workloads"].data_vars.values())


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bits(tmp_path, found):
    pytest.importorskip("h5netcdf")
    assert same(study().run(tmp_path, workers=2), found)


@pytest.mark.slow
def test_dask_with_a_worker_killed_midway_gives_the_same_bits(found):
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
