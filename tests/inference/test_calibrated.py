"""Ranks and coverage of a model that is right, and of one that ignores the totals."""

import jax
import numpy as np
import pytest

from cdp_views.inference import (
    naive_and_aware,
    naive_and_aware_figure,
    run_many,
    simulation_based_calibration,
)
from tests.inference import conjugate

# One size for all that follows, so that each model is compiled once.
SIZE = {"draws": 99, "warmup": 150, "sites": ("q",)}
REPEATED = 200


@pytest.fixture(scope="module")
def right():
    return simulation_based_calibration(
        jax.random.key(3), conjugate.simulate, conjugate.model,
        simulations=REPEATED, thin=1, **SIZE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wrong():
    return simulation_based_calibration(
        jax.random.key(3), conjugate.simulate, conjugate.naive,
        simulations=REPEATED, thin=1, **SIZE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def contrasted():
    return naive_and_aware(
        jax.random.key(4), conjugate.simulate, conjugate.model, conjugate.naive,
        repetitions=REPEATED, **SIZE,
    )  # fmt: skip


def test_draws_have_the_known_mean_and_covariance(key):
    _, y = jax.vmap(conjugate.simulate)(jax.random.split(key, REPEATED))
    found, diverging = run_many(key, conjugate.model, y, thin=1, **SIZE)
    mean, covariance = conjugate.posterior(np.asarray(y, np.float64))
    off = np.asarray(found["q"], np.float64) - mean[:, None]
    assert not np.asarray(diverging).any()
    # Chains are independent of each other, so their spread gives the error.
    each = off.mean(axis=1)
    assert np.all(np.abs(each.mean(axis=0)) < 5 * each.std(axis=0, ddof=1) / np.sqrt(REPEATED))
    products = np.einsum("rsi,rsj->rij", off, off) / off.shape[1]
    error = products.std(axis=0, ddof=1) / np.sqrt(REPEATED)
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * error)
    naive = np.eye(5) * covariance[0, 0] * 2  # group a has two cells: P_ii = 1/2
    assert np.any(np.abs(products.mean(axis=0) - naive) > 5 * error)


def test_ranks_are_uniform(right):
    assert right.ok, right.text
    assert right.divergences == 0
    assert right.autocorrelation < 0.1
    assert list(right.table["quantity"]) == [f"q[{i}]" for i in range(5)]
    row = right.pooled.iloc[0]
    assert abs(row["coverage90"] - 0.9) < 5 * row["coverage90_se"]
    assert "uniform" in right.text


def test_the_naive_likelihood_is_caught(wrong):
    assert not wrong.ok
    assert wrong.p_value < 1e-6
    assert wrong.pooled.loc[0, "spread_z"] < -5  # intervals too wide
    assert "posteriors of q are too wide" in wrong.text


def test_figure_of_ranks(right, wrong):
    assert right.figure().axes[0].get_title(loc="left") == "q: 5 curves, 0 outside"
    outside = int(wrong.figure().axes[0].get_title(loc="left").split(", ")[1].split()[0])
    assert outside >= 1


def test_coverage_bias_and_width_of_both(contrasted):
    found = contrasted.sel(site="q")
    coverage, error = found["coverage90"], found["coverage90_se"]
    aware = abs(coverage.sel(analysis="aware") - 0.9) / error.sel(analysis="aware")
    assert aware < 5
    assert (coverage.sel(analysis="naive") - 0.9) / error.sel(analysis="naive") > 5
    assert (abs(contrasted["bias"]) < 5 * contrasted["bias_se"]).all()
    assert list(contrasted["quantity"].values) == [f"q[{i}]" for i in range(5)]
    # Width of a normal posterior: 2 · 1.645 sd; the sd by dense algebra, the naive one without P.
    sd = np.sqrt(np.diag(conjugate.posterior(np.zeros(5))[1]))
    plain = conjugate.TAU * conjugate.SIGMA / np.hypot(conjugate.TAU, conjugate.SIGMA)
    # Ends at the 5th and 95th of 99 draws lie a little outside the quantiles, by 2 %.
    assert found["mean_width90"].sel(analysis="aware") == pytest.approx(3.29 * sd.mean(), rel=0.04)
    assert found["mean_width90"].sel(analysis="naive") == pytest.approx(3.29 * plain, rel=0.04)
    assert contrasted.attrs["repetitions"] == REPEATED


def test_figure_of_both(contrasted):
    coverage = naive_and_aware_figure(contrasted).axes[0]
    drawn = {c.get_label(): c.lines[0].get_xdata()[0] for c in coverage.containers}
    assert drawn["naive"] > drawn["knows noise and totals"]


def test_what_does_not_fit_is_named(key):
    with pytest.raises(ValueError, match="`simulate` gives no truth for r; it gives q"):
        simulation_based_calibration(key, conjugate.simulate, conjugate.model, sites=["r"])
    with pytest.raises(ValueError, match="19 simulations with 99 draws give no two equal bins"):
        simulation_based_calibration(
            key, conjugate.simulate, conjugate.model, sites=["q"], simulations=19
        )
