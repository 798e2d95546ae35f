"""What NumPyro asks of a distribution, for one view of each kind."""

import importlib
import pickle
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpyro.infer.reparam import TransformReparam
from numpyro.util import is_prng_key
from scipy import stats

import cdp_views

pytestmark = pytest.mark.usefixtures("float64")
KEY = 20260729


@jax.jit
def log_prob(view, y):
    return view.log_prob(y)


@jax.jit
def moments(view):
    return view.variance, view.covariance_matrix, view.entropy()


def distributions(kind=dist.Distribution):
    """Every distribution of the package, by name."""
    for module in pkgutil.walk_packages(cdp_views.__path__, "cdp_views."):
        if ".models" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    found = {}
    for child in kind.__subclasses__():
        if child.__module__.startswith("cdp_views"):
            found[child.__name__] = child
        found |= distributions(child)
    return found


def test_no_distribution_infers_wrong_shapes_silently():
    """NumPyro's default answers ((), ()) for what it does not know; loc and scale it knows."""
    told = {}
    for name, kind in distributions().items():
        try:
            told[name] = kind.infer_shapes((2,), (3, 1))
        except NotImplementedError:
            continue
    located = {"_Discrete", "DiscreteLaplace", "DiscreteNormal", "ScaleMixture"}
    assert set(told) == located | {"ContinuousPoisson"}
    assert set(told.values()) == {((3, 2), ())}


def shape(f, *args):
    """Traced, so that nothing is compiled."""
    return jax.eval_shape(f, *args).shape


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_shapes(typical, scale, loc, batch, key):
    view = typical.view(np.broadcast_to(loc, (*batch, 6)), scale)
    assert (view.batch_shape, view.event_shape) == (batch, (6,))
    assert is_prng_key(key)
    draws = jax.ShapeDtypeStruct((4, *batch, 6), float)
    for draw in (view.sample, view.sample_noise):
        assert shape(lambda k, draw=draw: draw(k, (4,)), key) == draws.shape
    assert shape(view.log_prob, draws) == (4, *batch)
    assert shape(lambda: view.mean) == shape(lambda: view.variance) == (*batch, 6)
    assert shape(view.entropy) == batch
    assert shape(lambda: view.covariance_matrix)[-2:] == (6, 6)
    assert_allclose(view.sample_noise(key) + view.mean, view.sample(key), rtol=1e-12)
    with pytest.raises(NotImplementedError):
        type(view).infer_shapes((), ())


def test_a_batch_of_scales_is_its_rows(scales, loc, make_of, key):
    for kind in ("max-entropy", "conditioned", "imaged"):
        make = make_of(kind, "groups")
        view = make.view(loc, scales["batch"])
        assert view.batch_shape == (2,)
        y = view.sample(key)
        density, (variance, covariance, entropy) = log_prob(view, y), moments(view)
        assert covariance.shape == (2, 6, 6)
        for i in range(2):
            one = make.view(loc, scales["batch"][i])
            of_one = moments(one)
            assert_allclose(density[i], log_prob(one, y[i]), rtol=1e-12)
            assert_allclose(variance[i], of_one[0], rtol=1e-12)
            assert_allclose(covariance[i], of_one[1], atol=1e-12)
            assert_allclose(entropy[i], of_one[2], rtol=1e-12)
        with pytest.raises(
            ValueError, match=r"`deviation` is about one mechanism; got a batch of shape \(2,\)"
        ):
            view.deviation()


def test_jit_returns_and_takes_the_view(typical, scale, loc, key):
    view = typical.view(loc, scale)
    y = view.sample(key, (3,))
    again = jax.jit(lambda s: typical.view(loc, s))(jnp.asarray(scale))
    assert_allclose(again.log_prob(y), view.log_prob(y), rtol=1e-12)
    assert_allclose(log_prob(view, y), view.log_prob(y), rtol=1e-12)
    assert (again.kind, again.noise_name) == (view.kind, "normal")
    assert bool(again.invariant.equals(view.invariant))


def test_vmap_over_location_and_scale(typical, scale, loc, key):
    scaled = jnp.asarray(np.stack([scale, 2 * scale]))
    moved = jnp.asarray(np.stack([loc, loc + 7]))
    y = typical.view(loc, scale).sample(key)
    for axes, args in {(0, None): (moved, scaled[0]), (None, 0): (moved[0], scaled)}.items():
        ends = jax.vmap(lambda m, s: typical.view(m, s), in_axes=axes)(*args)
        got = jax.vmap(lambda v: v.log_prob(y))(ends)
        for i in range(2):
            one = typical.view(
                np.asarray(args[0][i] if axes[0] == 0 else args[0]),
                args[1][i] if axes[1] == 0 else args[1],
            )
            assert_allclose(got[i], one.log_prob(y), rtol=1e-11)
        # and a loop over the views themselves
        last, each = jax.lax.scan(lambda carry, v: (v.log_prob(y), carry), jnp.zeros(()), ends)
        assert_allclose([each[1], last], got, rtol=1e-12)


def test_vmap_over_the_weights_of_imaging(scale, loc, make_of, key):
    inv = make_of("imaged", "weighted").inv()
    y = cdp_views.Imaged(dist.Normal(loc, scale), inv).sample(key)

    def density(weights):
        return cdp_views.Imaged(dist.Normal(loc, scale), inv, weights=weights).log_prob(y)

    weights = np.array([[1.0, 2.0, 0.5, 3.0, 1.0, 0.7], [1.0, 1.0, 2.0, 1.0, 4.0, 1.0]])
    assert_allclose(
        jax.vmap(density)(jnp.asarray(weights)), [density(w) for w in weights], rtol=1e-12
    )


def test_density_against_scipy(typical, scale, loc, key):
    """scipy's degenerate normal measures volume on the support as we do."""
    view = typical.view(loc, scale)
    y = np.asarray(view.sample(key, (5,)))
    law = stats.multivariate_normal(loc, typical.covariance(scale), allow_singular=True)
    # scipy finds rounding errors of A y by eigenvectors: on the support up to 1e-9
    assert_allclose(view.log_prob(y), law.logpdf(y), rtol=1e-8)


def test_density_and_slope_in_float32(typical, scale, loc, key):
    """The same to seven digits, and no NaN."""
    y = np.asarray(typical.view(loc, scale).sample(key, (3,)))
    want = np.asarray(typical.view(loc, scale).log_prob(y))
    with jax.enable_x64(False):
        noise = jnp.asarray(y - loc, jnp.float32)
        wide = jnp.asarray(scale, jnp.float32)

        def density(s):
            # around 0, so that the noise has all its digits
            return typical.view(jnp.zeros(6, jnp.float32), s).log_prob(noise)

        assert_allclose(density(wide), want, rtol=1e-5)
        slope = jax.grad(lambda s: density(s).sum())(wide)
        assert slope.dtype == jnp.float32 and np.all(np.isfinite(slope))


def test_scan(typical, scale, loc, key):
    view = typical.view(loc, scale)
    y = view.sample(key, (3,))
    total, _ = jax.lax.scan(lambda carry, row: (carry + view.log_prob(row), None), jnp.zeros(()), y)
    assert_allclose(total, view.log_prob(y).sum(), rtol=1e-12)


def test_pickle(typical, scale, loc, key):
    view = typical.view(loc, scale)
    again = pickle.loads(pickle.dumps(view))
    assert_array_equal(again.sample(key), view.sample(key))
    assert again.kind == view.kind


def test_expand_to_event_and_mask(typical, scale, loc, key):
    view = typical.view(loc, scale)
    wide = view.expand((3, 2))
    y = wide.sample(key)
    assert y.shape == (3, 2, 6) and wide.log_prob(y).shape == (3, 2)
    assert len(np.unique(np.asarray(y)[..., 0])) == 6  # not one draw repeated
    event = wide.to_event(1)
    assert_allclose(event.log_prob(y), wide.log_prob(y).sum(-1), rtol=1e-12)
    hidden = wide.mask(jnp.asarray([[True, False]] * 3))
    assert_allclose(hidden.log_prob(y)[:, 1], 0)
    assert_allclose(hidden.log_prob(y)[:, 0], wide.log_prob(y)[:, 0], rtol=1e-12)


def test_a_masked_row_of_nan_contributes_nothing(typical, scale, loc):
    rows = jnp.asarray(np.stack([loc, np.full(6, np.nan)]))
    seen = jnp.asarray([True, False])

    @jax.jit
    @jax.value_and_grad
    def density(s):
        return jnp.sum(typical.view(loc, s).expand((2,)).mask(seen).log_prob(rows))

    value, gradient = density(jnp.asarray(scale))
    assert np.isfinite(value) and np.all(np.isfinite(gradient))
    assert_allclose(value, typical.view(loc, scale).log_prob(loc), rtol=1e-12)


def test_in_a_plate_and_reparameterised(typical, scale, loc, key):
    def model(y=None):
        with numpyro.plate("tables", 3):
            return numpyro.sample("y", typical.view(loc, scale), obs=y)

    y = numpyro.handlers.seed(model, key)()
    assert y.shape == (3, 6)
    density, _ = numpyro.infer.util.log_density(model, (y,), {}, {})
    assert_allclose(density, typical.view(loc, scale).log_prob(y).sum(), rtol=1e-12)
    changed = numpyro.handlers.reparam(model, config={"y": TransformReparam()})
    trace = numpyro.handlers.trace(numpyro.handlers.seed(changed, key)).get_trace()
    assert trace["y_base"]["value"].shape == (3, 6)  # n ambient standard normals
    assert bool(jnp.all(typical.view(loc, scale).support(trace["y"]["value"])))


@pytest.mark.parametrize("validate", [False, True])
def test_off_the_support_is_minus_infinity(typical, scale, loc, key, validate):
    view = typical.view(loc, scale, validate_args=validate)
    good, bad = view.sample(key), jnp.asarray(loc) + jnp.eye(6)[2]
    both = jnp.stack([good, bad, jnp.full(6, jnp.nan)])
    got = view.log_prob(both)
    assert np.isfinite(got[0]) and np.all(np.isneginf(got[1:]))
    compiled = log_prob(typical.view(loc, scale), both)
    assert np.isfinite(compiled[0]) and np.all(np.isneginf(compiled[1:]))


def test_traced_scales_out_of_balance(loc, make_of):
    """A sampler that proposes them is told −inf and a gradient that is a number."""
    make = make_of("max-entropy", "groups")
    density = jax.jit(jax.value_and_grad(lambda s: make.view(loc, s).log_prob(loc)))
    for bad in ([9.0, 1, 1, 1, 1, 1], [2.0, 1, 1, 1, 1, 1]):
        value, gradient = density(jnp.asarray(bad))
        assert np.isneginf(value) and np.all(np.isfinite(gradient))


@pytest.mark.parametrize("kind", ["conditioned", "imaged", "max-entropy"])
def test_gradients_of_the_density(kind, loc, scales, make_of):
    """In scale and location, against central differences; ties of scales included."""
    make = make_of(kind, "groups")
    y = loc + np.asarray(make.inv().project(np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])))
    density = jax.jit(lambda s, move: make.view(loc + make.inv().project(move), s).log_prob(y))
    slopes = jax.jit(jax.grad(density, argnums=(0, 1)))
    negative_precision = np.array([1.9, 1, 1, 1, 1, 1.0])
    for given in (scales["cells"], np.full(6, 1.3), negative_precision):
        scale, still, h = jnp.asarray(given), jnp.zeros(6), 1e-5
        for place, got in enumerate(slopes(scale, still)):
            sides = [
                [density(*(x + side * h * e * (i == place) for i, x in enumerate((scale, still))))
                 for side in (1, -1)]
                for e in np.eye(6)
            ]  # fmt: skip
            want = [(up - down) / (2 * h) for up, down in sides]
            assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_second_derivatives_of_the_density(loc, scales, make_of):
    make, scale, h = make_of("max-entropy", "groups"), jnp.asarray(scales["cells"]), 1e-5
    y = loc + np.asarray(make.inv().project(np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])))

    def density(s):
        return make.view(loc, s).log_prob(y)

    slope = jax.jit(jax.grad(density))
    want = [(slope(scale + h * e) - slope(scale - h * e)) / (2 * h) for e in np.eye(6)]
    assert_allclose(jax.jit(jax.hessian(density))(scale), want, rtol=1e-6, atol=1e-6)


def seen_with_noise(view, loc):
    """A model of y ~ view with a noisy look at every cell; its posterior is Gaussian, so known."""
    seen = loc + np.array([1.0, 0.5, -1.0, 2.0, 0.0, -1.0])

    def model():
        y = numpyro.sample("y", view)
        numpyro.sample("seen", dist.Normal(y, 1.0).to_event(1), obs=seen)

    C = np.asarray(view.covariance_matrix)
    gain = C @ np.linalg.inv(C + np.eye(6))
    return model, loc + gain @ (seen - loc), np.sqrt(np.diag(C - gain @ C))


@pytest.mark.slow
def test_nuts_on_a_latent_view(typical, scale, loc, key):
    view = typical.view(loc, scale)
    model, mean, sd = seen_with_noise(view, loc)
    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=300, num_samples=1000, progress_bar=False
    )
    mcmc.run(key)
    draws = mcmc.get_samples()["y"]
    assert_allclose(draws.mean(0), mean, atol=5 * sd.max() / np.sqrt(300))
    assert_allclose(draws.std(0), sd, rtol=0.2)
    again = numpyro.infer.Predictive(model, mcmc.get_samples())(key)
    assert again["seen"].shape == (1000, 6)
    assert bool(jnp.all(view.support(draws)))


@pytest.mark.slow
def test_a_guide_on_a_latent_view(make_of, scales, loc, key):
    """It needs of a view what NUTS needs: the isometry of its support."""
    view = make_of("max-entropy", "groups").view(loc, scales["cells"])
    model, mean, _ = seen_with_noise(view, loc)
    auto = numpyro.infer.autoguide.AutoNormal(model)
    svi = numpyro.infer.SVI(model, auto, numpyro.optim.Adam(0.02), numpyro.infer.Trace_ELBO())
    fit = svi.run(key, 2000, progress_bar=False)
    draws = auto.sample_posterior(key, fit.params, sample_shape=(1000,))["y"]
    assert_allclose(draws.mean(0), mean, atol=0.25)
    assert bool(jnp.all(view.support(draws)))
