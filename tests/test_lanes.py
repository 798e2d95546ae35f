"""Cells in rows of lanes: sums and largest against plain groups, draws against the plain map."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views._lanes import Lanes
from cdp_views.precision.balanced_noise import balanced_noise

RNG = np.random.default_rng(0)
SIZES = np.append([1, 1, 2, 2, 3, 3, 4, 5], RNG.integers(10, 300, 42))
LABELS = RNG.permutation(np.append(np.repeat(np.arange(50), SIZES), np.full(7, -1)))
INV = cdp.totals([None if k < 0 else int(k) for k in LABELS], missing="free")
OF = np.asarray(INV.segments.labels)
SIZES_OF = np.asarray(INV.segments.sizes)
PAIRS = np.append(SIZES_OF == 2, False)[OF]


@pytest.fixture
def lanes(precision):
    wide = Lanes.of(INV.segments)
    assert wide.width > 1 and wide.rows.n * wide.width <= 1.08 * INV.n
    return wide


def test_there_and_back(lanes):
    x = jnp.asarray(np.random.default_rng(1).normal(size=INV.n))
    assert_allclose(lanes.given(lanes.taken(x)), x)
    assert float(jnp.sum(lanes.kept(jnp.ones(lanes.shape(()))))) == INV.n


def test_sums_and_largest(lanes):
    x = jnp.asarray(np.random.default_rng(1).random((2, INV.n)))
    at = lanes.kept(lanes.taken(x))
    t = jnp.asarray(np.random.default_rng(1).random((2, INV.rank)))
    eps = float(jnp.finfo(at.dtype).eps)
    want = INV.segments.sum(x * INV.segments.spread(t))
    assert_allclose(lanes.sum(jnp.multiply, (at,), (t,)), want, rtol=64 * eps)
    top, row, lane = lanes.max(at)
    assert_allclose(top, INV.segments.max(x))
    assert_allclose(lanes.at(at, row, lane), top)
    below = np.where(np.asarray(x == INV.segments.spread(top)), 0, np.asarray(x))
    assert_allclose(lanes.max(at, lanes.marked(row, lane))[0], INV.segments.max(below))
    few = jnp.arange(INV.rank) % 9 == 4
    some = lanes.sums_of_some((jnp.multiply,), at[0], t[0], few)[0]
    assert_allclose(some[few], want[0, few], rtol=64 * eps)


def test_noise_of_given_scales_is_that_of_the_plain_map(lanes):
    """`Pivoted.colour` of the same normals, which dense algebra checks elsewhere."""
    rng = np.random.default_rng(1)
    c, z = np.sqrt(2 * rng.exponential(size=INV.n)), jnp.asarray(rng.normal(size=INV.n))
    for group in range(INV.rank):  # in balance, without ties: then both have one pivot
        cells = group == OF
        if cells.sum() > 1 and c[cells].sum() < 2.1 * c[cells].max():
            c[cells] = 1 + 0.01 * rng.random(cells.sum()) * (cells.sum() > 2)
    c = jnp.asarray(c)
    noise = jax.jit(lambda lanes, c, z: balanced_noise(lanes, lanes.kept(c), z))
    x = lanes.given(noise(lanes, lanes.taken(c), lanes.taken(z)))
    eps = float(jnp.finfo(x.dtype).eps)
    want = INV.equalize_traced(c**2).colour(z)
    assert_allclose(x[~PAIRS], want[~PAIRS], atol=5_000 * eps)  # either cell pivots a pair
    total, gross = INV.residual(x, jnp.zeros_like(x))
    assert np.all(np.asarray(total) <= 8 * eps * np.asarray(gross))


@pytest.mark.parametrize("unequal", [False, True])
def test_draws_are_laplace_and_keep_their_totals(lanes, unequal, key):
    scale = (
        np.where(PAIRS, 1.1, np.random.default_rng(1).uniform(1, 1.2, INV.n)) if unequal else 1.5
    )
    view = cdp.MaxEntropy(dist.Laplace(jnp.zeros(INV.n), scale), INV)
    assert view.lanes.width == lanes.width
    x = np.asarray(jax.jit(lambda view, key: view.sample_noise(key, (4,)))(view, key))
    total, gross = INV.residual(jnp.asarray(x), jnp.zeros_like(x))
    assert np.all(np.asarray(total) <= 8 * np.finfo(x.dtype).eps * np.asarray(gross))
    kinds = {"many": np.append(SIZES_OF > 9, False), "free": np.append(SIZES_OF < 0, True)}
    for kind, groups in kinds.items():
        cells = (x / scale)[:, groups[OF]].ravel()
        assert stats.kstest(cells, "laplace").pvalue > 1e-5
        if kind == "many":
            assert stats.kstest(1.15 * cells, "laplace").pvalue < 1e-5
