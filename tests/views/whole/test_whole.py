"""Views of whole-number noise against enumeration of every world."""

import functools
import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from numpyro import handlers

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

BASES = {"laplace": cdp.DiscreteLaplace, "normal": cdp.DiscreteNormal}
VIEWS = {"conditioned": cdp.Conditioned, "imaged": cdp.Imaged}
LOC = np.array([3, 0, 12, 7])
GROUPS = [0, 0, 0, None]  # three cells and a free one
SCALES = {"equal": 0.6, "unequal": np.array([0.4, 0.6, 0.7, 0.5])}
REACH = 9  # of every base cell: at scale 0.7, less than 1e-5 of a Laplace lies beyond


@pytest.fixture(params=itertools.product(VIEWS, BASES, SCALES), ids="-".join)
def case(request):
    view, base, scales = request.param
    inv = cdp.totals(GROUPS, missing="free")
    law = VIEWS[view](BASES[base](LOC, SCALES[scales]), inv)
    return law, enumerated(view, base, scales)


@functools.cache
def enumerated(view, base, scales):
    """{noise of the three cells: probability} by listing base worlds, and moving each."""
    k, base = np.arange(-REACH, REACH + 1), BASES[base](0, SCALES[scales])
    p = np.exp(np.asarray(base.expand((4,)).log_prob(k[:, None]), float))[:, :3]
    worlds = np.array(list(itertools.product(range(2 * REACH + 1), repeat=3)))
    chance = p[worlds[:, 0], 0] * p[worlds[:, 1], 1] * p[worlds[:, 2], 2]
    found = {}
    for u, mass in zip((worlds - REACH).tolist(), chance.tolist(), strict=True):
        total = sum(u)
        if view == "conditioned":
            if total == 0:
                found[tuple(u)] = mass
            continue
        step, left = divmod(total, 3)
        sets = list(itertools.combinations(range(3), left))
        for extra in sets:
            x = tuple(v - step - (i in extra) for i, v in enumerate(u))
            found[x] = found.get(x, 0.0) + mass / len(sets)
    whole = sum(found.values())
    return {x: mass / whole for x, mass in found.items()}


def test_probabilities(case, precision):
    law, exact = case
    worlds = [x for x in exact if max(map(abs, x)) <= 4]
    table = LOC + np.array([[*x, 0] for x in worlds])
    free = BASES[law.noise_name.split("-")[1]](0, np.broadcast_to(law.scale, (4,))[3]).log_prob(0)
    found = np.exp(np.asarray(law.log_prob(table), float) - float(free))
    assert_allclose(found, [exact[x] for x in worlds], rtol=2e-4, atol=1e-6)
    assert law.log_prob(table[0] + np.array([1, 0, 0, 0])) == -np.inf
    assert law.log_prob(table[0] + np.array([0.5, -0.5, 0, 0])) == -np.inf
    with jax.enable_x64(True):
        again = jax.jit(law.log_prob)(table.astype(float))
    assert_allclose(again, law.log_prob(table), rtol=1e-4)


def test_it_is_a_law(case):
    """The probabilities of all worlds sum to one, to rounding."""
    law, _ = case
    if np.ndim(law.scale) and len(set(np.asarray(law.scale))) > 1 and law.kind == "imaged":
        pytest.skip("the equal scales say it; unequal ones are compared with enumeration")
    k = np.arange(-25, 26)
    x, y = np.meshgrid(k, k)
    table = LOC + np.stack([x, y, -x - y, 0 * x], -1).reshape(-1, 4)
    with jax.enable_x64(True):
        free = BASES[law.noise_name.split("-")[1]](0, np.broadcast_to(law.scale, (4,))[3])
        total = np.sum(np.exp(law.log_prob(table) - free.log_prob(0)))
    assert_allclose(total, 1, rtol=1e-11)


def test_moments(case):
    law, exact = case
    x, p = np.array(list(exact)), np.array(list(exact.values()))
    errors = law.deviation()
    for found, want in (
        (errors.bias, p @ x),
        (errors.sd**2, p @ x**2),
        (errors.mae, p @ np.abs(x)),
    ):
        assert_allclose(found[:3], want, rtol=1e-3, atol=1e-5)
    assert_allclose(law.variance[:3], p @ x**2, rtol=1e-3)
    base = BASES[law.noise_name.split("-")[1]](0, np.broadcast_to(law.scale, (4,))[3])
    assert_allclose(errors.sd[3] ** 2, base.variance, rtol=1e-5)
    for i in range(3):
        sizes = np.abs(x[:, i])
        inside = [p[sizes <= m].sum() for m in range(6)]
        assert errors.margin(0.90)[i] == np.argmax(np.array(inside) >= 0.90)
    if law.kind == "conditioned":
        free = np.exp(np.asarray(base.log_prob(np.arange(-60, 61)), float))
        shannon = -np.sum(p * np.log(p)) - np.sum(free * np.log(np.maximum(free, 1e-300)))
        assert_allclose(law.entropy(), shannon, rtol=1e-3)


def test_draws(case, key):
    law, exact = case
    draws = np.asarray(law.sample(key, (30_000,)))
    assert np.issubdtype(draws.dtype, np.integer)
    assert_array_equal(draws[:, :3].sum(1), LOC[:3].sum())
    worlds = [x for x, p in exact.items() if 30_000 * p > 8]
    noise = draws - LOC
    seen = [np.sum(np.all(noise[:, :3] == x, axis=1)) for x in worlds]
    want = np.array([30_000 * exact[x] for x in worlds])
    seen, want = np.append(seen, 30_000 - sum(seen)), np.append(want, 30_000 - want.sum())
    assert scipy.stats.chisquare(seen, want * seen.sum() / want.sum()).pvalue > 1e-5
    other = 0.9 * want + 0.1 * want.mean()  # a tenth of the mass spread evenly is seen
    assert scipy.stats.chisquare(seen, other * seen.sum() / other.sum()).pvalue < 1e-5
    assert scipy.stats.ks_2samp(noise[:, 3], np.roll(noise[:, 3], 1)).pvalue == 1


def test_in_a_numpyro_model(key):
    inv = cdp.totals([0, 0, 0, 1, 1])

    def model(q):
        numpyro.sample("y", cdp.Conditioned(cdp.DiscreteLaplace(q, 2.0), inv))

    q = jnp.array([5, 6, 7, 8, 9])
    with handlers.seed(rng_seed=0), handlers.trace() as trace:
        jax.jit(lambda q: model(q))(q)
    drawn = jax.jit(lambda key: cdp.Conditioned(cdp.DiscreteLaplace(q, 2.0), inv).sample(key, (4,)))
    assert_array_equal(drawn(key) @ inv.matrix.toarray().T, np.tile([18, 17], (4, 1)))
    assert trace["y"]["fn"].support.is_discrete
    assert_array_equal(
        drawn(key), cdp.Conditioned(cdp.DiscreteLaplace(q, 2.0), inv).sample(key, (4,))
    )
    batch = cdp.Imaged(cdp.DiscreteNormal(jnp.stack([q, q + 1]), 2.0), inv)
    assert batch.sample(key, (3,)).shape == (3, 2, 5) and batch.log_prob(batch.loc).shape == (2,)
    again = pickle.loads(pickle.dumps(batch))
    assert_array_equal(again.log_prob(batch.loc), batch.log_prob(batch.loc))


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_census_size_totals_hold_with_equality_in_float32(view, key):
    loc = np.array([39_538_223, 29_145_505, 21_538_187, 576_851])
    law = view(cdp.DiscreteLaplace(loc, 300.0), cdp.totals(["US"] * 4))
    draws = np.asarray(law.sample(key, (50,))).astype(np.int64)
    assert_array_equal(draws.sum(1), loc.sum())
    assert np.all(np.isfinite(law.log_prob(law.sample(key, (5,)))))
    assert law.log_prob(jnp.asarray(loc) + jnp.array([1, 0, 0, 0])) == -np.inf


def test_pure_epsilon():
    """e₁ − e₂: Σ|v_i|/λ_i, attained by conditioning; imaged at most min_w Σ|v_i + w|/λ_i."""
    inv, nb = cdp.totals(["a"] * 3), cdp.relocations(cdp.totals(["a"] * 3))
    scale = np.array([1.0, 2.0, 4.0])
    loss = cdp.privacy_loss(cdp.Conditioned(cdp.DiscreteLaplace(np.zeros(3), scale), inv), nb)
    assert loss.pure_epsilon == 1.5 and loss.pure_kind == "exact"
    law = cdp.Conditioned(cdp.DiscreteLaplace(np.zeros(3), scale), inv)
    x = np.array([[-9, 9, 0], [9, -9, 0]])
    assert_allclose(np.abs(law.log_prob(x) - law.log_prob(x - [1, -1, 0])).max(), 1.5, rtol=1e-5)
    loss = cdp.privacy_loss(cdp.Imaged(cdp.DiscreteLaplace(np.zeros(3), scale), inv), nb)
    assert loss.pure_epsilon == 1.25 and loss.pure_kind == "bound"  # at w = −1: 2/2 + 1/4


INV = cdp.totals(["a", "a", "b", "b"])
REFUSED = {
    "counts with decimals": (
        lambda: cdp.Conditioned(cdp.DiscreteLaplace(LOC + 0.5, 1.0), INV),
        ValueError, "`loc` must be whole numbers for discrete noise; 4 of 4 are not",
    ),
    "counts beyond 32 bits": (
        lambda: cdp.Conditioned(cdp.DiscreteLaplace(np.full(4, 3e9), 1.0), INV),
        ValueError, "Enable 64-bit JAX",
    ),
    "weights with decimals": (
        lambda: cdp.Conditioned(cdp.DiscreteLaplace(LOC, 1.0), cdp.totals([0] * 4, [1, 1, 1, 0.5])),
        UnsupportedError, "`invariant` must have whole weights",
    ),
    "imaged weights": (
        lambda: cdp.Imaged(cdp.DiscreteLaplace(LOC, 1.0), cdp.totals([0] * 4, [1, 1, 1, 2])),
        UnsupportedError, "plain totals only",
    ),
    "margins": (
        lambda: cdp.Conditioned(
            cdp.DiscreteLaplace(np.zeros(12), 1.0), cdp.margins((3, 4), [0, 1])
        ).log_prob(np.zeros(12)),
        UnsupportedError, "overlap in 6 free ways .* Use real noise",
    ),
    "a traced scale": (
        lambda: jax.jit(lambda s: cdp.Imaged(cdp.DiscreteLaplace(LOC, s), INV).log_prob(LOC))(1.0),
        UnsupportedError, "`scale` of discrete noise must be a number, not traced",
    ),
    "through jit": (
        lambda: jax.jit(lambda law: law.log_prob(LOC))(
            cdp.Conditioned(cdp.DiscreteLaplace(LOC, 1.0), INV)
        ),
        UnsupportedError, "cannot itself be an argument of jit",
    ),
    "a total": (
        lambda: cdp.Conditioned(cdp.DiscreteLaplace(LOC, 1.0), INV, total=[4.0, 19.0]),
        UnsupportedError, "`total` and `weights` are for real noise",
    ),
    "fractional neighbours": (
        lambda: cdp.privacy_loss(
            cdp.Conditioned(cdp.DiscreteLaplace(LOC, 1.0), INV), cdp.differences([0.5, -0.5, 0, 0])
        ),
        ValueError, "`neighbours` must be whole numbers for discrete noise",
    ),
    "a scale whose masses cannot be listed": (
        lambda: cdp.Conditioned(cdp.DiscreteLaplace(LOC, 1e6), INV),
        UnsupportedError, "`scale` of discrete noise must stay below 10,000",
    ),
    "maximum entropy": (
        lambda: cdp.MaxEntropy(cdp.DiscreteLaplace(LOC, 1.0), INV),
        UnsupportedError, "MaxEntropy of discrete-laplace noise",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_overlapping_totals_of_two_free_ways(key):
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    law = cdp.Conditioned(cdp.DiscreteNormal(np.arange(6), 1.5), inv)
    draws = np.asarray(law.sample(key, (500,)))
    assert_array_equal(draws @ inv.matrix.toarray().T, np.tile([6, 14], (500, 1)))
    assert np.all(np.isfinite(law.log_prob(draws)))
    real = cdp.Conditioned(dist.Normal(np.arange(6.0), 1.5), inv)
    assert_allclose(law.variance, real.variance, rtol=1e-3)  # at scale 1.5 the grid hardly matters
