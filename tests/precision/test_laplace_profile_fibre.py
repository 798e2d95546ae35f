"""Three Laplace cells of which only the differences show, against midpoints and limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views.precision.laplace_profile import independent_cells
from cdp_views.precision.laplace_profile_fibre import three_along_a_fibre
from cdp_views.precision.laplace_profile_image import two_along_a_fibre

GRID = np.array([0.0, 0.4, 0.9])


def by_midpoints(moves, rates, epsilon, cells=700, reach=28.0):
    """Σ (p − e^ε q)₊ in the plane of (x₁ − x₃, x₂ − x₃); the shift of all three is integrated by
    the closed form of three straight pieces, derived by sorting."""
    side = 2 * reach / cells
    x = (np.arange(cells) + 0.5) * side - reach

    def density(one, two):
        z = np.stack(np.broadcast_arrays(one[:, None], two, 0.0))
        order = np.argsort(z, axis=0)
        z, r = np.take_along_axis(z, order, 0), np.asarray(rates)[order]
        g = [-np.sum(r * np.abs(z - z[j]), axis=0) for j in range(3)]
        total = (np.exp(g[0]) + np.exp(g[2])) / np.sum(rates)
        for j in range(2):
            fall = np.abs(g[j] - g[j + 1]) + 1e-9
            total += (
                (z[j + 1] - z[j]) * np.exp(np.maximum(g[j], g[j + 1])) * -np.expm1(-fall) / fall
            )
        return np.prod(rates) / 8 * total

    p, q = density(x, x), density(x - moves[0], x - moves[1])
    return [np.maximum(p - np.exp(e) * q, 0).sum() * side**2 for e in np.atleast_1d(epsilon)]


@pytest.mark.parametrize(
    ("moves", "rates"),
    [
        ((1.0, -1.0), (1.0, 1.0, 1.0)),
        ((1.0, -1.0), (1.0, 1.0, 2.0)),  # one rate the sum of the others
        ((2.0, -0.5), (0.9, 1.4, 0.6)),
        ((1.0, 1.0), (1.0, 0.7, 0.6)),  # two move alike
        ((-1.3, 0.0), (1.0, 0.7, 0.6)),
    ],
)
def test_against_midpoints(moves, rates):
    got = three_along_a_fibre(moves, rates)(GRID)
    assert_allclose(got, by_midpoints(moves, rates, GRID), atol=2e-4)


def test_a_third_cell_of_no_weight_and_one_that_never_moves():
    """Rate 0: two cells alone; a large rate: the base, both from where they belong."""
    two = two_along_a_fibre(2.0, (1 / 0.8, 1 / 1.1))(GRID)
    assert_allclose(three_along_a_fibre((1.0, -1.0), (0.8, 1.1, 1e-6))(GRID), two, rtol=1e-4)
    base = independent_cells([0.8, 1.1])(GRID)
    far = three_along_a_fibre((1.0, -1.0), (0.8, 1.1, 1e3))(GRID)
    assert_allclose(far, base, rtol=5e-3)
    assert np.all(far <= base * (1 + 1e-6))


def test_cells_that_move_alike_lose_no_more_than_one_of_all_their_rates():
    apart = three_along_a_fibre((0.0, -1.5), (0.7, 1.0, 0.5))(GRID)
    together = two_along_a_fibre(1.5, (1 / 1.2, 1.0))(GRID)
    assert np.all(apart < together) and np.all(apart > 0.6 * together)


def test_a_larger_rate_never_lowers_it():
    rates = np.array([0.8, 1.1, 0.9])
    least = three_along_a_fibre((1.0, -1.0), tuple(rates))(GRID)
    for i in range(3):
        grown = three_along_a_fibre((1.0, -1.0), tuple(rates * (1 + 0.2 * np.eye(3)[i])))(GRID)
        assert np.all(grown >= least * (1 - 2e-6)) and grown[2] > 1.01 * least[2]


def test_where_one_rate_passes_the_sum_of_the_others_nothing_jumps():
    third = 1.9 * (1 + np.array([-1e-5, -1e-9, 0, 1e-9, 1e-5]))
    got = [three_along_a_fibre((1.0, -1.0), (0.8, 1.1, c))(np.array(0.4)) for c in third]
    assert_allclose(got, got[2], rtol=2e-5)


def test_rates_of_many_sizes():
    """Ordered against the base, at ε = 0 and near the supremum, and 0 beyond it."""
    for rates in ((1e-3, 1.0, 30.0), (50.0, 0.02, 1.0), (1.0, 1.0, 1e4)):
        sup = min(rates[0] + rates[1], sum(rates) - abs(rates[0] - rates[1]))
        epsilon = sup * np.array([0.0, 0.5, 0.99])
        got = three_along_a_fibre((1.0, -1.0), rates)(epsilon)
        base = independent_cells(rates[:2])(epsilon)
        assert np.all((got >= 0) & (got <= base * (1 + 2e-6))) and np.all(np.diff(got) <= 0)
        assert three_along_a_fibre((1.0, -1.0), rates)(np.array(1.01 * sup)) == 0
