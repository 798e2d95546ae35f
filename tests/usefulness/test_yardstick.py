"""The best Gaussian against a general convex solver, and where it is a closed form."""

from itertools import combinations

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse

import cdp_views as cdp
from cdp_views.usefulness.yardstick import best_gaussian

random = np.random.default_rng(3)


def solved(inv, W, differences) -> float:
    """minimise tr(W K S Kᵀ Wᵀ)/q with vᵀ(K S Kᵀ)⁺v ≤ 1, S any covariance on ker A."""
    cp = pytest.importorskip("cvxpy")
    K = scipy.linalg.null_space(inv.matrix.toarray())
    S = cp.Variable((K.shape[1],) * 2, PSD=True)
    limits = [cp.matrix_frac(K.T @ v, S) <= 1 for v in differences]
    problem = cp.Problem(cp.Minimize(cp.trace(W @ K @ S @ K.T @ W.T)), limits)
    problem.solve(solver=cp.CLARABEL)
    return float(np.sqrt(problem.value / len(W)))


def pairs(inv) -> list[np.ndarray]:
    """e_i − e_j that change no total, found from A alone."""
    A, eye = inv.matrix.toarray(), np.eye(inv.n)
    every = [eye[i] - eye[j] for i in range(inv.n) for j in range(i)]
    return [v for v in every if not (A @ v).any()]


NINE = ["a"] * 5 + ["b"] * 4
LEVELS = np.kron(np.eye(3), np.ones(3))
CASES = {
    "cells and sums of kinds": (cdp.totals(NINE), np.vstack([np.eye(9), LEVELS])),
    "ranges": (cdp.totals(NINE), np.tril(np.ones((9, 9)))),
    "cells of unequal weight": (cdp.totals(NINE), np.diag(np.arange(1.0, 10))),
    "own": (cdp.totals(NINE), random.standard_normal((4, 9))),
    "weighted": (cdp.totals(NINE, [1, 1, 1, 2, 2, 1, 1, 3, 3]), random.standard_normal((12, 9))),
    "overlapping": (
        cdp.totals(list("aaabbbaab")) & cdp.totals(list("xyxyxyxyx")),
        random.standard_normal((12, 9)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_solved_against_a_general_solver(case):
    inv, W = CASES[case]
    found = best_gaussian(inv, sparse.csr_array(W), cdp.relocations(inv))
    assert found.kind.startswith("convex solve")
    np.testing.assert_allclose(found.rmse, solved(inv, W, pairs(inv)), rtol=2e-4)


def test_table_moves_against_a_general_solver():
    inv = cdp.margins((3, 3), [(0,), (1,)])
    eye, two = np.eye(9).reshape(3, 3, 9), list(combinations(range(3), 2))
    V = [eye[i, j] - eye[i, m] - eye[k, j] + eye[k, m] for i, k in two for j, m in two]
    W = np.vstack([np.eye(9)[:4], random.standard_normal((2, 9))])
    found = best_gaussian(inv, sparse.csr_array(W), cdp.moves(inv))
    np.testing.assert_allclose(found.rmse, solved(inv, W, V), rtol=2e-4)
    # All cells alike: Σ = 4 P, tr P = 4.
    assert best_gaussian(inv, None, cdp.moves(inv)).rmse == pytest.approx(4 / 3, rel=1e-4)
    large = cdp.margins((20, 20), [(0,), (1,)])
    assert "400 cells with" in best_gaussian(large, None, cdp.moves(large)).kind


def test_what_the_answers_do_not_see_costs_nothing():
    """Only sums x of two cells' kinds in each block: s = 1/(1 − ρ²), s (4 − 2ρ) least at 2 − √3."""
    inv = cdp.totals(NINE)
    found = best_gaussian(inv, sparse.csr_array(LEVELS), cdp.relocations(inv))
    np.testing.assert_allclose(found.rmse, np.sqrt((2 + np.sqrt(3)) / 3), rtol=1e-4)


def test_closed_forms_and_what_is_refused():
    inv = cdp.totals(["a"] * 3 + ["b"] * 2 + ["c"])
    moves = cdp.relocations(inv)
    cells = best_gaussian(inv, None, moves)
    assert cells.kind == "closed form" and cells.rmse == pytest.approx(np.sqrt(2 * 3 / 5))
    W = sparse.csr_array(np.vstack([np.eye(6)[:3], [0, 0, 0, 2, -2, 0], [1, 1, 1, 1, 1, 1]]))
    expected = solved(inv, W.toarray(), pairs(inv))
    assert best_gaussian(inv, W, moves).rmse == pytest.approx(expected, rel=2e-4)
    three = best_gaussian(inv, W, cdp.relocations(inv, records=3))
    assert three.rmse == pytest.approx(3 * expected, rel=2e-4)
    # A hundred thousand cells: one number for each block.
    many = cdp.totals(np.arange(100_000) // 100)
    assert best_gaussian(many, None, cdp.relocations(many)).rmse == pytest.approx(np.sqrt(1.98))
    only = best_gaussian(inv, sparse.csr_array(np.ones((1, 6))), moves)
    assert np.isnan(only.rmse) or only.rmse == 0
    apart = cdp.totals(np.zeros(300, dtype=int))
    ranges = sparse.csr_array(np.tril(np.ones((300, 300))))
    refused = best_gaussian(apart, ranges, cdp.relocations(apart))
    assert np.isnan(refused.rmse) and "300 kinds of cells apart" in refused.kind
    other = best_gaussian(inv, None, cdp.differences(np.eye(6)[:1] - np.eye(6)[1:2]))
    assert np.isnan(other.rmse) and "relocations and table moves" in other.kind
