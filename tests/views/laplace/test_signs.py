"""Which cells of conditioned Laplace noise are positive: how many, and that all are alike."""

from fractions import Fraction
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views._lanes import Lanes
from cdp_views.views.conditioned.signs import acceptance, choose_signs

pytestmark = pytest.mark.usefixtures("float64")
SIZES, DRAWS = (2, 3, 7, 20), 20_000


def law(m):
    """P(K = k), k = 0…m, from C(m,k) C(m−2,k−1) in whole numbers."""
    ways = [comb(m, k) * comb(m - 2, k - 1) if 0 < k < m else 0 for k in range(m + 1)]
    return np.array([float(Fraction(w, sum(ways))) for w in ways])


def fits(count, weight):
    """p-value of Pearson's test of these counts."""
    return stats.chisquare(count, weight / weight.sum() * count.sum()).pvalue


@pytest.mark.parametrize("m", [2, 3, 4, 9, 50, 1001])
def test_acceptance_is_a_ratio_of_binomial_coefficients(m):
    k = np.arange(m + 1)
    got = np.asarray(acceptance(jnp.asarray(m), jnp.asarray(k)))
    assert got[0] == got[-1] == 0 and np.all(got <= 1 + 1e-12)
    middle = comb(m - 2, (m - 2) // 2)
    want = np.array([float(Fraction(comb(m - 2, i - 1), middle)) for i in k[1:-1]])
    assert_allclose(got[1:-1], want * got[m // 2], rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("spent", [False, True])
def test_number_and_places_of_positive_cells(spent, key):
    """Also where no candidate of a cell's own bits will do, so that new ones are drawn."""
    seg = cdp.totals(np.repeat(np.arange(4), SIZES)).segments
    one, two = jax.random.split(key)
    bits = jax.random.bits(one, (DRAWS, 1, seg.n), np.uint16) * np.uint16(not spent)
    bits, turn = jax.jit(choose_signs)(two, Lanes.of(seg), bits)
    up = np.asarray((bits[:, 0].astype(int) >> seg.spread(turn)) & 1)
    for group, m in enumerate(SIZES):
        cells = up[:, np.asarray(seg.labels) == group]
        count, want = np.bincount(cells.sum(1), minlength=m + 1), law(m) * DRAWS
        often = want > 5
        assert m == 2 or fits(count[often], want[often]) > 1e-5
        if m > 3:  # iid signs have twice this variance
            binomial = stats.binom(m, 0.5).pmf(np.arange(m + 1))[often]
            assert fits(count[often], binomial) < 1e-5
        assert np.all(np.abs(cells.mean(0) - 0.5) <= 2.5 / np.sqrt(DRAWS))
        sd = np.sqrt(np.sum(law(m) * (np.arange(m + 1) - m / 2) ** 2))
        pair = 4 * np.mean((cells[:, 0] - 0.5) * (cells[:, -1] - 0.5))
        assert abs(pair - (4 * sd**2 / m - 1) / (m - 1)) <= 5 / np.sqrt(DRAWS)
