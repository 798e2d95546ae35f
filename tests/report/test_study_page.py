"""The page of a study: whole, offline, marked, alive in a browser, its sentences what was found."""

import json
import re
from importlib import import_module

import numpy as np
import pytest
import xarray as xr

import cdp_views as cdp
from cdp_views.report import study_page
from cdp_views.study.findings import findings

COUNTS = [4.0, 30, 12, 700, 50, 8, 90, 6]


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    import pandas as pd

    frame = pd.DataFrame({"g": list("aaaabbbb"), "h": list("xyxyxyxy"), "<n>": COUNTS})
    return cdp.Study(
        {"t": {"source": frame, "count": "<n>"}},
        {"g": "g", "none": {"all_of": ["g", "h"]}, "h": "h"},
        workloads={
            "cells": {"cells": True, "thresholds": [10, 40]},
            "</script>": {"by": ["g", "h"]},
            "share": {"cells": True, "over": "g"},
        },
        views=("unconstrained", "conditioned", "imaged", "raked"),
        epsilon=[0.5, 1, 2], delta=1e-6, draws=60,
    ).run()  # fmt: skip


def parsed(page: str) -> dict:
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert data is not None
    return json.loads(data[1])


def test_page_holds_what_the_study_found(tree, tmp_path):
    cdp.Study.to_html(tree, tmp_path / "deep" / "page.html")
    page = (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    data, held = parsed(page), tree["workloads"].to_dataset()
    for name in ("mae", "margin90_worst"):
        np.testing.assert_allclose(data["figures"][name], held[name].mean("repetition"), rtol=1e-4)
    got = [data["kinds"][k] for row in data["figures"]["kind"] for k in row]
    assert got.count("exact") == int((held["error_kind"] == "exact").sum())
    assert "estimate; moments to first order" in got  # shares over noisy totals
    assert data["workloads"][1] == "</script>" and data["units"] == ["counts", "counts", "1"]
    assert not re.search(r"https?://|src=|<link|@import|url\(", page)
    assert not re.search(r"\{\{|\}\}", page.split("<script id=")[0])
    assert "CONFIDENTIAL: a study" in page and "needs plain totals of groups" in page
    public = tree.copy()
    public.attrs["confidential"] = 0
    assert 'class="banner"' not in study_page(public)


def test_a_very_large_study_is_cut_and_the_page_says_so(tree, monkeypatch):
    # The function has the name of its module.
    monkeypatch.setattr(import_module("cdp_views.report.study_page"), "_LARGEST", 9_000)
    page = study_page(tree)
    shown, everything = len(parsed(page)["points"]), tree["points"].sizes["point"]
    assert 0 < shown < everything
    assert f"the first {shown} of {everything} points" in page


def test_sentences_compare_only_what_is_equal(tree):
    said = findings(tree)
    assert said[0].startswith(f"{tree['points'].sizes['point']} mechanisms × 3 questions")
    (cells,) = [s for s in said if s.startswith("cells, Normal noise, g exact")]
    assert "conditioned and imaged" in cells and "(1, 1e-06)-DP" in cells
    held = tree["workloads"].to_dataset().isel(repetition=0).sel(workload="cells")
    one = held.where((held["invariant"] == "g") & (held["budget"] == 1), drop=True)
    low = float(one["mae"].where(one["view"] == "conditioned", drop=True).values[0])
    free = float(one["mae"].where(one["view"] == "unconstrained", drop=True).values[0])
    assert f"{low:.4g}" in cells and f"unconstrained {100 * (free / low - 1):+.3g} %" in cells
    assert "No Gaussian noise does better" in cells
    # A lead within three standard errors is no lead.
    level = tree.copy(deep=True)
    data = level["workloads"].to_dataset()
    data["mae_stderr"] = data["mae_stderr"] + 1e9
    level["workloads"] = xr.DataTree(data)
    told = findings(level)
    assert all("smallest" not in sentence for sentence in told)
    assert "as far as can be told from draws" in " ".join(told)
    # Of exact figures nothing is left to tell.
    data["mae_stderr"], data["mae"] = 0.0 * data["mae_stderr"], 1.0 + 0.0 * data["mae"]
    level["workloads"] = xr.DataTree(data)
    told = " ".join(findings(level))
    assert "have the same mean absolute error at every budget." in told and "as far" not in told


PROBE = """
<script>
const said = [];
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("load", () => {
  const $ = (id) => document.getElementById(id);
  const change = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change")); };
  const now = () => [$("bars").querySelectorAll("rect").length, $("bars-says").textContent,
    $("shown").rows.length, $("budget-out").textContent, $("decided").hidden];
  said.push(now());
  $("views-unconstrained").click(); said.push(now());
  $("budget").value = 0; $("budget").dispatchEvent(new Event("input")); said.push(now());
  change("workload", "2"); change("measure", "rmse"); said.push(now());
  change("across", "guess"); said.push($("budgets").querySelectorAll("circle").length);
  change("invariant", "h"); said.push(now());
  $("bars").querySelector("rect").focus();
  said.push([$("tip").style.display, $("tip").textContent]);
  const drawn = ["budgets", "sizes"].map((id) => $(id).querySelectorAll("path").length);
  const wide = document.documentElement.scrollWidth - innerWidth;
  const outside = performance.getEntriesByType("resource").map((entry) => entry.name);
  document.body.textContent = JSON.stringify({ said, drawn, outside, wide });
});
</script>
"""


@pytest.mark.slow
def test_controls_work_in_a_browser(tree, in_browser):
    result = in_browser(study_page(tree, verdict=findings(tree)), PROBE)
    first, fewer, poorer, share, dots, other, (shown, tip) = result["said"]
    assert result["outside"] == [] and all(result["drawn"]) and result["wide"] <= 0
    assert (first[0], first[2], fewer[0]) == (4, 5, 3) and "same guarantee" in first[1]
    assert first[3] == "ε = 1" and poorer[3] == "ε = 0.5" and not first[4] and share[4]
    # the best Gaussian stands below the mechanisms
    assert share[0] == 4 and "Ratios" in share[1] and dots == 9 and other[0] == 4
    number = [float(m[1]) for said in (fewer, poorer) if (m := re.search(r": (\d+\.\d+)", said[1]))]
    assert number[1] > 1.5 * number[0] and shown == "block" and "relocation" in tip
