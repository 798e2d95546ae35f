"""A plan in words: TOML says what Python says, and what is wrong is named."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import cdp_views as cdp


def test_the_plan_of_the_docs_is_described():
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text("utf-8")
    plan = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    told = json.loads(cdp.Study(**plan).described())
    assert told["workloads"]["levels"]["marginals"] == [["state"], ["state", "race"]]
    assert told["invariants"]["table"]["margins"] == [["county"], ["race"]]


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


def test_toml_says_the_same_as_python(tmp_path, found, same):
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


def test_scales_and_weights_are_never_the_counts(study):
    for changed in ({"scales": {"s": "count"}}, {"invariants": {"i": {"weights": "count"}}}):
        with pytest.raises(ValueError, match="must not be taken from the counts"):
            study(**changed).run()
    frame = cdp.datasets.lafferty_blocks().assign(other=lambda t: 2 * t["count"])
    with pytest.raises(ValueError, match="must not be taken from the counts"):
        study(
            tables={"t": {"source": frame, "count": "count"}},
            scales={"s": {"column": "other", "power": 0.5}},
        ).run()
