"""Conditioned Laplace on overlapping totals: Gamma law, constant by quadrature, MCMC said aloud."""

import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy import integrate, stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64", "lightly_compiled")
A4 = np.array([[1.0, 1, 1, 0], [0, 2, 1, 1]])
SCALE4 = np.array([1.0, 2.0, 0.5, 1.5])
slow = pytest.mark.slow


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def view_of(rows, scale):
    inv = cdp.linear(rows) if isinstance(rows, np.ndarray) else rows
    return cdp.Conditioned(dist.Laplace(np.zeros(inv.n), scale), inv)


def half_ones(k, n):
    rng = np.random.default_rng(k)
    return (rng.random((k, n)) < 0.5).astype(float), np.exp(0.3 * rng.normal(size=n))


@jax.jit
def noise(view, key):
    return view.sample_noise(key, (10_000,))


def test_constant_against_polar_quadrature():
    """∫ exp(−‖z‖) over a plane is ∫ ‖direction‖⁻² dθ for a norm ‖·‖."""
    view, basis = view_of(A4, SCALE4), scipy.linalg.null_space(A4)

    def inverse_square(angle):
        return np.sum(np.abs(basis @ [np.cos(angle), np.sin(angle)]) / SCALE4) ** -2

    kinks = np.sort((np.arctan2(-basis[:, 0], basis[:, 1])[:, None] + [0, np.pi, -np.pi]).ravel())
    area = sum(
        integrate.quad(inverse_square, a, b)[0]
        for a, b in itertools.pairwise(kinks)
        if -np.pi <= a and b <= np.pi
    )
    first, last = kinks[kinks >= -np.pi][0], kinks[kinks <= np.pi][-1]
    area += integrate.quad(inverse_square, last, first + 2 * np.pi)[0]
    assert view.log_normalizer_stderr < 1e-3
    error = 5 * view.log_normalizer_stderr
    assert_allclose(view.log_normalizer, np.log(area), atol=error)
    assert_allclose(view.log_prob(np.zeros(4)), -np.log(area), atol=error)
    assert_allclose(view.entropy(), 2 + np.log(area), atol=error)
    # scaling λ by c scales the constant by c^d
    assert_allclose(view_of(A4, 3 * SCALE4).log_normalizer - view.log_normalizer, 2 * np.log(3))


@pytest.mark.parametrize(
    "k",
    [
        pytest.param(2, marks=slow),
        pytest.param(3),
        *(pytest.param(j, marks=slow) for j in (4, 5, 6)),
    ],
)
def test_gamma_law_and_acceptance(k, key):
    rows, scale = half_ones(k, 100)
    view = view_of(rows, scale)
    assert view.sampler == "exact"
    assert view.chances[0] > np.pi ** (-k / 2)
    assert view.log_normalizer_stderr < 1e-3
    x = np.asarray(noise(view, key))
    size = np.sum(np.abs(x) / scale, -1)
    assert stats.kstest(size, stats.gamma(100 - k).cdf).pvalue > 1e-6
    assert stats.kstest(size, stats.gamma(100).cdf).pvalue < 1e-6  # independent cells are not it
    assert np.all(view.support(x))
    assert np.abs(x @ rows.T).max() < 1e-11


@slow
def test_draws_against_the_density_on_a_plane(key):
    """P(X/|X| within an angle) from draws and by the polar integral; unconditioned ω is not it."""
    view, basis = view_of(A4, SCALE4), scipy.linalg.null_space(A4)
    z = np.asarray(noise(view, key)) @ basis
    angle = np.arctan2(z[:, 1], z[:, 0])
    grid = np.linspace(-np.pi, np.pi, 20_001)
    ray = np.sum(np.abs(np.stack([np.cos(grid), np.sin(grid)], -1) @ basis.T) / SCALE4, -1) ** -2
    cdf = integrate.cumulative_trapezoid(ray, grid, initial=0)
    assert stats.kstest(angle, lambda a: np.interp(a, grid, cdf / cdf[-1])).pvalue > 1e-6
    scales = SCALE4 * np.sqrt(2 * np.random.default_rng(3).exponential(size=(60_000, 4)))
    u = np.random.default_rng(4).normal(size=(60_000, 4))
    wrong = np.asarray(view.invariant.colour(u, 1 / scales**2)) @ basis
    wrong = np.arctan2(wrong[:, 1], wrong[:, 0])
    assert stats.kstest(wrong, lambda a: np.interp(a, grid, cdf / cdf[-1])).pvalue < 1e-6


@slow
def test_parts_that_share_no_total_beside_overlapping_ones(key):
    """A block of disjoint totals costs no acceptance, and constants of parts multiply."""
    rows = scipy.linalg.block_diag(A4, np.kron(np.eye(3), np.ones((1, 2))))[:, ::-1]
    scale = np.concatenate([np.arange(1.0, 7), SCALE4[::-1]])
    view = view_of(np.ascontiguousarray(rows), scale)
    alone = view_of(A4, SCALE4)
    assert_allclose(view.chances, alone.chances, rtol=1e-2)
    pairs = cdp.Conditioned(dist.Laplace(np.zeros(6), scale[:6]), cdp.totals([2, 2, 1, 1, 0, 0]))
    want = alone.log_normalizer + pairs.log_normalizer
    assert_allclose(view.log_normalizer, want, atol=5 * np.sqrt(2) * alone.log_normalizer_stderr)
    size = np.sum(np.abs(noise(view, key)) / scale, -1)
    assert stats.kstest(size, stats.gamma(5).cdf).pvalue > 1e-6


@slow
def test_margins_by_gibbs_say_so(key):
    """Twenty-five totals accept less than once in 1000; six (3 × 4) are still drawn exactly."""
    few = view_of(cdp.margins((3, 4), [(0,), (1,)]), 1 + np.arange(12) / 12)
    assert few.sampler == "exact" and few.chances[0] > np.pi**-3
    scale = 1 + np.arange(168) / 168
    view = view_of(cdp.margins((12, 14), [(0,), (1,)]), scale)
    assert view.sampler == "MCMC (Gibbs)"
    assert view.r_hat < 1.01 and view.ess_per_sweep > 0.3
    size = np.sum(np.abs(noise(view, key)) / scale, -1)
    assert stats.kstest(size, stats.gamma(143).cdf).pvalue > 1e-6
    with pytest.raises(cdp.UnsupportedError, match="`log_prob` of the conditioned view"):
        view.log_prob(np.zeros(168))


def test_contract(key):
    inv, loc = cdp.linear(A4), np.array([10.0, 200.0, 35.0, 4.0])
    both = np.stack([SCALE4, 2 * SCALE4])
    view = cdp.Conditioned(dist.Laplace(loc, both), inv)
    y = view.sample(key, (5,))
    assert y.shape == (5, 2, 4) and view.log_prob(y).shape == (5, 2)
    for i in range(2):
        row = cdp.Conditioned(dist.Laplace(loc, both[i]), inv)
        assert_allclose(view.log_prob(y)[:, i], row.log_prob(y[:, i]))
    again = pickle.loads(pickle.dumps(view))
    assert_allclose(again.sample(key, (5,)), y)
    assert_allclose(jax.jit(lambda v, y: v.log_prob(y))(view, y), view.log_prob(y))
    assert np.isneginf(row.log_prob(y[0, 0] + np.eye(4)[0]))
    slope = jax.grad(lambda q: cdp.Conditioned(dist.Laplace(q, SCALE4), inv).log_prob(y[0, 0]))(
        jnp.asarray(loc)
    )
    assert_allclose(slope, np.sign(np.asarray(y[0, 0]) - loc) / SCALE4)
    with pytest.raises(cdp.UnsupportedError, match="`scale` is traced"):
        jax.jit(lambda s: cdp.Conditioned(dist.Laplace(loc, s), inv).log_prob(y[0, 0]))(SCALE4)
    nb = cdp.differences(scipy.linalg.null_space(A4).T)
    loss = cdp.privacy_loss(row, nb)
    assert_allclose(
        loss.pure_epsilon,
        np.max(np.sum(np.abs(scipy.linalg.null_space(A4).T) / both[1], 1)),
        rtol=1e-9,
    )
