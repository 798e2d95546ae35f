"""Entropy of imaged noise: pairs by convolution on the line, all else from draws."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy import integrate

import cdp_views as cdp

slow = pytest.mark.slow
GRID = np.sinh(np.linspace(-18, 18, 9001))
SCALE, COSTS = np.array([1.0, 2.5]), np.array([1.0, 3.0])
PAIRS = {"plain": np.array([1.0, 1.0]), "weights": np.array([2.0, -0.5])}


def of_a_sum(law, one, two):
    """The entropy of one·S₁ + two·S₂ for independent S of this SciPy law, by the trapezoid rule."""
    density = [
        integrate.trapezoid(law.pdf((t - two * GRID) / one) / one * law.pdf(GRID), GRID)
        for t in GRID[4500::6]
    ]
    f = np.array(density)
    height = np.where(f > 0, -f * np.log(np.where(f > 0, f, 1)), 0)
    return 2 * integrate.simpson(height, GRID[4500::6])


@pytest.mark.parametrize(
    ("name", "weights", "costs"),
    [
        ("student-t", "weights", COSTS),
        pytest.param("laplace", "plain", None, marks=slow),
        pytest.param("logistic", "weights", COSTS, marks=slow),
        pytest.param("scale mixture", "plain", None, marks=slow),
    ],
)
def test_two_cells_on_their_line(bases, name, weights, costs):
    """X lies on a line, where it is w·U: two cells of the base added up."""
    make, law = bases[name]
    b = PAIRS[weights]
    view = cdp.Imaged(make(np.zeros(2), SCALE), cdp.totals([0, 0], b), weights=costs)
    u, line = b / (1 if costs is None else costs), np.array([b[1], -b[0]]) / np.linalg.norm(b)
    w = np.abs((line - b * (u @ line) / (b @ u)) * SCALE)
    want = of_a_sum(law, w.max(), w.min())
    assert_allclose(view.entropy(), want, atol=1e-5)
    assert abs(of_a_sum(law, 1.05 * w.max(), w.min()) - want) > 1e-2


def test_two_equal_laplace_cells_in_closed_form():
    """(1 + 2|x|)e^{−2|x|}/2 along x = X₁: 2 − ∫ t e^{−t} … by one adaptive quadrature."""
    view = cdp.Imaged(dist.Laplace(np.zeros(2), 1.7), cdp.totals([0, 0]))

    def height(t):
        return -(1 + t) * np.exp(-t) / 2 * (np.log1p(t) - t)

    want = integrate.quad(height, 0, np.inf, epsabs=1e-13)[0] + np.log(2 * 1.7) + np.log(2) / 2
    assert_allclose(view.entropy(), want, atol=1e-8)


@pytest.mark.parametrize(
    "name", ["laplace", *(pytest.param(b, marks=slow) for b in ("logistic", "scale mixture"))]
)
def test_groups_add_up(bases, name):
    """Two unequal pairs, a cell alone under its total, a free one: a batch of two scales."""
    make, _ = bases[name]
    inv = cdp.totals(["a", "b", "a", "c", "b", None], missing="free")
    scale = np.array([1.0, 2.0, 0.5, 3.0, 2.0, 1.5])
    both = np.stack([scale, 3 * scale])
    view = cdp.Imaged(make(np.zeros((2, 6)), both), inv)
    pair = [
        cdp.Imaged(make(np.zeros(2), scale[c]), cdp.totals([0, 0])).entropy()
        for c in ([0, 2], [1, 4])
    ]
    free = np.log(1.5) + (2 if name == "logistic" else 1 + np.log(2))
    want = pair[0] + pair[1] + free
    assert_allclose(view.entropy(), [want, want + 3 * np.log(3)], atol=1e-7)


@slow
def test_ties_of_the_cheapest_cells():
    """metric="l1" with two cells that share the residual, beside two that keep their noise."""
    scale = np.array([1.0, 2.0, 0.5, 3.0])
    inv = cdp.totals([0] * 4, [3.0, 1.0, -3.0, 2.0])
    view = cdp.Imaged(dist.Logistic(np.zeros(4), scale), inv, metric="l1")
    key = jax.random.key(3)
    value, error = view.entropy_estimate(key, draws=20_000)
    assert abs(value - view.entropy()) < 5 * error < 0.05
    assert abs(value - view.entropy() - 0.1) > 5 * error


@slow
def test_more_degrees_of_freedom_than_one():
    df = np.array([3.0, 5.0, 3.0, 5.0])
    inv = cdp.totals([0, 0, 1, 1])
    view = cdp.Imaged(dist.StudentT(df, np.zeros(4), np.array([1.0, 2.0, 1.0, 2.0])), inv)
    half = cdp.Imaged(dist.StudentT(df[:2], np.zeros(2), SCALE * [1, 0.8]), cdp.totals([0, 0]))
    assert_allclose(view.entropy(), 2 * half.entropy(), rtol=1e-9)
    other = cdp.Imaged(dist.StudentT(df[1::-1], np.zeros(2), SCALE * [1, 0.8]), cdp.totals([0, 0]))
    assert abs(other.entropy() - half.entropy()) > 0.01


@pytest.mark.parametrize("name", ["normal", "laplace", pytest.param("logistic", marks=slow)])
def test_estimates(bases, name, inv, scale, key):
    """Of the normal view against its formula; of the others the plain mean of −log p."""
    make, _ = bases[name]
    view = cdp.Imaged(make(np.zeros(6), scale), inv)
    value, error = view.entropy_estimate(key, draws=4000)
    plain = -np.asarray(view.log_prob(view.sample(jax.random.key(5), (4000,))))
    if name == "normal":
        want, other = float(view.entropy()), 0.0
    else:
        want, other = plain.mean(), plain.std() / np.sqrt(4000)
        with pytest.raises(cdp.UnsupportedError, match=r"Use entropy_estimate\(key\)"):
            view.entropy()
    assert abs(value - want) < 5 * np.hypot(error, other)
    assert abs(value + 0.2 - want) > 5 * np.hypot(error, other)
    # what is known of the base's own entropy makes it better
    assert error < 0.7 * plain.std() / np.sqrt(4000)


def sum_of_three(c, t):
    """The density of three independent Laplace numbers of unequal scales c, added up."""
    weight = [np.prod([a * a / (a * a - b * b) for b in c if b != a]) for a in c]
    return sum(w * np.exp(-np.abs(t) / a) / (2 * a) for w, a in zip(weight, c, strict=True))


def test_overlapping_totals_on_a_line(key):
    """Two totals of three cells: X lies on a line, where it is a sum of three Laplace numbers."""
    A, scale = np.array([[1.0, 1, 0], [0, 1, 2]]), np.array([1.0, 2.0, 0.7])
    view = cdp.Imaged(dist.Laplace(np.zeros(3), scale), cdp.linear(A))
    c = np.abs(scipy.linalg.null_space(A)[:, 0]) * scale
    want = integrate.quad(
        lambda t: -2 * sum_of_three(c, t) * np.log(sum_of_three(c, t)), 0, 40, limit=200
    )[0]
    value, error = view.entropy_estimate(key, draws=2000)
    assert abs(value - want) < 5 * error < 0.2
    assert abs(value - want + 0.3) > 5 * error
    with pytest.raises(cdp.UnsupportedError, match="`entropy` of the imaged view of laplace"):
        view.entropy()
    with pytest.raises(cdp.UnsupportedError, match=r"log_prob_estimate.*cdp.observe_imaged"):
        view.log_prob(np.zeros(3))
    with pytest.raises(ValueError, match="`draws` must be at least 100; got 3"):
        view.entropy_estimate(key, draws=3)


def test_whole_numbers_and_refused_ones(key):
    """Shannon entropy of two cells in whole numbers, listed; none of a law with atoms."""
    view = cdp.Imaged(cdp.DiscreteLaplace(np.array([3, 4]), 1.5), cdp.totals([0, 0]))
    x = np.arange(-60, 61)
    log_p = np.asarray(view.log_prob(np.stack([3 + x, 4 - x], -1)))
    want = -np.sum(np.exp(log_p) * log_p)
    value, error = view.entropy_estimate(key)
    assert abs(value - want) < 5 * error < 0.2 < abs(value - want + 0.5)
    bounded = cdp.Imaged(dist.Laplace(np.ones(2), 1.0), cdp.totals([0, 0]) & cdp.nonnegative(2))
    with pytest.raises(cdp.UnsupportedError, match="`entropy` does not exist"):
        bounded.entropy()
    for what in ("mean", "variance"):
        with pytest.raises(cdp.UnsupportedError, match=rf"`{what}` of .*cdp.utility\(view, key"):
            getattr(bounded, what)
