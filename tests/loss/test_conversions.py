"""Conversions are right, rounded to the safe side, and go one way."""

import mpmath as mp
import numpy as np
import pytest

from cdp_views.loss import analytic_gaussian_mu, delta_of_mu, epsilon_of_mu
from cdp_views.loss.conversions import (
    delta_of_renyi,
    delta_of_rho,
    epsilon_of_renyi,
    epsilon_of_rho,
    guess_rate_of_total_variation,
    normal_mu_of_rho,
    renyi_of_rho,
    rho_for,
    rho_of_mu,
    tail_bound_price,
    total_variation_of_guess_rate,
)

RHOS = [1e-12, 1e-4, 0.1, 2.556226, 50.0, 1e6]
DELTAS = [1e-300, 1e-10, 1e-5, 0.1, 0.9]


def exact_epsilon(rho, delta):
    """min_α at 50 digits: minimised in log(α − 1)."""
    with mp.workdps(50):
        rho, delta = mp.mpf(rho), mp.mpf(delta)

        def slope(t):  # d/dt of ρ(1+t) − log(1 + 1/t) − log(δ(1+t))/t
            return rho + 1 / (t * (1 + t)) + mp.log(delta * (1 + t)) / t**2 - 1 / (t * (1 + t))

        low, high = mp.mpf("1e-13"), mp.mpf("1e13")
        for _ in range(200):
            middle = mp.sqrt(low * high)
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        t = low
        return max(rho * (1 + t) - mp.log1p(1 / t) - mp.log(delta * (1 + t)) / t, mp.mpf(0))


def test_the_census():
    """2020 census, persons: ρ = 2.556226, δ = 1e-10: published 17.14, for Normal 16.4652."""
    rho, delta = 2.556226, 1e-10
    assert float(epsilon_of_rho(rho, delta)) == pytest.approx(17.1436, abs=5e-5)
    assert float(epsilon_of_mu(delta, normal_mu_of_rho(rho))) == pytest.approx(16.4652, abs=5e-5)
    simple = float(epsilon_of_rho(rho, delta, formula="simple"))
    assert simple == pytest.approx(rho + 2 * np.sqrt(rho * np.log(1e10)), rel=1e-14)
    assert simple > 17.1436


@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_of_rho_is_the_optimum_rounded_up(rho):
    for delta, got in zip(DELTAS, epsilon_of_rho(rho, DELTAS), strict=True):
        want = exact_epsilon(rho, delta)
        slack = 1e-13 * (rho - np.log(delta))
        assert want <= mp.mpf(float(got)) <= want + mp.mpf(slack)
        # what holds for any mechanism holds for Normal noise
        assert got >= epsilon_of_mu(delta, np.sqrt(2 * rho)) * (1 - 1e-12)
        assert got <= epsilon_of_rho(rho, delta, formula="simple")


@pytest.mark.parametrize("rho", RHOS)
def test_delta_of_rho_inverts_it(rho):
    for delta in DELTAS[1:-1]:
        epsilon = epsilon_of_rho(rho, delta)
        if epsilon > 0:
            back = delta_of_rho(rho, epsilon)
            assert back == pytest.approx(delta, rel=1e-6)
            assert back >= delta_of_mu(epsilon, np.sqrt(2 * rho)) * (1 - 1e-12)


def test_rho_for_a_budget_rounds_down():
    for epsilon in [1e-9, 1e-3, 1.0, 17.1436, 1e3]:
        for delta in [1e-300, 1e-10, 0.5]:
            rho = rho_for(epsilon, delta)
            assert epsilon_of_rho(rho, delta) <= epsilon
            assert epsilon_of_rho(rho * (1 + 1e-6), delta) > epsilon


def test_conventions():
    assert epsilon_of_rho(1.0, 0.0) == np.inf and epsilon_of_rho(1.0, 1.0) == 0
    assert epsilon_of_rho(0.0, 0.0) == 0 and epsilon_of_rho(np.inf, 0.5) == np.inf
    assert epsilon_of_rho(0.1, 0.0, formula="simple") == np.inf
    assert delta_of_rho(0.0, 0.0) == 0 and delta_of_rho(np.inf, 3.0) == 1
    assert delta_of_rho(1.0, np.inf) == 0 and delta_of_rho(1e9, 0.0) == 1
    assert epsilon_of_renyi(2.0, 1.0, 0.0) == np.inf and epsilon_of_renyi(2.0, 1.0, 1.0) == 0
    assert epsilon_of_renyi(2.0, 0.0, 0.0) == 0 and epsilon_of_renyi(2.0, np.inf, 0.1) == np.inf
    assert delta_of_renyi(2.0, 0.0, 0.0) == 0 and delta_of_renyi(2.0, np.inf, 1.0) == 1
    assert epsilon_of_rho([1.0, 2.0], [[0.1], [0.2]]).shape == (2, 2)


def test_renyi_against_dp_accounting():
    accountant = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    alpha = np.concatenate([np.linspace(1.1, 11, 100), np.arange(12, 64)])
    for mu in [0.1, 1.0, 4.0]:
        divergence = alpha * mu**2 / 2
        for delta in [1e-10, 1e-5, 1e-2]:
            theirs, _ = accountant.compute_epsilon(alpha, divergence, delta)
            assert epsilon_of_renyi(alpha, divergence, delta) == pytest.approx(theirs, rel=1e-9)
        for epsilon in [0.5, 3.0, 10.0]:
            theirs, _ = accountant.compute_delta(alpha, divergence, epsilon)
            ours = delta_of_renyi(alpha, divergence, epsilon)
            # theirs also takes the bound of Bretagnolle and Huber, √(1 − e^{−D})
            bh = np.sqrt(-np.expm1(-divergence)).min()
            assert min(ours, bh) == pytest.approx(theirs, rel=1e-9)


def test_exact_pairs():
    assert renyi_of_rho(3.0, 0.5) == pytest.approx(1.5) and renyi_of_rho(np.inf, 0.0) == 0
    mu = np.array([1e-9, 0.3, 7.0])
    assert (rho_of_mu(mu) >= mu**2 / 2).all()
    assert (normal_mu_of_rho(rho_of_mu(mu)) <= mu * (1 + 1e-15)).all()
    np.testing.assert_allclose(normal_mu_of_rho(rho_of_mu(mu)), mu, rtol=1e-14)
    rate = np.array([0.5, 0.53395, 1.0])
    back = guess_rate_of_total_variation(total_variation_of_guess_rate(rate))
    np.testing.assert_allclose(back, rate, rtol=1e-15)


@pytest.mark.parametrize(
    ("epsilon", "delta", "analytic", "tail"),
    [(0.1, 1e-5, 30.74956613, 42.76582373), (8.0, 1e-5, 0.60022907, 0.63200325)],
)
def test_the_price_of_the_tail_bound(epsilon, delta, analytic, tail):
    """Scales of oracles.md; that they are right is tested in test_gaussian_dp."""
    price = tail_bound_price(epsilon, delta)
    assert price.analytic == pytest.approx(analytic, abs=6e-9)
    assert price.tail == pytest.approx(tail, abs=6e-9)
    assert price.ratio == pytest.approx(tail / analytic, rel=1e-8) and price.ratio >= 1
    assert 1 / price.analytic == pytest.approx(analytic_gaussian_mu(epsilon, delta))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: epsilon_of_rho(-1.0, 0.1), "rho"),
        (lambda: epsilon_of_rho(np.nan, 0.1), "rho"),
        (lambda: epsilon_of_rho(1.0, 2.0), "delta"),
        (lambda: epsilon_of_rho(1.0, 0.1, formula="best"), "formula"),
        (lambda: delta_of_rho(1.0, -1.0), "epsilon"),
        (lambda: rho_for(0.0, 0.1), "epsilon"),
        (lambda: rho_for(1.0, 0.0), "epsilon"),
        (lambda: epsilon_of_renyi(1.0, 1.0, 0.1), "alpha"),
        (lambda: delta_of_renyi([2.0, np.inf], 1.0, 0.1), "alpha"),
        (lambda: delta_of_renyi(2.0, np.nan, 0.1), "divergence"),
        (lambda: total_variation_of_guess_rate(0.4), "guess_rate"),
        (lambda: guess_rate_of_total_variation(1.1), "total_variation"),
        (lambda: tail_bound_price(0.0, 1e-5), "epsilon"),
        (lambda: tail_bound_price(1.0, 1.0), "delta"),
    ],
)
def test_bad_arguments(call, name):
    with pytest.raises(ValueError, match=rf"^`{name}` must [^\n]+$"):
        call()
