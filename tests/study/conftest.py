"""One small study that most tests ask about, and what it means that two are the same."""

import pytest
import xarray as xr

import cdp_views as cdp

PLAN = {
    "tables": {"blocks": {"source": "lafferty_blocks", "count": "count"}},
    "invariants": {"state": "state"},
    "workloads": {"cells": "cells", "county": {"by": "county", "thresholds": [600.0]}},
    "views": ("conditioned", "imaged"),
    "noises": ("normal", "laplace"),
    "epsilon": (0.5, 1.0),
    "delta": 1e-6,
    "draws": 300,
    "seed": 5,
}


@pytest.fixture
def plan():
    """Its arguments; a test changes its own copy only."""
    return {**PLAN}


def _study(**changed):
    return cdp.Study(**{**PLAN, **changed})


@pytest.fixture(scope="session")
def study():
    """A function: the study, whatever is given replacing its arguments."""
    return _study


@pytest.fixture(scope="session")
def same():
    """A function: whether two results are the same bit for bit, NaN included, in any order."""

    def compared(one: xr.DataTree, other: xr.DataTree) -> bool:
        for node in ("points", "workloads", "skipped"):
            a, b = one[node].to_dataset(), other[node].to_dataset()
            if "point" in a.dims:
                b = b.sel(point=a["point"].values)
            if not a.identical(b):
                return False
        return True

    return compared


@pytest.fixture(scope="session")
def found():
    """Its result, in memory."""
    return _study().run()
