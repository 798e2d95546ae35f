"""Imaged Laplace: its density by integration, its draws against NumPy's own, projected."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

pytestmark = pytest.mark.usefixtures("float64")
DRAWS = 20_000
COSTS = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.7])
log_prob = jax.jit(lambda view, y: view.log_prob(y))


def one(scale, weights, costs=None):
    n = len(weights)
    return cdp.Imaged(dist.Laplace(np.zeros(n), scale), cdp.totals([0] * n, weights), weights=costs)


def moving(inv, costs):
    """The oblique projection Π: closest in Σw(y − z)², dense."""
    A = inv.matrix.toarray()
    back = A.T / costs[:, None]
    return np.eye(inv.n) - back @ np.linalg.solve(A @ back, A)


def test_three_equal_cells():
    view = one(1.0, np.ones(3))
    assert_allclose(view.variance, 4 / 3, rtol=1e-14)
    assert_allclose(view.covariance_matrix, 2 * (np.eye(3) - 1 / 3), atol=1e-14)


def test_two_equal_cells_by_hand():
    """X = (x, −x), x half a difference of two Laplace: density (1 + 2|x|/λ) e^{−2|x|/λ}/(2λ)."""
    x = np.array([0.0, 0.4, -3.0, 20.0])
    want = np.log1p(2 * np.abs(x) / 1.7) - 2 * np.abs(x) / 1.7 - np.log(2 * 1.7) - 0.5 * np.log(2)
    got = one(1.7, np.ones(2)).log_prob(np.stack([x, -x], -1))
    assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "costs"), [(np.ones(2), None), (np.array([2.0, -0.5]), np.array([1.0, 4.0]))]
)
def test_density_integrates_to_one_on_a_line(weights, costs):
    view = one(np.array([1.0, 3.0]), weights, costs)
    line = np.array([weights[1], -weights[0]]) / np.linalg.norm(weights)
    t = np.linspace(-150, 150, 300_001)  # the kink is a grid point
    density = np.exp(log_prob(view, t[:, None] * line))
    assert_allclose(density.sum() * (t[1] - t[0]), 1, atol=1e-6)
    variance = (t * t * density).sum() * (t[1] - t[0])
    assert_allclose(view.variance, variance * line**2, rtol=1e-5)


@pytest.mark.parametrize("costs", [None, np.array([1.0, 4.0, 0.3])])
def test_density_integrates_to_one_on_a_plane(costs):
    """Normaliser and second moments by the trapezoid rule: the kinks cost O(step²)."""
    scale, weights = np.array([0.5, 1.0, 0.8]), np.array([1.0, -2.0, 1.5])
    view = one(scale, weights, costs)
    unit = weights / np.linalg.norm(weights)
    K = np.linalg.svd(unit[None])[2][1:]
    t = np.linspace(-14, 14, 561)
    grid = np.stack(np.meshgrid(t, t), -1).reshape(-1, 2) @ K
    density = np.exp(log_prob(view, grid)) * (t[1] - t[0]) ** 2
    assert_allclose(density.sum(), 1, atol=1e-3)
    got = grid.T @ (density[:, None] * grid)
    assert_allclose(got, view.covariance_matrix, atol=5e-3)


@pytest.mark.parametrize("costs", [None, COSTS], ids=["l2", "weighted"])
def test_draws_are_projected_laplace_draws(costs, scale, key):
    """Two samples of random projections, d = 4; without the move they differ."""
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    view = cdp.Imaged(dist.Laplace(np.zeros(6), scale), inv, weights=costs)
    x = np.asarray(jax.jit(lambda view, key: view.sample_noise(key, (DRAWS,)))(view, key))
    rng = np.random.default_rng(1)
    raw = rng.laplace(size=(DRAWS, 6)) * scale
    project = moving(inv, np.ones(6) if costs is None else costs)
    for w in rng.normal(size=(4, 6)):
        assert stats.ks_2samp(x @ w, raw @ project.T @ w).pvalue > 1e-6
    assert stats.ks_2samp(x[:, 2], raw[:, 2]).pvalue < 1e-6  # the cell that moves most
    want = project @ np.diag(2 * scale**2) @ project.T
    assert_allclose(view.covariance_matrix, want, atol=1e-12)
    assert_allclose(view.variance, np.diag(want), rtol=1e-12)
    products = x[:, :, None] * x[:, None, :]
    assert np.all(np.abs(products.mean(0) - want) <= 5 * products.std(0) / np.sqrt(DRAWS))
    # conditioned noise has lighter tails, so this ratio is bounded; both densities agree with draws
    other = cdp.Conditioned(dist.Laplace(np.zeros(6), scale), inv)
    ratio = np.exp(other.log_prob(x) - view.log_prob(x))
    assert abs(ratio.mean() - 1) <= 5 * ratio.std() / np.sqrt(DRAWS)
    assert ratio.std() / np.sqrt(DRAWS) < 0.02


def test_the_other_way_round(noise_of, scale, key):
    """E p_imaged/p_conditioned over conditioned draws, for imaged noise of half the scale."""
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    conditioned = cdp.Conditioned(dist.Laplace(np.zeros(6), scale), inv)
    x = noise_of["conditioned"](key, inv, jnp.asarray(scale), DRAWS)
    imaged = cdp.Imaged(dist.Laplace(np.zeros(6), scale / 4), inv)
    ratio = np.exp(imaged.log_prob(x) - conditioned.log_prob(x))
    assert abs(ratio.mean() - 1) <= 5 * ratio.std() / np.sqrt(DRAWS)


def test_free_and_constant_cells(key):
    inv = cdp.totals(["a", "b", None, "b", "c", "c", "b"], missing="free")
    scale = np.array([1.0, 2.0, 3.0, 1.5, 4.0, 0.5, 0.7])
    view = cdp.Imaged(dist.Laplace(np.zeros(7), scale), inv)
    x = np.asarray(view.sample_noise(key, (2000,)))
    assert not np.any(x[:, 0]) and float(view.variance[0]) == 0
    assert stats.kstest(x[:, 2], stats.laplace(scale=3.0).cdf).pvalue > 1e-6
    assert_allclose(view.variance[2], 18.0)
    pair = one(scale[[4, 5]], np.ones(2)).log_prob(x[:5][:, [4, 5]])
    three = one(scale[[1, 3, 6]], np.ones(3)).log_prob(x[:5][:, [1, 3, 6]])
    free = stats.laplace(scale=3.0).logpdf(x[:5, 2])
    assert_allclose(view.log_prob(x[:5]), pair + three + free, rtol=1e-10)


@pytest.mark.parametrize("parameter", ["y", "scale"])
def test_gradients(parameter, scale):
    """Against central differences, along the subspace and in every scale."""
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    z = jnp.array([1.0, -2.0, 0.5, 3.0])

    def density(z, scale):
        return cdp.Imaged(dist.Laplace(jnp.zeros(6), scale), inv, weights=COSTS).log_prob(
            inv.embed(z)
        )

    value = jax.jit(density)
    place = ["y", "scale"].index(parameter)
    args = [z, jnp.asarray(scale)]
    got, h = jax.jit(jax.grad(density, argnums=place))(*args), 1e-5
    want = []
    for e in h * np.eye(args[place].size):
        up, down = list(args), list(args)
        up[place], down[place] = args[place] + e, args[place] - e
        want.append((value(*up) - value(*down)) / (2 * h))
    assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_overlapping_totals_are_sampled_but_have_no_density(key):
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    view = cdp.Imaged(dist.Laplace(np.zeros(6), 1.0), inv)
    x = view.sample_noise(key, (DRAWS,))
    assert bool(jnp.all(view.support(x)))
    want = moving(inv, np.ones(6))
    assert_allclose(view.covariance_matrix, 2 * want, atol=1e-12)
    raw = np.random.default_rng(0).laplace(size=(DRAWS, 6)) @ want
    assert stats.ks_2samp(x @ np.arange(6.0), raw @ np.arange(6.0)).pvalue > 1e-6
    with pytest.raises(UnsupportedError, match="use log_prob_estimate"):
        view.log_prob(x[0])


def test_the_noise_is_independent_of_the_precision(scale, key):
    """float32 density at the same point, small and large units."""
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    y = np.asarray(inv.project(np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])))
    want = cdp.Imaged(dist.Laplace(np.zeros(6), scale), inv).log_prob(y)
    for unit in (1e-6, 1.0, 1e6):
        with jax.enable_x64(False):
            view = cdp.Imaged(dist.Laplace(np.zeros(6), unit * scale), inv)
            got = view.log_prob(jnp.asarray(unit * y, jnp.float32))
        assert got.dtype == jnp.float32
        assert_allclose(got + 4 * np.log(unit), want, atol=3e-5)
