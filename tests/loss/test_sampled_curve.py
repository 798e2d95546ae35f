"""Trade-off curves of samples: against lines at every ε, the truth, and their own bands."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views.loss import BoundedLoss, GaussianLoss, NestedLoss, SampledLoss
from cdp_views.loss.sampled_curve import curve_of_draws
from cdp_views.privacy import PrivacyLoss, WorstDifference

A = np.linspace(0, 1, 101)
MU = 1.0


def normal_draws(r, seed, mu=MU):
    return mu**2 / 2 + mu * np.random.default_rng(seed).standard_normal((1, r))


def by_lines(law, top):
    """max over a fine grid of ε of the two branches, from δ̂ alone."""
    epsilon = np.linspace(0, top, 40_001)
    delta = law.delta(epsilon[:, None])[:, 0]
    best = np.zeros(A.size)
    for i, a in enumerate(A):
        lines = [1 - delta - np.exp(epsilon) * a, np.exp(-epsilon) * (1 - delta - a)]
        best[i] = max(0.0, np.max(lines))
    return best


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_curve_is_that_of_all_epsilon(symmetric):
    law = SampledLoss(normal_draws(300, 0), symmetric=symmetric)
    got = law.tradeoff(A[:, None])[:, 0]
    want = by_lines(law, float(np.abs(law.draws).max()) + 0.1)
    assert np.all(got >= want - 1e-12) and np.max(got - want) < 2e-4
    assert np.all(np.diff(got, 2) > -1e-12)  # convex: it does not jump
    assert got[0] == 1 and got[-1] == 0 and np.all(got <= 1 - A + 1e-12)


def test_few_draws_and_endless_ones():
    law = SampledLoss([[3.0, 0.5, -1.0, np.inf]])
    got = law.tradeoff(A[:, None])[:, 0]
    assert got[0] == 0.75  # one of four tells them apart for certain
    assert_allclose(got, by_lines(law, 5.0), atol=3e-4)
    assert_allclose(curve_of_draws(np.full(3, -1.0), np.ones(3), A), 1 - A)
    assert np.isfinite(SampledLoss([[800.0, 900.0, 1e4]]).tradeoff(A[:, None])).all()
    many = SampledLoss(np.array([[1.0] * 5, [2.0] * 5]))
    assert many.tradeoff(0.1).shape == (2,) and many.tradeoff(A[:, None]).shape == (101, 2)
    both = many.tradeoff(np.array([0.1, 0.1]))
    assert_allclose(both, many.tradeoff(0.1))


def test_bands_hold_whole_curves():
    """40 repetitions at 90 %, all a at once: 12 misses have a chance below 0.2 %."""
    truth = GaussianLoss([MU]).tradeoff(A[:, None])[:, 0]
    missed, narrow = 0, 0
    for seed in range(40):
        law = SampledLoss(normal_draws(500, seed), symmetric=seed % 2 == 0)
        low, high = (end[:, 0] for end in law.tradeoff_band(A[:, None], level=0.9))
        middle = law.tradeoff(A[:, None])[:, 0]
        assert np.all((low <= middle + 1e-12) & (middle <= high + 1e-12))
        missed += np.any((truth < low - 1e-12) | (truth > high + 1e-12))
        low, high = low + 0.8 * (middle - low), high + 0.8 * (middle - high)
        narrow += np.any((truth < low - 1e-12) | (truth > high + 1e-12))
    assert missed <= 12
    assert narrow > 12  # a control: bands of a fifth of this width miss


def test_bands_use_what_is_proved():
    p = 1 / (1 + np.exp(-1.0))
    draws = np.where(np.random.default_rng(0).random((1, 200)) < p, 1.0, -1.0)
    low, high = SampledLoss(draws, [1.0]).tradeoff_band(A[:, None])
    assert np.all(low >= BoundedLoss([1.0]).tradeoff(A[:, None]) - 1e-9)
    assert np.all(high >= low)
    with pytest.raises(ValueError, match=r"^`level` must lie between 0 and 1; got 1\."):
        SampledLoss(draws).tradeoff_band(0.1, level=1.0)


def nested(r, seed, noise=0.3):
    """Ratios of a normal loss, each with an unbiased lognormal error."""
    rng = np.random.default_rng(seed)
    x = MU**2 / 2 + MU * rng.standard_normal((1, r, 2))

    def off():
        return np.exp(noise * rng.standard_normal(x.shape) - noise**2 / 2)

    ratio = np.exp(-x)
    return NestedLoss(ratio * off(), ratio * off(), ratio * off())


def test_curves_of_estimated_densities():
    truth = GaussianLoss([MU]).tradeoff(A[:, None])[:, 0]
    law = nested(2000, 1)
    got = law.tradeoff(A[:, None])[:, 0]
    assert np.all(np.diff(got, 2) > -1e-12)
    # from below in the mean, and not far
    assert np.all(got < truth + 0.02) and np.max(truth - got) < 0.06
    missed = 0
    for seed in range(20):
        low, high = (end[:, 0] for end in nested(400, seed).tradeoff_band(A[:, None]))
        missed += np.any((truth < low) | (truth > high))
        assert np.all(np.diff(high, 2) > -1e-9) and np.all(high <= 1 - A + 1e-12)
    assert missed <= 2
    assert np.max(high - low) < 0.5


def test_a_result_has_the_band_of_all_its_differences():
    worst = WorstDifference(0, (0, 1), (1.0, -1.0))
    draws = np.concatenate([normal_draws(500, 0), normal_draws(500, 1, 0.5)])
    loss = PrivacyLoss(SampledLoss(draws), worst, 2**0.5, "one record moves")
    low, high = loss.tradeoff_band(A)
    curve = loss.tradeoff(A)
    assert np.all((low <= curve + 1e-12) & (curve <= high + 1e-12))
    wider = SampledLoss(draws[:1]).tradeoff_band(A[:, None], level=0.995)[0][:, 0]
    assert_allclose(low, wider)
    exact = PrivacyLoss(GaussianLoss([1.0]), worst, 2**0.5, "one record moves")
    assert_allclose(exact.tradeoff_band(A)[1], exact.tradeoff(A))
    bound = PrivacyLoss(BoundedLoss([1.0]), worst, 2**0.5, "one record moves")
    assert_allclose(bound.tradeoff_band(A)[1], 1 - A)
