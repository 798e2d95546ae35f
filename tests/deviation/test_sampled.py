"""Sampled errors agree with the exact law within their own standard errors."""

import numpy as np
import pytest

from cdp_views.deviation import NormalDeviation, SampledDeviation

BIAS, SD = np.array([0.0, 1.0, -5.0]), np.array([1.0, 2.0, 0.5])


def scores(exact: NormalDeviation, sampled: SampledDeviation) -> np.ndarray:
    pairs = [(getattr(exact, f), getattr(sampled, f), sampled.stderr[f]) for f in sampled.stderr]
    pairs.append((exact.margin(0.9), sampled.margin(0.9), sampled.margin_stderr(0.9)))
    return np.abs(np.array([(s - e) / error for e, s, error in pairs]))


def test_estimates_lie_within_five_standard_errors():
    draws = BIAS + SD * np.random.default_rng(3).standard_normal((20_000, 3))
    sampled = SampledDeviation(draws)
    assert sampled.kind == "estimate"
    assert scores(NormalDeviation(BIAS, SD), sampled).max() < 5
    # Negative control: a law that is 10 % wider must be told apart.
    assert scores(NormalDeviation(BIAS, 1.1 * SD), sampled).max() > 5


def test_standard_errors_are_the_spread_of_repeated_estimates():
    rng = np.random.default_rng(4)
    repeats = [SampledDeviation(BIAS + SD * rng.standard_normal((500, 3))) for _ in range(400)]
    for figure in ("bias", "sd", "mae", "rmse"):
        spread = np.std([getattr(r, figure) for r in repeats], axis=0)
        stated = np.mean([r.stderr[figure] for r in repeats], axis=0)
        np.testing.assert_allclose(stated, spread, rtol=0.2)
    spread = np.std([r.margin(0.9) for r in repeats], axis=0)
    np.testing.assert_allclose(
        np.mean([r.margin_stderr(0.9) for r in repeats], axis=0), spread, rtol=0.2
    )


def test_an_error_that_never_varies():
    sampled = SampledDeviation(np.zeros((10, 1)))
    assert all(np.all(v == 0) for v in sampled.stderr.values())
    assert sampled.margin(0.9)[0] == 0 and sampled.margin_stderr(0.9)[0] == 0


@pytest.mark.parametrize("draws", [np.zeros(3), np.zeros((1, 3))])
def test_too_few_draws_are_refused(draws):
    with pytest.raises(ValueError, match="`draws` must have shape"):
        SampledDeviation(draws)
