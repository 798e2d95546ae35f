"""What NumPyro asks of a distribution, of each Laplace view."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpyro.infer.reparam import TransformReparam

import cdp_views as cdp
from cdp_views.views import View

pytestmark = pytest.mark.usefixtures("float64")

log_prob = jax.jit(lambda view, y: view.log_prob(y))
moments = jax.jit(lambda view: (view.variance, view.covariance_matrix))
draw = jax.jit(lambda view, key: view.sample(key, (2000,)))


def shape(f, *args):
    """Traced, so that nothing is compiled."""
    return jax.eval_shape(f, *args).shape


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_shapes(typical, scale, loc, batch, key):
    view = typical.view(np.broadcast_to(loc, (*batch, 6)), scale)
    assert isinstance(view, View)
    assert (view.kind, view.noise_name) == (typical.kind, "laplace")
    assert (view.batch_shape, view.event_shape) == (batch, (6,))
    draws = jax.ShapeDtypeStruct((4, *batch, 6), float)
    for draw in (view.sample, view.sample_noise):
        assert shape(lambda k, draw=draw: draw(k, (4,)), key) == draws.shape
    assert shape(lambda: view.mean) == shape(lambda: view.variance) == (*batch, 6)
    if typical.kind != "max-entropy":
        assert shape(view.log_prob, draws) == (4, *batch)
        assert shape(lambda: view.covariance_matrix) == (*batch, 6, 6)
        assert shape(view.covariance_product, np.ones((*batch, 6))) == (*batch, 6)
    if typical.kind == "conditioned":
        assert shape(view.entropy) == batch
    if not batch:
        assert_allclose(view.sample_noise(key) + view.mean, view.sample(key), rtol=1e-12)
        assert_allclose(view.exposure, 1 / scale)
        assert view.exposure.dtype == np.float64
    with pytest.raises(NotImplementedError):
        type(view).infer_shapes((), ())


def test_a_batch_of_scales_is_its_rows(dense, scale, loc, key):
    both = np.stack([scale, 2 * scale[::-1]])
    view = dense.view(loc, both)
    assert view.batch_shape == (2,)
    y = view.sample(key)
    density, (variance, covariance) = log_prob(view, y), moments(view)
    for i in range(2):
        row = dense.view(loc, both[i])
        assert_allclose(density[i], log_prob(row, y[i]), rtol=1e-10)
        of_row = moments(row)
        assert_allclose(variance[i], of_row[0], rtol=1e-10)
        assert_allclose(covariance[i], of_row[1], atol=1e-10)
    with pytest.raises(
        ValueError, match=r"`exposure` is about one mechanism; got a batch of shape"
    ):
        view.exposure  # noqa: B018


def test_jit_returns_and_takes_the_view(typical, scale, loc, key):
    view = typical.view(loc, scale)
    again = jax.jit(lambda s: typical.view(loc, s))(jnp.asarray(scale))
    assert (again.kind, again.noise_name) == (view.kind, "laplace")
    y = view.sample(key, (3,))
    assert_allclose(again.sample(key, (3,)), y, rtol=1e-9)
    if typical.kind != "max-entropy":
        assert_allclose(again.log_prob(y), view.log_prob(y), rtol=1e-11)
        assert_allclose(log_prob(view, y), view.log_prob(y), rtol=1e-12)
        assert_allclose(log_prob(again, y), view.log_prob(y), rtol=1e-11)


def test_a_new_table_does_not_compile_again(dense, scale, loc, key):
    view = dense.view(loc, scale)
    y = view.sample(key, (3,))
    seen = []

    @jax.jit
    def density(view, y):
        seen.append(1)
        return view.log_prob(y)

    density(view, y)
    density(dense.view(loc + 5, scale), y + 5)
    density(dense.view(loc, 3 * scale), y)
    assert len(seen) == 1


def test_vmap_over_location_and_scale(dense, scale, loc, key):
    scaled = jnp.asarray(np.stack([scale, 2 * scale]))
    moved = jnp.asarray(np.stack([loc, loc + 7]))
    y = dense.view(loc, scale).sample(key)
    by_loc = jax.vmap(lambda m: dense.view(m, scaled[0]))(moved)
    got = jax.vmap(lambda v: v.log_prob(y))(by_loc)
    assert_allclose(got[0], dense.view(loc, scale).log_prob(y), rtol=1e-11)
    assert np.isneginf(got[1])
    got = jax.vmap(lambda s: dense.view(loc, s).log_prob(y))(scaled)
    for i in range(2):
        assert_allclose(got[i], dense.view(loc, np.asarray(scaled[i])).log_prob(y), rtol=1e-11)


def test_scan(dense, scale, loc, key):
    view = dense.view(loc, scale)
    y = view.sample(key, (3,))
    total, _ = jax.lax.scan(lambda carry, row: (carry + view.log_prob(row), None), 0.0, y)
    assert_allclose(total, view.log_prob(y).sum(), rtol=1e-12)


def test_pickle(typical, scale, loc, key):
    view = typical.view(loc, scale)
    again = pickle.loads(pickle.dumps(view))
    assert_array_equal(again.sample(key), view.sample(key))
    assert again.kind == view.kind


def test_expand_to_event_and_mask(dense, scale, loc, key):
    wide = dense.view(loc, scale).expand((3, 2))
    y = wide.sample(key)
    assert y.shape == (3, 2, 6) and wide.log_prob(y).shape == (3, 2)
    assert len(np.unique(np.asarray(y)[..., 0])) == 6  # not one draw repeated
    assert_allclose(wide.to_event(1).log_prob(y), wide.log_prob(y).sum(-1), rtol=1e-12)
    hidden = wide.mask(jnp.asarray([[True, False]] * 3))
    assert_allclose(hidden.log_prob(y)[:, 1], 0)
    assert_allclose(hidden.log_prob(y)[:, 0], wide.log_prob(y)[:, 0], rtol=1e-12)


def test_a_masked_row_of_nan_contributes_nothing(dense, scale, loc):
    rows = jnp.asarray(np.stack([loc, np.full(6, np.nan)]))
    seen = jnp.asarray([True, False])

    @jax.jit
    @jax.value_and_grad
    def density(s):
        return jnp.sum(dense.view(loc, s).expand((2,)).mask(seen).log_prob(rows))

    value, gradient = density(jnp.asarray(scale))
    assert np.isfinite(value) and np.all(np.isfinite(gradient))
    assert_allclose(value, dense.view(loc, scale).log_prob(loc), rtol=1e-11)


@pytest.mark.parametrize("validate", [False, True])
def test_off_the_support_is_minus_infinity(dense, scale, loc, key, validate):
    view = dense.view(loc, scale, validate_args=validate)
    both = jnp.stack([view.sample(key), jnp.asarray(loc) + jnp.eye(6)[2], jnp.full(6, jnp.nan)])
    got = view.log_prob(both)
    assert np.isfinite(got[0]) and np.all(np.isneginf(got[1:]))
    got = log_prob(dense.view(loc, scale), both)
    assert np.isfinite(got[0]) and np.all(np.isneginf(got[1:]))


@pytest.mark.parametrize(("which", "bad"), [("one number", -1.0), ("cells", 0.0)])
def test_traced_scales_that_are_not_positive(dense, loc, scale, bad, which):
    """A sampler that proposes them is told −inf, never NaN."""
    wrong = jnp.asarray([bad]) if which == "one number" else jnp.asarray(scale).at[2].set(bad)
    value = jax.jit(lambda s: dense.view(loc, s).log_prob(loc))(wrong)
    assert np.isneginf(value)


def test_traced_scales_that_no_maximum_entropy_law_has(dense, loc):
    """They are no trouble to the other two views."""
    wrong = jnp.asarray([90.0, 1, 1, 1, 1, 1])
    assert np.isfinite(jax.jit(lambda s: dense.view(loc, s).log_prob(loc))(wrong))


PEOPLE = [0.0, 3.3e8]


@pytest.mark.filterwarnings("ignore:`loc` is so large")
@pytest.mark.parametrize("people", PEOPLE)
def test_every_draw_is_on_the_support(typical, precision, people, key, scale, loc):
    table = loc * people / loc.sum()
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    for size in (1e-6, 1.0, 1e6):
        view = typical.view(table, size * scale, inv)
        draws = draw(view, key)
        assert draws.dtype == precision
        assert bool(jnp.all(view.support(draws)))
        if typical.kind != "max-entropy":
            assert bool(jnp.all(jnp.isfinite(log_prob(view, draws))))


@pytest.mark.parametrize("kind", ["conditioned", "imaged"])
def test_pure_noise_of_very_unequal_scales_is_on_the_support(kind, noise_of, precision, key):
    """Log-scales of sd 3, and a cell of 1000 × the rest: nothing large hides a rounding."""
    rng = np.random.default_rng(0)
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    for scale in (np.exp(3 * rng.normal(size=6)), np.array([1000.0, 1, 1, 1, 1, 1000])):
        x = noise_of[kind](key, inv, jnp.asarray(scale, precision), 2000)
        assert x.dtype == precision
        assert bool(jnp.all(cdp.AffineSubspace(inv)(x)))
        assert bool(jnp.all(jnp.any(x != 0, -1)))


def test_in_a_plate(dense, scale, loc, key):
    def model(y=None):
        with numpyro.plate("tables", 3):
            return numpyro.sample("y", dense.view(loc, scale), obs=y)

    y = numpyro.handlers.seed(model, key)()
    assert y.shape == (3, 6)
    density, _ = numpyro.infer.util.log_density(model, (y,), {}, {})
    assert_allclose(density, dense.view(loc, scale).log_prob(y).sum(), rtol=1e-12)


def test_imaged_reparameterised(scale, loc, key):
    """Its exact augmented model: n unit Laplace variables, also for overlapping totals."""
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    view = cdp.Imaged(dist.Laplace(loc, scale), inv)

    def model():
        return numpyro.sample("y", view)

    changed = numpyro.handlers.reparam(model, config={"y": TransformReparam()})
    trace = numpyro.handlers.trace(numpyro.handlers.seed(changed, key)).get_trace()
    base, y = trace["y_base"], trace["y"]["value"]
    assert base["value"].shape == (6,)
    root_half = np.sqrt(0.5)  # unit variance
    want = dist.Laplace(0.0, root_half).log_prob(base["value"]).sum()
    assert_allclose(base["fn"].log_prob(base["value"]), want, rtol=1e-12)
    assert_allclose(y, loc + inv.project(scale / root_half * base["value"]), rtol=1e-10)
    assert bool(jnp.all(view.support(y)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dense", "same"),
    [("conditioned", False), ("imaged", True)],
    ids=["conditioned, scales", "imaged, one scale"],
    indirect=["dense"],
)
def test_nuts_recovers_the_scale(dense, same, key):
    """y seen, λ unknown with a log-normal prior: the posterior by quadrature of the same density.

    For one scale d, ‖x‖₁/λ ~ Gamma(d, 1), conditioned: p(λ | y) ∝ prior · λ^{−d} e^{−‖x‖₁/λ}.
    """
    inv, tables = cdp.totals([0, 1, 0, 1, 0, 1]), 20
    shape = np.ones(1) if same else np.array([1.3, 0.5, 1.0, 1.5, 1.2, 2.0])
    y = np.asarray(
        dense.view(np.zeros(6), 2.5 * np.broadcast_to(shape, 6), inv).sample(key, (tables,))
    )

    def model():
        size = numpyro.sample("size", dist.LogNormal(0.0, 1.0))
        with numpyro.plate("tables", tables):
            numpyro.sample("y", dense.view(jnp.zeros(6), size * shape, inv), obs=y)

    kernel = numpyro.infer.NUTS(model)
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=300, num_samples=1500, progress_bar=False)
    mcmc.run(key)
    draws = np.asarray(mcmc.get_samples()["size"])
    grid = np.linspace(1.5, 4.5, 61)
    if dense.kind == "conditioned":
        like = -4 * tables * np.log(grid) - np.abs(y / shape).sum() / grid
    else:
        like = np.array(
            [dense.view(np.zeros(6), g * shape * np.ones(6), inv).log_prob(y).sum() for g in grid]
        )
    prior = np.asarray(dist.LogNormal(0.0, 1.0).log_prob(grid))
    post = np.exp(like - like.max() + prior)
    post /= post.sum()
    mean = grid @ post
    sd = np.sqrt((grid - mean) ** 2 @ post)
    assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(300)
    assert_allclose(draws.std(), sd, rtol=0.15)
    assert abs(mean - 2.5) < 4 * sd
