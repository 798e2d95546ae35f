"""The paper's algorithms against cvxpy, known examples, and the exact answer."""

import cvxpy as cp
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views.maxent.reference import (
    alternating_projections,
    correlation_or_nearest,
    dykstra,
    h_block,
    nearest_correlation,
    paper_sensitivity,
    penalty_path,
    planar_correlation,
    planar_vectors,
    projected_gradient,
)
from cdp_views.maxent.reference.projections import (
    kernel_basis,
    onto_cone,
    onto_kernel,
    onto_unit_diagonal,
)

B2 = np.array([[1.0, 0.0], [1.5, 0.0], [1.2, 0.7], [0.0, 1.1], [0.0, 1.0], [0.9, 0.0]])
BALANCED = np.array([1.0, -2.0, 2.5, 0.7, 1.3])
UNBALANCED = np.array([1.0, -2.0, 8.0, 0.7, 1.1])


def symmetric(n, seed):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return M + M.T


def closest(target, *conditions):
    """argmin ‖X − target‖_F by cvxpy; each condition is a function of X."""
    X = cp.Variable(target.shape, symmetric=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(X - target)), [c(X) for c in conditions])
    problem.solve(solver=cp.CLARABEL)
    return X.value


@pytest.mark.parametrize("seed", [0, 1])
def test_the_three_projections(seed):
    M, K = symmetric(6, seed), kernel_basis(B2)
    assert K.shape == (6, 4)
    np.testing.assert_allclose(onto_cone(M), closest(M, lambda X: X >> 0), atol=5e-5)
    np.testing.assert_allclose(onto_kernel(M, K), closest(M, lambda X: X @ B2 == 0), atol=5e-5)
    np.testing.assert_allclose(
        onto_unit_diagonal(M), closest(M, lambda X: cp.diag(X) == 1), atol=5e-5
    )


@pytest.mark.parametrize("seed", [2, 3])
def test_nearest_correlation(seed):
    M = symmetric(5, seed)
    answer = nearest_correlation(M, tolerance=1e-10)
    want = closest(M, lambda X: X >> 0, lambda X: cp.diag(X) == 1)
    assert answer.converged
    np.testing.assert_allclose(answer.correlation, want, atol=3e-4)
    assert np.linalg.norm(answer.correlation - M) < np.linalg.norm(want - M) + 1e-6
    assert (np.diag(answer.correlation) == 1).all()
    short = nearest_correlation(M, max_iterations=2)
    assert (short.status, short.iterations) == ("iteration limit", 2)


@pytest.mark.parametrize("B", [BALANCED, B2], ids=["one", "two"])
def test_dykstra_finds_the_projection_and_cyclic_projections_do_not(B):
    n = len(B)
    start = symmetric(n, 4)
    columns = B.reshape(n, -1)
    want = closest(start, lambda X: X >> 0, lambda X: cp.diag(X) == 1, lambda X: X @ columns == 0)
    nearest = dykstra(B, start=start, tolerance=1e-9, max_iterations=50_000)
    some = alternating_projections(B, start=start, tolerance=1e-10, max_iterations=50_000)
    assert nearest.converged and some.converged
    np.testing.assert_allclose(nearest.correlation, want, atol=1e-4)
    for answer in (nearest, some):
        assert answer.deviation(B) < 1e-9
        np.testing.assert_allclose(np.diag(answer.correlation), 1, atol=1e-8)
        assert np.linalg.eigvalsh(answer.correlation)[0] > -1e-8
    far, near = (np.linalg.norm(a.correlation - start) for a in (some, nearest))
    assert far > near + 1e-3


def test_without_an_answer_the_projections_go_round_and_say_so():
    cycle = alternating_projections(UNBALANCED)
    assert cycle.status == "limit cycle"
    assert not cycle.converged
    assert cycle.residual > 0.1
    again = alternating_projections(UNBALANCED, start=cycle.correlation, max_iterations=3)
    np.testing.assert_allclose(again.correlation, cycle.correlation, atol=1e-10)
    assert dykstra(UNBALANCED, max_iterations=300).status == "iteration limit"
    assert projected_gradient(UNBALANCED).status == "stationary"


@pytest.mark.parametrize("excess", [1e-2, 1e-4])
def test_hardly_out_of_balance_is_never_called_converged(excess):
    b = np.array([1.0, 2.0, 3.0 * (1 + excess)])
    for answer in (
        alternating_projections(b, tolerance=1e-7, max_iterations=3_000),
        dykstra(b, tolerance=1e-7, max_iterations=3_000),
        projected_gradient(b, tolerance=1e-7, max_iterations=200),
    ):
        assert not answer.converged, answer


def test_exactly_in_balance_is_slow_but_no_cycle():
    b = np.array([1.0, 2.0, 3.0])
    answer = alternating_projections(b, tolerance=1e-5)
    assert answer.converged
    np.testing.assert_allclose(answer.correlation[2, :2], -1, atol=1e-3)
    assert alternating_projections(b, tolerance=1e-13, max_iterations=50).status == (
        "iteration limit"
    )


def test_the_fallback_is_a_correlation_matrix_and_breaks_the_invariant():
    answer = correlation_or_nearest(UNBALANCED)
    assert answer.status == "nearest correlation"
    np.testing.assert_array_equal(np.diag(answer.correlation), 1)
    assert np.linalg.eigvalsh(answer.correlation)[0] > -1e-10
    assert answer.deviation(UNBALANCED) > 0.1
    assert correlation_or_nearest(BALANCED).converged


def test_the_penalised_minimum():
    tau = 0.05
    K = kernel_basis(B2)
    X = cp.Variable((6, 6), symmetric=True)
    f = cp.trace(B2.T @ X @ B2) - tau * cp.log_det(K.T @ X @ K)
    problem = cp.Problem(cp.Minimize(f), [X >> 0, cp.diag(X) == 1])
    problem.solve(solver=cp.CLARABEL)
    answer = projected_gradient(B2, penalty=tau)
    assert answer.converged
    np.testing.assert_allclose(answer.correlation, X.value, atol=1e-4)
    assert answer.trace["loss"][-1] == pytest.approx(problem.value, abs=1e-6)
    assert (np.diff(answer.trace["loss"]) <= 1e-10).all()
    total = answer.trace["trace"] + tau * answer.trace["penalty"]
    np.testing.assert_allclose(answer.trace["loss"], total)


def test_the_path_ends_at_the_exact_answer_linearly_in_tau():
    scale = np.abs(BALANCED)
    exact = cdp.solve_max_entropy(cdp.totals([0] * 5, weights=np.sign(BALANCED)), scale)
    path = penalty_path(BALANCED, [0.1, 0.01, 0.001])
    assert all(answer.converged for answer in path)
    errors = [np.abs(a.correlation - exact.correlation()).max() for a in path]
    assert errors[0] < 0.1
    np.testing.assert_allclose(np.divide(errors[1:], errors[:-1]), 0.1, rtol=0.2)


def test_a_fixed_step_as_in_the_paper():
    answer = projected_gradient(BALANCED, penalty=0.05, step=0.2)
    want = projected_gradient(BALANCED, penalty=0.05)
    assert answer.converged
    np.testing.assert_allclose(answer.correlation, want.correlation, atol=1e-5)
    assert not projected_gradient(BALANCED, penalty=0.05, step=1e4, max_iterations=20).converged


def test_iterations_are_bounded_and_reported():
    seen = []
    answer = projected_gradient(
        BALANCED, penalty=0.01, max_iterations=3, progress=lambda i, f: seen.append((i, f))
    )
    assert (answer.status, answer.iterations) == ("iteration limit", 3)
    assert [i for i, _ in seen] == [1, 2, 3]
    assert set(seen[0][1]) == set(answer.trace) == {"loss", "penalty", "trace", "deviation"}


@pytest.mark.parametrize("n", [2, 3, 7, 100])
def test_the_planar_construction(n):
    rng = np.random.default_rng(n)
    b = rng.normal(size=n)
    b = np.sign(b) * (1 + np.abs(b)) if n > 3 else np.array([3.0, -4.0, 2.0])[:n]
    b[0] = np.abs(b[1:]).sum() * (0.9 if n > 2 else 1)
    R = planar_correlation(b)
    assert np.abs(R @ b).max() < 1e-14 * np.abs(b).sum()
    np.testing.assert_allclose(np.diag(R), 1, atol=1e-14)
    assert np.linalg.matrix_rank(R, tol=1e-7) <= 2
    edge = np.append(-np.abs(b), np.abs(b).sum())
    assert np.abs(edge @ planar_vectors(edge)).max() < 1e-7 * edge[-1]
    with pytest.raises(cdp.InfeasibleError, match=rf"^`b` is out of balance: cell {n - 1} has"):
        planar_vectors(np.append(np.abs(b[1:]), 1.1 * np.abs(b[1:]).sum()))


def test_a_m_is_the_square_of_mu_and_not_of_the_plain_sensitivity():
    inv, sigma = cdp.totals(["a"] * 4 + ["b"] * 3), 2.0
    view = cdp.MaxEntropy(dist.Normal(np.zeros(7), sigma), inv)
    R = cdp.solve_max_entropy(inv, sigma).correlation()
    M = np.delete(np.eye(7), [3, 6], axis=0)
    H = np.zeros((7, 7))
    H[:4, :4], H[4:, 4:] = h_block(4), h_block(3)
    for nb, plain in ((cdp.relocations(inv), 2.0), (cdp.exchanges(inv), 4.0)):
        V = nb.shortlist(np.ones(7)).toarray()
        a = paper_sensitivity(R, V)
        loss = cdp.privacy_loss(view, nb)
        assert a == pytest.approx((sigma * loss.mu) ** 2, rel=1e-10)
        assert a == pytest.approx(paper_sensitivity(R, V, M), rel=1e-10)
        assert a == pytest.approx(np.einsum("mi,ij,mj->m", V, H, V).max(), rel=1e-10)
        assert loss.sensitivity**2 == pytest.approx(plain)
        assert a < plain  # each group's share is (n_i − 1)/n_i of it
    assert a == pytest.approx(2 * 3 / 4 + 2 * 2 / 3)


def test_unequal_scales_can_cost_more_than_the_plain_length_says():
    R = cdp.solve_max_entropy(cdp.totals([0] * 4), [1.0, 1.0, 1.0, 2.9]).correlation()
    B = np.array([1.0, 1.0, 1.0, 2.9])
    v = np.array([1.0, 1.0, 1.0, -3.0 / 2.9])  # a direction of ker Bᵀ that this R hardly uses
    v = v - B * (B @ v) / (B @ B)
    assert paper_sensitivity(R, v) != pytest.approx(3 / 4 * v @ v, rel=0.1)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"^`B` must be \(n, k\)"):
        alternating_projections(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match=r"^`B` must have a column that is not zero"):
        dykstra(np.zeros(3))
    with pytest.raises(ValueError, match=r"^`B` must be finite"):
        projected_gradient([1.0, np.nan, 1.0])
    with pytest.raises(ValueError, match=r"^`start` must be a square matrix \(3, …\)"):
        dykstra(np.ones(3), start=np.eye(2))
    with pytest.raises(ValueError, match=r"^`matrix` must be symmetric"):
        nearest_correlation([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"^`penalty` must be ≥ 0"):
        projected_gradient(np.ones(3), penalty=-1.0)
    with pytest.raises(ValueError, match=r"^`start` must be positive definite"):
        projected_gradient(np.ones(3), penalty=1.0, start=np.ones((3, 3)) * 1.0)
    with pytest.raises(ValueError, match=r"^`penalties` must be positive"):
        penalty_path(np.ones(3), [0.0])
    with pytest.raises(ValueError, match=r"^`n` must be at least 2"):
        h_block(1)
