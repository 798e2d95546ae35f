"""The dual Newton on arrays: residuals, proofs, derivatives, batches, both precisions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from cdp_views.precision.dual import balance_rows
from cdp_views.precision.dual_basis import echelon

A = np.array([[1.0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
TABLE, AT = echelon(A)
SIGMA = np.array([1, 2, 1.5, 0.7, 1.2, 1.1])  # cell 1 gets a negative precision
SOLVE = jax.jit(lambda sigma: balance_rows(TABLE, AT, sigma))


def correlation(A, sigma, theta):
    K = scipy.linalg.null_space(A * sigma)
    return K @ np.linalg.solve(K.T @ (theta[:, None] * K), K.T)


def test_echelon_has_the_same_kernel_and_exact_integers():
    rows = np.random.default_rng(0).integers(-2, 3, (3, 7)).astype(float)
    table, at = echelon(rows)
    assert np.array_equal(table[:, at], np.eye(3))
    assert_allclose(rows[:, at] @ table, rows, atol=1e-14)
    difference = np.array([[1.0, 1, 1, 0, 1e-9], [1, 1, 1, 1, 0]])
    table, at = echelon(difference)  # the shared cells cancel exactly
    assert np.sum(np.any(table[:, :3] == 0, axis=0)) == 3 or 0 in table[:, :3].sum(1)


@pytest.mark.usefixtures("precision")
def test_unit_diagonal(precision):
    dual = SOLVE(jnp.asarray(SIGMA))
    assert bool(dual.solved) and not bool(dual.impossible)
    assert dual.theta.dtype == precision
    tolerance = 1e-13 if precision == jnp.float64 else 1e-5
    assert dual.residual < tolerance and dual.theta[1] < 0 and dual.iterations < 15
    R = correlation(A, SIGMA, np.asarray(dual.theta, np.float64))
    assert_allclose(np.diag(R), 1, atol=10 * tolerance)
    assert np.sum(np.asarray(dual.theta)) == pytest.approx(4, rel=10 * tolerance)


@pytest.mark.usefixtures("precision")
def test_a_batch_is_its_rows_and_the_impossible_is_told(precision):
    sigma = np.stack([SIGMA, np.ones(6), np.where(np.arange(6) == 5, 50, SIGMA)])
    batch = balance_rows(TABLE, AT, jnp.asarray(sigma, precision))
    assert np.array_equal(batch.solved, [True, True, False])
    assert np.array_equal(batch.impossible, [False, False, True])
    assert_allclose(batch.theta[0], SOLVE(jnp.asarray(SIGMA)).theta, rtol=1e-4)
    assert_allclose(batch.theta[1], 2 / 3, rtol=1e-5)
    assert batch.theta[2].sum() < 0  # with KᵀΘK ≻ 0: the proof
    K = scipy.linalg.null_space(A * sigma[2])
    theta = np.asarray(batch.theta[2], np.float64)
    assert np.linalg.eigvalsh(K.T @ (theta[:, None] * K))[0] > 0
    # of one shape with the batch, so that nothing is compiled again
    mapped = jax.vmap(lambda s: balance_rows(TABLE, AT, s).theta)(jnp.asarray(sigma, precision))
    assert_allclose(mapped[:2], batch.theta[:2], rtol=1e-4)


@pytest.mark.slow
def test_implicit_derivative():
    """∂θ/∂log σ = 2 diag θ − 2(R∘R)⁻¹ against finite differences, forward, reverse and twice."""
    with jax.enable_x64(True):
        theta = jax.jit(lambda log: balance_rows(TABLE, AT, jnp.exp(log)).theta)
        log = np.log(SIGMA)
        forward = jax.jit(jax.jacfwd(theta))(log)
        h = 1e-5
        steps = [(theta(log + h * e) - theta(log - h * e)) / (2 * h) for e in np.eye(6)]
        assert_allclose(forward, np.stack(steps, -1), rtol=1e-7, atol=1e-8)
        R = correlation(A, SIGMA, np.asarray(theta(log)))
        want = 2 * np.diag(np.asarray(theta(log))) - 2 * np.linalg.inv(R * R)
        assert_allclose(forward, want, rtol=1e-10, atol=1e-10)
        weights = np.arange(6.0)
        gradient = jax.jit(jax.grad(lambda x: weights @ theta(x)))
        assert_allclose(gradient(log), weights @ forward, rtol=1e-10)
        second = jax.jit(jax.jacfwd(gradient))(log)
        steps = [(gradient(log + h * e) - gradient(log - h * e)) / (2 * h) for e in np.eye(6)]
        assert_allclose(second, np.stack(steps, -1), rtol=1e-6, atol=1e-6)


def test_derivative_where_theta_is_not_unique():
    """A 2 × 2 table: R∘R is singular, and R does not move with equal scales' common factor."""
    table, at = echelon(np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]]))
    with jax.enable_x64(True):
        gradient = jax.grad(lambda s: balance_rows(table, at, s).theta.sum())(jnp.ones(4))
        assert np.all(np.isfinite(gradient))
        assert balance_rows(table, at, jnp.ones(4)).residual < 1e-14


def test_infeasible_scales_have_a_finite_gradient():
    with jax.enable_x64(True):
        far = np.where(np.arange(6) == 5, 50, SIGMA)
        gradient = jax.jit(jax.grad(lambda s: balance_rows(TABLE, AT, s).theta.sum()))(far)
        assert np.all(np.isfinite(gradient))


@pytest.mark.slow
def test_many_cells_few_totals():
    """The low-rank form: n above every dense limit, conjugate gradients, derivative included."""
    random = np.random.default_rng(0)
    rows = (random.random((4, 3000)) < 0.4).astype(float)
    sigma = np.exp(random.normal(size=3000).clip(-2, 2))
    sigma[:3] = 300.0, 200.0, 250.0  # some far from the start
    table, at = echelon(rows)
    with jax.enable_x64(True):
        dual = balance_rows(table, at, sigma)
        assert bool(dual.solved) and dual.residual < 1e-13
        nu = np.asarray(dual.theta) / sigma**2  # Σ = N⁻¹ − N⁻¹Aᵀ(AN⁻¹Aᵀ)⁻¹AN⁻¹, any signs
        share = rows / nu
        variance = 1 / nu - np.sum(share * np.linalg.solve(share @ rows.T, share), axis=0)
        assert_allclose(variance, sigma**2, rtol=1e-9)
        one = np.zeros(3000)
        one[7] = 1e-4
        f = lambda s: balance_rows(table, at, s).theta  # noqa: E731
        _, tangent = jax.jvp(f, (sigma,), (one / 1e-4,))
        assert_allclose(tangent, (f(sigma + one) - f(sigma - one)) / 2e-4, rtol=1e-5, atol=1e-7)
