"""Totals beside overlapping totals, told apart: every operation against dense algebra."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import cdp_views as cdp
from cdp_views._checks import InfeasibleError
from cdp_views.invariants import Totals
from cdp_views.invariants.blocks import Blocks
from cdp_views.invariants.orthonormal import Orthonormal

# two overlapping totals on cells 0 2 4 6 8, a weighted total on 1 3 5 (given twice), a cell alone,
# and a free cell
A = np.zeros((5, 9))
A[0, [0, 2, 4]] = 1
A[1, [1, 3, 5]] = [2.0, -1, 1.5]
A[2, [4, 6, 8]] = [1, 1, 2]
A[3] = -3 * A[1]
A[4, 7] = 5
A = np.hstack([A, np.zeros((5, 1))])
SIGMA = np.array([1.0, 1.0, 1.2, 2.0, 1.5, 1.0, 1.3, 4.0, 0.5, 7.0])
X = np.random.default_rng(5).normal(size=(3, 10))
NU = np.exp(np.random.default_rng(6).normal(size=(3, 10)))
QUERIES = sp.csr_array(np.random.default_rng(8).integers(-1, 3, (4, 10)).astype(float))


@pytest.fixture(scope="module")
def inv():
    return cdp.linear(A)


@pytest.fixture(scope="module")
def dense(dense_of):
    return dense_of(A)


def test_parts_are_found(inv):
    assert isinstance(inv.geometry, Blocks)
    assert [type(part) for part in inv.geometry.parts] == [Totals, Orthonormal]
    assert [c.tolist() for c in inv.geometry.cells] == [[1, 3, 5, 7, 9], [0, 2, 4, 6, 8]]
    assert (inv.n, inv.rank, inv.dim) == (10, 4, 6)
    assert_array_equal(inv.matrix.toarray(), A)
    assert_array_equal(inv.determined, np.arange(10) == 7)
    assert_array_equal(inv.blocks == -1, np.arange(10) == 7)


def test_geometry(inv, dense):
    assert_allclose(inv.project(X), X @ dense.P, atol=1e-13)
    assert_allclose(inv.evaluate(X), X @ A.T, atol=1e-13)
    assert_allclose(inv.lift(X @ A.T), X - X @ dense.P, atol=1e-12)
    K = np.asarray(inv.embed(np.eye(6)))
    assert_allclose(K @ K.T, np.eye(6), atol=1e-14)
    assert_allclose(K.T @ K, dense.P, atol=1e-14)
    assert_allclose(inv.coordinates(X @ dense.P), X @ dense.P @ K.T, atol=1e-13)
    assert_allclose(inv.leverage, 1 - np.diag(dense.P), atol=1e-14)
    want = np.einsum("ij,j,ij->i", dense.P, NU[0], dense.P)
    assert_allclose(inv.projected_variance(jnp.asarray(NU[0])), want, atol=1e-12)
    assert_allclose(inv.projected_variance(jnp.asarray([2.0])), 2 * np.diag(dense.P), atol=1e-12)
    assert_allclose(inv.project_rows(QUERIES).toarray(), QUERIES @ dense.P, atol=1e-12)
    geometry = inv.geometry
    assert_allclose(geometry.matrix @ geometry.matrix.T @ np.ones(4) > 0, True)
    assert_allclose(geometry.evaluate(X), X @ geometry.matrix.toarray().T, atol=1e-13)
    assert_allclose(geometry.gross(X**2), X**2 @ abs(geometry.matrix.toarray()).T, atol=1e-12)
    again = pickle.loads(pickle.dumps(inv))
    assert bool(inv.equals(again))


def check(law, nu, dense):
    sigma, inside = dense.covariance(nu), X @ dense.P
    assert_allclose(law.logdet, dense.logdet(nu), rtol=1e-11)
    assert_allclose(law.quadratic(jnp.asarray(inside)), np.einsum("ri,i,ri->r", inside, nu, inside))
    root = np.asarray(law.colour(np.eye(10)))
    assert_allclose(root.T @ root, sigma, atol=1e-12)
    assert_allclose(law.covariance_product(X), X @ sigma, atol=1e-12)
    assert_allclose(np.broadcast_to(law.variance, (10,)), np.diag(sigma), atol=1e-12)
    queries = QUERIES.toarray()
    assert_allclose(law.variance_of(QUERIES), np.diag(queries @ sigma @ queries.T), atol=1e-11)
    assert_allclose(law.squared_length(sp.csr_array(inside)), law.quadratic(jnp.asarray(inside)))


def test_laws_side_by_side(inv, dense):
    law, oblique = inv.restrict(jnp.asarray(NU[0])), dense.covariance(NU[0]) * NU[0][None, :]
    check(law, NU[0], dense)
    want = np.diag(oblique @ np.diag(NU[1]) @ oblique.T)
    assert_allclose(law.projected_variance(jnp.asarray(NU[1])), want, atol=1e-11)
    assert_allclose(law.project_rows(QUERIES).toarray(), QUERIES @ oblique, atol=1e-11)
    check(inv.restrict(2.5), np.full(10, 2.5), dense)
    batch = inv.restrict(jnp.asarray(NU))
    assert_allclose(batch.logdet[1], dense.logdet(NU[1]))


def test_maximum_entropy_of_all_parts(inv, dense):
    law = inv.equalize(SIGMA**2)
    free = ~inv.determined
    assert_allclose(np.asarray(law.variance)[free], SIGMA[free] ** 2, rtol=1e-13)
    nu = np.array(law)
    check(law, np.where(free, nu, 1.0), dense)
    traced = jax.jit(lambda s: inv.equalize(s**2).logdet)
    assert_allclose(traced(SIGMA), law.logdet, rtol=1e-12)
    assert np.isneginf(traced(np.where(np.arange(10) == 4, 10.0, SIGMA)))
    with pytest.raises(InfeasibleError, match=r"Lower the scale of cell 4"):
        inv.equalize(np.where(np.arange(10) == 4, 10.0, SIGMA) ** 2)


def test_many_parts_at_once():
    """A hundred pairs of overlapping totals and as many plain ones: two parts."""
    one = sp.csr_array([[1.0, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]])
    inv = cdp.linear(sp.block_diag([one] * 100))
    assert (inv.n, inv.rank) == (700, 300)
    assert_allclose(inv.evaluate(inv.project(np.ones(700))), 0, atol=1e-12)
    assert [part.n for part in inv.geometry.parts] == [300, 400]
