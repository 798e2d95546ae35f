"""Estimates from ratios that are estimates too, against the normal loss in closed form."""

import numpy as np
import pytest

from cdp_views.loss import GaussianLoss, NestedLoss

MU = 1.0


def normal(r: int, noise: float) -> NestedLoss:
    """p(y − v)/p(y) = e^{−μz − μ²/2} with unbiased noise on three independent estimates of it."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((1, r, 1)) * np.array([1.0, -1.0])
    exact = np.exp(-MU * z - MU**2 / 2)
    test, rest = (exact * rng.gamma(noise, 1 / noise, exact.shape) for _ in range(2))
    return NestedLoss((test + rest) / 2, test, rest)


def test_the_truth_lies_between_and_the_band_holds_it():
    law, truth = normal(20_000, 5.0), GaussianLoss([MU])
    epsilon = np.array([[0.0], [0.5], [1.0]])
    want = truth.delta(epsilon)
    assert (law.delta_below(epsilon) < want).all() and (want < law.delta(epsilon)).all()
    low, high = law.delta_band(epsilon)
    assert ((low < want) & (want < high)).all()
    assert (np.abs(law.delta(epsilon) - want) < 3 * law.delta_stderr(epsilon)).all()
    # negative control: the spread of the draws alone would not reach the truth
    plain = NestedLoss(law.ratios, law.ratios, law.ratios)
    assert (law.delta(epsilon) - want > 5 * plain.delta_stderr(epsilon)).all()


def test_exact_ratios_give_the_normal_profile_and_its_inverse():
    law, truth = normal(20_000, 1e9), GaussianLoss([MU])
    assert abs(law.guess_rate[0] - truth.guess_rate[0]) < 5 * law.stderr[0]
    for delta in (0.3, 0.05):
        epsilon = law.epsilon(delta)
        assert abs(law.delta(epsilon)[0] - delta) < 1e-9
        assert abs(epsilon[0] - truth.epsilon(delta)[0]) < 5 * law.epsilon_stderr(delta)[0]
    assert law.epsilon(1e-9)[0] == np.inf and law.sup[0] == np.inf and law.epsilon(1.0)[0] == 0
    two, wanted = law.repeated(2), GaussianLoss([MU * 2**0.5])
    assert abs(two.delta(0.5)[0] - wanted.delta(0.5)[0]) < 5 * two.delta_stderr(0.5)[0]
    assert law.take(np.array([0])).delta(0.5) == law.delta(0.5)


def test_bad_input():
    good = np.ones((1, 3, 1))
    for bad in (np.ones((1, 1, 1)), np.ones(3)):
        with pytest.raises(ValueError, match=r"^`ratios` must have one shape"):
            NestedLoss(bad, good, good)
    with pytest.raises(ValueError, match=r"^`test` must not be negative"):
        NestedLoss(good, -good, good)
    with pytest.raises(ValueError, match=r"^`level` must lie"):
        NestedLoss(good, good, good).delta_band(0.0, level=1.0)
    with pytest.raises(ValueError, match=r"^`times` must be at most half"):
        NestedLoss(good, good, good).repeated(2)
