"""What a plan combines: budgets, totals that overlap, ratios; what cannot be had is skipped."""

import re

import numpy as np
import pandas as pd
import pytest

import cdp_views as cdp
from cdp_views.study.inputs import Inputs
from cdp_views.study.points import points


def test_what_cannot_be_had_is_skipped_with_its_reason(study):
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


def test_budgets_that_print_alike_are_two_and_notions_that_mean_the_same_are_one(study):
    inputs = Inputs(study(epsilon=[1.0, 1.0 + 1e-9], notions=("native", "pure"), views="imaged"))
    found, skipped = points(inputs)
    assert len(found) == 4 and len({p.label for p in found}) == 4 == len(
        {p.identity for p in found}
    )
    assert [p.noise for p in found] == ["normal"] * 2 + ["laplace"] * 2 and len(skipped) == 2


def test_budgets_in_other_notions(study):
    found = study(
        epsilon=(), rho=[0.5], mu=[1.0], guess_rate=[0.6], noises="normal", views="imaged"
    ).run()["points"]
    assert list(found["notion"].values) == ["rho", "mu", "guess-rate"]
    np.testing.assert_allclose(found["mu"][:2], 1.0, rtol=1e-9)
    np.testing.assert_allclose(found["guess_rate"][2], 0.6, rtol=1e-9)


def test_workloads_are_what_they_say(tmp_path, study):
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


def test_invariants_that_overlap_and_ratios(study):
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
def test_invariants_and_ratios_that_make_no_sense(changed, words, study):
    with pytest.raises(ValueError, match=re.escape(words)):
        study(noises="normal", **changed).run()


def test_tables_that_lack_a_column_are_skipped_and_a_column_that_none_has_is_refused(study, plan):
    frame = cdp.datasets.lafferty_blocks().drop(columns="state")
    tables = {**plan["tables"], "stateless": {"source": frame, "count": "count"}}
    tree = study(
        tables=tables, invariants={"state": "state", "all": ()}, noises="normal", views="imaged"
    ).run()
    assert "stateless, invariants.state" in tree["skipped"]["combination"].values
    assert set(tree["points"]["invariant"].values[tree["points"]["table"] == "stateless"]) == {
        "all"
    }
    with pytest.raises(ValueError, match='no column "province"; the columns are state'):
        study(invariants={"province": "province"}).run()
