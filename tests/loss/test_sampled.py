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
