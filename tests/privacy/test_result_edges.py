"""Conventions at the edges, and agreement with dp-accounting wherever that works."""

import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views.loss import (
    BoundedLoss,
    GaussianLoss,
    ProfileLoss,
    analytic_gaussian_mu,
    delta_of_mu,
    epsilon_of_mu,
)
from cdp_views.privacy import PrivacyLoss, WorstDifference

WORST = WorstDifference(0, (0, 1), (1.0, -1.0))
RATES = np.array([0.5, 2.0])
LAWS = {
    "normal": GaussianLoss([0.5, 2.0]),
    "bounded": BoundedLoss(RATES),
    "laplace": ProfileLoss(lambda e: -np.expm1(0.5 * np.minimum(e - RATES, 0)), RATES),
}


def loss_of(law):
    return PrivacyLoss(law, WORST, 2**0.5, "one record moves")


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_conventions(law):
    loss = loss_of(law)
    assert loss.epsilon(0.0) == loss.pure_epsilon and loss.epsilon(1.0) == 0
    assert loss.delta(np.inf) == 0 and loss.delta(0.0) == loss.total_variation
    assert loss.tradeoff(0.0) <= 1 and loss.tradeoff(1.0) == 0
    assert loss.renyi(np.inf) == loss.pure_epsilon and loss.renyi(1) == loss.kl
    curve = loss.tradeoff(np.linspace(0, 1, 5))
    assert curve.shape == (5,) and isinstance(loss.tradeoff(0.3), float)
    assert all(isinstance(x, float) for x in (loss.kl, loss.rho, loss.mu, loss.total_variation))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(
    ("method", "bad"),
    [
        ("delta", -1.0),
        ("delta", np.nan),
        ("delta", "a"),
        ("epsilon", -0.1),
        ("epsilon", 1.5),
        ("epsilon", np.nan),
        ("tradeoff", -0.1),
        ("tradeoff", np.nan),
        ("renyi", 0.9),
    ],
)
def test_bad_arguments(law, method, bad):
    with pytest.raises(ValueError, match=r"^`\w+` must [^\n]+$"):
        getattr(loss_of(law), method)(bad)


@pytest.mark.parametrize("method", ["delta", "epsilon", "delta_stderr", "epsilon_stderr"])
def test_one_number_at_a_time(method):
    loss, name = loss_of(LAWS["bounded"]), "epsilon" if "delta" in method else "delta"
    for several in ([0.1, 0.2], np.array([0.1]), [[0.1]], ()):
        with pytest.raises(ValueError, match=rf"^`{name}` must be one number; got \d of[^\n]+$"):
            getattr(loss, method)(several)
    if "stderr" in method:
        return
    with pytest.raises(ValueError, match=rf"^`{name}` must be a number; got None[^\n]+$"):
        getattr(loss, method)(None)
    assert getattr(loss, method)(np.array(0.5)) == getattr(loss, method)(0.5)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_notions_are_ordered(law):
    """Pinsker, Bretagnolle and Huber, D_α increasing in α, KL ≤ ρ, TV ≤ 2Φ(μ/2) − 1."""
    loss = loss_of(law)
    assert loss.total_variation <= np.sqrt(loss.kl / 2) * (1 + 1e-9)
    assert loss.total_variation <= 1 - 0.5 * np.exp(-loss.kl)
    orders = [loss.renyi(a) for a in (1.0, 1.5, 4.0, 30.0, np.inf)]
    assert (np.diff(orders) >= 0).all()
    assert loss.kl <= loss.rho * (1 + 1e-9)
    assert loss.total_variation <= delta_of_mu(0.0, loss.mu) * (1 + 1e-12)
    assert loss.tradeoff(0.2) <= 1 - 0.2 - 0.0


GRID = [(e, d) for e in (1e-12, 1e-6, 1e-2, 1.0, 30.0, 1e3, 1e6) for d in
        (1e-300, 1e-30, 1e-10, 1e-3, 0.5, 1 - 1e-6, 1 - 1e-12)]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_realised_delta_of_every_law_stays_below_its_target(epsilon, delta):
    """The law whose budget it is, and the ε that it reports for that δ."""
    mu = analytic_gaussian_mu(epsilon, delta)
    assert GaussianLoss([mu]).delta(epsilon)[0] <= delta
    for law in (GaussianLoss([0.3 * mu, 3 * mu]), BoundedLoss([0.5 * epsilon, 2 * epsilon])):
        reported = law.epsilon(delta)
        assert (law.delta(reported) <= delta).all()


def test_agreement_with_dp_accounting():
    mechanism = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    gaussian = pytest.importorskip("dp_accounting.gaussian_mechanism")
    for sigma in (0.05, 0.3, 1.0, 5.0, 300.0):
        theirs = mechanism.GaussianPrivacyLoss(sigma)
        for epsilon in (0.0, 1e-3, 0.1, 1.0, 8.0):
            want = theirs.get_delta_for_epsilon(epsilon)
            got = float(delta_of_mu(epsilon, 1 / sigma))
            if want > 1e-6:  # below, their difference of two tails has cancelled
                assert got == pytest.approx(want, rel=1e-9)
            assert abs(got - want) < 1e-14
        for delta in (1e-12, 1e-6, 1e-2):
            if delta < delta_of_mu(0.0, 1 / sigma):
                want = gaussian.get_epsilon_gaussian(sigma, delta, tol=1e-13)
                if want > 1e-3:
                    assert float(epsilon_of_mu(delta, 1 / sigma)) == pytest.approx(want, rel=1e-9)
    for epsilon in (0.1, 1.0, 8.0):
        for delta in (1e-12, 1e-6, 1e-2):
            want = gaussian.get_sigma_gaussian(epsilon, delta, tol=1e-13)
            assert 1 / analytic_gaussian_mu(epsilon, delta) == pytest.approx(want, rel=1e-9)


@pytest.fixture(scope="module")
def release():
    inv = cdp.totals(["a", "a", "a", "b", "b"])
    return inv, lambda scale: cdp.Conditioned(dist.Normal(np.zeros(5), scale), inv)


def test_queries_that_are_singular(release):
    """A query that repeats itself says nothing new; one that sees only totals says nothing."""
    inv, view = release
    nb = cdp.relocations(inv)
    once = cdp.privacy_loss(view(2.0), nb, query=np.eye(5)[:1]).mu
    assert cdp.privacy_loss(view(2.0), nb, query=np.eye(5)[[0, 0]]).mu == pytest.approx(once)
    both = cdp.privacy_loss(view(2.0), nb, query=np.eye(5)[:2]).mu
    more = np.vstack([np.eye(5)[:2], np.eye(5)[:1] + np.eye(5)[1:2]])
    assert cdp.privacy_loss(view(2.0), nb, query=more).mu == pytest.approx(both)
    for blind in ([[1.0, 1, 1, 0, 0]], [[0.0] * 5]):
        assert cdp.privacy_loss(view(2.0), nb, query=blind).mu == 0
        with pytest.raises(ValueError, match=r"^`query` must see something[^\n]+$"):
            cdp.calibrate(view, nb, epsilon=1.0, delta=1e-6, query=blind)


def test_a_total_seen_through_a_query_tells_apart(release):
    _, view = release
    across = cdp.differences([1.0, 0, 0, -1, 0])
    with pytest.raises(ValueError, match="changes a published total"):
        cdp.privacy_loss(view(2.0), across, query=[[1.0, 1, 1, 0, 0]])


def test_nothing_to_protect():
    with pytest.raises(ValueError, match=r"^`V` must hold at least one difference[^\n]+$"):
        cdp.differences(np.zeros((0, 5)))
    with pytest.raises(ValueError, match=r"^`inv` must leave some record free[^\n]+$"):
        cdp.relocations(cdp.totals(["a", "b"]))
