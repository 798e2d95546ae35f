"""Noise from a secret: the law of the view, and every group's noise wherever the group lies."""

import jax
import numpy as np
import pytest
from scipy import stats

import cdp_views as cdp
from cdp_views.releases.mechanism import law
from cdp_views.releases.noise.cells import cell_ids
from cdp_views.releases.noise.drawing import draw, laplace, normal
from cdp_views.releases.noise.secret import Secret

GROUPS = 4_000
SIZE = 3
LABELS = np.repeat(np.arange(GROUPS), SIZE)
SCALE = np.tile([1.0, 2.0, 3.0], GROUPS)
IDS = cell_ids({"cell": [str(i) for i in range(GROUPS * SIZE)]})
SECRET = Secret(bytes(range(32)))
LAWS = [
    ("conditioned", "normal"),
    ("imaged", "normal"),
    ("max-entropy", "normal"),
    ("conditioned", "laplace"),
    ("imaged", "laplace"),
    ("conditioned", "discrete-laplace"),
    ("imaged", "discrete-laplace"),
    ("conditioned", "discrete-normal"),
    ("imaged", "discrete-normal"),
]
BALANCED = np.tile([2.0, 2.0, 3.0], GROUPS)  # (1, 2, 3) is on the boundary of maximum entropy


@pytest.mark.parametrize(("view", "noise"), LAWS)
def test_the_moments_are_those_of_the_view(view, noise):
    """4,000 groups alike: second and fourth moments of every cell against the view's own law."""
    inv = cdp.totals(LABELS)
    scale = BALANCED if view == "max-entropy" else SCALE
    x, generator = draw(SECRET, IDS, view, noise, scale, inv)
    assert generator == "threefry4x64-20" and x.dtype == np.float64
    x = x.reshape(GROUPS, SIZE)
    assert np.all(np.abs(x.sum(axis=1)) < 1e-12 * np.abs(x).max() + 1e-13)
    one = cdp.totals([0] * SIZE)
    with jax.enable_x64(True):
        view_of_one = law(view, noise, np.zeros(SIZE), scale[:SIZE], one)
        variance = np.asarray(view_of_one.variance)
    assert np.all(np.abs(x.mean(axis=0)) < 5 * np.sqrt(variance / GROUPS))
    spread = np.sqrt(np.mean(x**4, axis=0) - np.mean(x**2, axis=0) ** 2) / np.sqrt(GROUPS)
    assert np.all(np.abs(np.mean(x**2, axis=0) - variance) < 5 * spread)
    # negative control: a scale 15 % off would be seen
    assert np.any(np.abs(1.15**2 * np.mean(x**2, axis=0) - variance) > 5 * spread)


@pytest.mark.parametrize("view", ["conditioned", "imaged"])
def test_whole_noise_has_the_probabilities_of_the_view(view):
    inv = cdp.totals(LABELS)
    x, _ = draw(SECRET, IDS, view, "discrete-laplace", np.asarray(1.0), inv)
    x = x.reshape(GROUPS, SIZE)
    points = np.array([[0, 0, 0], [1, -1, 0], [0, 1, -1], [2, -1, -1]])
    with jax.enable_x64(True):
        made = law(
            view, "discrete-laplace", np.zeros(SIZE), np.asarray(1.0), cdp.totals([0] * SIZE)
        )
        p = np.exp(np.asarray(made.log_prob(points)))
    seen = np.array([np.mean(np.all(x == point, axis=1)) for point in points])
    assert np.all(np.abs(seen - p) < 5 * np.sqrt(p * (1 - p) / GROUPS))
    assert np.any(np.abs(seen - 1.3 * p) > 5 * np.sqrt(p * (1 - p) / GROUPS))  # control


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-normal"])
@pytest.mark.parametrize("view", ["conditioned", "imaged"])
def test_a_part_of_whole_groups_has_the_noise_of_the_whole_table(view, noise):
    """Partitions moved, joined and retried: bit for bit the same, as no sum is rounded."""
    whole, _ = draw(SECRET, IDS, view, noise, SCALE, cdp.totals(LABELS))
    part = np.r_[300:600, 30:90]  # whole groups, in another order
    own, _ = draw(SECRET, IDS[:, part], view, noise, SCALE[part], cdp.totals(LABELS[part]))
    assert np.array_equal(own, whole[part])
    other, _ = draw(Secret(bytes(32)), IDS, view, noise, SCALE, cdp.totals(LABELS))
    assert np.mean(other == whole) < 0.5


@pytest.mark.parametrize(("view", "noise"), LAWS[:5])
def test_a_part_has_the_real_noise_of_the_whole_table(view, noise):
    scale = BALANCED if view == "max-entropy" else SCALE
    whole, _ = draw(SECRET, IDS, view, noise, scale, cdp.totals(LABELS))
    part = np.r_[300:600, 30:90]
    own, _ = draw(SECRET, IDS[:, part], view, noise, scale[part], cdp.totals(LABELS[part]))
    np.testing.assert_allclose(own, whole[part], rtol=0, atol=1e-13)


def test_free_cells_lone_cells_and_weights():
    inv = cdp.totals([None, 0, 0, 0, 1, None], weights=[1, 1, 2, -1, 3, 1], missing="free")
    x, _ = draw(SECRET, IDS[:, :6], "conditioned", "laplace", np.full(6, 2.0), inv)
    assert abs(x[1] + 2 * x[2] - x[3]) < 1e-13 and x[4] == 0 and np.all(x[[0, 5]] != 0)
    # cells without a total: E|X| = λ with standard deviation λ, within 5 standard errors
    many = cdp.totals([None] * 6_000, missing="free")
    x, _ = draw(SECRET, IDS[:, :6_000], "conditioned", "laplace", np.asarray(2.0), many)
    assert abs(np.mean(np.abs(x)) - 2) < 5 * 2 / np.sqrt(6_000)


def test_overlapping_totals_repeat_for_the_same_table():
    inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    drawn = [draw(SECRET, IDS[:, :6], "conditioned", "laplace", np.asarray(2.0), inv) for _ in "ab"]
    assert np.array_equal(drawn[0][0], drawn[1][0])
    assert drawn[0][1] == "threefry4x64-20, threefry2x32"  # and the caveat of a release says so
    assert np.allclose(inv.matrix @ drawn[0][0], 0, atol=1e-12)


def test_base_noise_and_conditioned_laplace_have_their_laws():
    """Kolmogorov–Smirnov: of the cells, and of ‖X/λ‖₁ ~ Gamma(d, 1) given exact totals."""
    words = SECRET.words(IDS, 7)
    x, _ = draw(SECRET, IDS, "conditioned", "laplace", SCALE, cdp.totals(LABELS))
    norm = np.sum(np.abs(x / SCALE).reshape(GROUPS, SIZE), axis=1)
    for sample, law_ in (
        (normal(words), stats.norm()),
        (laplace(words), stats.laplace()),
        (norm, stats.gamma(SIZE - 1)),
    ):
        assert stats.kstest(sample, law_.cdf).pvalue > 1e-4
        assert stats.kstest(1.15 * sample, law_.cdf).pvalue < 1e-6  # control
