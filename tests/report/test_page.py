"""The page of a comparison: whole, offline, marked where it must be, and alive in a browser."""

import json
import re

import jax
import numpy as np
import pytest

import cdp_views as cdp
from cdp_views.report.template import as_data

COUNTS = [11.0, 502, 77, 3, 9001, 12, 640, 31]
NAMES = [f"county <{k}> & co" for k in range(8)]


@pytest.fixture(scope="module")
def found():
    inv = cdp.totals(["a"] * 4 + ["b"] * 3 + ["c"])
    return cdp.compare(COUNTS, inv, epsilon=1, delta=1e-6, scales=np.arange(1.0, 9), names=NAMES)


def parsed(page: str) -> dict:
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert data is not None
    return json.loads(data[1])


def test_page_holds_what_the_comparison_found(found):
    page = found.page(command="cdp-views compare 'a <b>.csv'")
    data = parsed(page)
    assert [row["view"] for row in data["rows"]] == list(found.table["view"])
    # Of the seven noisy cells, by name and sorted; the eighth is alone in its group.
    place = {str(name): i for i, name in enumerate(found.dataset["cell"].values)}
    order = [place[name] for name in data["each"]["names"]]
    assert sorted(order) == list(range(7))
    each = found.dataset["margin90"].values[:, order]
    assert (np.diff(each.mean(axis=0)) >= 0).all()
    np.testing.assert_allclose(data["each"]["margin90"], each, rtol=1e-4)
    assert data["rows"][2]["label"] == "conditioned view, Normal noise"
    assert {row["label"].rpartition(", ")[2] for row in data["rows"][4:]} == {"given scales"}
    got = [row["values"]["mean_sd"] for row in data["rows"]]
    assert got == pytest.approx(list(found.table["mean_sd"]), rel=1e-6)
    margin = np.sort(found.dataset["margin90"].values, axis=1)
    assert data["cells"]["margin90"] == [pytest.approx(list(row), rel=1e-6) for row in margin]
    assert "county &lt;7&gt; &amp; co" in page and "county <7>" not in page  # exact, and escaped
    assert "cdp-views compare &#x27;a &lt;b&gt;.csv&#x27;" in page
    assert not re.search(r"https?://|src=|<link|@import|url\(", page)
    assert not re.search(r"\{\{|\}\}", page.split("<script id=")[0])


def test_what_depends_on_the_counts_is_marked(found):
    assert "CONFIDENTIAL: three views compared" in found.page()
    inv = cdp.totals(["a"] * 4 + ["b"] * 4)
    public = cdp.compare(COUNTS, inv, epsilon=1, delta=1e-6, public=True).page()
    assert "<title>Three views compared" in public and 'class="banner"' not in public


def test_another_budget_scales_the_errors(found):
    budgets = parsed(found.page())["budgets"]
    inv = cdp.totals(["a"] * 4 + ["b"] * 3 + ["c"])
    k = 3
    again = cdp.compare(
        COUNTS, inv, epsilon=budgets["epsilon"][k], delta=1e-6, scales=np.arange(1.0, 9)
    )
    expected = np.asarray(again.table["mean_sd"] / found.table["mean_sd"])
    assert [row[k] for row in budgets["factor"]] == pytest.approx(list(expected), rel=1e-5)
    assert [row[10] for row in budgets["factor"]] == pytest.approx([1.0] * 8)


def test_a_large_table_is_a_small_page(tmp_path):
    inv = cdp.totals(np.arange(50_000) // 100)
    found = cdp.compare(np.full(50_000, 30), inv, epsilon=1, delta=1e-9, public=True)
    found.to_html(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").stat().st_size < 300_000


PROBE = """
<script>
const said = [];
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("load", () => {
  const $ = (id) => document.getElementById(id);
  const bars = () => [$("bars").querySelectorAll("rect").length, $("bars-says").textContent];
  said.push(bars());
  $("views-unconstrained").click(); said.push(bars());
  $("measure").value = "margin90_worst"; $("measure").dispatchEvent(new Event("change"));
  said.push(bars());
  $("budget").value = 0; $("budget").dispatchEvent(new Event("input")); said.push(bars());
  $("bars").querySelector("rect").focus();
  said.push([$("tip").style.display, $("tip").textContent]);
  const drawn = ["ranks", "sizes", "deltas", "trades"].map((id) =>
    $(id).querySelectorAll("path").length);
  drawn.push($("dots").querySelectorAll("circle").length === 48); // 8 cells of 6 mechanisms
  const outside = performance.getEntriesByType("resource").map((entry) => entry.name);
  document.body.textContent = JSON.stringify({ said, drawn, outside });
});
</script>
"""


@pytest.mark.slow
def test_controls_work_in_a_browser(in_browser):
    inv = cdp.totals(["a"] * 4 + ["b"] * 4)
    both = ("normal", "laplace")
    found = cdp.compare(
        COUNTS, inv, epsilon=1, delta=1e-6, noises=both, key=jax.random.key(0), draws=0
    )
    result = in_browser(found.page(), PROBE)
    first, fewer, worst, poorer, (shown, tip) = result["said"]
    assert result["outside"] == [] and all(result["drawn"])
    assert (first[0], fewer[0]) == (8, 6)
    assert "guarantees differ" in worst[1] and shown == "block" and "max-entropy" in tip
    found_number = [re.search(r"smallest is ([\d.,]+) \(", said[1]) for said in (worst, poorer)]
    number = [float(m[1].replace(",", "")) for m in found_number if m]
    assert number[1] / number[0] > 5  # a tenth of the budget


def test_no_text_of_the_data_is_read_as_html():
    texts = ["</script>", "<!-- <script>"]  # the second would hide the script's own end
    data = as_data(texts)
    assert "<" not in data and json.loads(data) == texts
