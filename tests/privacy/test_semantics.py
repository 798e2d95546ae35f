"""What a belief can become: against Bayes' rule on the laws themselves."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

import cdp_views as cdp
from cdp_views.loss import BoundedLoss, GaussianLoss, ProfileLoss, SampledLoss
from cdp_views.privacy import PrivacyLoss, WorstDifference, prior_to_posterior

WORST = WorstDifference(0, (0, 1), (1.0, -1.0))


def loss_of(law):
    return PrivacyLoss(law, WORST, 2**0.5, "one record moves between two cells")


def laplace(s):
    return ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - s, 0)), np.atleast_1d(s))


@pytest.mark.parametrize("prior", [0.01, 0.3, 0.5, 0.8])
def test_randomised_response_by_bayes_rule(prior):
    """Outcomes e^s/(1+e^s) and 1/(1+e^s): each belief is reached, and no other."""
    s = 1.2
    told = prior_to_posterior(loss_of(BoundedLoss([s])), prior=prior)
    yes = np.exp(s) / (1 + np.exp(s))
    after = [prior * q / (prior * q + (1 - prior) * (1 - q)) for q in (yes, 1 - yes)]
    assert told.highest == pytest.approx(max(after)) and told.lowest == pytest.approx(min(after))
    assert told.odds_factor == pytest.approx(np.exp(s))
    success = max(prior * yes, (1 - prior) * (1 - yes)) + max(prior * (1 - yes), (1 - prior) * yes)
    assert told.success == pytest.approx(success)


@pytest.mark.parametrize("prior", [0.05, 0.5, 0.9])
def test_normal_noise_by_bayes_rule(prior):
    mu = 1.3
    told = prior_to_posterior(loss_of(GaussianLoss([mu])), prior=prior, except_with=1e-3)
    x = np.linspace(-12, 14, 400_001)
    one, other = norm.pdf(x, mu), norm.pdf(x)
    success = np.trapezoid(np.maximum(prior * one, (1 - prior) * other), x)
    assert told.success == pytest.approx(success, rel=1e-6)
    assert told.highest == 1 and told.lowest == 0 and told.odds_factor == np.inf
    # the loss is exceeded with that chance exactly
    assert norm.sf((np.log(told.usual_factor) - mu**2 / 2) / mu) == pytest.approx(1e-3)
    # an alarm x > c with false alarms a: its posterior by Bayes' rule
    for a in (1e-4, 0.05):
        power = norm.sf(norm.isf(a) - mu)
        want = prior * power / (prior * power + (1 - prior) * a)
        assert told.after(a) == pytest.approx(want)
    assert told.after(1e-4) > told.after(0.05) > told.after(1.0) == pytest.approx(prior)


def test_a_bounded_loss_is_usually_smaller_than_its_supremum():
    """Laplace on one cell: P(L > x) = ½e^{…}; the bound holds and stays below the supremum."""
    s, chance = 4.0, 0.7
    told = prior_to_posterior(loss_of(laplace(s)), except_with=chance)
    x = np.log(told.usual_factor)
    beyond = 0.5 + 0.5 * (1 - np.exp(-0.5 * (s - x)))  # atom ½ at s, density ¼e^{−(s−l)/2}
    assert x < s and beyond <= chance
    rare = prior_to_posterior(loss_of(laplace(s)), except_with=1e-6)
    assert rare.usual_factor == pytest.approx(np.exp(s))


def test_the_sentence_says_it_all():
    text = prior_to_posterior(loss_of(BoundedLoss([1.0])), prior=0.1).sentence
    assert "one record moves between two cells" in text and "published totals" in text
    assert "at most 2.718 times" in text and "between 0.03927 and 0.232" in text
    assert "a chance of at most" in text and "against 0.9 without the release" in text
    normal = str(prior_to_posterior(loss_of(GaussianLoss([1.0]))))
    assert "But for a chance of 1e-06" in normal and "a chance of 0.6915" in normal
    guess = str(prior_to_posterior(loss_of(SampledLoss([[1.0, -1.0, 0.5, 0.2]]))))
    assert "by an estimate" in guess and "Nothing proves how far" in guess


def test_guess_rate_is_the_even_case():
    loss = loss_of(GaussianLoss([0.7]))
    assert prior_to_posterior(loss).success == pytest.approx(loss.guess_rate)


def test_nothing_and_everything():
    none = prior_to_posterior(loss_of(GaussianLoss([0.0])), prior=0.2)
    assert (none.odds_factor, none.lowest, none.highest) == (1.0, pytest.approx(0.2), 0.2)
    assert none.success == pytest.approx(0.8)
    everything = prior_to_posterior(loss_of(GaussianLoss([np.inf])), prior=0.2)
    assert everything.success == 1 and everything.usual_factor == np.inf


@pytest.mark.parametrize("name", ["prior", "except_with"])
@pytest.mark.parametrize("bad", [0.0, 1, 1.5, np.nan, None, "a", [0.5]])
def test_bad_arguments(name, bad):
    told = rf"^`{name}` must lie strictly[^\n]+; got [^\n]+\. (No release|Give a chance)[^\n]+$"
    with pytest.raises(ValueError, match=told):
        prior_to_posterior(loss_of(GaussianLoss([1.0])), **{name: bad})


@pytest.mark.parametrize("bad", [0.0, 1.5, None, [0.5]])
def test_bad_errors_of_a_test(bad):
    with pytest.raises(ValueError, match=r"^`type_one` must be above 0[^\n]+$"):
        prior_to_posterior(loss_of(GaussianLoss([1.0]))).after(bad)


def test_public_names():
    assert cdp.prior_to_posterior is prior_to_posterior
    assert SimpleNamespace(c=cdp.compose, e=cdp.equal_profile, b=cdp.Budget)
