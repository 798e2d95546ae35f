"""G(ν), the Gaussian with diagonal precision on the kernel, against dense algebra."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

X = np.random.default_rng(1).normal(size=(3, 6))
NU = np.exp(np.random.default_rng(2).normal(size=(3, 6)))
QUERIES = sp.csr_array(np.array([[1.0, -1, 0, 0, 2, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]))


def check(law, nu, dense, tol=1e-11):
    """Every operation of one unbatched G(ν)."""
    sigma = dense.covariance(nu)
    size = max(1.0, sigma.max())
    inside = X @ dense.P
    assert_allclose(law.logdet, dense.logdet(nu), rtol=tol, atol=tol)
    assert_allclose(
        law.quadratic(inside), np.einsum("ri,i,ri->r", inside, nu, inside), rtol=tol, atol=tol
    )
    root = np.asarray(law.colour(np.eye(6)))  # row i: the draw of the i-th unit vector
    assert_allclose(root.T @ root, sigma, atol=tol * size)
    assert_allclose(law.covariance_product(X), X @ sigma, atol=tol * size)
    assert_allclose(np.broadcast_to(law.variance, (6,)), np.diag(sigma), atol=tol * size)
    queries = QUERIES.toarray()
    variances = law.variance_of(QUERIES)
    assert variances.dtype == np.float64
    assert_allclose(variances, np.diag(queries @ sigma @ queries.T), atol=10 * tol * size)
    differences = sp.csr_array(inside)
    assert_allclose(law.squared_length(differences), law.quadratic(inside), rtol=1e-9, atol=tol)


@pytest.mark.parametrize("nu", [NU[0], np.full(6, 2.5)], ids=["unequal", "equal"])
def test_restricted_to_the_kernel(inv, dense, nu):
    check(inv.restrict(jnp.asarray(nu)), nu, dense)


def test_one_number_for_all_cells(inv, dense):
    law = inv.restrict(2.5)
    check(law, np.full(6, 2.5), dense)
    assert_allclose(np.broadcast_to(np.asarray(law), (6,)), 2.5)


def test_projection_closest_in_the_metric(inv, dense):
    """Π = Σ diag(ν): the oblique projection behind conditioning and weighted imaging."""
    law, variance = inv.restrict(jnp.asarray(NU[0])), NU[1]
    oblique = dense.covariance(NU[0]) * NU[0][None, :]
    want = np.diag(oblique @ np.diag(variance) @ oblique.T)
    assert_allclose(law.projected_variance(jnp.asarray(variance)), want, rtol=1e-11, atol=1e-12)
    assert_allclose(law.project_rows(QUERIES).toarray(), QUERIES @ oblique, atol=1e-11)


def test_a_batch_is_its_rows(inv):
    law = inv.restrict(jnp.asarray(NU))
    for i in range(3):
        one = inv.restrict(jnp.asarray(NU[i]))
        assert_allclose(law.logdet[i], one.logdet, rtol=1e-12)
        assert_allclose(law.colour(X)[i], one.colour(X[i]), atol=1e-12)
        assert_allclose(law.variance[i], one.variance, atol=1e-12)
        assert_allclose(law.covariance_product(X)[i], one.covariance_product(X[i]), atol=1e-12)
        assert_allclose(law.quadratic(X)[i], one.quadratic(X[i]), rtol=1e-12)
        assert_allclose(
            law.projected_variance(jnp.asarray(NU))[i],
            one.projected_variance(jnp.asarray(NU[i])),
            atol=1e-12,
        )


@pytest.mark.parametrize("decades", [3, 6])
def test_draws_keep_totals_at_any_scale(inv, decades):
    """Scales over 6 and 12 decades in one group: A X = 0 up to rounding of its yardstick."""
    nu = 10.0 ** (decades * np.array([2.0, 0.0, -2.0, 1.0, -1.0, 0.0]))
    draw = np.asarray(inv.restrict(jnp.asarray(nu)).colour(X))
    slack = np.abs(inv.evaluate(draw))
    assert np.all(slack <= 1e-12 * np.asarray(inv.yardstick(draw)))


def test_shortcuts_on_the_invariant(inv):
    law = inv.restrict(jnp.asarray(NU[0]))
    for nu in (law, jnp.asarray(NU[0])):
        assert_allclose(inv.logdet(nu), law.logdet)
        assert_allclose(inv.colour(X, nu), law.colour(X))
        assert_allclose(inv.variance(nu), law.variance)


def test_equalize_gives_every_cell_its_variance(balanced, dense_of):
    inv, dense, sigma = balanced.build(), dense_of(balanced.A), np.array(balanced.balanced)
    law = inv.equalize(jnp.asarray(sigma**2))
    free = ~inv.determined
    assert_allclose(np.asarray(law.variance)[free], sigma[free] ** 2, rtol=1e-12)
    assert not np.any(np.asarray(law.variance)[~free])
    nu = np.broadcast_to(np.asarray(law.nu), (6,))
    # Stationary and convex: a G(ν) with these variances *is* the law of largest entropy.
    check(law, nu, dense, tol=1e-9)
    assert_allclose(np.diag(dense.covariance(nu))[free], sigma[free] ** 2, rtol=1e-8)
    assert np.sum((nu * sigma**2)[free]) == pytest.approx(inv.dim, rel=1e-9)  # Σνσ² = d


def test_equal_scales_of_constant_leverage(cases, dense_of):
    """R = (n/d) P where the leverage is constant: margins of a table, a plain total."""
    for name in (
        "margins of a table",
        "one plain total",
        "equal groups",
        "equal weights up to sign",
    ):
        case, dense = cases[name], dense_of(cases[name].A)
        law = case.build().equalize(4.0)
        root = np.asarray(law.colour(np.eye(6)))
        assert_allclose(root.T @ root, 4.0 * 6 / dense.dim * dense.P, atol=1e-12)
        assert_allclose(np.broadcast_to(law.variance, (6,)), 4.0, rtol=1e-13)
