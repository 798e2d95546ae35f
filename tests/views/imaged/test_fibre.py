"""Overlapping totals: the estimate of a density, and the augmented model that is exact."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.infer.util import log_density

import cdp_views as cdp
from cdp_views.views.imaged.fibre import log_prob_estimate

pytestmark = pytest.mark.usefixtures("lightly_compiled")
OVERLAPPING = np.array([[1.0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])


def on_a_grid(law, x, scale, u, reach=60.0, count=601):
    """log ∫∫ Π p((x + U t)/scale)/scale dt by the trapezoid rule in sinh coordinates."""
    v = np.linspace(-np.arcsinh(reach), np.arcsinh(reach), count)
    t, w = np.sinh(v), np.cosh(v) * (v[1] - v[0])
    y = x + t[:, None, None] * u[:, 0] + t[None, :, None] * u[:, 1]
    log_f = np.sum(law.logpdf(y / scale) - np.log(scale), -1)
    return np.log(np.einsum("ij,i,j->", np.exp(log_f), w, w))


@pytest.mark.parametrize(
    ("name", "weighted"),
    [("normal", True), ("laplace", False), ("student-t", True), ("logistic", False)],
)
def test_estimate_against_a_grid(bases, name, weighted, scale, costs, dense, key):
    make, law = bases[name]
    directions, move, volume = dense
    inv = cdp.linear(OVERLAPPING)
    view = cdp.Imaged(make(np.zeros(6), scale), inv, weights=costs if weighted else None)
    u = directions(OVERLAPPING, costs if weighted else np.ones(6), "l2")
    run = jax.jit(lambda y: log_prob_estimate(view, y, key))
    for size in (0.5, 6.0):
        x = move(OVERLAPPING, size * np.random.default_rng(2).normal(size=6), u)
        want = on_a_grid(law, x, scale, u) + volume(OVERLAPPING, u)
        got = run(x)
        assert got.standard_error < 0.05 and got.largest_share < 0.02
        assert abs(got.log_density - want) < 5 * got.standard_error + 2e-5
        assert abs(got.log_density - want + 0.3) > 5 * got.standard_error  # a wrong volume
        if name == "normal":
            assert_allclose(want, view.log_prob(x), atol=1e-6)
    assert np.isneginf(run(np.ones(6)).log_density)


@pytest.mark.parametrize(
    ("base", "metric"),
    [("normal", "l1"), ("laplace", "l2"), ("student-t", "l1"), ("logistic", "l2")],
    indirect=["base"],
)
def test_augmented_model_integrates_to_the_density(base, scale, dense, metric):
    """One total of three cells: integrated over its fibre coordinate on a fine grid."""
    make, _ = base
    inv = cdp.totals([0, 0, 0], [2.0, -1.0, 2.0])
    y = np.asarray(inv.project(np.array([1.0, -0.7, 2.0]))) + np.array([5.0, 6.0, 7.0])

    def model(scale):
        view = cdp.Imaged(make(np.array([5.0, 6.0, 7.0]), scale), inv, metric=metric)
        cdp.observe_imaged("y", view, y)

    v = np.linspace(-12, 12, 20_001)

    @jax.jit
    def marginal(scale):
        joint = jax.vmap(lambda t: log_density(model, (scale,), {}, {"y_fibre": t[None]})[0])
        return jax.scipy.special.logsumexp(joint(jnp.sinh(v)), b=jnp.cosh(v) * (v[1] - v[0]))

    for factor in (1.0, 2.5):
        view = cdp.Imaged(make(np.array([5.0, 6.0, 7.0]), factor * scale[:3]), inv, metric=metric)
        assert_allclose(marginal(factor * scale[:3]), view.log_prob(y), atol=2e-5)


def test_nuts_recovers_a_gaussian_posterior(key):
    """One common effect θ on six cells under two overlapping totals."""
    inv = cdp.linear(OVERLAPPING)
    effect = np.asarray(inv.project(np.array([1.0, 2.0, -1.0, 0.5, 3.0, -2.0])))
    y = effect * 0.8 + np.asarray(inv.project(np.array([0.3, -1.0, 0.2, 1.0, 0.5, 0.1])))

    def model():
        theta = numpyro.sample("theta", dist.Normal(0.0, 2.0))
        view = cdp.Imaged(dist.Normal(theta * effect, 1.5), inv)
        cdp.observe_imaged("y", view, y)

    precision = 1 / 4 + effect @ effect / 1.5**2
    mean, sd = effect @ y / 1.5**2 / precision, precision**-0.5
    kernel = numpyro.infer.NUTS(model)
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=200, num_samples=600, progress_bar=False)
    mcmc.run(key)
    draws = np.asarray(mcmc.get_samples()["theta"])
    assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(200)
    assert abs(draws.std() / sd - 1) < 0.25
    assert abs(draws.mean() - 0.0) > 5 * sd / np.sqrt(200)  # the prior's mean
    assert mcmc.get_samples()["y_fibre"].shape == (600, 2)


def test_off_the_support_and_wrong_views(key):
    inv = cdp.linear(OVERLAPPING)
    view = cdp.Imaged(dist.Laplace(np.zeros(6), 1.0), inv)

    def model(y):
        cdp.observe_imaged("y", view, y)

    value, _ = log_density(model, (np.ones(6),), {}, {"y_fibre": jnp.zeros(2)})
    assert np.isneginf(value)
    drawn = numpyro.handlers.seed(lambda: cdp.observe_imaged("y", view, None), key)()
    assert bool(view.support(drawn))
    with pytest.raises(TypeError, match="`view` must be an imaged view"):
        cdp.observe_imaged("y", cdp.Conditioned(dist.Normal(np.zeros(6), 1.0), inv), np.zeros(6))
    with pytest.raises(ValueError, match="`value` must be one table"):
        view.log_prob_estimate(np.zeros((2, 6)), key)
