"""Profile of the normal loss, its inverse in ε and its inverse in μ."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtri

from cdp_views.loss import analytic_gaussian_mu, delta_of_mu, epsilon_of_mu, tail_bound_mu

MUS = 10.0 ** np.arange(-8, 9, 2)
EPSILONS = np.r_[0.0, 10.0 ** np.arange(-12, 7, 2)]
DELTAS = np.r_[1e-300, 1e-100, 1e-20, 1e-10, 1e-5, 1e-2, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12]


def assert_exact(exact_delta, epsilon, mu, tolerance=1e-12):
    got, want = float(delta_of_mu(epsilon, mu)), exact_delta(epsilon, mu)
    if want < 1e-300:
        assert got < 1.1e-300
    else:
        assert abs(mp.mpf(got) / want - 1) < tolerance, (epsilon, mu)


@pytest.mark.parametrize("mu", MUS)
def test_delta_on_the_grid(exact_delta, mu):
    for epsilon in EPSILONS:
        assert_exact(exact_delta, float(epsilon), float(mu))


def test_delta_where_it_is_neither_zero_nor_one(exact_delta):
    # ε = μ(x + μ/2): the grid above mostly misses the strip |x| < 37 in which δ moves.
    for mu, x in itertools.product(
        10.0 ** np.arange(-8, 9), [-7.0, -0.51, 0.0, 3.0, 3.99, 9.0, 36]
    ):
        if x > -mu / 2:
            assert_exact(exact_delta, float(mu * (x + mu / 2)), float(mu))


def test_delta_is_the_expectation_that_defines_it():
    mu, epsilon = 1.3, 0.7
    loss = stats.norm(mu**2 / 2, mu)
    want, _ = integrate.quad(
        lambda x: -np.expm1(epsilon - x) * loss.pdf(x), epsilon, epsilon + 20, epsabs=1e-13
    )
    assert delta_of_mu(epsilon, mu) == pytest.approx(want, rel=1e-10)


def test_published_value():
    assert delta_of_mu(1.0, 1.0) == pytest.approx(0.12693674, abs=5e-9)


def test_edges_of_delta():
    assert delta_of_mu(0.0, 0.0) == 0
    assert delta_of_mu(1.0, 0.0) == 0
    assert delta_of_mu(1.0, np.inf) == 1
    assert delta_of_mu(np.inf, 1.0) == 0
    assert delta_of_mu(1e300, 1e-300) == 0
    assert delta_of_mu(0.0, 1e300) == 1
    assert delta_of_mu(1e308, 1e150) == 0
    assert epsilon_of_mu(1e-5, 1e-300) == 0


def test_shapes_broadcast():
    out = delta_of_mu(np.array([[0.0], [1.0]]), np.array([0.5, 1.0, 2.0]))
    assert out.shape == (2, 3)
    assert out[1, 1] == delta_of_mu(1.0, 1.0)
    assert epsilon_of_mu(np.array([[0.1], [0.2]]), np.array([0.5, 1.0, 2.0])).shape == (2, 3)


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_rounds_up_by_less_than_it_can_matter(exact_delta, delta):
    delta = float(delta)
    for mu in MUS:
        epsilon = float(epsilon_of_mu(delta, mu))
        assert delta_of_mu(epsilon, mu) <= delta
        assert exact_delta(epsilon, mu) <= mp.mpf(delta)
        if epsilon > 0:
            # Just below, the budget is broken; where ε is near 0 and δ near δ(0), one ulp of δ
            # moves ε by δ/(e^ε Φ(−y)) ulps, hence the second term.
            slope = float(-mp.diff(lambda e, mu=mu: exact_delta(e, mu), epsilon, h=epsilon * 1e-12))
            lower = epsilon * (1 - 1e-12) - 1e-13 * min(delta, 100 * (1 - delta)) / slope
            assert exact_delta(lower, mu) > mp.mpf(delta), (mu, epsilon)


def test_epsilon_conventions():
    assert epsilon_of_mu(0.0, 1.0) == np.inf
    assert epsilon_of_mu(0.0, 0.0) == 0
    assert epsilon_of_mu(1.0, 5.0) == 0
    assert epsilon_of_mu(1.0, np.inf) == 0
    assert epsilon_of_mu(0.5, np.inf) == np.inf
    assert epsilon_of_mu(1e-300, 0.0) == 0
    at_zero = float(delta_of_mu(0.0, 1.0))
    assert epsilon_of_mu(at_zero, 1.0) == 0
    assert epsilon_of_mu(np.nextafter(at_zero, 1), 1.0) == 0
    assert 0 < epsilon_of_mu(np.nextafter(at_zero, 0), 1.0) < 1e-13
    assert epsilon_of_mu(0.5, 1e200) == np.inf  # μ²/2 overflows: rounded up


@given(st.floats(-6, 6), st.floats(-5, 30))
def test_epsilon_inverts_delta(log_mu, x):
    mu = 10.0**log_mu
    epsilon = mu * (x + mu / 2)
    if epsilon > 0 and (delta := float(delta_of_mu(epsilon, mu))) < 0.999:
        # δ is known to a few ulps of log δ only, and −dδ/dε = φ(x) R(y) carries that over to ε.
        y = mpfloat(epsilon / mu + mu / 2)
        slope = float(mp.npdf(mpfloat(x)) * mp.erfc(y / mp.sqrt(2)) / 2 / mp.npdf(y))
        slack = 1e-12 * epsilon + 1e-13 * delta * max(1.0, -np.log(delta)) / slope
        assert abs(float(epsilon_of_mu(delta, mu)) - epsilon) <= slack


def mpfloat(value):
    return mp.mpf(float(value))


@given(st.floats(-5, 5), st.floats(1e-12, 0.99), st.floats(1e-12, 0.99))
def test_epsilon_decreases_in_delta_and_increases_in_mu(log_mu, a, b):
    mu = 10.0**log_mu
    assert epsilon_of_mu(min(a, b), mu) >= epsilon_of_mu(max(a, b), mu)
    assert epsilon_of_mu(a, mu) <= epsilon_of_mu(a, 2 * mu)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-3, 1.0, 30.0, 1e6])
def test_mu_rounds_down_by_less_than_it_can_matter(exact_delta, epsilon):
    for delta in map(float, DELTAS):
        mu = analytic_gaussian_mu(epsilon, delta)
        assert delta_of_mu(epsilon, mu) <= delta
        if mu > 1e-40:  # below, 60 digits do not suffice for the literal formula
            assert exact_delta(epsilon, mu) <= mp.mpf(delta)
            assert exact_delta(epsilon, mu * (1 + 2e-12)) > mp.mpf(delta), delta


def test_mu_at_epsilon_zero_is_closed_form():
    # δ(0) = 2Φ(μ/2) − 1
    assert analytic_gaussian_mu(0.0, 0.3) == pytest.approx(2 * ndtri(0.65), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "analytic", "tail"),
    [  # the least σ at sensitivity 1, recomputed at 60 digits below
        (0.1, 1e-5, 30.74956613, 42.76582373),
        (1.0, 1e-5, 3.73063163, 4.37907028),
        (1.0, 1e-10, 5.86777775, 6.43899280),
        (8.0, 1e-5, 0.60022907, 0.63200325),
    ],
)
def test_published_scales(exact_delta, epsilon, delta, analytic, tail):
    with mp.workdps(40):
        root = mp.findroot(lambda s: mp.log(exact_delta(epsilon, 1 / s) / mp.mpf(delta)), analytic)
        z = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(delta))
        bound = (z + mp.sqrt(z**2 + 2 * mp.mpf(epsilon))) / (2 * mp.mpf(epsilon))
    assert 1 / analytic_gaussian_mu(epsilon, delta) == pytest.approx(float(root), rel=1e-12)
    assert 1 / tail_bound_mu(epsilon, delta) == pytest.approx(float(bound), rel=1e-12)
    assert float(root) == pytest.approx(analytic, abs=6e-9)
    assert float(bound) == pytest.approx(tail, abs=6e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.5, 20.0, 1e5])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 0.2, 0.5, 0.8, 1 - 1e-9])
def test_tail_bound_is_the_tail_and_stricter(epsilon, delta):
    mu = tail_bound_mu(epsilon, delta)
    assert mu <= analytic_gaussian_mu(epsilon, delta)
    if mu > 0:
        loss = stats.norm(mu / 2, 1)  # of L/μ, so that nothing overflows
        assert loss.logsf(epsilon / mu) <= np.log(delta) * (1 - 1e-11)
        assert loss.sf(epsilon / mu) == pytest.approx(delta, rel=1e-9)


def test_census_budget():
    """ρ = 2.556226 at δ = 1e-10, the 2020 census: 17.14 by conversion from ρ, exactly 16.4652."""
    rho, delta = 2.556226, 1e-10
    exactly = float(epsilon_of_mu(delta, np.sqrt(2 * rho)))
    assert exactly == pytest.approx(16.4652, abs=5e-5)
    a = np.linspace(1.001, 10, 200_000)  # Canonne, Kamath and Steinke 2020, Proposition 12
    converted = (rho * a + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)).min()
    assert converted == pytest.approx(17.1436, abs=1e-3)
    assert exactly < converted


def test_joint_release_is_one_loss():
    """Changes (1, ½) at σ = 1, δ = 1e-5: together ε = 4.983, not the 4.377 of the larger alone."""
    assert epsilon_of_mu(1e-5, np.hypot(1, 0.5)) == pytest.approx(4.9833, abs=5e-5)
    assert epsilon_of_mu(1e-5, 1.0) == pytest.approx(4.3772, abs=5e-5)


def test_dp_accounting_agrees():
    gaussian = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    common = pytest.importorskip("dp_accounting.pld.common")
    for epsilon, delta in itertools.product([0.1, 1.0, 8.0], [1e-10, 1e-5, 0.1]):
        theirs = gaussian.GaussianPrivacyLoss.from_privacy_guarantee(
            common.DifferentialPrivacyParameters(epsilon, delta)
        ).standard_deviation
        assert 1 / analytic_gaussian_mu(epsilon, delta) == pytest.approx(theirs, rel=1e-6)
        law = gaussian.GaussianPrivacyLoss(theirs)
        assert delta_of_mu(epsilon, 1 / theirs) == pytest.approx(
            law.get_delta_for_epsilon(epsilon), rel=1e-8
        )


@pytest.mark.parametrize("function", [analytic_gaussian_mu, tail_bound_mu])
@pytest.mark.parametrize(
    ("epsilon", "delta", "name"),
    [
        (-1.0, 0.1, "epsilon"),
        (np.nan, 0.1, "epsilon"),
        (np.inf, 0.1, "epsilon"),
        ("much", 0.1, "epsilon"),
        (1.0, 0.0, "delta"),
        (1.0, 1.0, "delta"),
        (1.0, np.nan, "delta"),
    ],
)
def test_bad_budget(function, epsilon, delta, name):
    with pytest.raises(ValueError, match=rf"^`{name}` must [^\n]+$"):
        function(epsilon, delta)


@pytest.mark.parametrize("bad", [-1e-300, np.nan, "x", None])
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match=r"^`epsilon` must [^\n]+$"):
        delta_of_mu(bad, 1.0)
    with pytest.raises(ValueError, match=r"^`mu` must [^\n]+$"):
        delta_of_mu(1.0, bad)
    with pytest.raises(ValueError, match=r"^`delta` must [^\n]+$"):
        epsilon_of_mu(bad, 1.0)
    with pytest.raises(ValueError, match=r"^`delta` must lie between 0 and 1; got 1.5"):
        epsilon_of_mu(1.5, 1.0)
