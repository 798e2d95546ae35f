"""Whole numbers given totals, against enumeration, closed forms and a published table."""

import itertools

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.precision.given_totals import GivenTotals
from cdp_views.precision.lattice import integer_kernel, solutions
from cdp_views.precision.whole_sums import Mass


def geometric(a, low=-60, high=60):
    k = np.arange(low, high + 1)
    return Mass(low, (1 - a) / (1 + a) * a ** np.abs(k))


def given(A, laws):
    distinct = list({id(law): law for law in laws}.values())
    which = np.array([next(i for i, d in enumerate(distinct) if d is law) for law in laws])
    return GivenTotals(sparse.csr_array(np.atleast_2d(A)), which, distinct)


# [Gong and Meng] Table 2: females, males by age; the first four columns are under 18
FEMALES = [8, 6, 3, 6, 4, 4, 4, 8, 5, 7, 7, 6, 1, 5, 4, 4, 9, 6, 2, 8, 8, 8, 7]
MALES = [3, 4, 5, 8, 6, 4, 5, 5, 5, 6, 10, 7, 3, 2, 5, 11, 6, 4, 7, 4, 5, 3, 8]


@pytest.fixture(scope="module")
def published():
    """Total, females and voting age exact, all cells of the release ≥ 0, ε = ½ per cell."""
    cells = np.array(FEMALES + MALES)
    female = np.repeat([1, 0], 23)
    adult = np.tile(np.arange(23) >= 4, 2).astype(int)
    assert [cells.sum(), cells @ female, cells @ adult] == [256, 130, 213]
    a = np.exp(-0.5)
    values, which = np.unique(cells, return_inverse=True)
    laws = [geometric(a, -q, 90) for q in values]
    A = np.stack([np.ones(46), female, adult])
    law = GivenTotals(sparse.csr_array(A), which, laws)
    return A, cells, law


def test_the_published_table(published):
    """P(all constraints) = 9.727189527e-6 and E‖U‖₁ = 73.53267085 (numerics.md, row 11)."""
    A, cells, law = published
    assert_allclose(np.exp(law.log_mass), 9.727189527e-6, rtol=1e-9)
    mean = sum(len(here) * np.abs(m.low + np.arange(m.p.size)) @ m.p for here, m in law.marginals())
    assert_allclose(mean, 73.53267085, rtol=1e-9)
    u = law.draw(np.random.default_rng(3), 4000)
    assert not np.any(u @ A.T) and np.all(u + cells >= 0)
    size = np.abs(u).sum(1)
    assert abs(size.mean() - mean) < 5 * 11.29762099 / np.sqrt(4000)
    assert abs(size.std() - 11.29762099) < 5 * 11.3 / np.sqrt(2 * 4000)


@pytest.mark.parametrize(
    ("n", "a", "variance", "mass"), [(2, 0.6, 1.7578125, 0.1328125), (3, 0.6, 3.0230873, 0.0980225)]
)
def test_two_sided_geometric_with_sum_zero(n, a, variance, mass):
    law = given(np.ones(n), [geometric(a, -300, 300)] * n)
    ((_, marginal),) = law.marginals()
    k = marginal.low + np.arange(marginal.p.size)
    assert_allclose(marginal.p.sum(), 1, rtol=1e-12)
    assert_allclose([marginal.p @ k**2, np.exp(law.log_mass)], [variance, mass], rtol=1e-6)


CASES = {
    "two groups, one free cell": [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]],
    "weights": [[2, 1, -3, 1, 0], [0, 0, 0, 0, 1]],
    "overlapping": [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]],
    "overlapping, redundant": [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 2, 2, 1, 0]],
}


@pytest.mark.parametrize("A", CASES.values(), ids=CASES)
def test_against_enumeration(A):
    A = np.array(A)
    laws = [Mass(-2, np.array([0.1, 0.2, 0.3, 0.2, 0.1]) + 0.02 * i) for i in range(3)]
    laws = [laws[0], laws[1], laws[1], laws[2], laws[0]]
    law = given(A, laws)
    worlds = np.array(list(itertools.product(range(-2, 3), repeat=5)))
    worlds = worlds[~np.any(worlds @ A.T, axis=1)]
    p = np.prod([m.at(w) for m, w in zip(laws, worlds.T, strict=True)], axis=0)
    assert_allclose(law.log_mass, np.log(p.sum()), rtol=1e-13)
    p = p / p.sum()
    for cells, marginal in law.marginals():
        for cell in cells:
            want = [p[worlds[:, cell] == x].sum() for x in range(-2, 3)]
            assert_allclose(marginal.at(np.arange(-2, 3)), want, atol=1e-14)
    draws = 20_000
    u = law.draw(np.random.default_rng(5), draws)
    _, seen = np.unique(np.vstack([worlds, u]), axis=0, return_counts=True)
    order = np.lexsort(worlds.T[::-1])
    kept = p[order] * draws > 5
    assert seen.sum() == draws + len(worlds)
    frequency, want = (seen - 1)[kept], p[order][kept] * draws
    assert scipy.stats.chisquare(frequency, want * frequency.sum() / want.sum()).pvalue > 1e-5
    flat = np.full(kept.sum(), frequency.mean())
    assert len(flat) < 3 or scipy.stats.chisquare(frequency, flat).pvalue < 1e-5


def test_integer_kernels():
    rng = np.random.default_rng(0)
    for _ in range(30):
        A = rng.integers(-4, 5, size=(2, 4))
        basis = integer_kernel(A)
        assert not np.any(A @ basis)
        assert basis.shape[1] == 4 - np.linalg.matrix_rank(A)
        # a basis of *all* whole solutions: its determinantal divisor is 1
        minors = [
            round(np.linalg.det(basis[list(rows)]))
            for rows in itertools.combinations(range(4), basis.shape[1])
        ]
        assert np.gcd.reduce(minors) == 1


def test_solutions_are_all_there():
    basis = integer_kernel(np.array([[3, 5, -7, 2]]))[:, :2]
    low, high = np.array([-9, -4, -6, -8]), np.array([7, 9, 3, 8])
    found = {tuple(p) for p in solutions(basis, low, high, 10**6)}
    every = np.array(list(itertools.product(range(-60, 61), repeat=2))) @ basis.T
    want = {tuple(p) for p in every if np.all((p >= low) & (p <= high))}
    assert found == want and len(want) > 20
    assert solutions(basis, low * 1000, high * 1000, 10**4) is None


def test_margins_of_a_larger_table_are_refused():
    A = np.vstack([np.kron(np.eye(3), np.ones(4)), np.kron(np.ones(3), np.eye(4))])
    with pytest.raises(UnsupportedError, match="overlap in 6 free ways"):
        given(A, [geometric(0.5)] * 12)
