"""Profiles and trade-off curves: the numbers, and what the picture says of them."""

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("matplotlib")

import matplotlib.text

from cdp_views.loss import BoundedLoss, GaussianLoss, SampledLoss
from cdp_views.privacy import PrivacyLoss, WorstDifference
from cdp_views.report import profile_curves, profile_figure, write_figure


def loss(law):
    return PrivacyLoss(law, WorstDifference(0, (0, 1), (1.0, -1.0)), 2**0.5, "one record moves")


@pytest.fixture(scope="module")
def losses():
    draws = np.random.default_rng(3).normal(0.5, 1.0, (1, 4000))  # of L ~ N(μ²/2, μ²), μ = 1
    return {
        ("normal", "unconstrained"): loss(GaussianLoss(np.array([1.4]))),
        ("normal", "conditioned"): loss(GaussianLoss(np.array([1.4]))),
        ("laplace", "imaged"): loss(BoundedLoss(np.array([1.2]))),
        ("laplace", "max-entropy"): loss(SampledLoss(draws)),
    }


@pytest.fixture(scope="module")
def curves(losses):
    return profile_curves(losses)


def words(figure):
    return " ".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def test_curves_against_closed_forms(curves):
    a = curves["type_one"].values
    np.testing.assert_allclose(curves["tradeoff"][0], norm.cdf(norm.isf(a) - 1.4), atol=1e-8)
    e = np.exp(1.2)
    pure = np.maximum.reduce([1 - e * a, (1 - a) / e, 0 * a])
    np.testing.assert_allclose(curves["tradeoff"][2], pure, atol=1e-8)
    epsilon = curves["epsilon"].values
    delta = norm.cdf(0.7 - epsilon / 1.4) - np.exp(epsilon) * norm.cdf(-0.7 - epsilon / 1.4)
    np.testing.assert_allclose(curves["delta"][1], delta, atol=1e-12)
    assert curves["kind"].values.tolist() == ["exact", "exact", "bound", "estimate"]


def test_the_band_of_an_estimate_holds_the_truth_and_its_curve_is_convex(curves):
    epsilon, a = curves["epsilon"].values, curves["type_one"].values
    truth = norm.cdf(0.5 - epsilon) - np.exp(epsilon) * norm.cdf(-0.5 - epsilon)
    estimate = curves.isel(mechanism=3)
    assert (estimate["delta_low"] <= truth).all() and (truth <= estimate["delta_high"]).all()
    errors = norm.cdf(norm.isf(a) - 1.0)
    assert (estimate["tradeoff_low"] <= errors + 1e-9).all()
    inside = (a > 0.1) & (a < 0.9)  # beyond, ε above the last of the figure counts
    assert (errors <= estimate["tradeoff_high"] + 1e-9).values[inside].all()
    assert (np.diff(estimate["tradeoff"], 2) > -1e-12).all()
    assert np.isnan(curves["delta_low"][0]).all()


def test_the_picture_says_what_it_shows(curves, tmp_path):
    figure = profile_figure(curves)
    said = words(figure)
    for word in (
        "Normal noise",
        "Laplace noise",
        "unconstrained (exact)",
        "at most 76.85 %  imaged (bound)",
        "max-entropy (estimate)",
        "one record moves",
        "solid: exact",
        "dashed",
        "band",
        "blind guessing",
    ):
        assert word in said
    dashed = [line for line in figure.axes[2].lines if line.get_linestyle() == "--"]
    assert [line.get_label() for line in dashed] == ["imaged"]
    assert len(figure.axes[2].collections) == 1  # the band
    write_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_words_do_not_lie_on_each_other_or_leave_the_picture(curves):
    figure = profile_figure(curves)
    figure.draw_without_rendering()
    texts = [figure._suptitle]
    for ax in figure.axes:
        texts += [ax._left_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
    shown = [t for t in texts if t.get_text() and t.get_visible()]
    boxes = [matplotlib.text.Text.get_window_extent(t) for t in shown]
    for i, box in enumerate(boxes):
        assert box.x1 <= figure.bbox.x1, shown[i].get_text()
        for j in range(i):
            assert not box.overlaps(boxes[j]), (shown[i].get_text(), shown[j].get_text())


def test_one_kind_needs_no_key_to_others(losses):
    said = words(profile_figure(profile_curves({"conditioned": losses["normal", "conditioned"]})))
    assert "solid: exact" in said and "dashed" not in said and "band" not in said


@pytest.mark.parametrize("epsilon", [[1.0], [0.0, 0.0], [-1.0, 1.0], [0.0, np.nan], 1.0])
def test_bad_epsilon_is_named(losses, epsilon):
    with pytest.raises(ValueError, match="`epsilon`"):
        profile_curves(losses, epsilon=epsilon)


def test_no_losses():
    with pytest.raises(ValueError, match="`losses`"):
        profile_curves({})
