"""Models of tables (shares, contingency, regression, meters, watches) against formulas.

Every test takes differences of the log joint at two points, where constant normalisers cancel, and
computes them again with scipy. All tables have six cells and one of two invariants.
"""

from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import beta, dirichlet, halfnorm, laplace, lognorm, norm

import cdp_views as cdp
from cdp_views.models import contingency, regression, shares, smart_meter, wearables

Y = np.array([12.0, 55, -3, 8, 92, 20])
TOTAL = np.array([64.0, 120])
POINTS = (np.array([14.0, 48, 2, 10, 88, 22]), np.array([9.0, 54, 1, 6, 93, 21]))


def rows():
    return cdp.totals([0, 0, 0, 1, 1, 1])


def seen_by(view: Any = "conditioned", noise: Any = "laplace", invariant: Any = None):
    return cdp.Observed(cdp.Mechanism(view, noise, 3.0, invariant or rows()), Y)


def log_noise(q):
    return -np.abs(Y - q).sum() / 3.0


def log_normal(x, median, sd):
    """log density of LogNormal(log median, sd)."""
    return lognorm.logpdf(x, sd, scale=median)


def same_difference(found, wanted):
    assert abs(wanted[0] - wanted[1]) > 0.1
    np.testing.assert_allclose(found[0] - found[1], wanted[0] - wanted[1], rtol=1e-8)


@pytest.mark.parametrize("noise", ["laplace", "discrete-laplace"])
def test_shares_are_dirichlet_whatever_the_totals(joint, noise):
    found, wanted = [], []
    for q, base, concentration in zip(
        POINTS, ([0.2, 0.5, 0.3], [0.1, 0.6, 0.3]), (8.0, 40.0), strict=True
    ):
        values = {"q": q, "base": base, "concentration": concentration}
        found.append(joint(shares.model, values, seen_by(noise=noise), TOTAL))
        log_p = log_normal(concentration, 20.0, 1.0) + log_noise(q)
        for area, total in zip(q.reshape(2, 3), TOTAL, strict=True):
            log_p += dirichlet.logpdf(area / total, concentration * np.array(base))
        wanted.append(log_p)
    same_difference(found, wanted)


def test_regression_is_a_line_on_the_true_counts(joint):
    outcome = np.array([-0.5, 0.1, -1.0, -0.8, 0.4, -0.3])
    found, wanted = [], []
    for q, a, b, sigma in zip(POINTS, (-1.0, -0.8), (1.2, 1.0), (0.3, 0.6), strict=True):
        values = {"q": q, "level": 3.0 + b, "spread": sigma, "alpha": a, "beta": b, "sigma": sigma}
        found.append(joint(regression.model, values, seen_by(), outcome, typical=50.0))
        log_p = norm.logpdf(3.0 + b, np.log(50.0), 1) + 2 * log_normal(sigma, 0.5, 0.5)
        log_p += norm.logpdf(a) + norm.logpdf(b) + log_normal(q, np.exp(3.0 + b), sigma).sum()
        log_p += norm.logpdf(outcome, a + b * q / 50.0, sigma).sum() + log_noise(q)
        wanted.append(log_p)
    same_difference(found, wanted)


def test_the_naive_slope_is_attenuated_as_the_formula_says():
    random = np.random.default_rng(3)
    q = random.normal(100.0, 20.0, 40_000)
    outcome = random.normal(0.5 + q / 100.0, 0.1)
    slope = regression.naive_slope(q + random.normal(0.0, 10.0, q.size), outcome)
    assert abs(slope - 20.0**2 / (20.0**2 + 10.0**2)) < 0.02
    assert abs(regression.naive_slope(q, outcome) - 1.0) < 0.02


def test_smart_meters_over_two_days(joint):
    """Households are rows of the table, periods its columns: the feeder's totals are of columns."""
    feeder = cdp.totals([0, 1, 0, 1, 0, 1])
    seen = seen_by(invariant=feeder)
    household = np.array([0.5, -1.0, 0.2])
    loads = (np.array([14.0, 50, 5, 12, 82, 21]), np.array([10.0, 56, 2, 6, 89, 21]))
    found, wanted = [], []
    for q, swing, spread in zip(loads, (0.5, 0.8), (0.4, 0.7), strict=True):
        usual, course = 3.0 + 0.6 * household, swing * np.array([0.7, -0.7])
        values = {
            "q_0": q, "q_1": q, "level": 3.0, "between": 0.6, "swing": swing, "spread": spread,
            "usual": usual, "course": course,
        }  # fmt: skip
        found.append(joint(smart_meter.model, values, [seen, seen], 2, typical=20.0))
        mean = np.exp(usual[:, None] + course).ravel()
        log_p = log_normal(swing, 0.5, 0.5) + log_normal(spread, 0.5, 0.5)
        # of one free number, (1, -1) / sqrt 2 times it
        log_p += norm.logpdf(np.hypot(*course), 0, swing)
        wanted.append(log_p + 2 * (log_normal(q, mean, spread).sum() + log_noise(q)))
    same_difference(found, wanted)


def test_wearables_walk_or_rest(joint):
    found, wanted = [], []
    for q, active, level, swing, spread in zip(
        POINTS, ([0.2, 0.9, 0.5], [0.3, 0.7, 0.6]), (4.0, 4.2), (0.2, 0.5), (0.4, 0.8), strict=True
    ):
        profile = np.array([0.5, 0.3, -0.8])
        values = {
            "q": q, "active": active, "level": level, "swing": swing, "profile": profile,
            "spread": spread,
        }  # fmt: skip
        found.append(joint(wearables.model, values, seen_by(), 3, typical=60.0, rest=4.0))
        log_p = beta.logpdf(active, 2, 2).sum() + norm.logpdf(level, np.log(60.0), 0.5)
        log_p += halfnorm.logpdf(swing, scale=0.5) + log_normal(spread, 0.5, 0.5) + log_noise(q)
        chance, pace = np.tile(active, 2), np.exp(level + swing * np.tile(profile, 2))
        walking = chance * np.exp(log_normal(q, pace, spread))
        resting = (1 - chance) * lognorm.pdf(q, 1.0, scale=4.0)
        wanted.append(log_p + np.log(walking + resting).sum())
    same_difference(found, wanted)


def contingency_values(noise_site, x, tau, odds_slope):
    # the table has 184 / 6 to a cell, and noise of scale 3
    told = 0.15**2 / (0.15**2 + 6 / 184 + (3 * 6 / 184) ** 2)
    e = np.array([[0.3, -0.1, -0.2], [-0.3, 0.1, 0.2]])
    row, column = np.array([-0.4, 0.4]), np.array([-0.5, 0.7, -0.2])
    values = {
        noise_site: x, "level": 3.2, "row": row, "column": column, "beta": odds_slope, "tau": tau,
        "cell": tau**told * e,
    }  # fmt: skip
    scores = np.array([[1.0, 0, -1], [-1.0, 0, 1]])
    expected = np.exp(3.2 + row[:, None] + column + odds_slope * scores + tau * e).ravel()
    # e is standard normal in two dimensions; the latent's density has their Jacobian
    log_p = norm.logpdf(odds_slope, 0, 0.5) + log_normal(tau, 0.15, 0.8)
    return values, expected, log_p - 2 * told * np.log(tau)


@pytest.mark.parametrize(
    ("view", "noise", "site", "law", "unit"),
    [
        ("conditioned", "normal", "q_noise", norm, 1.0),
        ("imaged", "normal", "q_noise_base", norm, 3.0),
        ("imaged", "laplace", "q_noise_base", laplace, 3.0 * np.sqrt(2)),
    ],
)
def test_contingency_with_both_margins_exact(joint, view, noise, site, law, unit):
    """Imaged: the latent is the noise before it was moved, in standard deviations."""
    inv = cdp.margins((2, 3), [(0,), (1,)])
    seen = seen_by(view, noise, inv)
    found, wanted = [], []
    for move, tau, slope in (([1.0, -3, 2], 0.1, 0.3), ([-2.0, 1, 1], 0.4, -0.2)):
        x = np.concatenate([move, -np.array(move)])
        if site == "q_noise_base":
            x = x + np.array([1.0, 2, 0, 0, -1, 4])
        values, expected, log_p = contingency_values(site, x / unit, tau, slope)
        found.append(joint(contingency.model, values, seen, (2, 3)))
        matrix = inv.matrix.toarray()
        q = Y - (x - np.linalg.pinv(matrix) @ matrix @ x)
        log_p += law.logpdf(x, 0, 3).sum() + norm.logpdf(q, expected, np.sqrt(expected)).sum()
        wanted.append(log_p)
    same_difference(found, wanted)


def test_max_entropy_laplace_noise_has_its_scales_as_latents(joint):
    """On plain totals beside q, on margins beside the noise; on both the joint is a number."""
    inv = cdp.margins((2, 3), [(0,), (1,)])
    values, _, _ = contingency_values("q_noise", np.zeros(6), 0.1, 0.1)
    values["q_released_scales"] = np.zeros(6)
    found = joint(contingency.model, values, seen_by("max-entropy", "laplace", inv), (2, 3))
    assert np.isfinite(found)
    values = {"q": POINTS[0], "level": 3.0, "spread": 0.5, "alpha": 0.0, "beta": 1.0, "sigma": 0.5}
    seen = seen_by("max-entropy")
    found = joint(regression.model, values | {"q_released_scales": np.zeros(6)}, seen, np.zeros(6))
    assert np.isfinite(found)
    with pytest.raises(cdp.UnsupportedError, match="no max-entropy view of discrete-laplace"):
        seen_by("max-entropy", "discrete-laplace")


def simulated(name, key, mechanism):
    if name == "shares":
        return shares.simulate(key, mechanism, TOTAL)
    if name == "regression":
        truth, (released, outcome) = regression.simulate(key, mechanism)
        assert outcome.shape == (6,)
        return truth, released
    if name == "smart_meter":
        return smart_meter.simulate(key, mechanism, 2)
    return wearables.simulate(key, mechanism, 3)


@pytest.mark.parametrize("name", ["shares", "regression", "smart_meter", "wearables"])
def test_simulated_tables_are_whole_and_keep_their_totals(name, key):
    mechanism = cdp.Mechanism("conditioned", "discrete-laplace", 3.0, rows())
    truth, released = simulated(name, key, mechanism)
    for table in (truth["q"], released):
        assert table.shape == (6,) and np.all(np.asarray(table) == np.rint(table))
    assert np.all(np.asarray(rows().evaluate(released)) == rows().evaluate(truth["q"]))
    if name == "shares":
        assert np.all(np.asarray(rows().evaluate(released)) == TOTAL)


def test_simulated_margins_are_those_of_the_truth(key):
    inv = cdp.margins((2, 3), [(0,), (1,)])
    with jax.enable_x64(True):
        mechanism = cdp.Mechanism("imaged", "laplace", 3.0, inv)
        truth, released = contingency.simulate(key, mechanism, (2, 3))
        off = np.asarray(inv.evaluate(released - truth["q"]))
    assert truth["odds"].shape == (2, 3) and np.max(np.abs(off)) < 1e-10
