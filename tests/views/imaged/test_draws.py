"""Draws, moments, totals from outside, and what NumPyro asks, for imaged noise of any base."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import cdp_views as cdp

DRAWS = 20_000


@pytest.mark.parametrize(
    ("base", "metric"),
    [
        ("normal", "l2"),
        ("normal", "l1"),
        ("laplace", "l1"),
        ("student-t", "l2"),
        ("student-t", "l1"),
        ("logistic", "l2"),
        pytest.param("scale mixture", "l2", marks=pytest.mark.slow),
    ],
    indirect=["base"],
)
def test_draws_are_moved_base_draws(base, inv, scale, costs, dense, metric, key):
    make, law = base
    directions, move, _ = dense
    view = cdp.Imaged(make(np.zeros(6), scale), inv, metric=metric, weights=costs)
    A = inv.matrix.toarray()
    x = np.asarray(view.sample_noise(key, (DRAWS,)))
    assert bool(jnp.all(view.support(view.sample(key, (100,)))))
    raw = law.rvs(size=(DRAWS, 6), random_state=1) * scale
    moved = move(A, raw, directions(A, costs, metric))
    for w in np.random.default_rng(1).normal(size=(3, 6)):
        assert stats.ks_2samp(x @ w, moved @ w).pvalue > 1e-6
    assert stats.ks_2samp(x @ (A[0] + w), raw @ (A[0] + w)).pvalue < 1e-6  # not moved
    map_ = move(A, np.eye(6), directions(A, costs, metric)).T
    want = map_ @ np.diag(law.var() * scale**2) @ map_.T
    assert_allclose(view.covariance_matrix, want, atol=1e-6)
    assert_allclose(view.variance, np.diag(want), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("base", "metric"),
    [("laplace", "l2"), ("student-t", "l1"), ("logistic", "l2")],
    indirect=["base"],
)
def test_total_moves_the_centre(base, inv, scale, costs, dense, metric):
    """loc goes to its closest point of {A y = total}, and pulls on the density from there."""
    make, _ = base
    directions, _, _ = dense
    loc, total = np.arange(6.0), np.array([3.0, -1.0])
    view = cdp.Imaged(make(loc, scale), inv, metric=metric, weights=costs, total=total)
    A = inv.matrix.toarray()
    u = directions(A, costs, metric)
    want = loc + u @ np.linalg.solve(A @ u, total - A @ loc)
    assert_allclose(view.mean, want, atol=1e-12)
    assert_array_equal(view.loc, loc)
    y = want + np.asarray(inv.project(np.ones(6)))
    same = cdp.Imaged(make(want, scale), inv, metric=metric, weights=costs)
    assert_allclose(view.log_prob(y), same.log_prob(y), atol=1e-10)


def test_infinite_variance(inv, scale):
    """A Student-t of 2 degrees of freedom reaches its own group only."""
    df = np.array([2.0, 5.0, 5.0, 5.0, 5.0, 5.0])
    view = cdp.Imaged(dist.StudentT(df, np.zeros(6), scale), inv)
    assert_array_equal(np.isinf(view.variance), np.arange(6) % 2 == 0)
    assert np.all(np.isnan(view.covariance_product(np.eye(6)[0])))


def test_l1_of_a_plain_total_is_l2(base, scale):
    make, _ = base
    inv = cdp.totals([0, 1, 0, 1, 0, 1])
    one, two = (cdp.Imaged(make(np.zeros(6), scale), inv, metric=m) for m in ("l1", "l2"))
    assert_allclose(one.variance, two.variance, rtol=1e-12)
    y = np.asarray(inv.project(np.linspace(-2, 3, 6)))
    assert_allclose(one.log_prob(y), two.log_prob(y), atol=1e-9)


@pytest.mark.parametrize("metric", ["l2", "l1"])
def test_what_numpyro_asks(inv, scale, metric, key):
    loc = np.arange(6.0)

    def make(s):
        return cdp.Imaged(dist.StudentT(3.0, loc, s), inv, metric=metric)

    view = make(scale)
    y = view.sample(key, (3,))
    want = jax.jit(lambda v, y: v.log_prob(y))(view, y)
    again = jax.jit(make)(jnp.asarray(scale))
    assert (again.kind, again.noise_name, again.metric) == ("imaged", "student-t", metric)
    assert_allclose(jax.jit(lambda v, y: v.log_prob(y))(again, y), want, atol=1e-10)
    assert_array_equal(pickle.loads(pickle.dumps(view)).sample(key), view.sample(key))
    many = jax.vmap(lambda s: make(s).sample(key))(jnp.stack([scale, 2 * scale]))
    assert_allclose(many[0], view.sample(key), atol=1e-12)
    wide = view.expand((2,)).sample(key)
    assert wide.shape == (2, 6) and np.all(np.asarray(wide[0] != wide[1]))
