"""Imaging onto bounds: projections against cvxpy and brute force, bias against its closed form."""

import warnings

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import cdp_views as cdp
from cdp_views._checks import InfeasibleError, UnsupportedError
from cdp_views.precision.polyhedron import project_to_polyhedron

LOC = np.array([3.0, 0.0, 12.0, 7.0, 0.0, 5.0])
INV = cdp.totals([0, 0, 0, 1, 1, None], missing="free")
REGION = INV & cdp.nonnegative(6)


def closest(y, A, c, B, lower):
    z = cvxpy.Variable(len(y))
    rows = [A @ z == c] if len(A) else []
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(z - y)), [*rows, B @ z >= lower])
    problem.solve(solver=cvxpy.CLARABEL)
    return z.value


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 3.0, 1.0, 1.0]])
def test_simplex_against_a_solver(weights, precision):
    inv = cdp.totals([0, 0, 0, 1, 1, None], weights, missing="free")
    view = cdp.Imaged(dist.Normal(LOC, 20.0), inv & cdp.nonnegative(6))
    y = np.random.default_rng(1).normal(LOC, 20, size=(4, 6))
    found = jax.jit(view.project)(y)
    A = inv.matrix.toarray()
    for row, z in zip(y, np.asarray(found), strict=True):
        assert_allclose(z, closest(row, A, A @ LOC, np.eye(6), np.zeros(6)), atol=2e-4)
    tol = 1e-13 if precision == jnp.float64 else 1e-5
    assert_allclose(found @ A.T, np.tile(A @ LOC, (4, 1)), rtol=tol)
    assert np.all(np.asarray(found) >= 0)
    # what Karush, Kuhn and Tucker ask of a closest point: one shift per group where z > 0
    if weights is None and precision == jnp.float64:
        for row, z in zip(y, np.asarray(found), strict=True):
            shift = (row - z)[:3]
            assert_allclose(shift[z[:3] > 0], shift[z[:3] > 0][0], rtol=1e-12)
            assert np.all(shift[z[:3] == 0] <= shift[z[:3] > 0][0] + 1e-12)


def test_general_bounds_against_a_solver(key):
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    B, lower = np.array([[1.0, -1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0]]), np.array([1.0, 4.0])
    region = inv & cdp.nonnegative(6) & cdp.bounds(B, lower)
    with jax.enable_x64(True):
        view = cdp.Imaged(dist.Laplace(LOC, 8.0), region)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            draws = np.asarray(view.sample(key, (3,)))
        noisy = np.asarray(view.flat.sample(key, (3,)))
        rows = np.vstack([np.eye(6), B])
        for y, z in zip(noisy, draws, strict=True):
            A = inv.matrix.toarray()
            want = closest(y, A, A @ LOC, rows, np.append(np.zeros(6), lower))
            assert_allclose(z, want, atol=1e-5)
        assert np.all(view.support(draws))
        assert view.active(draws).shape == (3, 8) and view.active(draws).any()
        assert_allclose(jax.jit(view.project)(noisy), draws, atol=1e-9)


def test_bias_of_two_cells(key):
    """x = (1, 4), λ = 1.5: bias(x₁) = +0.206629 (oracles.md), and none without the bounds."""
    x, e = np.array([1.0, 4.0]), 2 / 1.5
    exact = ((3 + e * x[0]) * np.exp(-e * x[0]) - (3 + e * x[1]) * np.exp(-e * x[1])) / (4 * e)
    assert_allclose(exact, 0.206629, atol=1e-6)
    inv = cdp.totals(["a", "a"])
    view = cdp.Imaged(dist.Laplace(x, 1.5), inv & cdp.nonnegative(2))
    found = cdp.utility(view, key=key, draws=40_000)
    assert abs(found.bias[0] - exact) < 5 * found.bias_stderr[0]
    flat = cdp.utility(cdp.Imaged(dist.Laplace(x, 1.5), inv), key=key, draws=40_000)
    assert abs(flat.bias[0] - exact) > 5 * found.bias_stderr[0]


def test_privacy_is_that_of_the_noise_on_the_totals():
    nb = cdp.relocations(INV)
    for base, kind in ((dist.Normal, "kind"), (dist.Laplace, "pure_kind")):
        with_bounds = cdp.privacy_loss(cdp.Imaged(base(LOC, 2.0), REGION), nb)
        without = cdp.privacy_loss(cdp.Imaged(base(LOC, 2.0), INV), nb)
        assert with_bounds.epsilon(1e-6) == without.epsilon(1e-6)
        assert getattr(with_bounds, kind) == "bound" and getattr(without, kind) == "exact"


def test_noise_that_swamps_the_table_is_told(key):
    small = np.array([1.0, 0, 2, 0, 1, 0, 0, 0])
    region = cdp.totals([0] * 8) & cdp.nonnegative(8)
    with pytest.warns(UserWarning, match=r"cells by more than one standard deviation .* swamps"):
        cdp.Imaged(dist.Normal(small, 50.0), region).sample(key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cdp.Imaged(dist.Normal(small * 100 + 500, 5.0), region).sample(key, (20,))


def test_no_density_no_wrong_bounds():
    view = cdp.Imaged(dist.Normal(LOC, 2.0), REGION)
    with pytest.raises(UnsupportedError, match=r"`log_prob` does not exist: .*Conditioned"):
        view.log_prob(LOC)
    with pytest.raises(ValueError, match="bounds that the true table itself breaks") as error:
        cdp.Imaged(dist.Normal(LOC, 2.0), INV & cdp.bounds(np.eye(6)[:1], [100.0]))
    assert "100" not in str(error.value)
    A, B = sparse.csr_array(np.ones((1, 2))), sparse.csr_array(np.eye(2))
    with pytest.raises(InfeasibleError, match="bounds that no table with these totals satisfies"):
        project_to_polyhedron(np.zeros(2), A, np.array([1.0]), B, np.array([2.0, 2.0]))
    with pytest.raises(ValueError, match=r"`lower` must have one number per row of A"):
        cdp.bounds(np.eye(3), [1.0])
    with pytest.raises(ValueError, match="`&` needs both on the same cells; got 3 and 6"):
        cdp.nonnegative(3) & INV
    with pytest.raises(UnsupportedError, match="would leave the whole numbers"):
        cdp.Imaged(cdp.DiscreteLaplace(LOC, 1.0), REGION)


def test_joining():
    both = cdp.nonnegative(6) & cdp.bounds(np.ones((1, 6)), [2.0])
    assert len((INV & both).bounds.lower) == len((both & INV).bounds.lower) == 7
    assert (INV & cdp.nonnegative(6) & cdp.totals([0] * 6)).equalities.rank == 3


@pytest.mark.slow
def test_a_large_polyhedron(key):
    """24,000 cells under 3,400 overlapping totals, all nonnegative; closest by its multipliers."""
    x = np.random.default_rng(0).poisson(3.0, size=24_000).astype(float)
    rows = sparse.kron(sparse.eye_array(3000), np.ones((1, 8)))
    blocks = sparse.kron(sparse.kron(sparse.eye_array(50), np.ones((1, 60))), sparse.eye_array(8))
    A = sparse.csr_array(sparse.vstack([rows, blocks]))
    with jax.enable_x64(True):
        view = cdp.Imaged(dist.Laplace(x, 4.0), cdp.linear(A) & cdp.nonnegative(24_000))
        y = np.asarray(view.flat.sample(key))
        z = np.asarray(view.project(y))
    assert np.abs(A @ z - A @ x).max() <= 1e-9 and z.min() >= -1e-12
    on = view.active(z)
    assert 8000 < on.sum() < 8500 and np.all(z[on] < 1e-9)
    # z − y = Aᵀw + m, with m ≥ 0 and only where a bound holds
    free = sparse.linalg.lsmr(A[:, ~on].T, (z - y)[~on], atol=1e-14, btol=1e-14, maxiter=20_000)
    left = z - y - A.T @ free[0]
    assert np.abs(left[~on]).max() < 1e-7
    assert left[on].min() > -1e-7 and left[on].max() > 1


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
def test_a_projection_of_large_counts(size, key):
    """One bound can be active; then z = y − P e₀ y₀/(P e₀)₀, whatever the counts' size."""
    loc = size * np.array([0, 2, 1, 3, 1, 2.0])
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    with jax.enable_x64(True):
        view = cdp.Imaged(dist.Normal(loc, 0.01), inv & cdp.nonnegative(6))
        y = np.asarray(view.flat.sample(key, (40,)))
        z = np.asarray(view.project(y))
        along = np.asarray(inv.project(np.eye(6)[0]))
    want = np.where(y[:, :1] < 0, y - y[:, :1] * along / along[0], y)
    assert_allclose(z, want, atol=1e-11 + 4e-16 * size)
    assert 5 < np.sum(y[:, 0] < 0) < 35


def test_bounds_without_totals(key):
    view = cdp.Imaged(dist.Normal(np.array([1.0, 2, 0, 4]), 3.0), cdp.bounds([[1, 1, 0, 0]], [3]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = view.sample(key, (20,))
    assert np.all(draws[:, 0] + draws[:, 1] >= 3 - 1e-5)


def test_an_impossible_total_under_jit_is_not_a_number():
    region = cdp.totals(["a"] * 4) & cdp.nonnegative(4)
    draw = jax.jit(lambda loc: cdp.Imaged(dist.Normal(loc, 2.0), region).sample(jax.random.key(0)))
    assert np.all(np.isnan(draw(jnp.array([-5.0, 2, 0, 1]))))


def test_large_noise_leaves_no_solver_error(key):
    """The solver is right to 1e-10 of the step; least squares on its active bounds to rounding."""
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    loc = 1e7 * np.array([1, 2, 1, 3, 1, 2.0])
    with jax.enable_x64(True):
        view = cdp.Imaged(dist.Normal(loc, 1e7), inv & cdp.nonnegative(6))
        z = np.asarray(view.project(np.asarray(view.flat.sample(key, (20,)))))
    assert np.abs(z[np.abs(z) < 1]).max() < 1e-7  # bounds held with equality, of cells of 1e7
    assert np.sum(np.abs(z) < 1) > 2
