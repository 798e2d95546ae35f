"""Whole numbers given their sum, against enumeration and closed forms."""

import itertools

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from cdp_views.precision.whole_sums import Mass, Sums, convolve


def geometric(a, width):
    k = np.arange(-width, width + 1)
    return Mass(-width, (1 - a) / (1 + a) * a ** np.abs(k))


def random_from(seed):
    rng = np.random.default_rng(seed)
    return lambda start, size: rng.random(start.size)


def test_convolution_has_full_relative_accuracy_in_the_tails():
    a = geometric(0.5, 80)
    twice = convolve(a, a)
    # the sum of two: ((1−a)/(1+a))² a^s (s + (1+a²)/(1−a²)), at s = 60 some 1e-18 of the largest
    s, b = 60, 0.5
    exact = ((1 - b) / (1 + b)) ** 2 * b**s * (s + (1 + b * b) / (1 - b * b))
    assert_allclose(twice.at(np.array(s)), exact, rtol=1e-13)
    assert twice.at(np.array([-500, 500])).tolist() == [0, 0]


def test_long_convolutions_agree_with_short_ones():
    rng = np.random.default_rng(0)
    a, b = Mass(-5, rng.random(5000)), Mass(7, rng.random(4000))
    both = convolve(a, b)
    assert both.low == 2
    assert_allclose(both.p, np.convolve(a.p, b.p), atol=1e-12 * both.p.max())


def test_equal_cells_share_their_convolutions():
    sums = Sums()
    leaf = sums.leaf("cell", geometric(0.5, 60))
    kind = sums.over(np.full(1000, leaf))
    assert sums.sizes[kind] == 1000 and len(sums.masses) <= 2 * 10 + 1
    assert sums.over(np.full(1000, leaf)) == kind
    assert_allclose(sums.masses[kind].p.sum(), 1, rtol=1e-12)
    variance = 2 * 0.5 / 0.25
    k = sums.masses[kind].low + np.arange(sums.masses[kind].p.size)
    assert_allclose(sums.masses[kind].p @ k**2, 1000 * variance, rtol=1e-12)


@pytest.mark.parametrize("total", [0, 3])
def test_draws_against_enumeration(total):
    """Three cells of two laws, one skew: every outcome's frequency, and a wrong law fails."""
    skew = Mass(-1, np.array([0.1, 0.2, 0.4, 0.3]))
    laws = [geometric(0.4, 12), skew, skew]
    sums = Sums()
    leaves = [sums.leaf("g", laws[0]), sums.leaf("s", skew), sums.leaf("s", skew)]
    root, draws = sums.over(np.array(leaves)), 40_000
    out = np.empty(3 * draws, dtype=np.int64)
    sums.split(
        random_from(1),
        np.full(draws, root),
        3 * np.arange(draws),
        np.full(draws, total),
        out,
    )
    x = out.reshape(draws, 3)
    assert np.all(x.sum(1) == total)
    expected = {}
    for tail in itertools.product(range(-1, 3), repeat=2):
        first = total - sum(tail)
        p = [m.at(np.array(v)) for m, v in zip(laws, (first, *tail), strict=True)]
        expected[first, *tail] = float(np.prod(p))
    whole = sum(expected.values())
    seen = np.array([np.sum(np.all(x == w, axis=1)) for w in expected])
    want = np.array([draws * p / whole for p in expected.values()])
    assert seen.sum() == draws
    kept = want > 1
    assert (
        scipy.stats.chisquare(seen[kept], want[kept] * seen[kept].sum() / want[kept].sum()).pvalue
        > 1e-5
    )
    flat = np.full(kept.sum(), seen[kept].sum() / kept.sum())
    assert scipy.stats.chisquare(seen[kept], flat).pvalue < 1e-5
    assert_allclose(sums.masses[root].at(np.array(total)), whole, rtol=1e-13)


def test_a_million_cells_in_ten_thousand_groups():
    sums = Sums()
    kind = sums.over(np.full(100, sums.leaf("cell", geometric(np.exp(-0.1), 600))))
    out = np.empty(10**6, dtype=np.int64)
    starts, zero = 100 * np.arange(10**4), np.zeros(10**4, dtype=np.int64)
    sums.split(random_from(2), np.full(10**4, kind), starts, zero, out)
    assert not np.any(out.reshape(-1, 100).sum(1))
    variance = 0.5 / np.sinh(0.05) ** 2
    assert_allclose(out.var(), 0.99 * variance, rtol=0.02)  # about the covariance of exact totals
