"""The maximum-entropy solution against a semidefinite solver, hand-made examples, certificates."""

import cvxpy as cp
import jax
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import cdp_views as cdp


def kernel(inv):
    A = inv.matrix.toarray()
    return scipy.linalg.null_space(A / np.linalg.norm(A, axis=1, keepdims=True))


def logdet(inv, R):
    K = kernel(inv)
    return np.linalg.slogdet(K.T @ R @ K)[1]


CASES = {
    "plain": ([0] * 5, None, [1.0] * 5),
    "pythagoras": ([0] * 5, [2.0, 1, 1, 1, 1], [1.0] * 5),
    "dominant": ([0] * 5, [3.0, 1, 1, 1, 1], [1.0] * 5),
    "four": ([0] * 4, [1.0, 2.0, 3.0, 2.5], [1.0] * 4),
    "signs, two groups": (
        [0, 1, 0, 1, 0, 1],
        [2.0, -1, -3, 1.5, 1.5, 2],
        [1.0, 1.2, 0.9, 1, 1, 0.8],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_kkt_conditions(case):
    """diag Σ = σ², A Σ = 0 and Σ⁺ = diag(ν) on the kernel: together, optimality."""
    labels, b, sigma = case
    inv, sigma = cdp.totals(labels, b), np.array(sigma)
    solution = cdp.solve_max_entropy(inv, sigma)
    R = solution.correlation()
    assert solution.feasible and solution.certificate is None and solution.residual < 1e-13
    assert_allclose(np.diag(R), 1, rtol=1e-12)
    assert_allclose(inv.matrix @ (sigma[:, None] * R), 0, atol=1e-12)
    K = kernel(inv)
    S = R * np.outer(sigma, sigma)
    assert_allclose(
        np.linalg.inv(K.T @ S @ K), K.T @ (solution.precision[:, None] * K), rtol=1e-9, atol=1e-9
    )
    assert np.sum(solution.precision * sigma**2) == pytest.approx(inv.dim, rel=1e-10)


@pytest.mark.parametrize("name", ["four", "signs, two groups"])
def test_against_a_semidefinite_solver(name):
    labels, b, sigma = CASES[name]
    inv, sigma = cdp.totals(labels, b), np.array(sigma)
    K = kernel(inv)
    Z = cp.Variable((inv.dim, inv.dim), symmetric=True)
    problem = cp.Problem(cp.Maximize(cp.log_det(Z)), [cp.diag(K @ Z @ K.T) == sigma**2])
    problem.solve(solver=cp.CLARABEL)
    got = cdp.solve_max_entropy(inv, sigma).correlation() * np.outer(sigma, sigma)
    assert_allclose(got, K @ Z.value @ K.T, atol=1e-4)  # the solver's own accuracy
    assert problem.value <= np.linalg.slogdet(K.T @ got @ K)[1] + 1e-6


def test_three_against_one_many():
    """b = (3, 1, 1, 1, 1): by symmetry R₁ⱼ = −3/4, and Σⱼ b_j R_jk = 0 gives R_jk = 5/12."""
    inv = cdp.totals([0] * 5, [3.0, 1, 1, 1, 1])
    R = cdp.solve_max_entropy(inv, 1.0).correlation()
    want = np.full((5, 5), 5 / 12)
    want[0, :] = want[:, 0] = -3 / 4
    np.fill_diagonal(want, 1)
    assert_allclose(inv.matrix @ want, 0, atol=1e-15)
    assert_allclose(R, want, atol=1e-13)
    assert logdet(inv, R) == pytest.approx(-0.43833451, abs=1e-8)


def test_independent_others():
    """b = (2, 1, 1, 1, 1): the four others are independent and the first follows, R₁ⱼ = −½."""
    inv = cdp.totals([0] * 5, [2.0, 1, 1, 1, 1])
    solution = cdp.solve_max_entropy(inv, 1.0)
    want = np.eye(5)
    want[0, 1:] = want[1:, 0] = -0.5
    assert_allclose(solution.correlation(), want, atol=1e-13)
    assert solution.precision[0] == pytest.approx(0, abs=1e-14)
    assert logdet(inv, want) == pytest.approx(np.log(2))


def test_four_unequal_weights():
    inv = cdp.totals([0] * 4, [1.0, 2.0, 3.0, 2.5])
    R = cdp.solve_max_entropy(inv, 1.0).correlation()
    want = [
        -0.0552504775764,
        -0.233557902157,
        -0.0755301353508,
        -0.510637556396,
        -0.165134741294,
        -0.69806679402,
    ]
    assert_allclose(R[np.triu_indices(4, 1)], want, atol=1e-11)
    assert logdet(inv, R) == pytest.approx(0.77280755535171, abs=1e-12)


def test_plain_total():
    """R = n/(n−1) P, so log det = (n−1) log(n/(n−1))."""
    for n in (3, 5, 8):
        inv = cdp.totals([0] * n)
        R = cdp.solve_max_entropy(inv, 1.0).correlation()
        assert_allclose(R, n / (n - 1) * (np.eye(n) - 1 / n), atol=1e-13)
        assert logdet(inv, R) == pytest.approx((n - 1) * np.log(n / (n - 1)))


def test_both_margins_of_a_table():
    """R is the Kronecker product of the plain totals' R; log det = 6 log 2 for 3 × 4."""
    rows, columns = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
    inv = cdp.totals(rows) & cdp.totals(columns)
    with jax.enable_x64(True):
        import numpyro.distributions as dist

        C = np.asarray(cdp.MaxEntropy(dist.Normal(0.0, 1.0), inv).covariance_matrix)
    want = np.kron(*(n / (n - 1) * (np.eye(n) - 1 / n) for n in (3, 4)))
    assert_allclose(C, want, atol=1e-13)
    assert (
        logdet(inv, C)
        == pytest.approx(4.158883, abs=1e-6)
        == pytest.approx(6 * np.log(2), abs=1e-6)
    )


@pytest.mark.parametrize(
    ("labels", "b", "sigma"),
    [
        ([0] * 4, None, [1.0, 2.0, 3.0, 7.0]),
        ([0, 1, 1, 0, 1, 0], [1.0, -2.0, 1.0, 1.0, 1.0, 2.0], [1.0, 5.0, 1.0, 1.0, 1.0, 1.0]),
        ([0, 0], None, [1.0, 2.0]),
        ([0, 0, 0, 1, 1], None, [1.0, 1.0, 2.0, 1.0, 2.0]),
    ],
)
def test_a_certificate_anyone_can_check(labels, b, sigma):
    inv = cdp.totals(labels, b)
    solution = cdp.solve_max_entropy(inv, sigma)
    assert (
        not solution.feasible
        and np.all(np.isnan(solution.precision))
        and np.isnan(solution.residual)
    )
    K, nu = kernel(inv), solution.certificate
    assert np.linalg.eigvalsh(K.T @ (nu[:, None] * K))[0] >= -1e-12
    assert nu @ solution.scale**2 <= 1e-12 * np.abs(nu) @ solution.scale**2
    with pytest.raises(
        cdp.InfeasibleError, match=r"There is no such correlation; see `certificate`"
    ):
        solution.correlation()


def test_constant_cells_and_free_cells():
    inv = cdp.totals(["a", "b", "b", "b", None], missing="free")
    solution = cdp.solve_max_entropy(inv, [1.0, 2.0, 3.0, 2.5, 7.0])
    R = solution.correlation()
    assert not np.any(R[0]) and R[4, 4] == pytest.approx(1) and not np.any(R[4, :4])
    assert solution.residual < 1e-13


def test_nested_totals():
    inv = cdp.linear([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    both = cdp.totals([0, 0, 0, 1, 1, 1])
    sigma = [1.0, 1.2, 1.9, 3.0, 3.0, 1.0]
    assert_allclose(
        cdp.solve_max_entropy(inv, sigma).correlation(),
        cdp.solve_max_entropy(both, sigma).correlation(),
        atol=1e-13,
    )


def test_bad_input_is_named():
    inv = cdp.totals([0, 0, 0])
    with pytest.raises(ValueError, match=r"`scale` must be finite and not neg.*-1.0 at index 1"):
        cdp.solve_max_entropy(inv, [1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match=r"`scale` must be finite and not neg.*nan at index 0"):
        cdp.solve_max_entropy(inv, [np.nan, 1.0, 1.0])
    with pytest.raises(
        ValueError, match=r"`scale` must be a number or have shape \(3,\); got \(2,\)"
    ):
        cdp.solve_max_entropy(inv, [1.0, 1.0])
