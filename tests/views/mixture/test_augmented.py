"""Max-entropy Laplace noise in a model: scales as latents, against the law's definition on a grid.

Three cells that sum to zero have one Gaussian with given standard deviations, Cov(x_i, x_j) =
(σ_k² − σ_i² − σ_j²)/2: the oracle integrates it over scales, kept or coupled as the docs say.
"""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density

import cdp_views as cdp
from cdp_views.models import fitting
from cdp_views.views.max_entropy.augmented import log_joint, scaled_cells

THREE = cdp.totals(["a", "a", "a"])
BASIS = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
NODES = np.linspace(-3.4, 1.7, 56)
STEP = NODES[1] - NODES[0]
POINTS = np.array([[1.2, -0.5, -0.7], [0.3, 2.0, -2.3], [-4.0, 3.0, 1.0]])


def gaussian(x, sd):
    """Density (…) at x (3,) in the plane, by 2 x 2 algebra."""
    square = sd**2
    cross = [(square[..., k] - square[..., i] - square[..., j]) / 2 for i, j, k in
             ((0, 1, 2), (0, 2, 1), (1, 2, 0))]  # fmt: skip
    rows = [[square[..., 0], cross[0], cross[1]], [cross[0], square[..., 1], cross[2]],
            [cross[1], cross[2], square[..., 2]]]  # fmt: skip
    whole = np.stack([np.stack(row, -1) for row in rows], -2)
    small = BASIS @ whole @ BASIS.T
    u = BASIS @ x
    det = small[..., 0, 0] * small[..., 1, 1] - small[..., 0, 1] ** 2
    det = np.maximum(det, 1e-12)
    q = small[..., 1, 1] * u[0] ** 2 + small[..., 0, 0] * u[1] ** 2
    q = q - 2 * small[..., 0, 1] * u[0] * u[1]
    return np.exp(-q / (2 * det)) / (2 * np.pi * np.sqrt(det))


def by_definition(x, scale, needed):
    """p(x), and the part of it from coupled scales: a sum over a grid of log s."""
    s = np.exp(np.stack(np.meshgrid(NODES, NODES, NODES, indexing="ij"), -1))
    weight = np.prod(s**2 * np.exp(-(s**2) / 2), -1) * STEP**3
    largest = s.max(-1)
    kept = s.sum(-1) - largest > needed * largest
    own = gaussian(x, scale * np.where(kept[..., None], s, 1))
    one = gaussian(x, scale * s[..., :1])
    together = np.sum(weight * np.where(kept, 0, one))
    return np.sum(weight * np.where(kept, own, 0)) + together, together


@pytest.mark.parametrize(
    ("scale", "needed"), [(np.ones(3), 1.0), (np.array([1.0, 1.5, 2.0]), 1 + 1 / 1.5)]
)
def test_scales_integrate_to_the_density_of_three_cells(scale, needed):
    with jax.enable_x64(True):
        view = cdp.MaxEntropy(dist.Laplace(np.zeros(3), scale), THREE)
        grid = jnp.asarray(np.array(list(product(NODES, NODES, NODES))))
        assert scaled_cells(view).tolist() == [0, 1, 2]
        summed = jax.jit(lambda x: jnp.sum(jnp.exp(log_joint(view, x, grid))) * STEP**3)
        found = [float(summed(jnp.asarray(x))) for x in POINTS]
    wanted, together = np.array([by_definition(x, scale, needed) for x in POINTS]).T
    np.testing.assert_allclose(found, wanted, rtol=0.015)
    assert np.all(together > 0.05 * wanted)  # without the coupled part it would be off


def test_two_cells_and_free_ones_need_no_latent():
    inv = cdp.totals(["a", "a", None, "b"], missing="free")
    view = cdp.MaxEntropy(dist.Laplace(np.zeros(4), 2.0), inv)
    x = np.array([1.5, -1.5, 3.0, 0.0])
    assert scaled_cells(view).size == 0
    # Laplace along (1, -1), whose step has length √2; the free cell alone; a fixed cell
    wanted = -1.5 / 2 - np.log(4) - np.log(2) / 2 - 3 / 2 - np.log(4)
    np.testing.assert_allclose(log_joint(view, jnp.asarray(x), jnp.zeros(0)), wanted, rtol=1e-6)


def test_totals_that_overlap_couple_the_whole_table():
    """On 2 x 3 margins scales are always coupled: one s for all, whose density is elliptical."""
    inv, base = cdp.margins((2, 3), [(0,), (1,)]), dist.Laplace(np.zeros(6), 1.0)
    x = np.array([0.7, -1.0, 0.3, -0.7, 1.0, -0.3])
    with jax.enable_x64(True):
        view, shared = cdp.MaxEntropy(base, inv), cdp.MaxEntropy(base, inv, scales="shared")
        s = np.sqrt(2 * np.random.default_rng(0).exponential(size=(20_000, 6)))
        log_s = jnp.log(jnp.asarray(s))
        prior = np.sum(2 * np.log(s) - s**2 / 2, -1)
        given = np.exp(
            np.asarray(jax.jit(lambda v: log_joint(view, jnp.asarray(x), v))(log_s)) - prior
        )
        wanted = float(jnp.exp(shared.log_prob(x)))
    error = given.std() / np.sqrt(given.size)
    assert abs(given.mean() - wanted) < 5 * error < 0.05 * wanted


def test_a_model_observes_it_and_others_are_named():
    view = cdp.MaxEntropy(dist.Laplace(np.zeros(3), 1.0), THREE)

    def model(how, y):
        cdp.observe_max_entropy("y", how, y)

    values = {"y_scales": jnp.zeros(3)}
    y = np.array([1.0, 0.0, -1.0])
    moved = log_density(model, (view, y), {}, values)[0]
    z = np.log1p(y**2) / 4
    np.testing.assert_allclose(moved, log_joint(view, jnp.asarray(y), jnp.asarray(z)), rtol=1e-5)
    assert log_density(model, (view, y + 1), {}, values)[0] == -np.inf
    fit = cdp.MaxEntropy(dist.Laplace(np.zeros(3), 1.0), THREE, scales="resample")
    with pytest.raises(cdp.UnsupportedError, match='"couple" or "shared"'):
        log_density(model, (fit, y), {}, values)
    with pytest.raises(TypeError, match=r"must come from cdp\.MaxEntropy"):
        model(dist.Normal(0.0, 1.0), y)
    drawn = numpyro.handlers.seed(model, 0)
    assert numpyro.handlers.trace(drawn).get_trace(view, None)["y"]["value"].shape == (3,)


@pytest.mark.slow
def test_nuts_finds_the_posterior_of_a_location(key):
    """q = θ (1, 1, −2) under a normal prior, released with noise of scale 1."""
    y, step = np.array([2.5, -0.4, -2.1]), np.array([1.0, 1.0, -2.0])
    seen = cdp.Observed(cdp.Mechanism("max-entropy", "laplace", 1.0, THREE), y)

    def model():
        theta = numpyro.sample("theta", dist.Normal(0.0, 2.0))
        seen.observe("y", theta * step)

    theta = np.linspace(-4, 5, 46)
    p = np.array([by_definition(y - t * step, np.ones(3), 1.0)[0] for t in theta])
    p *= np.exp(-(theta**2) / 8)
    p /= p.sum()
    mean = theta @ p
    sd = np.sqrt((theta - mean) ** 2 @ p)
    with jax.enable_x64(True):
        mcmc = fitting.fit(key, model, num_samples=1500)
        draws = np.asarray(mcmc.get_samples()["theta"])
        diverging = int(mcmc.get_extra_fields()["diverging"].sum())
    found = cdp.summarise(cdp.to_datatree({"theta": draws.reshape(2, -1)}, cells=()))
    # a few draws diverge beside scales that are hardly in balance, where the Gaussian is degenerate
    assert diverging <= 0.005 * draws.size and found["r_hat"].iloc[0] < 1.01
    assert abs(draws.mean() - mean) < 5 * found["mean_mcse"].iloc[0]
    assert abs(draws.std() - sd) < 5 * sd / np.sqrt(found["ess_bulk"].iloc[0])
