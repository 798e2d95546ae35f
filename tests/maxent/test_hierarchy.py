"""Levels of the paper's table against its formulas, dense algebra, and the evaluators."""

import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views import datasets
from cdp_views.loss import analytic_gaussian_mu, tail_bound_mu
from cdp_views.maxent import level_errors, level_scales

TABLE = datasets.lafferty_blocks()
STATE, COUNTY = cdp.totals(TABLE["state"]), cdp.totals(TABLE["county"])
NEIGHBOURS = cdp.relocations(STATE)
SIZES = {"C1": (3, 6), "C2": (3, 6), "C3": (2, 7), "C4": (2, 7), "C5": (3, 7)}


def scales(**kwargs):
    options = {"epsilon": 1.0, "delta": 1e-5} | kwargs
    return level_scales(STATE, {"county": COUNTY, "state": STATE}, NEIGHBOURS, **options)


def test_the_papers_formulas_by_level():
    answer = scales()
    # cells: ν_i + ν_j = 2(n−1)/n, largest in the larger state; counties: (1/n_a + 1/n_b)(n−1)/n
    assert answer.sensitivity["cells"] == pytest.approx(2 * 6 / 7, rel=1e-12)
    want = max((1 / 2 + 1 / 2) * 6 / 7, (1 / 3 + 1 / 3) * 5 / 6)
    assert answer.sensitivity["county"] == pytest.approx(want, rel=1e-10)
    assert answer.sensitivity["state"] == pytest.approx(0, abs=1e-12)
    assert answer.scale == answer.scales["cells"]
    assert answer.deciding == "cells"
    mu = tail_bound_mu(1.0, 1e-5)
    assert answer.scale == pytest.approx(np.sqrt(2 * 6 / 7) / mu, rel=1e-12)


def test_a_level_of_its_own_budget_can_decide():
    budgets = {"cells": 8.0, "county": 0.1, "state": 1.0}
    answer = scales(epsilon=budgets, bound="analytic")
    assert answer.deciding == "county"
    mu = analytic_gaussian_mu(0.1, 1e-5)
    assert answer.scale == pytest.approx(np.sqrt(6 / 7) / mu, rel=1e-10)
    view = cdp.MaxEntropy(dist.Normal(np.zeros(13), answer.scale), STATE)
    loss = cdp.privacy_loss(view, NEIGHBOURS, query=COUNTY.matrix)
    assert loss.delta(0.1) == pytest.approx(1e-5, rel=1e-6)
    assert cdp.privacy_loss(view, NEIGHBOURS).delta(8.0) <= 1e-5


def test_a_coarser_level_never_needs_more_for_the_same_neighbours():
    for nb in (NEIGHBOURS, cdp.exchanges(STATE)):
        a = level_scales(STATE, {"county": COUNTY}, nb, epsilon=1, delta=1e-5).sensitivity
        assert a["county"] < a["cells"]


def test_sums_are_less_noisy_than_independent_ones():
    sigma = 46.041
    errors = level_errors(STATE, {"county": COUNTY, "state": STATE}, sigma)
    want = [sigma * np.sqrt(m * (n - m) / (n - 1)) for m, n in SIZES.values()]
    np.testing.assert_allclose(errors["county"], want, rtol=1e-10)
    np.testing.assert_array_equal(errors["state"], 0)
    view = cdp.MaxEntropy(dist.Normal(np.zeros(13), sigma), STATE)
    np.testing.assert_allclose(cdp.utility(view, COUNTY).sd, errors["county"], rtol=1e-6)


def test_unequal_scales_against_dense_algebra():
    sigma = np.linspace(1, 2, 13)
    D, W = np.diag(sigma), COUNTY.matrix.toarray()
    R = cdp.solve_max_entropy(STATE, sigma).correlation()
    errors = level_errors(STATE, {"county": W}, sigma)
    np.testing.assert_allclose(errors["county"] ** 2, np.diag(W @ D @ R @ D @ W.T), rtol=1e-10)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"^`epsilon` must name every level; got none for 'cells'"):
        scales(epsilon={"county": 1.0})
    with pytest.raises(ValueError, match=r"^`levels` must sum the 13 cells .* 'x' has 2"):
        level_errors(STATE, {"x": np.ones((1, 2))}, 1.0)
    with pytest.raises(ValueError, match=r"^`bound` must be one of"):
        scales(bound="best")
    with pytest.raises(ValueError, match=r"^`scale` must be positive"):
        level_errors(STATE, {"county": COUNTY}, 0.0)
