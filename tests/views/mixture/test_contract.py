"""What NumPyro asks of a distribution, of each policy; what calibration and release refuse."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cdp_views as cdp
from cdp_views.views import View

LABELS = [0, 1, 0, 1, 0, 1]
LOC = np.array([10.0, 200.0, 35.0, 4.0, 90.0, 61.0])
SCALE = np.array([1.3, 1.3, 1.0, 1.5, 1.2, 1.1])
POLICIES = ("couple", "shared", "resample")


def view_of(base, scales, loc=LOC, scale=SCALE):
    return cdp.MaxEntropy(base[0](loc, scale), cdp.totals(LABELS), scales=scales)


@jax.jit
def log_prob(view, y):
    return view.log_prob(y)


@pytest.mark.parametrize(
    ("base", "scales"),
    [
        *(("laplace", policy) for policy in POLICIES),
        ("student-t", "resample"),
        pytest.param("logistic", "shared", marks=pytest.mark.slow),
        pytest.param("scale mixture", "couple", marks=pytest.mark.slow),
    ],
    indirect=["base"],
)
def test_shapes_pickle_and_jit(base, scales, key):
    view = view_of(base, scales)
    assert isinstance(view, View)
    assert (view.kind, view.noise_name) == ("max-entropy", view.mixing.family)
    assert (view.batch_shape, view.event_shape) == ((), (6,))
    y = view.sample(key, (4,))
    assert y.shape == (4, 6) == view.sample_noise(key, (4,)).shape
    assert bool(jnp.all(view.support(y)))
    assert_allclose(view.sample_noise(key) + view.mean, view.sample(key), rtol=1e-12)
    again = pickle.loads(pickle.dumps(view))
    assert_array_equal(again.sample(key), view.sample(key))
    assert again.noise_name == view.noise_name
    assert_allclose(jax.jit(lambda v, k: v.sample(k, (4,)))(view, key), y, rtol=1e-9)
    assert_allclose(view.exposure, 1 / SCALE)
    with pytest.raises(NotImplementedError):
        type(view).infer_shapes((), ())


@pytest.mark.parametrize("scales", POLICIES)
def test_batches_and_expand(laplace, scales, key):
    view = view_of(laplace, scales, np.broadcast_to(LOC, (2, 3, 6)))
    assert view.sample(key, (4,)).shape == (4, 2, 3, 6)
    assert view.mean.shape == (2, 3, 6)
    wide = view_of(laplace, scales).expand((3, 2))
    y = wide.sample(key)
    assert y.shape == (3, 2, 6)
    assert len(np.unique(np.asarray(y)[..., 0])) == 6  # not one draw repeated


def test_shared_as_a_likelihood(base, key):
    view = view_of(base, "shared")
    y = view.sample(key, (3,))
    density = view.log_prob(y)
    assert density.shape == (3,)
    assert_allclose(log_prob(view, y), density, rtol=1e-10)
    assert_allclose(view.expand((3,)).to_event(1).log_prob(y), density.sum(), rtol=1e-10)
    again = jax.jit(lambda s: view_of(base, "shared", scale=s))(jnp.asarray(SCALE))
    assert_allclose(again.log_prob(y), density, rtol=1e-9)
    both = jnp.stack([y[0], jnp.asarray(LOC) + jnp.eye(6)[2], jnp.full(6, jnp.nan)])
    got = log_prob(view, both)
    assert np.isfinite(got[0]) and np.all(np.isneginf(got[1:]))


def test_shared_gradients_scan_vmap_and_mask(laplace, key):
    view = view_of(laplace, "shared")
    y = view.sample(key, (3,))

    def density(s):
        return view_of(laplace, "shared", scale=s).log_prob(y[0])

    got, h = jax.jit(jax.grad(density))(jnp.asarray(SCALE)), 1e-5
    f = jax.jit(density)
    want = [(f(SCALE + h * e) - f(SCALE - h * e)) / (2 * h) for e in np.eye(6)]
    assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    scaled = jnp.asarray(np.stack([SCALE, 2 * SCALE]))
    assert_allclose(jax.vmap(density)(scaled), [density(s) for s in scaled], rtol=1e-10)
    total, _ = jax.lax.scan(lambda c, row: (c + view.log_prob(row), None), 0.0, y)
    assert_allclose(total, view.log_prob(y).sum(), rtol=1e-12)
    rows = jnp.asarray(np.stack([np.asarray(y[0]), np.full(6, np.nan)]))
    seen = jnp.asarray([True, False])
    slope = jax.grad(
        lambda s: view_of(laplace, "shared", scale=s).expand((2,)).mask(seen).log_prob(rows).sum()
    )(jnp.asarray(SCALE))
    assert_allclose(slope, got, rtol=1e-9)


def test_shared_with_scales_that_no_law_has(laplace):
    """Traced: −inf and a gradient that is a number; concrete: an error that names the cell."""
    bad = jnp.array([90.0, 1, 1, 1, 1, 1])
    value, slope = jax.jit(
        jax.value_and_grad(lambda s: view_of(laplace, "shared", scale=s).log_prob(LOC))
    )(bad)
    assert np.isneginf(value) and np.all(np.isfinite(slope))
    for scales in POLICIES:
        with pytest.raises(cdp.InfeasibleError, match="`scale` is out of balance"):
            view_of(laplace, scales, scale=np.asarray(bad))


def test_in_float32(laplace, key):
    with jax.enable_x64(False):
        for scales in POLICIES:
            view = view_of(laplace, scales)
            y = view.sample(key, (500,))
            assert y.dtype == jnp.float32 and bool(jnp.all(view.support(y)))
        shared = view_of(laplace, "shared")
        low = np.asarray(shared.log_prob(shared.sample(key, (5,))))
    assert low.dtype == np.float32 and np.all(np.isfinite(low))


@pytest.mark.slow
def test_nuts_on_a_latent_shared_view(key):
    """Student-t: the posterior of the size of s, by its own grid."""
    inv = cdp.totals([0, 0, 0, 0])
    y = np.array([2.0, -1.0, -3.0, 2.0])

    def model():
        size = numpyro.sample("size", dist.LogNormal(0.0, 1.0))
        base = dist.StudentT(4.0, jnp.zeros(4), size * jnp.ones(1))
        numpyro.sample("y", cdp.MaxEntropy(base, inv, scales="shared"), obs=y)

    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=300, num_samples=1500, progress_bar=False
    )
    mcmc.run(key)
    draws = np.log(np.asarray(mcmc.get_samples()["size"]))
    # multivariate t in 3 dimensions with Σ = 4/3 P
    grid = np.linspace(-3, 4, 701)
    q = 0.75 * np.sum(y**2) * np.exp(-2 * grid)
    post = np.exp(-3 * grid - 3.5 * np.log1p(q / 4) - grid**2 / 2)
    post /= post.sum()
    mean = grid @ post
    sd = np.sqrt((grid - mean) ** 2 @ post)
    assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(300)
    assert_allclose(draws.std(), sd, rtol=0.15)


@pytest.mark.parametrize("scales", ["couple", "shared"])
def test_calibration_refuses_what_has_no_guarantee(base, scales):
    inv = cdp.totals(LABELS)
    with pytest.raises(cdp.UnsupportedError, match="No guarantee is proved for it"):
        cdp.calibrate(
            lambda s: cdp.MaxEntropy(base[0](np.zeros(6), s), inv, scales=scales),
            cdp.relocations(inv),
            epsilon=1.0,
            delta=1e-6,
        )


@pytest.mark.parametrize("noise", ["student-t", "logistic", "scale mixture"])
@pytest.mark.parametrize("view", ["max-entropy", "conditioned", "imaged"])
def test_release_refuses_marginals_for_priors(noise, view):
    inv = cdp.totals(LABELS)
    with pytest.raises(ValueError, match=f"`noise` must be one of .*got .{noise}"):
        cdp.release(
            np.arange(6),
            inv,
            view=view,
            noise=noise,
            epsilon=1.0,
            delta=1e-6,
            neighbours=cdp.relocations(inv),
        )


def test_the_loss_of_shared_is_only_estimated(laplace, key):
    inv = cdp.totals(LABELS)
    view = cdp.MaxEntropy(laplace[0](np.zeros(6), 2.0), inv, scales="shared")
    loss = cdp.privacy_loss(view, cdp.relocations(inv), key=key)
    assert loss.kind == "estimate" and 0.5 < loss.guess_rate < 1
