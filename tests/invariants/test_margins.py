"""Margins of tables by Kronecker algebra, against dense algebra on a table of three axes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.invariants import Margins, Totals
from cdp_views.invariants import margins as build
from cdp_views.invariants._crossed import Crossed, independent_rows, log_det_of_rows

SHAPE = (3, 2, 4)
KEEPS = {
    "one-way": [(0,), (1,), (2,)],
    "two-way": [(0, 1), (1, 2), (0, 2)],
    "a two-way and a one-way": [(0, 2), (1,)],
    "two two-ways, grand total": [(2, 0), (), (1, 2)],
}
RNG = np.random.default_rng(11)
X, NU = RNG.normal(size=(2, 24)), np.exp(RNG.normal(size=(2, 24)))


def rows_of(shape, keep):
    """Indicators written out from the index of every cell."""
    index = np.array(list(itertools.product(*(range(m) for m in shape))))
    rows = [
        np.all(index[:, sorted(axes)] == np.array(want), axis=1)
        for axes in keep
        for want in itertools.product(*(range(shape[a]) for a in sorted(axes)))
    ]
    return np.array(rows, dtype=float)


@pytest.fixture(params=KEEPS, ids=str)
def keep(request):
    return KEEPS[request.param]


@pytest.fixture
def table(keep, dense_of):
    A = rows_of(SHAPE, keep)
    return cdp.margins(SHAPE, keep), A, dense_of(A)


def test_geometry(table):
    inv, A, dense = table
    assert type(inv) is Margins
    assert (inv.n, inv.rank, inv.dim) == (24, 24 - dense.dim, dense.dim)
    assert_array_equal(inv.matrix.toarray(), A)
    assert_allclose(inv.evaluate(X), X @ A.T, atol=1e-12)
    assert_allclose(inv.project(X), X @ dense.P, atol=1e-13)
    assert_allclose(inv.leverage, 1 - np.diag(dense.P), atol=1e-14)
    z = RNG.normal(size=(2, dense.dim))
    x = np.asarray(inv.embed(z))
    assert_allclose(x @ dense.P, x, atol=1e-13)
    assert_allclose(inv.coordinates(x), z, atol=1e-13)
    assert_allclose(np.sum(x * x, -1), np.sum(z * z, -1), rtol=1e-13)
    total = X @ A.T
    assert_allclose(inv.lift(total), X - X @ dense.P, atol=1e-13)
    assert_allclose(inv.projected_variance(NU), np.einsum("ij,rj->ri", dense.P**2, NU), rtol=1e-12)
    queries = sp.csr_array(RNG.normal(size=(3, 24)))
    assert_allclose(inv.project_rows(queries).toarray(), queries @ dense.P, atol=1e-13)


def test_unequal_precisions_without_a_dense_factor(table):
    """`Crossed`, which large tables get, against dense algebra; batches too."""
    inv, _, dense = table
    law = Crossed.of(inv, jnp.asarray(NU))
    eye, queries = np.eye(24)[:, None, :], sp.csr_array(RNG.normal(size=(3, 24)))
    root, product = np.asarray(law.colour(eye)), np.asarray(law.covariance_product(eye))
    changed = np.asarray(law.projected_variance(jnp.asarray(NU[::-1])))
    for r in range(2):
        sigma = dense.covariance(NU[r])
        assert_allclose(law.logdet[r], dense.logdet(NU[r]), rtol=1e-12)
        assert_allclose(root[:, r].T @ root[:, r], sigma, atol=1e-12)
        assert_allclose(product[:, r], sigma, atol=1e-12)
        assert_allclose(law.variance[r], np.diag(sigma), rtol=1e-10)
        oblique = sigma * NU[r]
        want = np.diag(oblique @ np.diag(NU[1 - r]) @ oblique.T)
        assert_allclose(changed[r], want, rtol=1e-10, atol=1e-12)
    one = Crossed.of(inv, jnp.asarray(NU[0]))
    assert_allclose(
        one.variance_of(queries),
        np.diag(queries @ (queries @ dense.covariance(NU[0])).T),
        rtol=1e-10,
    )
    assert_allclose(
        one.project_rows(queries).toarray(), queries @ (dense.covariance(NU[0]) * NU[0]), atol=1e-12
    )


def test_gradient_of_the_log_determinant(table):
    inv, _, dense = table
    found = jax.grad(lambda nu: Crossed.of(inv, nu).logdet)(jnp.asarray(NU[0]))
    assert_allclose(found, np.diag(dense.covariance(NU[0])), rtol=1e-9)


def test_independent_rows_span_the_margins(keep):
    rows, rank = independent_rows(SHAPE, keep), cdp.margins(SHAPE, keep).rank
    B = np.array([(rows == j).any(0) for j in range(rank)], dtype=float)
    A = rows_of(SHAPE, keep)
    assert np.linalg.matrix_rank(B) == rank == np.linalg.matrix_rank(np.vstack([A, B]))
    assert_allclose(log_det_of_rows(SHAPE, keep), np.linalg.slogdet(B @ B.T)[1], rtol=1e-12)


@pytest.mark.parametrize("view", [cdp.MaxEntropy, cdp.Conditioned, cdp.Imaged])
def test_views_of_one_scale_are_one_mechanism(view, table, key):
    """Constant leverage: Σ ∝ P, with n/d more under maximum entropy (mathematics.md, §2)."""
    inv, A, dense = table
    law = view(dist.Normal(100.0, 3.0), inv)
    factor = 9.0 * (24 / dense.dim if view is cdp.MaxEntropy else 1)
    assert_allclose(law.covariance_matrix, factor * dense.P, atol=1e-12)
    draw = law.sample(key, (5,))
    assert_allclose(draw @ A.T, np.full((5, 24), 100.0) @ A.T, rtol=1e-13)
    assert np.all(np.isfinite(law.log_prob(draw)))
    assert np.all(law.log_prob(draw + np.eye(24)[0]) == -np.inf)


@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.Imaged])
def test_views_of_unequal_scales(view, table, key):
    inv, _, dense = table
    scale = np.sqrt(NU[0])
    law = view(dist.Normal(0.0, scale), inv)
    want = dense.covariance(1 / NU[0]) if view is cdp.Conditioned else dense.P * NU[0] @ dense.P
    assert_allclose(law.covariance_matrix, want, atol=1e-11)


def test_the_largest_entropy_of_a_three_by_four_table():
    """log det R = 4.158883 (oracles.md): R = (n/d) P, so d log(n/d) with n = 12, d = 6."""
    law = cdp.margins((3, 4), [0, 1]).equalize(1.0)
    assert_allclose(-law.logdet, 6 * np.log(2), rtol=1e-14)


def test_one_margin_is_a_set_of_totals():
    inv = cdp.margins((3, 2), [(1,)])
    assert type(inv) is Totals and list(inv.names) == ["[:, 0]", "[:, 1]"]
    assert cdp.margins((3, 2), [(0, 1)]).dim == 0
    assert cdp.margins((3, 2), []).rank == 0
    assert cdp.margins((3,), [()]).rank == 1


def test_names_say_which_margin(table):
    inv, A, _ = table
    assert len(inv.names) == len(A) == len(set(inv.names))
    assert "[0, :, 3]" in cdp.margins(SHAPE, [(0, 2), (1,)]).names


def test_a_table_that_no_dense_matrix_could_hold(key):
    """50 × 50 × 20 with all two-way margins: rank 4,381 of 50,000 cells."""
    inv = cdp.margins((50, 50, 20), [(0, 1), (1, 2), (0, 2)])
    assert inv.rank == 49 * 49 + 2 * 49 * 19 + 49 + 49 + 19 + 1
    draw = cdp.Imaged(dist.Laplace(0.0, 2.0), inv).sample(key)
    assert float(np.abs(inv.evaluate(draw)).max()) < 1e-10
    z = jax.random.normal(key, (inv.dim,))
    assert_allclose(inv.coordinates(inv.embed(z)), z, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build((3, 0), [(0,)]), r"`shape` must be the lengths .* got \(3, 0\)"),
        (lambda: build((3, 2.5), [(0,)]), "`shape` must be the lengths"),
        (lambda: build("no", [(0,)]), "`shape` must be the lengths"),
        (lambda: build((3, 2), [(2,)]), r"`keep` must name axes from 0 to 1; got \(2,\)"),
        (lambda: build((3, 2), ["race"]), "`keep` must name axes from 0 to 1; got 'race'"),
        (lambda: build((3, 2), [(0, -2)]), r"`keep` names an axis twice in \(0, -2\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_unequal_maximum_entropy_beyond_the_dense_factor_is_refused():
    inv = cdp.margins((50, 50, 20), [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(UnsupportedError, match="margins of rank 4381 over 50000 cells"):
        inv.equalize(np.linspace(1, 2, inv.n))
