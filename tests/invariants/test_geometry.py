"""Every invariant against dense linear algebra on its rows."""

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from numpyro.distributions.transforms import ZeroSumTransform

import cdp_views as cdp

X = np.random.default_rng(0).normal(size=(3, 6)) * 10
VARIANCE = np.array([1.0, 4.0, 0.3, 9.0, 2.0, 0.7])
QUERIES = sp.csr_array(np.array([[1.0, -1, 0, 0, 2, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]))


def close(got, want, rtol=1e-12):
    """Relative to the largest number: single entries may be 0 by cancellation."""
    scale = max(float(np.abs(want).max(initial=0)), 1e-300)
    assert_allclose(np.asarray(got) / scale, np.asarray(want) / scale, rtol=0, atol=rtol)


def test_sizes_and_rows(case, inv, dense):
    assert (inv.n, inv.rank, inv.dim) == (6, 6 - dense.dim, dense.dim)
    assert_array_equal(inv.matrix.toarray(), case.A)
    assert inv.matrix.dtype == np.float64


def test_totals_of_a_batch(case, inv):
    assert_allclose(
        inv.evaluate(X), X @ case.A.T, rtol=1e-12, atol=1e-13 * np.abs(case.A).max(initial=0)
    )
    assert_allclose(inv.gross(np.abs(X)), np.abs(X) @ np.abs(case.A).T, rtol=1e-12)
    whole = np.arange(6)
    assert_allclose(inv.evaluate(whole), case.A @ whole, rtol=1e-12)
    assert jnp.issubdtype(inv.evaluate(whole).dtype, jnp.floating)


def test_lift_is_the_shortest_point_with_these_totals(case, inv, dense):
    total = X @ case.A.T
    lifted = np.asarray(inv.lift(total))
    close(lifted, X - X @ dense.P)
    size = np.abs(case.A).sum(1)
    assert_allclose(
        inv.evaluate(lifted) / size if size.all() else 0,
        total / size if size.all() else 0,
        atol=1e-12,
    )


def test_lift_of_integer_totals(case, inv, dense):
    x = np.arange(6) * 100
    total = case.A @ x
    if np.array_equal(total, total.astype(np.int64)):
        close(inv.lift(total.astype(np.int64)), x - dense.P @ x)


def test_projection(case, inv, dense):
    projected = np.asarray(inv.project(X))
    close(projected, X @ dense.P)
    assert_allclose(inv.project(projected), projected, rtol=1e-12, atol=1e-12)
    slack = np.abs(inv.evaluate(projected))
    assert np.all(slack <= 1e-14 * np.asarray(inv.gross(np.abs(X))))


def test_embedding_is_an_isometry_onto_the_kernel(case, inv, dense):
    rows = np.asarray(inv.embed(np.eye(inv.dim)))  # the library's K, transposed
    assert rows.shape == (inv.dim, 6)
    assert_allclose(rows @ rows.T, np.eye(inv.dim), atol=1e-14)
    assert_allclose(rows.T @ rows, dense.P, atol=1e-13)
    inside = X @ dense.P
    coordinates = np.asarray(inv.coordinates(inside))
    assert coordinates.shape == (3, inv.dim)
    assert_allclose(coordinates, inside @ rows.T, atol=1e-9)


def test_embedding_and_coordinates_are_inverse(inv):
    z = X[..., : inv.dim]
    assert_allclose(inv.coordinates(inv.embed(z)), z, rtol=1e-12, atol=1e-12)
    batch = np.stack([z, 2 * z])
    assert_allclose(inv.coordinates(inv.embed(batch)), batch, rtol=1e-12, atol=1e-12)
    x = inv.project(X)
    assert_allclose(inv.embed(inv.coordinates(x)), x, rtol=1e-12, atol=1e-12)


def test_one_plain_total_is_numpyros_zero_sum():
    inv, zero_sum = cdp.totals([0] * 6), ZeroSumTransform(1)
    assert_allclose(inv.embed(X[..., :5]), zero_sum(jnp.asarray(X[..., :5])), atol=1e-13)
    x = inv.project(X)
    assert_allclose(inv.coordinates(x), zero_sum.inv(x), atol=1e-13)


def test_leverage_and_determined_cells(inv, dense):
    assert_allclose(inv.leverage, 1 - np.diag(dense.P), atol=1e-13)
    assert_array_equal(inv.determined, np.diag(dense.P) < 1e-9)


def test_blocks_by_brute_force(case, inv):
    blocks = inv.blocks
    assert blocks.shape == (6,) and blocks.dtype.kind == "i"
    assert_array_equal(blocks == -1, inv.determined)
    for i in range(6):
        for j in range(6):
            if i != j:
                move = np.eye(6)[i] - np.eye(6)[j]
                assert (blocks[i] == blocks[j] != -1) == np.all(case.A @ move == 0)


def test_a_determined_cell_gets_exactly_no_noise(inv):
    cells = inv.determined
    assert not np.any(np.asarray(inv.project(X))[..., cells])
    assert not np.any(np.asarray(inv.embed(X[..., : inv.dim]))[..., cells])


def test_projected_variance_and_rows(inv, dense):
    want = np.einsum("ij,j,ij->i", dense.P, VARIANCE, dense.P)
    assert_allclose(inv.projected_variance(jnp.asarray(VARIANCE)), want, atol=1e-12)
    batch = jnp.asarray(np.stack([VARIANCE, 2 * VARIANCE]))
    assert_allclose(inv.projected_variance(batch), np.stack([want, 2 * want]), atol=1e-12)
    assert_allclose(inv.projected_variance(jnp.asarray([2.0])), 2 * np.diag(dense.P), atol=1e-12)
    assert_allclose(inv.project_rows(QUERIES).toarray(), QUERIES @ dense.P, atol=1e-12)
