"""Conditioned whole noise with cells at least 0: the published table, and enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

LOC, SCALE = np.array([1, 0, 2, 5]), np.array([0.8, 0.8, 0.5, 0.8])
INV = cdp.totals([0, 0, 0, 1])
REGION = INV & cdp.nonnegative(4)


def exact(loc):
    """{table: probability} of three cells ≥ 0 with the totals of `loc`, by listing them."""
    total, base = int(loc[:3].sum()), cdp.DiscreteLaplace(loc[:3], SCALE[:3])
    tables = [t for t in itertools.product(range(total + 1), repeat=3) if sum(t) == total]
    p = np.exp(np.asarray(base.log_prob(np.array(tables)), float).sum(1))
    return np.array(tables), p, p.sum()


@pytest.fixture
def view():
    return cdp.Conditioned(cdp.DiscreteLaplace(LOC, SCALE), REGION)


def test_probabilities_moments_draws(view, key):
    tables, p, whole = exact(LOC)
    full = np.column_stack([tables, np.full(len(tables), LOC[3])])
    assert_allclose(np.exp(np.asarray(view.log_prob(full), float)), p / whole, rtol=1e-5)
    assert view.log_prob(np.array([-1, 2, 2, 5])) == -np.inf
    noise, p = tables - LOC[:3], p / whole
    errors = view.deviation()
    assert_allclose(errors.bias[:3], p @ noise, atol=1e-7)
    assert_allclose(errors.sd[:3], np.sqrt(p @ noise**2 - (p @ noise) ** 2), rtol=1e-6)
    assert_allclose(view.mean[:3], p @ tables, rtol=1e-6)
    assert errors.sd[3] == 0 and errors.bias[1] > 0  # a cell at its bound can only grow
    assert_allclose(view.entropy(), -p @ np.log(p), rtol=1e-5)
    draws = np.asarray(view.sample(key, (5000,)))
    assert draws.min() == 0 and np.all(view.support(draws))
    seen = np.array([np.mean(np.all(draws[:, :3] == t, axis=1)) for t in tables])
    assert np.all(np.abs(seen - p) < 5 * np.sqrt(p / 5000) + 1e-4)


def test_the_price_of_bounds(view):
    """sup |L| over the listed tables ≤ Σ|v|/λ + |log Z(q) − log Z(q + v)|, computed exactly."""
    v = np.array([1.0, 0, -1, 0])
    with pytest.raises(UnsupportedError, match="name the differences"):
        cdp.privacy_loss(view, cdp.relocations(INV))
    plain = 1 / SCALE[0] + 1 / SCALE[2]
    assert cdp.privacy_loss(view, cdp.differences(v)).pure_epsilon == 2 * plain  # of every table
    loss = cdp.privacy_loss(view, cdp.differences(v), table="this")
    worst = plain + max(
        abs(np.log(exact(LOC)[2] / exact(LOC + (s * v).astype(int))[2]))
        for s in (1, -1)
        if np.all(LOC + s * v >= 0)
    )
    assert_allclose(loss.pure_epsilon, worst, rtol=1e-6)
    assert loss.pure_kind == "bound" and loss.pure_epsilon > plain
    _, p, whole = exact(LOC)
    other = exact((LOC + v).astype(int))
    losses = np.log(p / whole) - np.log(other[1] / other[2])
    assert np.abs(losses).max() <= loss.pure_epsilon + 1e-12


def test_the_published_table_as_a_view(key):
    """Gong and Meng's 2 × 23 table: 4,000 exact draws; theirs accepts 1.68 % of its proposals."""
    females = [8, 6, 3, 6, 4, 4, 4, 8, 5, 7, 7, 6, 1, 5, 4, 4, 9, 6, 2, 8, 8, 8, 7]
    males = [3, 4, 5, 8, 6, 4, 5, 5, 5, 6, 10, 7, 3, 2, 5, 11, 6, 4, 7, 4, 5, 3, 8]
    cells, adult = np.array(females + males), np.tile(np.arange(23) >= 4, 2)
    inv = cdp.linear(np.stack([np.ones(46), np.repeat([1, 0], 23), adult]))
    view = cdp.Conditioned(cdp.DiscreteLaplace(cells, 2.0), inv & cdp.nonnegative(46))
    draws = np.asarray(view.sample(key, (4000,)))
    assert_array_equal(draws @ inv.matrix.toarray().T, np.tile([256, 130, 213], (4000, 1)))
    assert draws.min() == 0
    size = np.abs(draws - cells).sum(1)
    assert abs(size.mean() - 73.53267085) < 5 * 11.29762099 / np.sqrt(4000)
    assert_allclose(view.deviation().mae.sum(), 73.53267085, rtol=1e-9)


def test_refused():
    with pytest.raises(UnsupportedError, match="bounds of single cells"):
        cdp.Conditioned(cdp.DiscreteLaplace(LOC, 1.0), INV & cdp.bounds(np.ones((1, 4)), [0.0]))
    with pytest.raises(ValueError, match="the true table itself breaks"):
        cdp.Conditioned(cdp.DiscreteLaplace(LOC - 1, 1.0), REGION)
    with pytest.raises(UnsupportedError, match="one concrete table"):
        cdp.Conditioned(cdp.DiscreteLaplace(np.stack([LOC, LOC]), 1.0), REGION)
