"""Likelihood ratios of coupled releases, against dense algebra and what is known in closed form."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views._float64 import float64
from cdp_views.loss import NestedLoss
from cdp_views.precision.laplace_profile import two_cells
from cdp_views.views.max_entropy import particles
from cdp_views.views.max_entropy.estimated import estimated_loss

pytestmark = pytest.mark.usefixtures("lightly_compiled")
KEY = jax.random.key(5)


def move(n, *changes):
    v = np.zeros((1, n))
    for cell, size in changes:
        v[0, cell] = size
    return sparse.csr_array(v)


def estimate(labels, v, base=None, draws=1000, **options) -> NestedLoss:
    n = len(labels)
    base = dist.Laplace(np.zeros(n), 1.0) if base is None else base
    view = cdp.MaxEntropy(base, cdp.totals(labels))
    return estimated_loss(view, KEY, v, draws, **options)


def test_given_scales_it_is_the_gaussian_of_largest_entropy():
    with jax.enable_x64(True):
        b, sigma = (
            np.array([1.0, 2.0, 3.0, 2.5, 0.0, 0.0]),
            np.array([1.0, 1.2, 0.7, 1.0, 1.0, 1.0]),
        )
        member = np.arange(6) < 4
        group = particles.Group(
            None, None, float64(b), float64(sigma), float64(1.0), float64(member) > 0,
            float64([4.0]), 2, False,
        )  # fmt: skip
        law = particles.solve(group, float64(sigma))
    nu = np.diag(np.asarray(law.nu)[:4])
    basis = np.linalg.svd(b[None, :4])[2][1:].T
    precision = basis.T @ nu @ basis
    covariance = basis @ np.linalg.inv(precision) @ basis.T
    np.testing.assert_allclose(np.diag(covariance), sigma[:4] ** 2, rtol=1e-9)
    np.testing.assert_allclose(float(law.logdet[0]), np.linalg.slogdet(precision)[1], rtol=1e-9)


def test_a_pair_is_one_cell_of_the_base():
    law = estimate(["a", "a"], move(2, (0, 1.0), (1, -1.0)), draws=4000)
    for epsilon in (0.0, 0.5):
        truth = two_cells(np.array(epsilon), 0.0, 1.0)
        assert abs(law.delta(epsilon)[0] - truth) < 5 * law.delta_stderr(epsilon)[0]
    assert law.delta(1.0)[0] < 1e-12  # pure ε is 1


@pytest.fixture(scope="module")
def three():
    """Few directions and many: the bracket must hold for both."""
    v = move(3, (0, 1.0), (1, -1.0))
    return [estimate(["a"] * 3, v, draws=2000, inner=inner) for inner in (8, 128)]


def test_the_bracket_closes_and_ratios_have_mean_one(three):
    few, many = three
    for law in three:
        ratio = law.ratios.mean(axis=(0, 2))
        assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(ratio.size)
    epsilon = np.array([[0.0], [0.5], [1.0]])
    width = [law.delta(epsilon) - law.delta_below(epsilon) for law in three]
    assert (width[1] < 0.012).all() and (width[0] > 2 * width[1]).all()
    # one truth: what few directions say above is not below what many say below, and conversely
    slack = 5 * few.delta_stderr(epsilon)
    assert (few.delta(epsilon) > many.delta_below(epsilon) - slack).all()
    low, high = many.delta_band(epsilon)
    assert (low < many.delta_below(epsilon)).all() and (many.delta(epsilon) < high).all()


def test_no_test_on_draws_gains_more_and_a_good_one_gains_as_much(three):
    """P(A) − e^ε P(A − v) of a simple region, by draws of the view itself: below δ(ε)."""
    view = cdp.MaxEntropy(dist.Laplace(np.zeros(3), 1.0), cdp.totals(["a"] * 3))
    x = np.asarray(view.sample_noise(jax.random.key(1), (20_000,)))
    v = np.array([1.0, -1.0, 0.0])
    inside = [(y @ v > -1).mean() for y in (x, x - v)]  # of smaller norm than x + v
    gain, law = inside[0] - inside[1], three[1]
    assert gain < law.delta_band(0.0)[1] + 0.02
    assert gain > law.delta(0.0)[0] - 5 * law.delta_stderr(0.0)[0] - 0.02


@pytest.mark.slow
def test_ratios_are_those_of_the_density_itself():
    """n = 3: δ by quadrature over the plane, the density from `log_prob_estimate`."""
    with jax.enable_x64(True):
        view = cdp.MaxEntropy(dist.Laplace(np.zeros(3), 1.0), cdp.totals(["a"] * 3))
        step = 0.5
        grid = np.arange(-6, 6 + step / 2, step) + 0.25  # symmetric about 0 and −½
        a, b = (g.ravel() for g in np.meshgrid(grid, grid))
        x = np.stack([a, b, -a - b], axis=-1)
        v = np.array([1.0, -1.0, 0.0])
        density = [
            np.exp(np.asarray(view.log_prob_estimate(y, KEY, draws=400).log_density)) * 3**0.5
            for y in (x, x + v)
        ]
    truth = np.maximum(density[0] - np.exp(0.5) * density[1], 0).sum() * step**2
    law = estimate(["a"] * 3, move(3, (0, 1.0), (1, -1.0)), draws=4000, inner=256)
    assert abs(law.delta(0.5)[0] - truth) < 5 * law.delta_stderr(0.5)[0] + 0.01


def test_losses_of_two_groups_add():
    labels = ["a", "a", "b", "b"]
    both = estimate(labels, move(4, (0, 1.0), (1, -1.0), (2, 0.5), (3, -0.5)), draws=4000)
    truth = two_cells(np.array(0.2), 0.5, 1.0)
    assert abs(both.delta(0.2)[0] - truth) < 5 * both.delta_stderr(0.2)[0]
    assert both.repeated(2).ratios.shape == (1, 1000, 2)
