"""Cells of one law share one estimate; errors come from the draws, not from the cells."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views.deviation import SampledDeviation
from cdp_views.usefulness import utility
from cdp_views.usefulness.law import exact_moments
from cdp_views.usefulness.pooled import PooledDeviation, laws

SCALE = np.array([1.0, 1, 2, 2, 1, 1, 1])
INV = cdp.totals(["a", "a", "a", "a", "b", "b", "c"])


def test_one_class_a_cell_is_the_plain_estimate():
    draws = np.random.default_rng(1).laplace(size=(500, 3))
    pooled, plain = PooledDeviation(draws, np.arange(3)), SampledDeviation(draws)
    for name in ("bias", "sd", "mae", "rmse"):
        np.testing.assert_allclose(getattr(pooled, name), getattr(plain, name))
        np.testing.assert_allclose(pooled.stderr[name], plain.stderr[name], rtol=1e-2)
    np.testing.assert_allclose(pooled.margin(0.9), plain.margin(0.9))
    np.testing.assert_allclose(pooled.margin_stderr(0.9), plain.margin_stderr(0.9), rtol=0.05)


def test_pooled_figures_and_their_standard_errors():
    # Equicorrelated normal errors: margins 1.645, mean absolute error √(2/π), whatever rho.
    margins, maes, told, told_margin = [], [], [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        draws = 0.6 * rng.normal(size=(400, 1)) + 0.8 * rng.normal(size=(400, 8))
        law = PooledDeviation(draws, np.zeros(8, int))
        margins.append(law.margin(0.9)[0])
        maes.append(law.mae[0])
        told.append(law.stderr["mae"][0])
        told_margin.append(law.margin_stderr(0.9)[0])
    for got, said, truth in ((margins, told_margin, 1.6448536), (maes, told, np.sqrt(2 / np.pi))):
        assert abs(np.mean(got) - truth) < 5 * np.std(got) / np.sqrt(200) + 2e-3
        assert 0.85 < np.mean(said) / np.std(got) < 1.15


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (cdp.Conditioned, [0, 0, 1, 1, 2, 2, 3]),
        (cdp.Imaged, [0, 0, 1, 1, 2, 2, 3]),
        (lambda b, i: cdp.Imaged(b, i, weights=[1.0, 2, 1, 1, 1, 1, 1]), [0, 1, 2, 2, 3, 3, 4]),
    ],
)
def test_cells_that_may_be_exchanged(view, expected):
    found = laws(view(dist.Laplace(np.zeros(7), SCALE), INV))
    assert found is not None
    same = np.equal.outer(found, found)
    np.testing.assert_array_equal(same, np.equal.outer(expected, expected))
    assert laws(object()) is None


@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.Imaged, cdp.MaxEntropy])
@pytest.mark.filterwarnings("ignore:`loc` is so large")
def test_large_counts_have_no_bias_without_64_bit_jax(view):
    counts = np.array([33_000_001.0, 3, 5, 7, 11, 13, 17])
    scale = np.array([1.1, 1.2, 1.3, 1.4, 1, 1, 1])
    assert np.float32(counts[0]) != counts[0]  # what JAX would make of it
    inv = cdp.totals(["a", "a", "a", "a", "b", "b", "b"])
    with jax.enable_x64(False):
        found = exact_moments(view(dist.Laplace(counts, scale), inv))
    assert (found["bias"] == 0).all()
    assert found["sd"].dtype == np.float64
    np.testing.assert_array_equal(found["rmse"], found["sd"])


def test_laplace_views_have_exact_moments_and_estimated_margins():
    view = cdp.Conditioned(dist.Laplace(np.zeros(7), 2.0), INV)
    result = utility(view, key=jax.random.key(0), draws=500)
    m = np.array([4.0, 4, 4, 4, 2, 2, 1])
    # Var of a cell of m equal Laplace cells given their total (mathematics.md, §3.2).
    np.testing.assert_allclose(result["sd"] ** 2, 4 * (2 * m - 1) * (m - 1) / (m * (m + 1)), 1e-6)
    assert result["sd"].attrs["kind"] == "exact" and result["mae"].attrs["kind"] == "estimate"
    assert "sd_stderr" not in result and "mae_stderr" in result
    # Two equal cells: x = (s, −s), density of s ∝ e^{−2|s|/λ}: E|x| = λ/2, and Q.9 = (λ/2) ln 10.
    for name, truth in (("mae", 1.0), ("margin90", np.log(10))):
        score = (result[name][4] - truth) / result[f"{name}_stderr"][4]
        assert abs(score) < 5
    assert result["mae"][6] == 0 and not result["bias"].attrs.get("confidential")
    assert result["total_absolute_error_stderr"] > 0
