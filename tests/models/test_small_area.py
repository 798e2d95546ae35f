"""Rates of small areas: the joint density, one year and several, and simulated releases."""

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density
from scipy.special import gammaln
from scipy.stats import lognorm, norm

import cdp_views as cdp
from cdp_views.models import small_area

STATE = np.array([0, 0, 0, 1, 1, 1])
PEOPLE = np.array([9e3, 2e4, 4e3, 8e3, 3e4, 1e4])
Y = np.array([95.0, 210, 30, 70, 330, 90])


def observed(y=Y):
    inv = cdp.totals(STATE)
    return cdp.Observed(cdp.Mechanism("conditioned", "normal", 8.0, inv), y)


def test_the_joint_density_of_one_year(joint):
    """Differences of log joints, in which constants of the noise cancel.

    However much a county's count tells, its log rate is state + within z with z standard normal.
    """
    told = 0.09 / (0.09 + 1 / Y + (8 / Y) ** 2)
    z, state = np.array([0.1, -0.3, 1.0, 0.0, 0.7, -0.2]), np.array([-4.35, -4.8])
    found, wanted = [], []
    for move, within in ((0.0, 0.2), (3.0, 0.25)):
        q = Y + move * np.array([1.0, -2, 1, -1, 0, 1])
        values = {
            "q": q, "alpha": -4.5, "between": 0.3, "within": within, "state": state,
            "county": told * state[STATE] + within**told * z,
        }  # fmt: skip
        found.append(joint(small_area.model, values, observed(), PEOPLE, STATE))
        rate = np.exp(state[STATE] + within * z)
        expected = PEOPLE * rate
        log_poisson = q * np.log(expected) - expected - gammaln(q + 1)
        of_within = lognorm.logpdf(within, 0.7, scale=0.3) - told.sum() * np.log(within)
        wanted.append(log_poisson.sum() + norm.logpdf(Y - q, 0, 8).sum() + of_within)
    np.testing.assert_allclose(found[1] - found[0], wanted[1] - wanted[0], rtol=1e-8)


def test_years_share_their_counties_and_drift():
    years = [observed(), observed(Y[::-1].copy())]
    people = np.stack([PEOPLE, PEOPLE])
    given = {
        "alpha": -4.5, "between": 0.3, "within": 0.2,
        "state": np.full(2, -4.5), "county": np.full(6, -4.0),
        "drift": 0.1, "steps": np.ones((1, 6)), "q_0": Y, "q_1": Y[::-1],
    }  # fmt: skip
    with jax.enable_x64(True):
        given = {name: jnp.asarray(x) for name, x in given.items()}
        value, trace = log_density(small_area.model, (years, people, STATE), {}, given)
    rate = np.asarray(trace["rate"]["value"])
    np.testing.assert_allclose(rate[1] / rate[0], np.exp(0.1), rtol=1e-12)
    assert np.isfinite(value)


def test_a_simulated_release_has_the_exact_totals(key):
    mechanism = observed().mechanism
    with jax.enable_x64(True):
        truth, y = small_area.simulate(key, mechanism, PEOPLE, STATE)
    rows = mechanism.invariant.matrix
    np.testing.assert_allclose(rows @ np.asarray(y), rows @ np.asarray(truth["q"]), rtol=1e-12)
    assert np.array_equal(truth["q"], np.rint(truth["q"])) and truth["rate"].shape == (6,)
