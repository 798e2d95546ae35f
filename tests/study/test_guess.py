"""The chance of a right guess from several tables, against closed forms."""

import numpy as np
import pytest
import scipy.stats

from cdp_views.loss import GaussianLoss, SampledLoss
from cdp_views.privacy import PrivacyLoss, WorstDifference
from cdp_views.study.guess import guess_rate

WORST = WorstDifference(0, (0, 1), (1.0, -1.0))


def loss(law):
    return PrivacyLoss(law, WORST, 2**0.5, "one record moves")


def test_normal_losses_compose_exactly():
    rate, error = guess_rate(loss(GaussianLoss([0.5])), 9)
    assert rate == pytest.approx(scipy.stats.norm.cdf(0.75)) and np.isnan(error)


@pytest.mark.parametrize("tables", [1, 2, 5])
def test_sums_of_draws_against_the_binomial(tables):
    # Randomised response: of M answers the likelier table is the one that most of them say.
    p = np.exp(0.8) / (1 + np.exp(0.8))
    right = scipy.stats.binom(tables, p)
    truth = right.sf(tables // 2) + (0.5 * right.pmf(tables // 2) if tables % 2 == 0 else 0)
    scores = []
    for seed in range(40):
        draws = np.where(np.random.default_rng(seed).random((1, 4000)) < p, 0.8, -0.8)
        rate, error = guess_rate(loss(SampledLoss(draws)), tables)
        scores.append((rate - truth) / error)
    assert abs(np.mean(scores)) < 5 / np.sqrt(40)
    assert 0.6 < np.std(scores) < 1.5
    if tables > 1:
        # Negative control: the chance of one table alone is noticed to be too small.
        one = guess_rate(loss(SampledLoss(draws)), 1)[0]
        assert tables == 2 or (truth - one) / error > 5


def test_more_tables_than_draws_allow_is_no_number():
    assert np.isnan(guess_rate(loss(SampledLoss(np.ones((1, 100)))), 6)).all()
