"""Entropy of conditioned and imaged noise, in closed form or by one quadrature for each total."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy import integrate, stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64")
slow = pytest.mark.slow


CASES = [  # Laplace noise at its own total has a closed form, tested with Laplace
    ("laplace", 3.0),
    ("student-t", None),
    pytest.param("cauchy", 3.0, marks=slow),
    pytest.param("between", None, marks=slow),
    pytest.param("logistic", 3.0, marks=slow),
]


@pytest.mark.parametrize(("base", "total"), CASES)
def test_on_a_line(base, total, two, bases, along):
    """−∫ p log p along the line of two weighted cells."""
    make, law = bases[base]
    view, line = two(make, total), along(law, total or 0.0)
    r = np.sinh(np.linspace(-14, 14, 40_001))
    log_p = line.log(r)
    p = np.exp(log_p - np.log(integrate.simpson(np.exp(log_p), r)))
    want = -integrate.simpson(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), r)
    assert_allclose(view.entropy(), want, atol=2e-6)
    assert abs(view.entropy() - two(make, 1.0).entropy()) > 1e-4


def test_free_and_fixed_cells_add_their_own(key):
    """Cells in no group add the base's entropy, a cell alone under its total adds none."""
    scale = np.array([1.0, 2.0, 0.5, 3.0])
    inv = cdp.totals([0, 0, 1, None], missing="free")
    view = cdp.Conditioned(dist.Logistic(np.zeros(4), scale), inv)
    pair = cdp.Conditioned(dist.Logistic(np.zeros(2), scale[:2]), cdp.totals([0, 0]))
    assert_allclose(view.entropy(), pair.entropy() + 2 + np.log(3.0), rtol=1e-9)


@pytest.mark.parametrize("make", [dist.Laplace, pytest.param(dist.Logistic, marks=slow)])
def test_one_cell_that_takes_the_residual(make, key):
    """metric="l1": the mean of −log_prob over draws, and not that of metric="l2"."""
    inv = cdp.totals([0, 0, 0, 1, 1], [1.0, 3, 2, 1, -2])
    view = cdp.Imaged(make(np.zeros(5), np.arange(1.0, 6)), inv, metric="l1")
    height = -np.asarray(view.log_prob(view.sample(key, (20_000,))))
    error = height.std() / np.sqrt(20_000)
    assert abs(height.mean() - view.entropy()) < 5 * error
    plain = np.sum(np.log(np.arange(1.0, 6)[[0, 2, 3]])) + 3 * (2 if make is dist.Logistic else 1)
    assert abs(height.mean() - plain) > 5 * error  # without |b_m|/|b| (and log 2 for Laplace)
    with pytest.raises(cdp.UnsupportedError, match="`entropy` of the imaged view"):
        cdp.Imaged(make(np.zeros(5), 1.0), inv).entropy()


def test_estimated_for_any_mixing_law(key):
    """The mixture that is Laplace noise, against the closed form of that."""
    inv, mixing = cdp.totals([0, 0, 0]), dist.Weibull(np.sqrt(2.0), 2.0)
    view = cdp.Conditioned(cdp.ScaleMixture(mixing, np.zeros(3), scale=1.7), inv)
    with pytest.raises(cdp.UnsupportedError, match=r"Use entropy_estimate\(key\)"):
        view.entropy()
    value, error = view.entropy_estimate(key)
    want = cdp.Conditioned(dist.Laplace(np.zeros(3), 1.7), inv).entropy()
    assert abs(value - want) < 5 * error < 0.2 < abs(value + 0.3 - want)


def test_estimated_where_totals_overlap_and_within_bounds(key):
    """Student-t noise on a line, and a truncated Laplace law on a segment, by quadrature."""
    A, scale = np.array([[1.0, 1, 0], [0, 1, 2]]), np.array([1.0, 2.0, 0.7])
    view = cdp.Conditioned(dist.StudentT(5.0, np.zeros(3), scale), cdp.linear(A))
    with pytest.raises(cdp.UnsupportedError, match=r"Use entropy_estimate\(key\)"):
        view.entropy()
    r = np.sinh(np.linspace(-12, 12, 24_001))
    log_p = np.sum(stats.t(5).logpdf(r[:, None] * scipy.linalg.null_space(A)[:, 0] / scale), -1)
    value, error = view.entropy_estimate(key)
    assert error > view.log_normalizer_stderr
    assert abs(value - of(log_p, r)) < 5 * error < 0.2 < abs(value + 0.3 - of(log_p, r))

    loc = np.array([1.0, 4.0])
    within = cdp.Conditioned(dist.Laplace(loc, 1.5), cdp.totals([0, 0]) & cdp.nonnegative(2))
    with pytest.raises(cdp.UnsupportedError, match=r"Use entropy_estimate\(key\)"):
        within.entropy()
    x = np.linspace(-1, 4, 20_001)
    value, error = within.entropy_estimate(key)
    want = of(-2 * np.abs(x) / 1.5, x) + np.log(2) / 2  # the line is √2 as long
    assert abs(value - want) < 5 * error < 0.2 < abs(value + 0.3 - want)


def of(log_p, x):
    """−∫ p log p for p normalised on the grid x."""
    log_p = log_p - np.log(integrate.simpson(np.exp(log_p), x))
    return -integrate.simpson(np.exp(log_p) * np.where(log_p > -700, log_p, 0), x)


def test_a_traced_total_out_of_reach_says_so(two, bases):
    """Draws under jit are NaN at once, with the reason; near totals are drawn as before."""
    inv = cdp.totals([0, 0], [1.0, -2.0])
    scale = np.array([1.0, 2.5])

    @jax.jit
    def draw(total):
        view = cdp.Conditioned(dist.Laplace(np.zeros(2), scale), inv, total=total)
        return view.sample(jax.random.key(0), (2000,))

    def finished(total):
        x = np.asarray(draw(total))
        jax.effects_barrier()
        return x

    near = finished(np.array([3.0]))
    assert_allclose(near @ [1.0, -2.0], 3.0, atol=1e-9)
    place = near @ np.array([2.0, 1.0])
    eager = two(bases["laplace"][0], 3.0).sample(jax.random.key(1), (2000,))
    law = stats.ks_2samp(place, np.asarray(eager) @ np.array([2.0, 1.0]))
    assert law.pvalue > 1e-6
    with pytest.warns(UserWarning, match="are NaN: `total` is so far from loc's own"):
        far = finished(np.array([300.0]))
    assert np.all(np.isnan(far))
