"""Designs from accuracy: against cvxpy, closed forms, and the view that they make."""

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from scipy import sparse

import cdp_views as cdp
from cdp_views.calibration.interior_point import Program, solve
from cdp_views.calibration.promises import any_totals
from cdp_views.calibration.tightest import two_tightest

Z = 1.6448536269514722
SIGMA = np.array([1.0, 2, 3, 4, 6])


def sdp(A, promised, V, rows=None):
    """min τ, cell by cell in cvxpy: w M⁻¹ wᵀ ≤ t by one matrix inequality a promise."""
    import cvxpy as cp

    K = scipy.linalg.null_space(A)
    nu, tau = cp.Variable(len(promised) if rows is None else A.shape[1], nonneg=True), cp.Variable()
    M = K.T @ cp.diag(nu) @ K
    rows = np.eye(A.shape[1]) if rows is None else rows
    kept = [
        cp.matrix_frac(K.T @ w, (M + M.T) / 2) <= t for w, t in zip(rows, promised, strict=True)
    ]
    problem = cp.Problem(cp.Minimize(tau), [*kept, V**2 @ nu <= tau])
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value


def freest(A, promised, V):
    """min τ over all covariances on ker A with diagonal at most `promised`."""
    import cvxpy as cp

    K = scipy.linalg.null_space(A)
    S, tau = cp.Variable((K.shape[1],) * 2, PSD=True), cp.Variable()
    kept = [cp.diag(K @ S @ K.T) <= promised]
    problem = cp.Problem(cp.Minimize(tau), kept + [cp.matrix_frac(K.T @ v, S) <= tau for v in V])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def pairs(n):
    i, j = np.triu_indices(n, 1)
    return np.eye(n)[i] - np.eye(n)[j]


def test_one_total_against_cvxpy():
    plan = cdp.design(cdp.totals(["a"] * 5), margins=Z * SIGMA)
    assert plan.mu**2 == pytest.approx(8 / 7, rel=1e-12)
    assert plan.mu**2 == pytest.approx(sdp(np.ones((1, 5)), SIGMA**2, pairs(5)), rel=1e-6)
    np.testing.assert_allclose((plan.margins / Z) ** 2, [1, 4, 4, 4, 4], rtol=1e-12)
    # over all Gaussians with variances at most these the optimum is lower still (mathematics.md §4)
    assert (
        plan.mu**2 > freest(np.ones((1, 5)), SIGMA**2, pairs(5)) == pytest.approx(1.0869, abs=1e-4)
    )
    # and conditioning and maximum entropy with these scales lose more
    assert plan.mu**2 < 1.25


def test_the_scales_make_the_release(key):
    inv = cdp.totals(["a", "b", "a", "b", "a"])
    plan = cdp.design(inv, margins=[3.0, 5.0, 4.0, 9.0, 30.0], level=0.95)
    view = cdp.Conditioned(dist.Normal(np.zeros(5), plan.scale), inv)
    np.testing.assert_allclose(1.959963984540054 * np.sqrt(view.variance), plan.margins, rtol=1e-5)
    assert (plan.margins <= np.array([3, 5, 4, 9, 30]) * (1 + 1e-12)).all()
    assert cdp.privacy_loss(view, cdp.relocations(inv)).mu == pytest.approx(plan.mu)
    assert plan.epsilon(1e-6) == plan.loss.epsilon(1e-6)
    assert "cell 0" in str(plan)


def test_price_is_the_elasticity_and_adds_up_to_one():
    inv, margins = cdp.totals(["a", "b", "a", "b", "a", "a"]), np.array([3.0, 9, 4, 9, 30, 5])
    plan = cdp.design(inv, margins=margins)
    assert plan.price.sum() == pytest.approx(1, abs=1e-12)
    for cell in range(6):
        step = np.where(np.arange(6) == cell, 1e-5, 0.0)
        wide, tight = (cdp.design(inv, margins=margins * (1 + s * step)).mu for s in (1, -1))
        assert plan.price[cell] == pytest.approx((np.log(tight) - np.log(wide)) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_two_tightest_against_the_interior_point(n):
    promised = np.random.default_rng(n).uniform(0.5, 5, n)
    V = pairs(n)
    program = Program(
        scipy.linalg.null_space(np.ones((1, n))),
        sparse.csr_array(V**2),
        np.eye(n),
        sparse.csr_array((n, n)),
        promised,
    )
    best, found = solve(program, np.ones(n)), two_tightest(promised, np.zeros(n, int), 1)
    assert found.loss[0] == pytest.approx(best.loss, rel=1e-7)
    assert (program.variances(found.nu) <= promised * (1 + 1e-12)).all()
    if n > 2:
        elasticity = best.multiplier * promised / best.loss
        np.testing.assert_allclose(found.price, elasticity, atol=1e-5)


def test_equal_promises_share_their_price_and_free_cells_have_no_total():
    found = two_tightest(np.array([2.0, 2, 2, 4, 1, 9]), np.array([0, 0, 0, 1, 1, 1]), 1)
    np.testing.assert_allclose(found.nu, [1 / 3] * 3 + [1 / 4, 1, 1 / 4])
    np.testing.assert_allclose(found.loss, [2 / 3, 5 / 4])
    np.testing.assert_allclose(found.price, [1 / 3] * 3 + [0.2, 0.8, 0])


def test_sums_with_promises_against_cvxpy():
    inv = cdp.totals(["a"] * 6)
    W = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]])
    margins, sums = np.array([1.0, 2, 3, 4, 6, 6]), np.array([1.2, 2.5])
    plan = cdp.design(inv, margins=margins, workload=W, workload_margins=sums)
    promised = np.concatenate([margins, sums]) ** 2 / Z**2
    oracle = sdp(np.ones((1, 6)), promised, pairs(6), np.concatenate([np.eye(6), W]))
    assert plan.mu**2 == pytest.approx(oracle, rel=1e-6)
    assert (plan.margins <= margins * (1 + 1e-9)).all()
    assert (plan.workload_margins <= sums * (1 + 1e-9)).all()
    assert plan.price.sum() + plan.workload_price.sum() == pytest.approx(1)
    # cell by cell, without taking cells together
    whole = any_totals(inv, cdp.relocations(inv), promised[:6], sparse.csr_array(W), promised[6:])
    np.testing.assert_allclose(whole.sum_price, plan.workload_price, atol=1e-4)


def test_margins_of_a_table_against_cvxpy():
    inv = cdp.margins((2, 3), [(0,), (1,)])
    margins = np.array([1.0, 2, 3, 2, 2, 5])
    neighbours = cdp.exchanges(inv)
    V = neighbours.shortlist(np.ones(6)).toarray()
    plan = cdp.design(inv, margins=margins, neighbours=neighbours)
    A = np.asarray(inv.matrix.toarray())
    assert plan.mu**2 == pytest.approx(sdp(A, margins**2 / Z**2, V), rel=1e-5)
    assert (plan.margins <= margins * (1 + 1e-9)).all()


def test_exchanges_pay_for_the_two_worst_groups():
    inv = cdp.totals(["a", "a", "a", "b", "b", "b", "c", "c", "c"])
    margins = np.array([1.0, 2, 3, 2, 3, 4, 5, 6, 7])
    plan = cdp.design(inv, margins=margins, neighbours=cdp.exchanges(inv))
    single = [two_tightest(margins[i : i + 3] ** 2 / Z**2, np.zeros(3, int), 1) for i in (0, 3)]
    assert plan.mu**2 == pytest.approx(sum(s.loss[0] for s in single))
    assert plan.price[6:].sum() == 0 and plan.price.sum() == pytest.approx(1)


def test_large_tables():
    rng = np.random.default_rng(0)
    n = 100_000
    inv = cdp.totals(rng.integers(0, 300, n))
    margins = rng.uniform(5, 50, n)
    plan = cdp.design(inv, margins=margins)
    assert (plan.margins <= margins * (1 + 1e-9)).all()
    assert plan.price.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"margins": [1.0, 0, 1]}, cdp.InfeasibleError, "cell 1"),
        ({"margins": [1.0, np.nan, 1]}, ValueError, "cell 1"),
        ({"margins": [1.0, -1, 1]}, ValueError, "`margins`"),
        ({"margins": [1.0, 2.0]}, ValueError, "`margins`"),
        ({"margins": 1.0, "level": 1.0}, ValueError, "`level`"),
        ({"margins": 1.0, "noise": "laplace"}, cdp.UnsupportedError, "`noise`"),
        ({"margins": 1.0, "workload": [[1, 1, 0]]}, ValueError, "`workload_margins`"),
        (
            {"margins": 1.0, "workload": [[1, 1, 0]], "workload_margins": 0.0},
            cdp.InfeasibleError,
            "sum 0",
        ),
        (
            {"margins": 1.0, "neighbours": cdp.differences([[1.0, -1, 0]])},
            ValueError,
            "cell 2",
        ),
        ({"margins": 1.0, "neighbours": [[1.0, -1, 0]]}, TypeError, "`neighbours`"),
    ],
)
def test_bad_input_is_named(arguments, error, words):
    with pytest.raises(error, match=words):
        cdp.design(cdp.totals(["a"] * 3), **arguments)


def test_a_sum_that_the_totals_fix_may_be_promised_exactly():
    inv = cdp.totals(["a"] * 4)
    plan = cdp.design(inv, margins=2.0, workload=[[1, 1, 1, 1]], workload_margins=0.0)
    assert plan.workload_margins[0] == pytest.approx(0, abs=1e-6)
    assert plan.mu == pytest.approx(cdp.design(inv, margins=2.0).mu, rel=1e-6)


@pytest.mark.slow
def test_many_cells_in_few_kinds():
    rng = np.random.default_rng(1)
    state, county = np.repeat(np.arange(4), 2500), np.arange(10_000) // 250
    W = sparse.csr_array((np.ones(10_000), (county, np.arange(10_000))))
    margins = rng.uniform(5, 50, 10_000)
    plan = cdp.design(cdp.totals(state), margins=margins, workload=W, workload_margins=30.0)
    assert (plan.margins <= margins * (1 + 1e-9)).all()
    assert plan.workload_margins.max() <= 30 * (1 + 1e-9)
