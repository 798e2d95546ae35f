"""Estimates of a profile agree with the exact one within their own standard errors."""

import numpy as np
import pytest

from cdp_views.loss import BoundedLoss, GaussianLoss, Loss, SampledLoss

MU, EPSILON, DELTA = np.array([0.3, 1.0, 3.0]), (0.0, 0.5, 2.0), (0.02, 0.1, 0.3)


def normal_draws(mu=MU, r=20_000, seed=5):
    rng = np.random.default_rng(seed)
    return (mu**2 / 2)[:, None] + mu[:, None] * rng.standard_normal((len(mu), r))


def scores(law, truth):
    figures = [(law.delta(e), truth.delta(e), law.delta_stderr(e)) for e in EPSILON]
    figures.append((law.guess_rate, truth.guess_rate, law.stderr))
    for d in DELTA:
        use = truth.epsilon(d) > 0.05
        parts = (law.epsilon(d), truth.epsilon(d), law.epsilon_stderr(d))
        figures.append(tuple(part[use] for part in parts))
    return np.concatenate([np.abs(a - b) / error for a, b, error in figures])


def test_estimates_lie_within_five_standard_errors():
    law = SampledLoss(normal_draws())
    assert isinstance(law, Loss)
    assert law.kind == "estimate"
    assert scores(law, GaussianLoss(MU)).max() < 5
    # Negative control: 10 % more exposure must be told apart.
    assert scores(law, GaussianLoss(1.1 * MU)).max() > 5


def test_standard_errors_are_the_spread_of_repeated_estimates():
    laws = [SampledLoss(normal_draws(r=500, seed=s)) for s in range(300)]
    figures = {
        "guess": ([law.guess_rate for law in laws], [law.stderr for law in laws]),
        "delta": ([law.delta(0.5) for law in laws], [law.delta_stderr(0.5) for law in laws]),
        "epsilon": (
            [law.epsilon(0.05)[1:] for law in laws],
            [law.epsilon_stderr(0.05)[1:] for law in laws],
        ),
    }
    for repeats, stated in figures.values():
        np.testing.assert_allclose(np.mean(stated, axis=0), np.std(repeats, axis=0), rtol=0.2)


@pytest.mark.parametrize("draws", [normal_draws(r=50), np.array([[np.inf] * 3 + [-1.0, 2.0] * 5])])
def test_epsilon_inverts_delta(draws):
    law = SampledLoss(draws)
    for delta in np.linspace(1 / draws.shape[1], 0.99, 40):
        epsilon = law.epsilon(delta)
        value = law.delta(epsilon)
        assert (value <= delta + 1e-12).all() or np.isinf(epsilon[value > delta]).all()
        inside = (epsilon > 0) & np.isfinite(epsilon)
        np.testing.assert_allclose(value[inside], delta, rtol=1e-9)
    grid = law.delta(np.array([[0.0], [1.0]]))
    np.testing.assert_array_equal(grid, [law.delta(0.0), law.delta(1.0)])
    np.testing.assert_array_equal(law.epsilon(np.array([[0.2], [0.4]]))[1], law.epsilon(0.4))


def test_draws_prove_nothing():
    law = SampledLoss([[0.1, 0.2, 0.1, 0.3]])
    assert np.isinf(law.sup).all() and law.sup_kind == "bound"
    assert np.isinf(law.epsilon(1e-10)).all() and np.isinf(law.epsilon_stderr(1e-10)).all()
    assert (law.delta(50.0) == 0).all() and (law.delta_stderr(50.0) > 0.24).all()


def test_a_proved_supremum_is_kept():
    draws = np.array([[1.0, 1.0, -1.0, 1.0], [0.2, -0.2, 0.2, 0.1]])
    law = SampledLoss(draws, [1.0, 0.5])
    assert law.sup.tolist() == [1.0, 0.5] and law.sup_kind == "exact"
    assert law.epsilon(0.0).tolist() == [1.0, 0.5]
    np.testing.assert_array_equal(law.epsilon(1e-3), BoundedLoss([1.0, 0.5]).epsilon(1e-3))
    assert (law.delta(1.0) == 0).all() and (law.delta_stderr(1.0) == 0).all()
    assert law.take(np.array([1])).sup.tolist() == [0.5]
    assert SampledLoss(draws + 1e-6, [1.0, 0.5]).draws.max() == 1.0
    with pytest.raises(ValueError, match=r"^`draws` must not exceed `sup`; [^\n]+$"):
        SampledLoss(draws, [1.0, 0.1])


def test_randomised_response():
    """L = ±1 with chance e/(1 + e): the bound is attained."""
    p = 1 / (1 + np.exp(-1.0))
    draws = np.where(np.random.default_rng(0).random((1, 20_000)) < p, 1.0, -1.0)
    law, bound = SampledLoss(draws, [1.0]), BoundedLoss([1.0])
    for epsilon in (0.0, 0.5, 0.9):
        error = law.delta_stderr(epsilon)
        assert abs(law.delta(epsilon) - bound.delta(epsilon)) < 5 * error


@pytest.mark.parametrize("bad", [[[1.0]], [[np.nan, 1.0]], np.zeros((1, 2, 3))])
def test_bad_draws(bad):
    with pytest.raises(ValueError, match=r"^`draws` must [^\n]+$"):
        SampledLoss(bad)


def two_sided(loss, r, seed):
    """Randomised response at ε = `loss`, as seen by draws of L."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((1, r)) < np.exp(loss) / (1 + np.exp(loss)), loss, -loss)


def test_the_size_of_a_symmetric_loss_says_it_all():
    """Under N(μ²/2, μ²) both signs of L have one law: the mean given |L| varies less."""
    draws, truth = normal_draws(), GaussianLoss(MU)
    law = SampledLoss(draws, symmetric=True)
    assert scores(law, truth).max() < 5
    assert scores(law, GaussianLoss(1.1 * MU)).max() > 5
    assert (law.stderr < SampledLoss(draws).stderr).all()
    response = SampledLoss(two_sided(1.0, 50, 0), [1.0], symmetric=True)
    np.testing.assert_allclose(response.delta(0.3), BoundedLoss([1.0]).delta(0.3), rtol=1e-12)
    for delta in (0.1, 0.3):
        np.testing.assert_allclose(response.delta(response.epsilon(delta)), delta, rtol=1e-9)
    assert law.take(np.array([1])).symmetric


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [False, True])
def test_bands_miss_no_more_often_than_they_say(symmetric):
    """200 repetitions at 99 %: seven misses have a chance below 0.5 %."""
    truth = GaussianLoss(MU)
    grid = np.array([[0.0], [0.5], [2.0]])
    missed, wrong, width = 0, 0, []
    for seed in range(200):
        law = SampledLoss(normal_draws(r=1000, seed=seed), symmetric=symmetric)
        low, high = law.delta_band(grid)
        missed = missed + ((truth.delta(grid) < low) | (truth.delta(grid) > high))
        width.append(high - low)
        wrong = wrong + (np.abs(truth.delta(grid) - law.delta(grid)) > law.delta_stderr(grid))
    assert np.max(missed) <= 6
    assert np.max(np.mean(width, axis=0)) < 0.2
    # negative control: a band of one standard error each way misses
    assert np.max(wrong) > 6


def test_bands_are_never_empty_and_kept_inside_what_is_proved():
    law = SampledLoss([[0.1, 0.2, 0.1, 0.3]])
    low, high = law.delta_band(5.0)
    assert low.tolist() == [0.0] and high.tolist() == [1.0]
    bounded = SampledLoss(two_sided(1.0, 2000, 1), [1.0])
    low, high = bounded.delta_band(0.5, level=0.9)
    assert 0 < low[0] < bounded.delta(0.5)[0] < high[0] <= -np.expm1(-0.5)
    with pytest.raises(ValueError, match=r"^`level` must lie between 0 and 1; got 1\."):
        law.delta_band(0.0, level=1.0)
