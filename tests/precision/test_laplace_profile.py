"""Profiles of Laplace noise: brute-force quadrature, partial fractions, draws, and each other."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views.precision.laplace_profile import independent_cells, two_cells
from cdp_views.precision.laplace_profile_pair import two_of_a_total
from cdp_views.precision.laplace_profile_rest import density_of_sum
from cdp_views.precision.laplace_profile_sum import convolved

EPSILON = np.array([0.0, 0.5, 1.0, 1.5])


def alike(n, c=1.0):
    """The other cells of a group of n."""
    return np.full(int(n > 2), c), np.full(int(n > 2), n - 2)


def hockey_stick(p, q, epsilon, cell):
    return float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0)) * cell)


def three_cells(move, scales, epsilon):
    """∫ (p − e^ε q)₊ over the plane of three cells with sum 0, by midpoints."""
    y = (np.arange(1200) + 0.5) / 40 - 15
    t, u = np.meshgrid(y, y, sparse=True)
    c = np.asarray(scales)

    def density(t, u):
        return np.exp(-np.abs(t) / c[0] - np.abs(u) / c[1] - np.abs(t + u) / c[2])

    p, q = density(t, u), density(t + move, u - move)
    return hockey_stick(p, q, epsilon, 1) / p.sum()


def test_independent_cells_against_quadrature():
    x = (np.arange(1600) + 0.5) / 50 - 16
    for a, b in ((1.0, 1.0), (0.4, 2.5)):
        one, two = (np.exp(-np.abs(x + d)) / 2 for d in (0, a))
        three, four = (np.exp(-np.abs(x + d)) / 2 for d in (0, b))
        for epsilon in (0.0, 0.7, a + b - 0.2):
            brute = hockey_stick(np.outer(one, three), np.outer(two, four), epsilon, 4e-4)
            assert_allclose(independent_cells([b, -a])(np.array(epsilon)), brute, atol=1e-4)
            line = hockey_stick(three, four, min(epsilon, b), 2e-2)
            assert_allclose(independent_cells([b, 0])(np.array(min(epsilon, b))), line, atol=1e-4)
    assert_allclose(two_cells(EPSILON, 1.0, 1.0), [0.448181, 0.350496, 0.241837, 0.123849], 1e-5)


def test_two_cells_are_right_to_rounding_and_never_below():
    with mp.workdps(50):
        for a, b in ((1.0, 1.0), (1e-9, 3e-9), (0.3, 40.0)):
            for gap in (1e-14, 1e-6, 0.1, 0.9):
                epsilon = (a + b) * (1 - gap)
                x = (mp.mpf(a) + mp.mpf(b) - mp.mpf(epsilon)) / 2
                want = 1 - mp.exp(-x) * (1 + min(x, mp.mpf(a)) / 2)
                got = mp.mpf(float(two_cells(np.array(epsilon), a, b)))
                excess = (got - want) / want
                assert 0 <= excess <= 2e-14 + 1e-15 / gap


def test_convolution_lies_barely_above():
    one = (lambda e: two_cells(e, 0.0, 1.3), 1.3)
    two = (lambda e: two_cells(e, 0.0, 0.4), 0.4)
    epsilon = np.linspace(0, 1.69, 60)
    excess = convolved([one, two])(epsilon) - two_cells(epsilon, 0.4, 1.3)
    assert excess.min() >= 0 and excess.max() < 1e-6
    # four cells, by draws: x with density ½e^{−|x|} moved by a
    a = np.array([0.7, 1.3, 0.4, 2.0])
    x = np.random.default_rng(3).laplace(size=(200_000, 4))
    loss = (np.abs(x + a) - np.abs(x)).sum(axis=1)
    for epsilon in (0.0, 1.0, 3.0):
        draws = np.maximum(-np.expm1(np.minimum(epsilon - loss, 0)), 0)
        error = draws.std() / np.sqrt(len(draws))
        assert abs(independent_cells(a)(np.array(epsilon)) - draws.mean()) < 5 * error
        assert abs(independent_cells(a[:3])(np.array(epsilon)) - draws.mean()) > 5 * error


@pytest.mark.parametrize(
    "scales",
    [[1, 2], [1e-6, 1, 1.1], [1e-3, 1e-2, 0.1, 1, 10], np.arange(1, 13) / 3, np.arange(20, 40)],
    ids=["two", "one tiny", "decades", "twelve", "twenty"],
)
def test_density_of_a_sum_by_partial_fractions(scales):
    c = [mp.mpf(float(x)) for x in scales]
    s = max(float(x) for x in scales) * np.array([0, 1e-6, 0.01, 0.4, 1, 3, 11, 29.0])
    with mp.workdps(60):
        share = [mp.fprod(a * a / (a * a - b * b) for b in c if b is not a) / (2 * a) for a in c]
        want = [float(sum(f * mp.exp(-x / a) for f, a in zip(share, c, strict=True))) for x in s]
    top = 40 * max(float(x) for x in scales)
    density = density_of_sum(np.asarray(scales, float), np.ones(len(c), int), top)
    assert_allclose(density(s), want, rtol=0, atol=5e-14 * want[0])
    assert_allclose(density(-s), density(s), rtol=0, atol=0)


def test_density_of_many_equal_cells():
    """By Bessel's function; at 10⁵ cells it is Normal, with kurtosis 3/n to the next order."""
    for n in (4, 30):
        s = np.array([0.5, 3.0, 12.0])
        with mp.workdps(30):
            nu = mp.mpf(n) - 0.5
            front = 1 / (mp.sqrt(mp.pi) * mp.gamma(n) * 2**nu)
            want = [float(front * mp.mpf(x) ** nu * mp.besselk(nu, x)) for x in s]
        density = density_of_sum(np.ones(1), np.array([n]), 40.0)
        assert_allclose(density(s), want, rtol=1e-9)
    n = 100_000
    peak = density_of_sum(np.ones(1), np.array([n]), 100.0)(np.zeros(1))
    assert_allclose(peak * np.sqrt(4 * np.pi * n), 1 + 3 / (8 * n), rtol=1e-9)


def test_two_of_a_total_at_the_documented_numbers():
    """mathematics.md §4 and numerics.md §7: groups of 2, 3, 10 and 100 equal cells, λ = 1."""
    documented = {
        2: (0.6321, 0.5276, 0.3935, 0.2212),
        3: (0.555, 0.445, 0.314, 0.164),
        10: (0.471, 0.3695, 0.2555, 0.131),
        100: (0.45, 0.352, 0.243, 0.1245),
    }
    for n, want in documented.items():
        got = two_of_a_total(1.0, (1.0, 1.0), *alike(n))(EPSILON)
        assert_allclose(got, want, atol=7e-4)
        assert (got >= two_cells(EPSILON, 1.0, 1.0)).all()
    far = two_of_a_total(1.0, (1.0, 1.0), *alike(100_000))(EPSILON)
    assert_allclose(far, two_cells(EPSILON, 1.0, 1.0), atol=3e-6)


@pytest.mark.parametrize(
    ("move", "scales"), [(1.0, (1, 1, 1)), (1.0, (1, 2, 0.5)), (2.0, (0.6, 1, 1.7))]
)
def test_two_of_three_cells_against_the_plane(move, scales):
    profile = two_of_a_total(move, scales[:2], np.array(scales[2:], float), np.ones(1, int))
    turned = two_of_a_total(move, scales[1::-1], np.array(scales[2:], float), np.ones(1, int))
    sup = move * (1 / scales[0] + 1 / scales[1])
    for epsilon in (0.0, 0.3, 0.9 * sup):
        got = profile(np.array(epsilon))
        assert_allclose(got, three_cells(move, scales, epsilon), atol=4e-4)
        assert_allclose(turned(np.array(epsilon)), got, rtol=1e-11)


def test_two_of_four_cells_against_draws():
    """Unequal scales: independent Laplace cells with weights f(−sum) of the fourth."""
    scales, move = np.array([0.8, 1.5, 1.0, 2.0]), 1.2
    y = np.random.default_rng(1).laplace(size=(400_000, 3)) * scales[:3]
    weight = np.exp(-np.abs(y.sum(axis=1)) / scales[3])
    moved = y + np.array([move, -move, 0])
    loss = ((np.abs(moved) - np.abs(y)) / scales[:3]).sum(axis=1)
    profile = two_of_a_total(move, (0.8, 1.5), scales[2:], np.ones(2, int))
    without = two_of_a_total(move, (0.8, 1.5), scales[2:3], np.ones(1, int))
    for epsilon in (0.0, 1.0):
        draws = np.maximum(-np.expm1(np.minimum(epsilon - loss, 0)), 0)
        mean = np.average(draws, weights=weight)
        error = np.sqrt(np.sum((weight * (draws - mean)) ** 2)) / weight.sum()
        assert abs(profile(np.array(epsilon)) - mean) < 5 * error
        assert abs(without(np.array(epsilon)) - mean) > 5 * error


def test_near_the_supremum_and_at_far_scales():
    """The tail where L = sup has the closed-form share e^{g}/(rates): no digits are lost there."""
    for pair in ((1.0, 1.0), (1e-3, 1.0), (1e3, 1.0)):
        profile = two_of_a_total(1.0, pair, *alike(3, 0.7))
        sup = 1 / pair[0] + 1 / pair[1]
        small = np.array([1e-3, 1e-6, 1e-9]) / max(pair)
        got = profile(sup - small)
        assert_allclose(got / small, got[-1] / small[-1], rtol=2e-3)
        assert (got <= two_cells(sup - small, 0.0, sup)).all()
        grid = profile(np.linspace(0, sup, 40))
        assert (np.diff(grid) < 1e-14).all() and grid[-1] == 0


def test_less_noise_elsewhere_in_the_group_protects_less():
    """A pair of smaller scales leaks more at every ε, whichever cells are left as the rest."""
    c = np.array([0.5, 0.8, 1.3, 2.0])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    values = []
    for i, j in pairs:
        rest = np.delete(c, [i, j])
        values.append(two_of_a_total(1.0, (c[i], c[j]), rest, np.ones(2, int))(EPSILON))
    assert (np.diff(values, axis=0) <= 0).all()
