"""A sum of losses: closed forms where they exist, never below the truth, close to it."""

import builtins

import numpy as np
import pytest
from scipy import integrate

from cdp_views._checks import UnsupportedError
from cdp_views.loss import (
    BoundedLoss,
    GaussianLoss,
    ProfileLoss,
    SampledLoss,
    at_worst,
    compose_losses,
    delta_of_mu,
    delta_of_rho,
)
from cdp_views.loss.composed import ComposedLoss

accounting = pytest.importorskip("dp_accounting")


def laplace(rate):
    rate = np.atleast_1d(np.asarray(rate, float))
    return ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - rate, 0)), rate)


def two_laplace_cells(epsilon, a=1.0):
    """E δ₁(ε − L): L has atoms ½ at a and ½e^{−a} at −a, and the density ¼e^{−(a−l)/2} between."""

    def one(e):
        right = -np.expm1(0.5 * min(abs(e) - a, 0.0))
        return right if e >= 0 else 1 - np.exp(e) * (1 - right)

    between, _ = integrate.quad(
        lambda x: 0.25 * np.exp(-0.5 * (a - x)) * one(epsilon - x), -a, a, points=[epsilon - a]
    )
    return 0.5 * one(epsilon - a) + 0.5 * np.exp(-a) * one(epsilon + a) + between


def unnamed_normal(mu):
    """A normal loss that does not say so."""
    return ProfileLoss(lambda e: delta_of_mu(e, np.array([mu])), np.array([np.inf]))


def randomised(sup, times):
    """All outcomes of `times` answers by randomised response: (log p, log p′)."""
    k = np.arange(times + 1)
    binomial = np.array([float(np.prod((times - np.arange(j)) / (1 + np.arange(j)))) for j in k])
    p = np.exp(sup) / (1 + np.exp(sup))
    return binomial * p**k * (1 - p) ** (times - k), binomial * p ** (times - k) * (1 - p) ** k


def test_normal_losses_compose_in_closed_form():
    law = compose_losses([GaussianLoss([1.0, 0.0]), GaussianLoss([0.5, 2.0])], [1, 4])
    assert isinstance(law, GaussianLoss) and law.kind == "exact"
    np.testing.assert_allclose(law.mu, np.sqrt([2.0, 16.0]), rtol=1e-14)
    assert (law.mu >= np.sqrt([2.0, 16.0])).all()
    assert compose_losses([GaussianLoss([1.0], "bound")], [2]).kind == "bound"
    alone = GaussianLoss([1.0])
    assert compose_losses([alone]) is alone


def test_two_laplace_cells():
    law = compose_losses([laplace(1.0)], [2])
    got = law.delta(np.array([0, 0.5, 1, 1.5])[:, None])[:, 0]
    want = np.array([two_laplace_cells(e) for e in (0, 0.5, 1, 1.5)])
    assert (got >= want).all()
    np.testing.assert_allclose(got, want, rtol=1e-6)
    known = [0.4482, 0.3505, 0.2418, 0.1238]  # mathematics.md §4
    np.testing.assert_allclose(want, known, atol=5e-4)
    assert (law.kind, law.sup_kind, law.sup.tolist()) == ("bound", "exact", [2.0])
    assert law.delta(2.0)[0] == 0
    again = compose_losses([laplace(1.0), laplace(1.0)])
    np.testing.assert_allclose(again.delta(0.5), got[1], rtol=1e-9)


@pytest.mark.parametrize(("sup", "times"), [(1.0, 3), (0.1, 60)])
def test_randomised_response_many_times(sup, times):
    p, q = randomised(sup, times)
    law = compose_losses([BoundedLoss([sup])], [times])
    for epsilon in np.linspace(0, 0.9, 4) * sup * np.sqrt(times):
        want = np.maximum(p - np.exp(epsilon) * q, 0).sum()
        got = law.delta(epsilon)[0]
        assert want * (1 - 1e-12) <= got <= want * (1 + 1e-5) + 1e-11
    with np.errstate(over="ignore"):
        tv = 0.5 * np.abs(p - q).sum()
    assert law.total_variation[0] == pytest.approx(tv, rel=1e-5)
    assert law.kl[0] == pytest.approx(np.sum(p * np.log(p / q)), rel=1e-9)


@pytest.mark.parametrize(("mu", "times"), [(1.0, 2), (0.1, 100)])
def test_against_the_closed_form_of_normal_losses(mu, times):
    law = compose_losses([unnamed_normal(mu)], [times])
    whole = mu * np.sqrt(times)
    for x in [0.0, 2.0, 5.0, 7.0, 12.0]:
        want = delta_of_mu(whole * (x + whole / 2), whole)
        got = law.delta(whole * (x + whole / 2))[0]
        assert want <= got <= want * (1 + 1e-4) + 1e-12


def test_normal_and_other_losses_together():
    law = compose_losses([GaussianLoss([0.6]), laplace(0.5), GaussianLoss([0.8])])
    assert isinstance(law, ComposedLoss) and len(law.parts) == 2  # the normal ones are one
    assert law.sup[0] == np.inf
    # against the mean over Laplace losses of the normal profile, δ(ε) = E δ₁(ε − L)
    loss = np.linspace(-0.5, 0.5, 200_001)
    weight = 0.25 * np.exp(-0.5 * (0.5 - loss)) * (loss[1] - loss[0])
    weight[[0, -1]] *= 0.5
    weight[0] += 0.5 * np.exp(-0.5)
    weight[-1] += 0.5
    for epsilon in [0.6, 1.5]:
        want = weight @ delta_of_mu(epsilon - loss, 1.0)
        assert want * (1 - 1e-9) <= law.delta(epsilon)[0] <= want * (1 + 1e-4)
    epsilon = law.epsilon(1e-4)[0]
    assert law.delta(epsilon)[0] <= 1e-4 < law.delta(epsilon * (1 - 1e-6))[0]


def test_one_difference_at_a_time():
    law = compose_losses([laplace([1.0, 0.2]), GaussianLoss([0.1, 1.0])])
    apart = [compose_losses([laplace(a), GaussianLoss([b])]) for a, b in [(1.0, 0.1), (0.2, 1.0)]]
    np.testing.assert_allclose(law.delta(0.3), [x.delta(0.3)[0] for x in apart])
    np.testing.assert_allclose(law.take(np.array([1])).delta(0.3), apart[1].delta(0.3))


def test_the_worst_at_each_epsilon_is_one_law():
    law = ProfileLoss(
        lambda e: np.maximum(np.array([0.5, 0.1]) * (1 - e / np.array([1.0, 2.0])), 0), [1.0, 2.0]
    )
    worst = at_worst(law)
    assert worst.sup.tolist() == [2.0]
    for epsilon in [0.0, 0.9, 1.5]:
        assert worst.delta(epsilon)[0] == law.delta(epsilon).max()
    assert worst.epsilon(0.05)[0] == law.epsilon(0.05).max()
    assert worst.zcdp[0] == law.zcdp.max() and worst.gdp[0] == law.gdp.max()
    assert worst.renyi(2.0)[0] == law.renyi(2.0).max()
    assert worst.tradeoff(0.1)[0] == law.tradeoff(0.1).min()
    assert at_worst(GaussianLoss([1.0, 3.0])).mu.tolist() == [3.0]


def test_rho_of_the_parts_is_kept():
    """Two differences, each with a ρ of its own and no largest loss: ρ adds, δ is bounded by it."""
    two = compose_losses([at_worst(_BothRows())], [3])
    assert two.zcdp[0] == pytest.approx(3 * 0.5)
    assert two.delta(2.0)[0] <= delta_of_rho(1.5, 2.0) * (1 + 1e-12)


class _BothRows(ProfileLoss):
    def __init__(self):
        super().__init__(lambda e: delta_of_rho(np.array([0.1, 0.5]), e), np.full(2, np.inf))

    @property
    def zcdp(self):
        return np.array([0.1, 0.5])

    def take(self, indices):
        assert len(indices) == 2
        return self


def test_notions_add_up():
    law = compose_losses([laplace(0.3), BoundedLoss([0.2])], [3, 2])
    assert law.zcdp[0] == pytest.approx(3 * laplace(0.3).zcdp[0] + 2 * BoundedLoss([0.2]).zcdp[0])
    assert law.renyi(4.0)[0] == pytest.approx(
        3 * laplace(0.3).renyi(4.0)[0] + 2 * BoundedLoss([0.2]).renyi(4.0)[0]
    )
    assert law.sup[0] == pytest.approx(1.3) and law.sup[0] >= 1.3
    # δ is never above what ρ and μ prove
    assert law.delta(0.0)[0] <= delta_of_mu(0.0, law.gdp)[0]


def test_conventions():
    assert compose_losses([BoundedLoss([0.0])], [5]).delta(0.0)[0] == 0
    assert compose_losses([BoundedLoss([np.inf]), laplace(1.0)]).delta(3.0)[0] == 1
    law = compose_losses([laplace(1.0)], [2])
    assert law.epsilon(0.0)[0] == 2 and law.epsilon(1.0)[0] == 0 and law.delta(np.inf)[0] == 0


def test_an_estimate_is_not_composed():
    with pytest.raises(UnsupportedError, match=r"^`losses` holds an estimate[^\n]+$"):
        compose_losses([SampledLoss([[1.0, -1.0]])], [2])


@pytest.mark.parametrize("times", [[0], [1.5], [True], [1, 2]])
def test_bad_times(times):
    with pytest.raises(ValueError, match=r"^`(times|losses)` must [^\n]+$"):
        compose_losses([GaussianLoss([1.0])], times)
    with pytest.raises(ValueError, match="of the same differences"):
        compose_losses([GaussianLoss([1.0, 2.0]), GaussianLoss([1.0, 2.0, 3.0])])


def test_without_the_extra_sums_still_work(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    law = compose_losses([laplace(1.0)], [2])
    assert law.sup[0] == 2 and law.zcdp[0] > 0
    with pytest.raises(UnsupportedError, match=r"^`delta` [^\n]+Install cdp-views\[accounting\]"):
        law.delta(1.0)
