"""The scalar equation of maximum entropy against 50 digits, dense algebra and differences."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import cdp_views as cdp
from cdp_views.precision.scalar import balance_totals

N = 6
INV = cdp.totals([0] * N)
_balance = jax.jit(balance_totals)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def solve(c):
    with jax.enable_x64(True):
        return _balance(jnp.asarray(c, dtype="float64"), INV.segments)


@jax.jit
def law_of(inv, sigma):
    """(covariance by the sampler's own map, marginal variances, precisions, log-determinant)."""
    law = inv.equalize(sigma**2)
    root = law.colour(jnp.eye(inv.n, dtype=sigma.dtype))
    return root.T @ root, law.variance, law.nu, law.logdet, root


def exact_u(c):
    """The root of Σ α/(u + √(u² − 2αu + α)) = 1 at 50 digits, by bisection in log u."""
    with mp.workdps(50):
        c = sorted((mp.mpf(float(x)) for x in c), reverse=True)
        alphas = [(x / c[0]) ** 2 for x in c[1:]]

        def excess(log_u):
            u = mp.exp(log_u)
            return sum(a / (u + mp.sqrt(u * u - 2 * a * u + a)) for a in alphas) - 1

        low, high = mp.mpf(-40), mp.mpf(4)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return float(mp.exp(low))


CASES = {
    "equal": [1.0] * N,
    "spread": [1.0, 2.0, 3.0, 2.5, 0.5, 4.0],
    "one dominant": [5.0, 1.0, 1.0, 1.5, 1.5, 1.0],
    "two equal giants": [1e6, 1e6, 1.0, 1.0, 1.0, 1.0],
    "near tie": [1.0, 1.0 - 1e-12, 1e-6, 1e-7, 1e-6, 1e-5],
    "twelve decades": [1e6, 0.9999999e6, 1.0, 1e-6, 1e-3, 1e3],
    "Pythagoras": [2.0, 1.0, 1.0, 1.0, 1.0, 1e-9],
    "a zero weight": [1.0, 2.0, 0.0, 2.5, 0.5, 4.0],
    **{
        f"gap {gap:g}": [5 / (1 + gap), 1.0, 1.0, 1.0, 1.0, 1.0]
        for gap in (1e-3, 1e-6, 1e-9, 1e-12)
    },
}


@pytest.mark.parametrize("c", CASES.values(), ids=CASES)
def test_the_root_at_fifty_digits(c):
    solution = solve(c)
    assert bool(solution.feasible[0])
    assert int(solution.iterations) <= 12
    # near the boundary, and near a tie, u itself turns on the last bit of the largest c
    want, nudged = exact_u(c), exact_u(np.where(np.array(c) == max(c), np.nextafter(max(c), 0), c))
    assert_allclose(float(solution.u[0]), want, rtol=1e-13 + 4 * abs(nudged / want - 1))


@pytest.mark.parametrize("c", [c for k, c in CASES.items() if k != "a zero weight"])
def test_marginals_are_exact_everywhere(c):
    """By the map that draws the noise, also at gap 1e-12 and over 12 decades."""
    sigma = np.array(c)
    covariance, variance, _, _, root = law_of(INV, jnp.asarray(sigma))
    assert_allclose(np.diag(covariance), sigma**2, rtol=1e-12)
    assert_allclose(variance, sigma**2, rtol=1e-12)
    slack = np.abs(np.sum(root, axis=1))
    assert np.all(slack <= 1e-12 * np.sum(np.abs(root), axis=1))


@pytest.mark.parametrize("dominance", [1 - 1e-3, 1 - 1e-6, 1 - 1e-9])
def test_a_cell_that_nearly_is_the_total(dominance):
    rest = np.array([1.0, 0.3, 2.0, 0.7, 1.0])
    sigma = np.append(rest, dominance * rest.sum())
    covariance, _, nu, _, _ = law_of(INV, jnp.asarray(sigma))
    assert_allclose(np.diag(covariance), sigma**2, rtol=1e-12)
    assert nu[-1] < 0 and np.all(np.asarray(nu)[:-1] > 0)


@settings(max_examples=60)
@given(st.lists(st.floats(-6, 6), min_size=N, max_size=N))
def test_any_balanced_scales_over_twelve_decades(logs):
    sigma = 10.0 ** np.array(logs)
    with jax.enable_x64(True):
        solution = solve(sigma)
        largest = sigma.max()
        rest = np.delete(sigma, sigma.argmax()).sum()
        if abs(rest / largest - 1) > 1e-14:
            assert bool(solution.feasible[0]) == (rest > largest)
        if bool(solution.feasible[0]):
            covariance, variance, _, _, _ = law_of(INV, jnp.asarray(sigma))
            assert_allclose(np.diag(covariance), sigma**2, rtol=1e-12)
            assert_allclose(variance, sigma**2, rtol=1e-12)


def test_float32_reaches_its_own_rounding():
    with jax.enable_x64(False):
        sigma = jnp.asarray([1.0, 2.0, 3.0, 2.5, 0.5, 4.0], dtype=jnp.float32)
        covariance, variance, _, _, _ = law_of(INV, sigma)
    assert covariance.dtype == jnp.float32
    assert_allclose(np.diag(covariance), np.asarray(sigma) ** 2, rtol=5e-6)
    assert_allclose(variance, np.asarray(sigma) ** 2, rtol=5e-6)


@jax.jit
@jax.jacobian
def jacobian(logs):
    return balance_totals(jnp.exp(logs), INV.segments).theta


SIGMA = np.array([1.0, 2.0, 3.0, 2.5, 0.5, 4.0])


@pytest.mark.parametrize(
    "sigma",
    [SIGMA, np.array([4.0, 1.0, 1.0, 1.0, 1.0, 1.0]), np.ones(N)],
    ids=["spread", "negative precision", "ties"],
)
def test_the_implicit_derivative(sigma):
    """∂θ/∂log σ = 2 diag θ − 2 (R∘R)⁻¹, from the first-order conditions alone."""
    got = jacobian(jnp.log(sigma))
    covariance, _, nu, _, _ = law_of(INV, jnp.asarray(sigma))
    R = np.asarray(covariance) / np.outer(sigma, sigma)
    want = 2 * np.diag(np.asarray(nu) * sigma**2) - 2 * np.linalg.inv(R * R)
    assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_second_derivatives_against_differences():
    def total(logs):
        theta = _balance(jnp.exp(logs), INV.segments).theta
        return jnp.sum(theta**2 * jnp.arange(1.0, N + 1))

    logs, h = jnp.log(jnp.asarray(SIGMA)), 1e-5
    gradient = jax.jit(jax.grad(total))
    hessian = jax.jit(jax.hessian(total))(logs)
    differences = np.array(
        [(gradient(logs + h * e) - gradient(logs - h * e)) / (2 * h) for e in np.eye(N)]
    )
    assert_allclose(hessian, differences, rtol=1e-6, atol=1e-6)
    assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-9)


def test_infeasible_scales_are_flagged_without_a_nan():
    c = jnp.asarray([9.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    solution = solve(c)
    assert not bool(solution.feasible[0])
    assert float(solution.gap[0]) == pytest.approx(5 / 9 - 1)
    assert np.all(np.isfinite(solution.theta)) and np.all(np.isfinite(jacobian(jnp.log(c))))


def test_groups_do_not_see_each_other():
    """Scrambled groups, a pair, a single cell, a batch: each as if it were alone."""
    labels = np.array([0, 1, 0, 2, 3, 1, 0, 2, 0])
    inv = cdp.totals(labels)
    c = np.exp(np.random.default_rng(0).normal(size=(2, 9)) / 4)
    c[:, 7] = c[:, 3]  # pairs must be equal
    c[:, 5] = c[:, 1]
    batch = balance_totals(jnp.asarray(c), inv.segments)
    assert bool(jnp.all(batch.feasible))
    alone = cdp.totals([0] * 4)
    for row in range(2):
        want = balance_totals(jnp.asarray(c[row, labels == 0]), alone.segments)
        assert_allclose(batch.theta[row, labels == 0], want.theta, rtol=1e-13)
        assert_allclose(batch.theta[row, np.isin(labels, [1, 2])], 0.5, rtol=1e-13)


def test_a_pair_is_balanced_only_if_equal():
    pair = cdp.totals([0, 0]).segments
    for ratio, feasible in ((1.0, True), (1 + 1e-15, True), (1 + 1e-10, False), (2.0, False)):
        assert bool(balance_totals(jnp.asarray([1.0, ratio]), pair).feasible[0]) is feasible
