"""The band of uniform ranks against enumeration and simulation."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import stats

from cdp_views.inference.uniformity import (
    bins_for,
    chi_square_p_value,
    ecdf_band,
    ecdf_p_value,
    ranks_below,
)


@cache
def gamma_of(below, count, bins):
    """Säilynoja et al. 2022, (5), straight from the definition."""
    law = [stats.binom(count, k / bins) for k in range(1, bins)]
    return min(2 * min(b.cdf(c), b.sf(c - 1)) for b, c in zip(law, below, strict=True))


def test_p_values_are_those_of_every_possible_sample():
    count, bins = 6, 3
    samples = [np.array(s) for s in product(range(3), repeat=count)]
    below = [ranks_below(s, 2, bins) for s in samples]
    gamma = np.array([min(1.0, gamma_of(tuple(b), count, bins)) for b in below])
    for b, g in list(zip(below, gamma, strict=True))[::29]:
        exact = np.mean(gamma <= g * (1 + 1e-9))
        assert ecdf_p_value(b, count) == pytest.approx(exact, abs=1e-12)


def test_the_band_holds_as_often_as_it_says():
    random = np.random.default_rng(0)
    low, high = ecdf_band(200, 20, 0.9)
    below = np.stack([ranks_below(random.integers(0, 100, 200), 99, 20) for _ in range(4000)])
    share = np.mean(np.all((low <= below) & (below <= high), axis=1))
    assert 0.9 - 5 * 0.0047 < share < 0.93  # counts are whole, so a little above 0.90
    narrow = np.mean(np.all((low < below) & (below < high), axis=1))
    assert narrow < 0.9 - 5 * 0.0047


@pytest.mark.parametrize("p_value", ["ecdf", "chi square"])
def test_p_values_are_uniform_and_find_what_is_wrong(p_value):
    random = np.random.default_rng(1)

    def p(ranks):
        if p_value == "ecdf":
            return ecdf_p_value(ranks_below(ranks, 99, 20), 200)
        return chi_square_p_value(ranks, 99, 20)

    found = np.array([p(random.integers(0, 100, 200)) for _ in range(400)])
    assert np.mean(found < 0.1) < 0.1 + 5 * 0.015
    assert stats.kstest(found, "uniform").pvalue > 1e-6
    heaped = (random.beta(3, 3, 200) * 100).astype(int)
    assert p(heaped) < 1e-4


def test_bins():
    assert bins_for(200, 99) == 20
    assert bins_for(50, 19) == 5
    with pytest.raises(ValueError, match="no two equal bins"):
        bins_for(200, 100)
