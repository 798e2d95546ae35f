"""Pairs that are not tried one by one: their bound against quadrature, and where it is needed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views.precision.laplace_profile import independent_cells
from cdp_views.precision.laplace_profile_fibre import three_along_a_fibre
from cdp_views.views.imaged.profile import pairs_below, whole_of_groups

EPSILON = np.array([0.0, 0.3, 0.8, 1.3])
TOTAL, LARGEST, WHOLE = 2.0, 1.4, 3.0


def by_midpoints(rates, cells=500, reach=24.0):
    """δ of cells one and two moving apart by 1 each, the common shift of all three integrated."""
    side = 2 * reach / cells
    x = (np.arange(cells) + 0.5) * side - reach
    s = np.linspace(-reach, reach, 481)
    step = s[1] - s[0]

    def density(one, two):
        parts = [
            np.exp(-r * np.abs(z[:, None] - s)) for r, z in zip(rates[:2], (one, two), strict=True)
        ]
        third = rates[2] * np.exp(-rates[2] * np.abs(s)) / 2 * step
        return rates[0] * rates[1] / 4 * np.einsum("is,js,s->ij", *parts, third, optimize=True)

    p, q = density(x, x), density(x - 1, x + 1)
    return [np.maximum(p - np.exp(e) * q, 0).sum() * side**2 for e in EPSILON]


@pytest.mark.parametrize("rates", [(1.4, 0.6, 1.0), (1.0, 1.0, 1.0), (1.2, 0.8, 0.4)])
def test_bound_of_pairs_against_quadrature(rates):
    bound = pairs_below(TOTAL, LARGEST, WHOLE)
    got = bound.delta(EPSILON[:, None])[:, 0]
    assert (bound.kind, bound.sup_kind, bound.sup.tolist()) == ("bound", "bound", [TOTAL])
    assert np.all(np.array(by_midpoints(rates)) <= got + 2e-3)


def test_bound_of_pairs_against_all_of_them():
    """Whatever the pair; nearer than the base. The most uneven pair alone proves nothing."""
    got = pairs_below(TOTAL, LARGEST, WHOLE).delta(EPSILON[:, None])[:, 0]
    rng = np.random.default_rng(0)
    for _ in range(30):
        large = rng.uniform(0.5 * TOTAL, LARGEST)
        rates = (large, TOTAL - large, rng.uniform(0.1, WHOLE))
        assert np.all(three_along_a_fibre((1.0, -1.0), rates)(EPSILON) <= got * (1 + 1e-9))
    base = independent_cells([TOTAL - LARGEST, LARGEST])(EPSILON)
    assert np.all(got <= base * (1 + 1e-12)) and got[1] < 0.97 * base[1]
    little = pairs_below(TOTAL, 1.9, 0.3).delta(EPSILON[:, None])[:, 0]
    even, uneven = (
        three_along_a_fibre((1.0, -1.0), (r, TOTAL - r, 0.3))(EPSILON) for r in (1.0, 1.9)
    )
    assert np.all(even > 1.05 * uneven) and np.all(even <= little * (1 + 1e-9))


def test_many_cells_at_rest_show_all_of_the_base():
    base = independent_cells([0.6, 1.4])(EPSILON)
    for whole in (1e3, np.inf):
        assert_allclose(pairs_below(TOTAL, LARGEST, whole).delta(EPSILON[:, None])[:, 0], base)


def test_what_lies_beside_a_pair_at_most():
    labels, rate = np.array([0, 0, 1, 1, 1]), np.array([1.0, 2, 0.5, 0.5, 4])
    assert whole_of_groups(np.full(5, 0.3), rate, labels, 2) == 5.0
    assert whole_of_groups(np.array([1.0, -1, 1, 1, 1]), rate, labels, 2) == 5.0
    assert whole_of_groups(np.array([1.0, 2, 1, 1, 1]), rate, labels, 2) == np.inf
    assert whole_of_groups(np.ones(5), rate, np.array([0, 0, 1, 1, 2]), 2) == np.inf  # a free cell
