"""The two supports as NumPyro constraints and bijections."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from numpyro.distributions import biject_to

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

TABLE = np.array([10.0, 20.0, 30.0, 4.0, 5.0, 6.0])
SPACES = {
    "affine": lambda: cdp.AffineSubspace(cdp.totals([0, 0, 0, 1, 1, 1]), np.array([60.0, 15.0])),
    "affine, weighted": lambda: cdp.AffineSubspace(
        cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1.0, -3.0, 0.5, 1.5, 4.0]), origin=TABLE
    ),
    "affine, overlapping": lambda: cdp.AffineSubspace(
        cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]]), np.array([64.0, 45.0])
    ),
    "nonnegative": lambda: cdp.NonnegativeTotals(
        cdp.totals([0, 0, 0, 1, 1, 1]), np.array([60.0, 15.0])
    ),
    "nonnegative, scrambled": lambda: cdp.NonnegativeTotals(
        cdp.totals([0, 1, 0, 2, 0, 1]), np.array([45.0, 26.0, 4.0])
    ),
    "nonnegative, nested": lambda: cdp.NonnegativeTotals(
        cdp.linear([[1] * 6, [1, 1, 1, 0, 0, 0]]), np.array([75.0, 60.0])
    ),
    "nonnegative, near a table": lambda: cdp.NonnegativeTotals(
        cdp.totals(["a", "a", None, "b", "b", "b"], missing="free"),
        np.array([30.0, 15.0]),
        near=TABLE[::-1] + 1,
        spread=np.array([0.5, 3.0, 1.0, 2.0, 4.0, 0.2]),
    ),
    "nonnegative, free": lambda: cdp.NonnegativeTotals(
        cdp.totals(["a", "a", None, "b", "b", "b"], missing="free"), np.array([30.0, 15.0])
    ),
}


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=SPACES.values(), ids=list(SPACES))
def space(request):
    return request.param()


def test_membership(space):
    assert bool(space(TABLE)) and bool(space(TABLE.astype(int)))
    assert not bool(space(TABLE + np.eye(6)[3] * 1e-3))
    rows = np.stack([TABLE, TABLE + np.eye(6)[3], np.full(6, np.nan)])
    assert np.asarray(space(rows)).tolist() == [True, False, False]
    assert jax.jit(lambda s, x: s(x))(space, jnp.asarray(rows)).tolist() == [True, False, False]
    assert (space.event_dim, space.is_discrete) == (1, False)


def test_a_feasible_point(space):
    for shape in ((6,), (2, 3, 6)):
        point = space.feasible_like(jnp.zeros(shape))
        assert point.shape == shape and bool(jnp.all(space(point)))


def test_equality_pytree_and_pickle(space):
    flat, tree = jax.tree.flatten(space)
    again = jax.tree.unflatten(tree, flat)
    assert space.eq(again, static=True) is True and bool(space.eq(again))
    assert space.eq(pickle.loads(pickle.dumps(space)), static=True) is True
    other = cdp.AffineSubspace(cdp.totals([0] * 6), np.array([75.0]))
    assert not space.eq(other, static=True) and not space.eq("no")
    transform = biject_to(space)
    assert transform.eq(biject_to(again), static=True) and not transform.eq(
        biject_to(other), static=True
    )
    assert type(space).__name__ in repr(space)


def test_bijection(space):
    transform, d = biject_to(space), space.invariant.dim
    z = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 6))[..., :d])
    x = transform(z)
    assert (
        transform.forward_shape(z.shape) == x.shape and transform.inverse_shape(x.shape) == z.shape
    )
    assert bool(jnp.all(space(x)))
    assert_allclose(transform.inv(x), z, rtol=1e-10, atol=1e-10)
    assert_allclose(transform(transform.inv(TABLE)), TABLE, rtol=1e-12)
    assert transform.codomain.eq(space, static=True)
    assert transform.domain.event_dim == 1


def test_volume_against_the_jacobian_in_orthonormal_coordinates(space):
    transform, d = biject_to(space), space.invariant.dim
    A = space.invariant.matrix.toarray()
    K = scipy.linalg.null_space(A / np.linalg.norm(A, axis=1, keepdims=True), rcond=1e-12)
    z = jnp.asarray(np.random.default_rng(1).normal(size=(2, 6))[:, :d])
    jacobians = jax.jit(jax.vmap(jax.jacobian(transform)))(z)
    want = [np.linalg.slogdet(K.T @ np.asarray(J))[1] for J in jacobians]
    got = transform.log_abs_det_jacobian(z, transform(z))
    assert got.shape == (2,)
    assert_allclose(got, want, rtol=1e-10, atol=1e-10)


def test_nonnegative_means_no_cell_below_zero():
    space = SPACES["nonnegative"]()
    assert bool(space([0.0, 0, 60, 15, 0, 0])) and not bool(space([-1.0, 1, 60, 15, 0, 0]))


def test_a_cell_alone_with_a_total_of_zero_is_zero_and_the_volume_is_that_of_the_rest():
    inv = cdp.structural_zeros(cdp.totals([0, 0, 0, 1, 1]), [1])
    rest = cdp.NonnegativeTotals(cdp.totals([0, 0, 1, 1]), [6.0, 5.0], near=[1.0, 2, 3, 4])
    space = cdp.NonnegativeTotals(inv, [6.0, 5.0, 0.0], near=[1.0, 9, 2, 3, 4])
    with jax.enable_x64(True):
        whole, part = biject_to(space), biject_to(rest)
        x = np.array([2.0, 0, 4, 3, 2])
        z, w = whole.inv(x), part.inv(np.delete(x, 1))
        np.testing.assert_allclose(whole(z), x, rtol=1e-12)
        assert whole(z)[1] == 0 and bool(space(x)) and z.shape == w.shape
        found = whole.log_abs_det_jacobian(z, x)
        np.testing.assert_allclose(found, part.log_abs_det_jacobian(w, part(w)), rtol=1e-12)
        prior = cdp.Restricted(dist.LogNormal(0.0, 1.0), inv, [6.0, 5.0, 0.0])
        wanted = dist.LogNormal(0.0, 1.0).log_prob(np.delete(x, 1)).sum()
        np.testing.assert_allclose(prior.log_prob(x), wanted, rtol=1e-12)
        slope = jax.grad(prior.log_prob)(jnp.asarray(x))
    assert np.isfinite(slope).all() and slope[1] == 0


def test_coordinates_near_a_table_start_at_it_with_steps_of_the_spread():
    space = cdp.NonnegativeTotals(cdp.totals([0] * 6), [75.0], near=2 * TABLE, spread=0.01)
    transform, z = biject_to(space), jnp.zeros(5)
    assert_allclose(transform(z), TABLE, rtol=1e-12)
    step = transform(z.at[2].set(1.0)) - TABLE
    want = 0.01 * np.asarray(space.invariant.embed(z.at[2].set(1.0)))
    assert_allclose(step, want - TABLE * want.sum() / 75, atol=1e-4)


def test_large_totals_in_float32():
    """Rounding is accepted, one person is not; the default tolerance would let thousands pass."""
    with jax.enable_x64(False):
        people = np.array([3.3e6, 1e6, 2e6], dtype=np.float32)
        space = cdp.AffineSubspace(cdp.totals([0] * 3), origin=people)
        assert bool(space(people)) and not bool(space(people + np.float32([16, 0, 0])))
        assert bool(space(people + np.float32([16, -16, 0])))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda inv: cdp.AffineSubspace(inv, np.ones(2), origin=np.ones(4)),
            ValueError,
            "`total` and `origin` both fix",
        ),
        (
            lambda inv: cdp.AffineSubspace(inv, np.ones(3)),
            ValueError,
            r"`total` must have one number per total, 2.*\(3,\)",
        ),
        (
            lambda inv: cdp.NonnegativeTotals(inv, [1.0, 2.0], near=[1.0, 2.0, 0.0, 1.0]),
            ValueError,
            "`near` must be",
        ),
        (
            lambda inv: cdp.NonnegativeTotals(inv, [1.0, 2.0], spread=[1.0, 2.0]),
            ValueError,
            r"`spread` must have shape \(4,\)",
        ),
        (
            lambda inv: cdp.AffineSubspace(inv, 1.0),
            ValueError,
            r"2 on its last axis; got shape \(\)",
        ),
        (
            lambda inv: cdp.AffineSubspace(inv, origin=np.ones(3)),
            ValueError,
            r"`origin` must have 4 cells.*\(3,\)",
        ),
        (
            lambda inv: cdp.AffineSubspace(inv, np.array([np.inf, 1.0])),
            ValueError,
            "`total` must be finite",
        ),
        (
            lambda inv: cdp.AffineSubspace(cdp.linear([[1, 1], [2, 2]]), np.array([1.0, 3.0])),
            ValueError,
            "`total` contradicts itself: row",
        ),
        (
            lambda inv: cdp.NonnegativeTotals(inv, np.array([0.0, 1.0])),
            ValueError,
            "`total` must leave every group of several cells something",
        ),
        (
            lambda inv: cdp.NonnegativeTotals(cdp.totals([0, 0], [1.0, 2.0]), np.ones(1)),
            UnsupportedError,
            "needs unweighted totals",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(cdp.totals([0, 0, 1, 1]))


def test_consistent_redundant_totals_and_plain_lists():
    inv = cdp.linear([[1, 1, 1], [2, 2, 2], [1, 1, 0]])
    space = cdp.AffineSubspace(inv, [6.0, 12.0, 3.0])
    assert bool(space([1.0, 2.0, 3.0])) and not bool(space([1.0, 2.5, 2.5]))
