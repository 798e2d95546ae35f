"""G(ν) with negative precisions on overlapping totals, against dense algebra."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import cdp_views as cdp
from cdp_views.invariants._reduced import Reduced

OVERLAP = np.array([[1.0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
SMALL = np.array([1, 2, 1.5, 0.7, 1.2, 1.1])
RANDOM = np.random.default_rng(4)
# six cells take U = I; eighty take U from a QR factor. A dominant cell has a negative precision.
CASES = {
    "U is the identity": (OVERLAP, SMALL),
    "U from QR": (
        (RANDOM.random((2, 80)) < 0.5).astype(float),
        np.r_[9.0, np.exp(0.3 * RANDOM.normal(size=79))],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("A", "sigma"), CASES.values(), ids=CASES)
def test_every_operation(A, sigma, dense_of):
    inv, dense, n = cdp.linear(A), dense_of(A), A.shape[1]
    law = inv.equalize(sigma**2)
    assert isinstance(law, Reduced) and (law.form.u is None) == (n == 6)
    nu, random = np.asarray(law.nu), np.random.default_rng(1)
    X, variance = random.normal(size=(3, n)), random.random(n)
    W = sp.csr_array(random.integers(-1, 2, (3, n)).astype(float))
    S, inside = dense.covariance(nu), X @ dense.P
    assert nu.min() < 0
    assert_allclose(law.logdet, dense.logdet(nu), rtol=1e-12)
    assert_allclose(np.diag(S), sigma**2, rtol=1e-11)
    assert_allclose(law.variance, sigma**2, rtol=1e-12)
    assert_allclose(law.quadratic(inside), np.einsum("ri,i,ri->r", inside, nu, inside), rtol=1e-10)
    root = np.asarray(law.colour(np.eye(n)))
    assert_allclose(root.T @ root, S, atol=1e-11)
    assert_allclose(law.covariance_product(X), X @ S, atol=1e-11)
    queries, oblique = W.toarray(), S * nu[None, :]
    assert_allclose(law.variance_of(W), np.diag(queries @ S @ queries.T), rtol=1e-10)
    # privacy numbers are rounded up, by little
    length = law.squared_length(sp.csr_array(inside))
    assert np.all(length >= law.quadratic(inside))
    assert_allclose(length, law.quadratic(inside), rtol=1e-12)
    want = np.diag(oblique @ np.diag(variance) @ oblique.T)
    assert_allclose(law.projected_variance(jnp.asarray(variance)), want, atol=1e-10)
    assert_allclose(law.project_rows(W).toarray(), queries @ oblique, atol=1e-10)
    batch = inv.equalize(np.stack([sigma, 1.01 * sigma, sigma]) ** 2)
    assert_allclose(batch.logdet[0], law.logdet, rtol=1e-12)
    assert_allclose(batch.colour(X)[0], law.colour(X[0]), atol=1e-12)
    assert_allclose(batch.quadratic(inside)[0], law.quadratic(inside[0]), rtol=1e-12)
    assert_allclose(batch.variance[2], sigma**2, rtol=1e-12)
    got = batch.projected_variance(jnp.asarray(variance))[0]
    assert_allclose(got, law.projected_variance(jnp.asarray(variance)), rtol=1e-12)
    assert batch.covariance_product(np.ones((4, 3, n))).shape == (4, 3, n)


def test_totals_are_exact_over_twelve_decades():
    law = cdp.linear(OVERLAP).equalize(np.array([1e-6, 1e-6, 1e6, 1e6, 1, 1]) ** 2)
    draw = np.asarray(law.colour(np.random.default_rng(1).normal(size=(3, 6))))
    assert np.all(np.abs(draw @ OVERLAP.T) <= 2e-15 * np.abs(draw) @ OVERLAP.T)
    assert np.abs(draw[:, 0]).max() < 1e-5 < 1e4 < np.abs(draw[:, 2]).max()
