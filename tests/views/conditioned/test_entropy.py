"""Entropy of conditioned and imaged noise, in closed form or by one quadrature for each total."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64")
slow = pytest.mark.slow


CASES = [
    pytest.param(b, t, marks=() if (b, t) in (("laplace", 3.0), ("student-t", None)) else slow)
    for b in ("laplace", "student-t", "cauchy", "between", "logistic")
    for t in (None, 3.0)
    if (b, t) != ("laplace", None)  # closed form, tested with Laplace
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


def test_refused_for_any_mixing_law():
    base = cdp.ScaleMixture(dist.LogNormal(0.0, 1.0), np.zeros(3))
    with pytest.raises(cdp.UnsupportedError, match="the mean of −log_prob over draws"):
        cdp.Conditioned(base, cdp.totals([0, 0, 0])).entropy()


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
