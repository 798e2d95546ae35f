"""Draws: moments, the whole law with a negative control, exact totals at every size."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.sparse import csr_array

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

DRAWS = 20_000


def test_moments_and_projections(typical, scale, loc, key, float64):
    view = typical.view(loc, scale)
    noise = np.asarray(view.sample(key, (DRAWS,))) - loc
    want = typical.covariance(scale)
    sd = np.sqrt(np.diag(want))
    assert np.all(np.abs(noise.mean(0)) <= 5 * sd / np.sqrt(DRAWS))
    # Var of a product of two normals: C_ii C_jj + C_ij²
    error = np.sqrt((np.outer(sd**2, sd**2) + want**2) / DRAWS)
    assert np.all(np.abs(noise.T @ noise / DRAWS - want) <= 5 * error + 1e-9)
    directions = np.random.default_rng(0).normal(size=(4, 6))
    for w in directions:
        w_sd = np.sqrt(w @ want @ w)
        assert stats.kstest(noise @ w / w_sd, "norm").pvalue > 1e-6
        wrong = np.sqrt(w @ (np.diag(scale**2)) @ w)  # the base's law, totals forgotten
        if abs(wrong / w_sd - 1) > 0.1:
            assert stats.kstest(noise @ w / wrong, "norm").pvalue < 1e-6
    # negative control that always bites: 10 % too wide
    assert stats.kstest(noise @ w / (1.1 * w_sd), "norm").pvalue < 1e-6


@pytest.mark.filterwarnings("ignore:`loc` is so large")
@pytest.mark.parametrize("people", [0.0, 3.3e8])
def test_every_draw_is_on_the_support(make, precision, people, key, scales, loc):
    """Also pure noise (no people), whose small draws have nothing large to hide a rounding in."""
    if not make.takes(scales["cells"]):
        return
    for size in (1e-6, 1.0, 1e6):
        view = make.view(loc * people / loc.sum(), size * scales["cells"])
        draws = view.sample(key, (2000,))
        assert draws.dtype == precision
        assert bool(jnp.all(view.support(draws)))
        assert bool(jnp.all(jnp.isfinite(view.log_prob(draws))))


@pytest.mark.parametrize("decades", [2, 4, 6])
@pytest.mark.parametrize("inv", ["groups", "weighted", "overlapping", "margins"])
def test_pure_noise_of_very_unequal_scales_is_on_the_support(inv, decades, key, make_of, float64):
    scale = 10.0 ** (decades * np.array([-1.0, 0.0, 1.0, 0.5, -0.5, 0.0]))
    for kind in ("conditioned", "imaged"):
        view = make_of(kind, inv).view(0.0, scale)
        assert bool(jnp.all(view.support(view.sample(key, (200,)))))


def test_a_country_keeps_its_total_and_its_noise(key, float64):
    """3.3e8 people in 1,000 areas with noise of sd 1."""
    people = np.random.default_rng(0).dirichlet(np.ones(1000)) * 3.3e8
    inv = cdp.totals([0] * 1000)
    view = cdp.MaxEntropy(dist.Normal(people, 1.0), inv)
    draws = np.asarray(view.sample(key, (100,)))
    assert np.all(np.abs(draws.sum(-1) - people.sum()) <= 1e-15 * 1000 * 3.3e8)
    assert_allclose((draws - people).std(), 1.0, rtol=0.02)


def test_noise_alone_is_kept_in_float32(key):
    people = np.random.default_rng(0).dirichlet(np.ones(1000)) * 3.3e8
    with jax.enable_x64(False):
        with pytest.warns(
            UserWarning, match="`loc` is so large that float32 rounds it in steps coarse"
        ):
            view = cdp.MaxEntropy(dist.Normal(people, 1.0), cdp.totals([0] * 1000))
        noise = np.asarray(view.sample_noise(key, (100,)))
    assert noise.dtype == np.float32
    assert_allclose(noise.std(), 1.0, rtol=0.02)
    assert np.all(np.abs(noise.sum(-1, dtype=np.float64)) < 1e-6 * np.abs(noise).sum(-1))
    released = people + noise.astype(np.float64)
    assert np.all(np.abs(released.sum(-1) - people.sum()) < 1e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda inv: cdp.Imaged(dist.Normal(0.0, 1.0), inv, metric="l3"),
            ValueError,
            '`metric` must be one of "l2", "l1"; got \'l3\'',
        ),
        (
            lambda inv: cdp.MaxEntropy(dist.Normal(0.0, 1.0), inv, scales="x"),
            ValueError,
            "`scales` must be one of",
        ),
        (
            lambda inv: cdp.Imaged(dist.Normal(0.0, 1.0), inv, weights=np.ones(4)),
            ValueError,
            r"`weights` must have shape \(6,\)",
        ),
        (
            lambda inv: cdp.Imaged(dist.Normal(0.0, 1.0), inv, weights=-np.ones(6)),
            ValueError,
            "`weights` must be positive",
        ),
        (
            lambda inv: cdp.Conditioned(dist.Normal(0.0, 1.0), np.ones((1, 6))),
            TypeError,
            "`invariant` must come from",
        ),
        (
            lambda inv: cdp.Conditioned(np.zeros(6), inv),
            TypeError,
            "`base` must be a NumPyro distribution",
        ),
        (
            lambda inv: cdp.Conditioned(dist.Normal(np.zeros(4), 1.0), inv),
            ValueError,
            "`base` must have the invariant's 6 cells",
        ),
        (
            lambda inv: cdp.Conditioned(dist.Normal(0.0, 1.0), inv, total=np.ones(3)),
            ValueError,
            "`total` must have one number per total, 2",
        ),
        (
            lambda inv: cdp.Conditioned(dist.Normal(0.0, 1.0), inv, total=np.array([1.0, np.nan])),
            ValueError,
            "`total` must be finite",
        ),
        (
            lambda inv: cdp.MaxEntropy(dist.Normal(0.0, np.array([9.0, 1, 1, 1, 1, 1])), inv),
            cdp.InfeasibleError,
            "`scale` is out of balance",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(cdp.totals([0, 0, 0, 1, 1, 1]))


def test_plain_lists_are_welcome():
    inv = cdp.totals([0, 0, 0, 1, 1, 1])
    assert cdp.Imaged(
        dist.Normal(0.0, 1.0), inv, weights=[1.0, 2.0, 3.0, 1.0, 1.0, 1.0]
    ).event_shape == (6,)
    assert cdp.Conditioned(dist.Normal(0.0, 1.0), inv, total=[1.0, 2.0]).event_shape == (6,)


def test_a_dense_covariance_of_a_country_is_refused():
    view = cdp.Imaged(dist.Normal(0.0, 1.0), cdp.totals(np.zeros(20_000, dtype=int)))
    with pytest.raises(
        UnsupportedError, match="`covariance_matrix` of 20000 cells would need 3 GB"
    ):
        view.covariance_matrix  # noqa: B018


@pytest.mark.parametrize("make", [cdp.MaxEntropy, cdp.Conditioned, cdp.Imaged])
def test_privacy_numbers_do_not_depend_on_the_precision_flag(make):
    v = csr_array(np.array([[1.0, -1, 0, 0, 0, 0], [0, 0, 0, 1, 0, -1]]))
    w = csr_array(np.array([[1.0, 1, 0, 1, 0, 0]]))
    seen = []
    for flag in (False, True):
        with jax.enable_x64(flag):
            base = dist.Normal(np.arange(6.0), np.array([1.3, 1.3, 1, 1.5, 1.2, 1.1]))
            view = make(base, cdp.totals([0, 0, 0, 1, 1, 1]))
            numbers = [view.loss(v).mu, view.loss(v, w).mu, view.deviation().sd]
            seen.append([*numbers, view.deviation(w).sd, view.exposure])
    for one, other in zip(*seen, strict=True):
        assert one.dtype == other.dtype == np.float64
        assert_array_equal(one, other)


@pytest.mark.parametrize("which", ["number", "cells"])
def test_loss_and_deviation_against_dense_algebra(make, scales, which, float64):
    scale = scales[which]
    if not make.takes(scale):
        return
    view, C = make.view(scale=scale), make.covariance(scale)
    rng = np.random.default_rng(0)
    v = np.asarray(view.invariant.project(rng.normal(size=(3, 6))))
    w = rng.normal(size=(2, 6))
    want = np.sqrt(np.einsum("ri,ij,rj->r", v, np.linalg.pinv(C, rcond=1e-10), v))
    assert_allclose(view.loss(csr_array(v)).mu, want, rtol=1e-8)
    seen = v @ w.T
    # one query at a time too: a query of a constant has no loss and no error
    inner = np.linalg.pinv(w @ C @ w.T, rcond=1e-12)
    if np.linalg.matrix_rank(w @ C @ w.T, tol=1e-9) == 2:
        want = np.sqrt(np.einsum("ri,ij,rj->r", seen, inner, seen))
        assert_allclose(view.loss(csr_array(v), csr_array(w)).mu, want, rtol=1e-7)
    assert_allclose(view.deviation().sd, np.sqrt(np.diag(C)), atol=1e-7)
    assert_allclose(view.deviation(csr_array(w)).sd, np.sqrt(np.diag(w @ C @ w.T)), rtol=1e-8)
    assert not np.any(view.deviation(csr_array(view.invariant.matrix)).sd > 1e-12)
    if make.options:
        with pytest.raises(
            UnsupportedError, match="With weights= the worst pair of an imaged view"
        ):
            view.exposure  # noqa: B018
    else:
        assert_allclose(view.exposure, 1 / np.broadcast_to(scale, (6,)))
