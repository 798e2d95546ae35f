"""Feasibility against cvxpy, against the algebra by hand, and its proofs checked."""

import cvxpy as cp
import numpy as np
import pytest

import cdp_views as cdp
from cdp_views.maxent.cuts import cut_test


def exists(B):
    """Whether a correlation matrix has R B = 0, by a semidefinite program: the least trace."""
    X = cp.Variable((len(B), len(B)), symmetric=True)
    problem = cp.Problem(cp.Minimize(cp.trace(B.T @ X @ B)), [X >> 0, cp.diag(X) == 1])
    problem.solve(solver=cp.CLARABEL)
    return problem.value < 1e-6


@pytest.mark.parametrize(
    ("sigma", "state", "margin", "rank"),
    [
        ([1.0, 2.0, 3.0, 5.0], "interior", 0.2, 3),
        ([1.0, 2.0, 3.0, 6.0], "boundary", 0.0, 1),
        ([1.0, 2.0, 3.0, 7.0], "infeasible", -1 / 7, 0),
        ([1e-9, 1e3, 1e3, 1e3], "interior", 1.0, 3),
        ([1e6, 1e6, 2e-6, 1e-6], "interior", 3e-12, 3),
    ],
)
def test_one_total_is_decided_by_its_margin(sigma, state, margin, rank):
    answer = cdp.balance(cdp.totals([0] * 4), sigma)
    assert (answer.state, answer.maximal_rank) == (state, rank)
    assert answer.margin[0] == pytest.approx(margin, rel=1e-9, abs=1e-15)
    assert answer.feasible == answer.balanced == (state != "infeasible")
    assert answer.cuts is None
    share = np.square(sigma) / np.sum(np.square(sigma))
    np.testing.assert_allclose(answer.leverage, share, rtol=1e-12)
    assert cut_test(np.array(sigma)).answer == ("solved" if answer.feasible else "no cuts")
    if state == "infeasible":
        assert answer.certificate @ np.square(sigma) < 0


def test_several_groups_free_cells_pairs_and_a_cell_alone():
    weights = np.array([1, 1, 2, 1, 1, 1, 1, 0.0, 1])
    labels = ["a", "a", "a", "b", "b", None, "c", "a", None]
    inv = cdp.totals(labels, weights=weights, missing="free")
    sigma = np.array([1.0, 3, 2, 5, 5, 7, 1, 2, 1])
    answer = cdp.balance(inv, sigma)
    # a: 2·2 = 1 + 3 on the boundary, rank 1; b: a pair, 1; c: constant, 0; 3 free cells
    assert (answer.state, answer.maximal_rank) == ("boundary", 5)
    np.testing.assert_allclose(answer.margin, [0, 0, -1], atol=1e-15)
    assert answer.balanced
    np.testing.assert_allclose(answer.leverage[[3, 4, 5, 6, 7]], [0.5, 0.5, 0, 1, 0])
    assert cdp.balance(inv, [1.0, 3, 1.9, 5, 5, 7, 1, 2, 1]).state == "interior"
    assert cdp.balance(inv, [1.0, 3, 1.9, 5, 5.1, 7, 1, 2, 1]).state == "infeasible"


def test_a_redundant_nested_total_has_its_own_margin():
    inv = cdp.linear([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    answer = cdp.balance(inv, [1.0, 1, 3, 1, 1, 1])
    np.testing.assert_allclose(answer.margin, [2 / 3, -1 / 3])
    assert answer.state == "infeasible"
    assert not answer.balanced


@pytest.mark.parametrize("seed", range(12))
def test_theorem_2_is_sufficient_and_its_matrix_is_a_solution(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 8)), int(rng.integers(1, 4))
    B = rng.normal(size=(n, k)) * rng.uniform(0.3, 2, size=(n, 1))
    B[:, -1] = B[:, 0] if k == 3 else B[:, -1]  # a redundant column
    test, truth = cut_test(B), exists(B)
    if test.answer == "solved":
        assert truth
        R = test.correlation()
        np.testing.assert_allclose(R @ B, 0, atol=1e-8)
        np.testing.assert_allclose(np.diag(R), 1, atol=1e-8)
        assert np.linalg.eigvalsh(R)[0] > -1e-9
        assert test.weights.sum() == pytest.approx(1)
        assert set(np.unique(test.signs)) <= {-1.0, 1.0}
    else:
        assert test.answer == "no cuts"
        if k == 1:  # there cuts decide
            assert not truth


def test_leverages_below_one_half_always_have_a_solution():
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        B = rng.normal(size=(8, 2)) * rng.uniform(0.8, 1.2, size=(8, 1))
        leverage = np.square(np.linalg.qr(B)[0]).sum(axis=1)
        if leverage.max() < 0.5:
            found += 1
            assert cut_test(B).answer == "solved" or exists(B)
    assert found > 5


def test_large_systems_are_answered_by_a_search():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(200, 4))
    test = cut_test(B)
    assert test.answer == "solved"
    R = test.correlation()
    np.testing.assert_allclose(R @ B, 0, atol=1e-6)
    np.testing.assert_allclose(np.diag(R), 1, atol=1e-8)
    B[0] *= 1e4
    assert cut_test(B).answer == "open"  # infeasible, which this test cannot prove


def test_a_determined_cell_has_no_cuts():
    assert cut_test(np.array([[1.0, 0], [0, 1], [0, 1]])).answer == "no cuts"


@pytest.mark.parametrize("seed", range(6))
def test_overlapping_totals(seed):
    rng = np.random.default_rng(100 + seed)
    A = np.array([[1.0, 1, 1, 1, 1, 0, 0], [1, 0, 0, 1, 1, 1, 1]])[:, rng.permutation(7)]
    sigma = rng.uniform(0.2, 2, size=7)
    sigma[rng.integers(7)] *= 1 + 2 * (seed % 3)
    answer, truth = cdp.balance(cdp.linear(A), sigma), exists(sigma[:, None] * A.T)
    assert answer.feasible == truth
    assert answer.balanced or not truth  # necessary
    if answer.leverage_below_half or answer.cuts.answer == "solved":
        assert truth
    if answer.state == "interior":
        assert answer.maximal_rank == 5
    if not truth:
        ratio = answer.certificate @ sigma**2 / np.linalg.norm(sigma**2)
        K = np.linalg.svd(A)[2][2:].T
        assert ratio < 0
        assert np.linalg.eigvalsh(K.T @ (answer.certificate[:, None] * K))[0] > -1e-9


def test_each_column_in_balance_is_not_enough():
    A = np.array([[1.0, 1, 1], [1, -1, 0]])  # the sum of the two, (2, 0, 1), is out of balance
    answer = cdp.balance(cdp.linear(A), np.ones(3))
    assert answer.balanced
    assert answer.state == "infeasible"
    assert answer.cuts.answer == "no cuts"
    assert answer.certificate.sum() < 0


def test_margins_of_a_table():
    answer = cdp.balance(cdp.margins((3, 4), keep=[(0,), (1,)]), 2.0)
    np.testing.assert_allclose(answer.leverage, 1 / 3 + 1 / 4 - 1 / 12, rtol=1e-12)
    assert (answer.state, answer.maximal_rank) == ("interior", 6)
    assert answer.cuts.answer == "solved"


def test_it_prints_what_it_knows():
    text = str(cdp.balance(cdp.totals([0] * 4), [1.0, 2.0, 3.0, 7.0]))
    assert text.startswith("Infeasible")
    assert "certificate" in text
    assert "largest rank of a solution: 0 of 4" in text
    assert "standard deviations of 1 to 7 counts in 4 cells, 1 exact totals" in text
    assert "cell 3 has |weight| scale 7, the others 6 together (balance -0.1429" in text
    assert "a scale of at most 6 in cell 3" in text  # which then can be had, just
    assert cdp.balance(cdp.totals([0] * 4), [1.0, 2.0, 3.0, 6.0]).feasible
