"""What two counts prove: against brute force over the claimed curve, and honest coins."""

import numpy as np
import pytest
from scipy import stats

from cdp_views.loss import BoundedLoss, GaussianLoss
from cdp_views.privacy.error_rates import (
    ErrorRates,
    budget_curve,
    gaussian_curve,
    loss_curve,
    mu_at_once,
)


@pytest.mark.parametrize(("a", "b"), [(40, 60), (0, 150), (300, 2)])
def test_p_value_is_the_largest_over_the_claimed_curve(a, b):
    n, curve = 1000, gaussian_curve(2.8)
    alpha = np.linspace(1e-6, 0.9, 60_001)
    tails = stats.binom.logcdf(a, n, alpha) + stats.binom.logcdf(b, n, curve(alpha))
    w = np.exp(tails.max())
    assert np.exp(ErrorRates(a, b, n).log_p(curve)) == pytest.approx(w * (1 - np.log(w)), rel=1e-3)


def test_lower_bounds_are_where_the_p_value_is_one_minus_level():
    rates = ErrorRates(120, 80, 2000)
    assert rates.log_p(gaussian_curve(rates.mu(0.95))) == pytest.approx(np.log(0.05), abs=1e-5)
    epsilon = rates.epsilon(0.95, 1e-3)
    assert rates.log_p(budget_curve(epsilon, 1e-3)) == pytest.approx(np.log(0.05), abs=1e-5)
    # sharper than two Clopper–Pearson bounds at half the error each
    separate = mu_at_once(np.array([120.0]), np.array([80.0]), 2000, 0.95)[0]
    assert separate < rates.mu(0.95) < -stats.norm.ppf(0.06) - stats.norm.ppf(0.04)


def test_clopper_pearson_against_scipy():
    upper = ErrorRates(7, 30, 400).upper(0.99)
    oracle = [
        stats.binomtest(k, 400).proportion_ci(0.98, "exact").high  # two-sided: 1 % each side
        for k in (7, 30)
    ]
    np.testing.assert_allclose(upper, oracle, rtol=1e-9)


def test_steps_scale_the_bounds_by_group_privacy():
    rates = ErrorRates(120, 80, 2000)
    assert rates.mu(0.99, steps=5) == pytest.approx(rates.mu(0.99) / 5, abs=1e-7)
    assert rates.epsilon(0.99, 0.0, steps=4) == pytest.approx(rates.epsilon(0.99) / 4, abs=1e-7)
    # (ε, δ) for one record is weaker for many than ε alone
    assert rates.epsilon(0.99, 1e-2, steps=4) < rates.epsilon(0.99, 0.0, steps=4)


def test_extremes():
    assert ErrorRates(0, 500, 500).mu(0.99) == 0  # a test that always says "table"
    assert ErrorRates(500, 500, 500).mu(0.99) == 0
    assert 3.5 < ErrorRates(0, 0, 100).mu(0.99) < 6
    assert ErrorRates(0, 0, 100).log_p(gaussian_curve(0.0)) < np.log(1e-25)


@pytest.mark.parametrize("law", [GaussianLoss(np.array([1.7])), BoundedLoss(np.array([1.2]))])
def test_claimed_curve_is_rounded_down(law):
    alpha = np.linspace(0.001, 0.999, 101)
    curve = loss_curve(law, 10_000)(alpha)
    if isinstance(law, GaussianLoss):
        exact = gaussian_curve(1.7)(alpha)
    else:
        e = np.exp(1.2)
        exact = np.maximum.reduce([1 - e * alpha, (1 - alpha) / e, 0 * alpha])
    assert (curve <= exact + 1e-12).all()
    assert np.max(exact - curve) < 1e-4


def test_honest_counts_are_accused_no_more_than_the_level_says_and_others_are():
    rng = np.random.default_rng(5)
    n, mu, level = 800, 2.0, 0.9
    curve = gaussian_curve(mu)

    def accused(true):
        errors = rng.binomial(n, stats.norm.cdf(-0.5 * true), (400, 2))
        p = [ErrorRates(int(a), int(b), n).log_p(curve) for a, b in errors]
        return np.mean(np.array(p) <= np.log(1 - level))

    assert accused(mu) <= 0.1
    assert accused(1.3 * mu) > 0.9  # negative control
