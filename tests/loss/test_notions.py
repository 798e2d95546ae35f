"""Every notion from the profile alone, against the pair of laws it came from."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import norm

from cdp_views.loss import BoundedLoss, GaussianLoss, Loss, ProfileLoss, SampledLoss
from cdp_views.loss.pure import (
    kl_of_pure,
    mu_of_pure,
    renyi_of_pure,
    rho_of_pure,
    total_variation_of_pure,
)

ALPHAS = [1.0, 1 + 1e-9, 1.5, 2.0, 10.0, 300.0]
RATES = np.array([1e-4, 0.3, 1.0, 4.0, 30.0])  # v/λ
ERRORS = np.array([0.0, 1e-9, 0.01, 0.2, 0.5, 0.9, 1.0])[:, None]


class FinitePair:
    """Two laws on finitely many outcomes, mirror images of each other, so of one profile."""

    def __init__(self, seed, n=7):
        p = np.random.default_rng(seed).dirichlet(np.full(n, 0.7)) + 1e-3
        self.p = p / p.sum()
        self.q = self.p[::-1]

    def delta(self, epsilon):
        excess = self.p - np.exp(np.asarray(epsilon)[..., None]) * self.q
        return np.maximum(excess, 0).sum(axis=-1)

    def law(self):
        return ProfileLoss(self.delta_column, np.array([np.log(self.p / self.q).max()]))

    def delta_column(self, epsilon):
        return self.delta(np.broadcast_to(epsilon, np.shape(epsilon) or (1,)))

    def renyi(self, alpha):
        if alpha == 1:
            return np.sum(self.p * np.log(self.p / self.q))
        return np.log1p(np.sum(self.p * np.expm1((alpha - 1) * np.log(self.p / self.q)))) / (
            alpha - 1
        )

    def tradeoff(self, a):
        """Neyman and Pearson: reject in the order of the likelihood ratio."""
        order = np.argsort(-self.p / self.q)
        size = np.concatenate([[0.0], np.cumsum(self.q[order])])
        power = np.concatenate([[0.0], np.cumsum(self.p[order])])
        return 1 - np.interp(a, size, power)


class FromProfile(Loss):
    """A normal loss that answers through the defaults alone."""

    kind = "exact"

    def __init__(self, mu):
        self.normal = GaussianLoss(mu)

    @property
    def sup(self):
        return self.normal.sup

    def delta(self, epsilon):
        return self.normal.delta(epsilon)

    def epsilon(self, delta):
        return self.normal.epsilon(delta)

    def take(self, indices):
        return FromProfile(self.normal.mu[indices])


def laplace():
    return ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - RATES, 0)), RATES)


def laplace_renyi(alpha, s):
    """Mironov 2017, Proposition 6; at α = 1 s + e^{−s} − 1."""
    with mp.workdps(60):
        alpha, s = mp.mpf(alpha), mp.mpf(s)
        if alpha == 1:
            return s + mp.expm1(-s)
        up, down = mp.exp((alpha - 1) * s), mp.exp(-alpha * s)
        return mp.log((alpha * up + (alpha - 1) * down) / (2 * alpha - 1)) / (alpha - 1)


def laplace_curve(a, s):
    middle = np.exp(-s) / (4 * np.maximum(a, 1e-300))
    return np.where(
        a < 0.5 * np.exp(-s), 1 - np.exp(s) * a, np.where(a < 0.5, middle, np.exp(-s) * (1 - a))
    )


def rounds_up(got, want, tolerance=1e-9):
    assert mp.mpf(float(got)) >= want
    assert mp.mpf(float(got)) <= want * (1 + mp.mpf(tolerance))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_divergences_of_laplace_noise(alpha):
    for got, s in zip(laplace().renyi(alpha), RATES, strict=True):
        rounds_up(got, laplace_renyi(alpha, s))


def test_one_order_is_kl_and_the_last_is_the_supremum():
    law = laplace()
    np.testing.assert_array_equal(law.kl, law.renyi(1))
    np.testing.assert_array_equal(law.renyi(np.inf), RATES)
    np.testing.assert_array_equal(law.total_variation, -np.expm1(-0.5 * RATES))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [1.0, 1.7, 20.0])
def test_divergences_of_a_finite_pair(seed, alpha):
    pair = FinitePair(seed)
    rounds_up(pair.law().renyi(alpha)[0], mp.mpf(float(pair.renyi(alpha) * (1 - 1e-14))))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 4.0])
def test_divergences_of_a_normal_loss(alpha):
    mu = np.array([1e-3, 0.5, 1.0, 3.0])
    exact = GaussianLoss(mu).renyi(alpha)
    np.testing.assert_allclose(exact, alpha * mu**2 / 2, rtol=1e-15)
    got = FromProfile(mu).renyi(alpha)
    assert (got >= exact).all()
    np.testing.assert_allclose(got, exact, rtol=1e-9)


def test_what_underflows_is_not_taken_for_nothing():
    """D₄₀ of μ = 3 rests on losses near 360, where δ < 1e-308: unproved, not small."""
    assert FromProfile([3.0]).renyi(40.0)[0] == np.inf


@pytest.mark.parametrize("alpha", ALPHAS)
def test_divergences_of_randomised_response(alpha):
    sup = np.array([1e-3, 0.4, 2.0, 30.0])
    for got, closed, s in zip(
        BoundedLoss(sup).renyi(alpha), renyi_of_pure(alpha, sup), sup, strict=True
    ):
        with mp.workdps(60):
            s, a = mp.mpf(s), mp.mpf(alpha)
            truth = mp.exp(s) / (1 + mp.exp(s))
            if alpha == 1:
                want = s * (2 * truth - 1)
            else:
                moment = truth * mp.exp((a - 1) * s) + (1 - truth) * mp.exp(-(a - 1) * s)
                want = mp.log(moment) / (a - 1)
        rounds_up(got, want)
        rounds_up(closed, want, 1e-14)


def test_rho_of_pure_epsilon_is_the_largest_divergence_over_its_order():
    sup = np.array([1e-3, 0.4, 2.0, 30.0])
    alpha = 1 + np.geomspace(1e-6, 1e4, 400)
    ratio = np.array([renyi_of_pure(a, sup) / a for a in alpha])
    assert (ratio <= rho_of_pure(sup) * (1 + 1e-14)).all()
    np.testing.assert_allclose(ratio[0], rho_of_pure(sup), rtol=1e-5)
    assert (rho_of_pure(sup) < sup**2 / 2).all()  # Bun and Steinke's
    np.testing.assert_allclose(BoundedLoss(sup).zcdp, rho_of_pure(sup), rtol=1e-9)
    np.testing.assert_allclose(kl_of_pure(sup), rho_of_pure(sup))


def test_rho_of_laplace_noise():
    """s + e^{−s} − 1, the limit of D_α/α at α = 1, from above and within a thousandth."""
    got = laplace().zcdp
    for rho, s in zip(got, RATES, strict=True):
        rounds_up(rho, laplace_renyi(1, s), 1e-3)
        assert all(rho >= laplace_renyi(a, s) / a for a in [1.001, 1.3, 2, 7, 1000])
    assert laplace().gdp_kind == "bound"


def test_rho_whose_largest_order_lies_inside():
    """A rare large loss: D_α/α is largest far from α = 1."""
    p = np.array([0.4899, 0.4899, 0.02, 0.0002])
    p = p / p.sum()
    q = p[[1, 0, 3, 2]]
    alphas = 1 + np.geomspace(1e-4, 60, 4000)
    brute = max(np.log(np.sum(p**a * q ** (1 - a))) / (a - 1) / a for a in alphas)
    kl = np.sum(p * np.log(p / q))
    assert brute > 2 * kl

    def delta(e):
        return np.maximum(p - np.exp(np.asarray(e)[..., None]) * q, 0).sum(axis=-1)

    law = ProfileLoss(lambda e: delta(np.broadcast_to(e, np.shape(e) or (1,))), [np.log(100.0)])
    assert brute <= law.zcdp[0] <= brute * 1.002


def test_mu_of_pure_epsilon(exact_delta):
    for s in [1e-9, 1e-3, 0.4, 0.999, 1.001, 2.0, 30.0, 700.0]:
        mu = float(mu_of_pure(s))
        corner = -np.logaddexp(0, s)
        assert norm.logcdf(-mu / 2) <= corner * (1 - 1e-15)
        assert norm.logcdf(-mu / 2 * (1 - 1e-12)) >= corner * (1 + 1e-12)
        if 1e-3 <= s <= 2:  # no Gaussian profile of a smaller μ covers randomised response
            epsilon = np.linspace(0, s, 50)
            law = BoundedLoss([s])
            assert all(exact_delta(e, mu) >= law.delta(e)[0] * (1 - 1e-12) for e in epsilon[1:])
            less = mu * (1 - 1e-6)
            assert any(exact_delta(e, less) < law.delta(e)[0] for e in epsilon)
    assert mu_of_pure(np.inf) == np.inf and mu_of_pure(0.0) == 0
    np.testing.assert_allclose(BoundedLoss([0.4, 2.0]).gdp, mu_of_pure([0.4, 2.0]), rtol=1e-12)


def test_mu_of_laplace_noise_lies_below_its_curve():
    a = np.concatenate([np.geomspace(1e-14, 0.5, 20_000)])
    for mu, s in zip(laplace().gdp, RATES, strict=True):
        needed = np.max(-ndtri(a) - ndtri(laplace_curve(a, s))) if s < 20 else None
        if needed is not None and s > 1e-3:
            assert needed <= mu <= needed * (1 + 2e-3)
        assert mu <= mu_of_pure(s)


@pytest.mark.parametrize("law", [laplace, lambda: FromProfile([0.01, 1.0, 6.0])])
def test_the_gaussian_profile_of_mu_covers_the_profile(law):
    law = law()
    if np.isinf(law.sup).any():
        assert np.isinf(law.gdp).all() and np.isinf(law.zcdp).all()  # nothing is proved by numbers
        return
    for epsilon in np.linspace(0, 1, 40):
        cover = GaussianLoss(law.gdp).delta(epsilon * law.sup)
        assert (cover >= law.delta(epsilon * law.sup)).all()


def test_tradeoff_curves():
    np.testing.assert_allclose(
        laplace().tradeoff(ERRORS), laplace_curve(ERRORS, RATES), rtol=1e-9, atol=1e-12
    )
    sup = np.array([0.3, 2.0])
    want = np.maximum(np.maximum(1 - np.exp(sup) * ERRORS, np.exp(-sup) * (1 - ERRORS)), 0)
    np.testing.assert_allclose(BoundedLoss(sup).tradeoff(ERRORS), want, atol=1e-13)
    mu = np.array([1e-3, 0.5, 3.0])
    np.testing.assert_allclose(
        GaussianLoss(mu).tradeoff(ERRORS), norm.sf(norm.ppf(ERRORS) + mu), atol=1e-15
    )
    np.testing.assert_allclose(
        FromProfile(mu).tradeoff(ERRORS), norm.sf(norm.ppf(ERRORS) + mu), atol=1e-11
    )


@pytest.mark.parametrize("seed", range(3))
def test_tradeoff_of_a_finite_pair(seed):
    pair = FinitePair(seed)
    a = np.linspace(0, 1, 41)
    got = pair.law().tradeoff(a[:, None])[:, 0]
    np.testing.assert_allclose(got, pair.tradeoff(a), atol=1e-12)


def test_tradeoff_conventions():
    assert GaussianLoss([np.inf]).tradeoff(0.0)[0] == 0
    assert GaussianLoss([0.0]).tradeoff(0.3)[0] == pytest.approx(0.7)
    assert GaussianLoss([1.0]).tradeoff(np.array([0.0, 1.0])[:, None]).ravel().tolist() == [1, 0]
    with pytest.raises(ValueError, match="`type_one` must lie between 0 and 1"):
        GaussianLoss([1.0]).tradeoff(1.5)


def test_total_variation_is_twice_the_guess_less_one():
    for law in (laplace(), GaussianLoss([0.0, 1.0, 5.0]), BoundedLoss([0.0, 1.0, np.inf])):
        np.testing.assert_allclose(law.total_variation, 2 * law.guess_rate - 1, atol=1e-15)
    np.testing.assert_allclose(total_variation_of_pure(1.0), np.tanh(0.5))


def test_an_estimate_stays_one_and_its_bounds_come_from_the_supremum():
    draws = np.repeat([1.0, -1.0], [731, 269])[None]
    law = SampledLoss(draws, sup=np.array([1.0]))
    assert law.kind == "estimate" and law.gdp_kind == "bound"
    assert law.gdp[0] == mu_of_pure(1.0) and law.zcdp[0] == rho_of_pure(1.0)
    assert law.kl[0] == pytest.approx(0.462, abs=2e-3)
    endless = SampledLoss(draws)
    assert endless.gdp[0] == endless.zcdp[0] == np.inf


@pytest.mark.parametrize("law", [GaussianLoss([0.0]), BoundedLoss([0.0])])
def test_nothing_given_away(law):
    assert law.renyi(2.0)[0] == law.kl[0] == law.zcdp[0] == law.gdp[0] == 0


def test_everything_given_away():
    for law in (GaussianLoss([np.inf]), BoundedLoss([np.inf])):
        assert law.renyi(2.0)[0] == law.kl[0] == law.zcdp[0] == law.gdp[0] == np.inf
        assert law.total_variation[0] == 1


@pytest.mark.parametrize("alpha", [0.5, np.nan, -1, "a", [1.0, 2.0]])
def test_bad_order(alpha):
    for law in (GaussianLoss([1.0]), BoundedLoss([1.0])):
        with pytest.raises(ValueError, match=r"^`alpha` must be [^\n]+$"):
            law.renyi(alpha)
