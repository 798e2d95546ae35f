"""Totals that overlap: a semidefinite solver, hand-made examples, certificates, the boundary."""

import cvxpy as cp
import jax
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import cdp_views as cdp

OVERLAP = [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]]


def kernel(A):
    A = np.asarray(A, dtype=float)
    size = np.linalg.norm(A, axis=1, keepdims=True)
    return scipy.linalg.null_space(A / np.where(size > 0, size, 1))


def oracle(A, sigma):
    """K and R by cvxpy with Clarabel; R is `None` where no positive definite one exists."""
    K = kernel(np.asarray(A) * sigma)
    Z = cp.Variable((K.shape[1],) * 2, symmetric=True)
    unit = [cp.diag(K @ Z @ K.T) == 1]
    smallest = cp.Problem(cp.Maximize(cp.lambda_min(Z)), unit)
    smallest.solve(solver=cp.CLARABEL)
    if smallest.status == "infeasible" or smallest.value < 1e-7:
        return K, None
    cp.Problem(cp.Maximize(cp.log_det(Z)), unit).solve(solver=cp.CLARABEL)
    return K, K @ Z.value @ K.T


def check_solution(A, sigma, solution, tol=1e-12):
    """diag R = 1, A D R = 0, Σ⁺ = diag ν on the kernel: together, optimality."""
    A, R = np.asarray(A, dtype=float), solution.correlation()
    assert solution.feasible and solution.status == "interior" and solution.certificate is None
    assert_allclose(np.diag(R), 1, rtol=tol)
    assert np.all(np.abs(A @ (sigma[:, None] * R)) <= tol * (np.abs(A) @ sigma)[:, None])
    K, nu = kernel(A * sigma), solution.precision * sigma**2
    assert_allclose(np.linalg.inv(K.T @ R @ K), K.T @ (nu[:, None] * K), rtol=1e-8, atol=1e-8)
    assert np.sum(nu) == pytest.approx(K.shape[1], rel=1e-9)
    assert solution.rank == K.shape[1]


def check_certificate(A, solution, tol=1e-13):
    K, nu = kernel(A), solution.certificate
    assert not solution.feasible and np.all(np.isnan(solution.precision))
    assert np.linalg.norm(nu) == pytest.approx(1)
    assert np.linalg.eigvalsh(K.T @ (nu[:, None] * K))[0] >= -tol
    share = nu * solution.scale**2
    assert share.sum() <= tol * np.abs(share).sum()
    return share.sum() / np.abs(share).sum()


# rows (k of them, n = 8) that make two or three independent ones: the same shapes compile once
RANDOM = [(seed, k) for seed in range(5) for k in (2, 3)]


@pytest.mark.parametrize(("seed", "k"), RANDOM)
def test_random_rows_against_a_semidefinite_solver(seed, k):
    """All signs, redundant rows, scales from narrow to wide: feasible or not, both agree."""
    random = np.random.default_rng(seed)
    A = random.normal(size=(k, 8)) * (random.random((k, 8)) < 0.7)
    A = np.vstack([A, random.normal(size=(2, k)) @ A])  # redundant
    sigma = np.exp(random.normal(size=8) * (0.2 + 0.1 * seed))
    solution, (K, R) = cdp.solve_max_entropy(cdp.linear(A), sigma), oracle(A, sigma)
    assert solution.status in ("interior", "infeasible")
    assert solution.feasible == (R is not None)
    if R is None:
        assert check_certificate(A, solution) < -1e-6
        return
    check_solution(A, sigma, solution)
    got = solution.correlation()
    assert_allclose(got, R, atol=2e-3)  # the solver's own accuracy; its objective is flat there
    better = np.linalg.slogdet(K.T @ got @ K)[1] - np.linalg.slogdet(K.T @ R @ K)[1]
    assert better > -1e-6


@pytest.mark.slow
def test_twenty_cells_against_a_semidefinite_solver():
    random = np.random.default_rng(4)
    A, sigma = random.normal(size=(4, 20)), np.exp(0.3 * random.normal(size=20))
    solution, want = cdp.solve_max_entropy(cdp.linear(A), sigma), oracle(A, sigma)
    check_solution(A, sigma, solution)
    assert_allclose(solution.correlation(), want[1], atol=1e-4)


def test_scales_over_twelve_decades():
    """Tiny cells beside huge ones, in totals whose difference holds tiny cells alone."""
    A = np.zeros((3, 9))
    A[0, [0, 1, 2, 3, 4, 5]] = 1
    A[1, [0, 1, 2, 6, 7, 8]] = 1
    A[2, [3, 6]] = 1, -1
    sigma = np.array([1e6, 1.3e6, 0.9e6, 1e-6, 2e-6, 1.5e-6, 1e-6, 1.7e-6, 1.1e-6])
    inv = cdp.linear(A)
    solution = cdp.solve_max_entropy(inv, sigma)
    R = solution.correlation()
    assert solution.feasible and solution.residual < 1e-12
    assert_allclose(np.diag(R), 1, rtol=1e-12)
    # by subtraction: the tiny cells keep totals of their own, exactly
    assert_allclose((A[0] - A[1]) @ (sigma[:, None] * R), 0, atol=1e-12 * 1e-6 * 10)
    A = np.random.default_rng(20).normal(size=(3, 9))
    sigma = 1e6 * np.array([1, 1.1, 0.9, 1.2, 0.8, 1, 1e-12, 1e-8, 1e-4])
    solution = cdp.solve_max_entropy(cdp.linear(A), sigma)
    assert solution.feasible and solution.residual < 1e-12
    check_solution(A, sigma, solution)


def test_two_overlapping_totals():
    """ν = 2/3 by symmetry of leverage (1/3 everywhere): R = 3/2 P, log det = 4 log(3/2)."""
    solution = cdp.solve_max_entropy(cdp.linear(OVERLAP), 1.0)
    K = kernel(OVERLAP)
    assert_allclose(solution.precision, 2 / 3, rtol=1e-14)
    logdet = np.linalg.slogdet(K.T @ solution.correlation() @ K)[1]
    assert logdet == pytest.approx(4 * np.log(1.5)) == pytest.approx(1.62186043, abs=1e-8)


@pytest.mark.slow
def test_both_margins_of_a_table_are_a_product():
    rows, columns = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
    A = np.vstack([rows == i for i in range(3)] + [columns == j for j in range(4)]).astype(float)
    R = cdp.solve_max_entropy(cdp.linear(A), 1.0).correlation()
    want = np.kron(*(n / (n - 1) * (np.eye(n) - 1 / n) for n in (3, 4)))
    assert_allclose(R, want, atol=1e-14)
    K = kernel(A)
    assert np.linalg.slogdet(K.T @ R @ K)[1] == pytest.approx(4.158883, abs=1e-6)
    unequal = np.outer([1, 1.2, 0.9], [1, 1.1, 0.8, 1.3]).ravel()  # R of unequal rank-one scales
    solution = cdp.solve_max_entropy(cdp.linear(A), unequal)
    check_solution(A, unequal, solution)


def test_balanced_one_by_one_is_not_enough():
    """(1,1,1) and (1,−1,0) are balanced, their sum (2,0,1) is not. Newton alone never sees it."""
    A = [[1, 1, 1], [1, -1, 0]]
    solution = cdp.solve_max_entropy(cdp.linear(A), 1.0)
    assert solution.status == "infeasible" and solution.rank == 0
    assert check_certificate(A, solution) < -0.1
    with pytest.raises(cdp.InfeasibleError, match="no such correlation"):
        solution.correlation()


@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_just_outside(gap):
    A = [[3 + gap, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]]
    solution = cdp.solve_max_entropy(cdp.linear(A), 1.0)
    assert solution.status == "infeasible"
    assert -gap < check_certificate(A, solution, 1e-15) < 0


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-6])
def test_just_inside_the_residual_is_honest(gap):
    """Precisions, and here variances too, lose eps/gap; the stated residual is what is true."""
    A = np.array([[3 - gap, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]])
    solution = cdp.solve_max_entropy(cdp.linear(A), 1.0)
    R = solution.correlation()
    assert solution.feasible and solution.residual < 100 * np.finfo(float).eps / gap
    assert np.abs(np.diag(R) - 1).max() <= solution.residual + 1e-15
    assert_allclose(A @ R, 0, atol=1e-14)


FACES = {
    # x₂ = x₃ = x₄ = −x₁, and a second total on x₄, x₅, x₆: what is left is a plain total of three
    "one of two": ([[3, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]], 2, [-1, 0.5]),
    "both": ([[3, 1, 1, 1, 0, 0], [0, 0, 2, 0, 1, 1]], 1, [-1, 1]),
}


@pytest.mark.parametrize(("A", "rank", "entries"), FACES.values(), ids=FACES)
def test_exactly_balanced(A, rank, entries):
    solution = cdp.solve_max_entropy(cdp.linear(A), 1.0)
    R = solution.correlation()
    assert solution.status == "boundary" and not solution.feasible and solution.rank == rank
    assert abs(check_certificate(A, solution, 1e-12)) < 1e-12
    assert_allclose(np.diag(R), 1, rtol=1e-12)
    assert_allclose(np.asarray(A) @ R, 0, atol=1e-12)
    assert_allclose([R[0, 1], R[0, 4]], entries, atol=1e-7)
    assert np.sum(np.linalg.eigvalsh(R) > 1e-9) == rank


def test_exactly_balanced_disjoint_totals():
    solution = cdp.solve_max_entropy(cdp.totals([0, 0, 0, 1, 1, 1, 1]), [1, 1, 2, 1, 1, 1, 1])
    R = solution.correlation()
    assert solution.status == "boundary" and solution.rank == 4 and solution.residual < 1e-14
    assert_allclose(R[:3, :3], [[1, 1, -1], [1, 1, -1], [-1, -1, 1]], atol=1e-15)
    assert_allclose(R[3:, 3:], 4 / 3 * (np.eye(4) - 1 / 4), atol=1e-14)
    assert solution.certificate @ solution.scale**2 == pytest.approx(0, abs=1e-15)


def test_an_exact_cell_is_one_more_invariant():
    sigma = np.array([1, 1, 1, 0, 1, 1.2])
    solution = cdp.solve_max_entropy(cdp.linear(OVERLAP), sigma)
    more = cdp.solve_max_entropy(
        cdp.linear(np.array(OVERLAP)[:, sigma > 0]), sigma[sigma > 0]
    ).correlation()
    R = solution.correlation()
    assert solution.feasible and solution.rank == 3 and np.isposinf(solution.precision[3])
    assert not R[3].any() and not R[:, 3].any()
    assert_allclose(np.delete(np.delete(R, 3, 0), 3, 1), more, atol=1e-15)
    everything = cdp.solve_max_entropy(cdp.linear(OVERLAP), 0.0)
    assert everything.feasible and everything.rank == 0 and not everything.correlation().any()


def test_a_cell_that_nothing_is_left_of():
    A = [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0]]
    solution = cdp.solve_max_entropy(cdp.linear(A), 1.0)
    assert solution.status == "infeasible"
    assert_allclose(solution.certificate, -np.eye(6)[2])
    with pytest.raises(cdp.InfeasibleError, match=r"`scale` of cell 2 is 1, but the totals alone"):
        cdp.linear(A).equalize(1.0)
    exact = cdp.solve_max_entropy(cdp.linear(A), [1, 1, 0, 1, 1, 1])
    assert exact.feasible and exact.rank == 3
    pair = cdp.solve_max_entropy(cdp.totals([0, 0, 1, 1]), [1.0, 0.0, 1.0, 1.0])
    assert pair.status == "infeasible" and pair.certificate @ pair.scale**2 == -1


def test_totals_beside_overlapping_ones():
    """The scalar equation still serves what it can: 1e-9 from its boundary, no accuracy is lost."""
    A = np.zeros((3, 10))
    A[:2, :6] = OVERLAP
    A[2, 6:] = 1
    sigma = np.r_[1, 1.2, 0.9, 1, 1.1, 1, 1, 1, 1, 3 * (1 - 1e-9)]
    solution = cdp.solve_max_entropy(cdp.linear(A), sigma)
    R = solution.correlation()
    assert solution.feasible and solution.residual < 1e-14 and solution.gap.shape == (1,)
    assert_allclose(np.diag(R), 1, rtol=1e-14)
    assert_allclose(A @ (sigma[:, None] * R), 0, atol=1e-13)
    sigma[9] = 3.1
    outside = cdp.solve_max_entropy(cdp.linear(A), sigma)
    assert check_certificate(A, outside) < -0.01 and not outside.certificate[:6].any()


@pytest.mark.parametrize("decades", [0, 12])
def test_one_total_of_any_sign_near_its_boundary(decades):
    """Dominance up to 1 − 1e-9, scales over twelve decades, by the same entrance."""
    random = np.random.default_rng(3)
    for gap in (1e-3, 1e-6, 1e-9):
        b = random.normal(size=6)
        sigma = 10.0 ** (decades * (random.random(6) - 0.5))
        sigma[1:3] = 10.0 ** (decades / 2) / np.abs(b[1:3])  # two large ones: a gap of 1e-9 is one
        c = np.abs(b) * sigma
        sigma[0] = (c[1:].sum() * (1 - gap)) / np.abs(b[0])
        solution = cdp.solve_max_entropy(cdp.linear(b[None]), sigma)
        R = solution.correlation()
        assert solution.feasible and solution.residual < 1e-12
        assert_allclose(np.diag(R), 1, rtol=1e-12)
        assert np.abs(b @ (sigma[:, None] * R)).max() <= 1e-12 * (np.abs(b) @ sigma)


def test_precision_does_not_depend_on_jax_flag():
    sigma = [1, 1.3, 0.8, 1.1, 0.9, 1.4]
    with jax.enable_x64(False):
        one = cdp.solve_max_entropy(cdp.linear(OVERLAP), sigma)
        R = one.correlation()
    with jax.enable_x64(True):
        two = cdp.solve_max_entropy(cdp.linear(OVERLAP), sigma)
        assert np.array_equal(R, two.correlation())
    assert np.array_equal(one.precision, two.precision) and one.residual == two.residual
