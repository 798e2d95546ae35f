"""Several releases, relative to all the totals that they publish."""

import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views.loss import GaussianLoss, ProfileLoss
from cdp_views.privacy.composition import repeated

LABELS = ["a", "a", "a", "b", "b"]
SIGMA = np.array([1.0, 2.0, 3.0, 1.5, 2.5])


@pytest.fixture(scope="module")
def inv():
    return cdp.totals(LABELS)


def normal(make, inv, sigma):
    return make(dist.Normal(np.zeros(inv.n), sigma), inv)


def test_normal_views_compose_in_closed_form(inv):
    a, b = normal(cdp.Conditioned, inv, SIGMA), normal(cdp.Imaged, inv, SIGMA)
    nb = cdp.relocations(inv)
    mu = [cdp.privacy_loss(view, nb).mu for view in (a, b)]
    both = cdp.compose([a, b], nb)
    assert both.mu == pytest.approx(np.hypot(*mu)) and both.kind == "exact"
    assert cdp.compose([a, b], nb, times=[3, 2]).mu == pytest.approx(
        np.sqrt(3 * mu[0] ** 2 + 2 * mu[1] ** 2)
    )
    assert both.worst.cells == (0, 1)
    assert both.scope == "2 releases together, relative to all totals that they publish"
    assert both.rho == pytest.approx(both.mu**2 / 2)


def test_different_worst_differences_are_a_bound_and_rows_are_exact(inv):
    a = normal(cdp.Conditioned, inv, SIGMA)
    b = normal(cdp.Conditioned, inv, SIGMA[::-1].copy())
    V = [[1, -1, 0, 0, 0], [0, 1, -1, 0, 0], [0, 0, 0, 1, -1]]
    loose = cdp.compose([a, b], cdp.relocations(inv))
    assert loose.kind == "bound"
    exact = cdp.compose([a, b], cdp.differences(V))
    each = [[cdp.privacy_loss(view, cdp.differences(v)).mu for v in V] for view in (a, b)]
    assert exact.mu == pytest.approx(np.max(np.hypot(*each)))
    assert exact.kind == "exact" and exact.mu <= loose.mu
    assert exact.worst.row == int(np.argmax(np.hypot(*each)))


def test_a_new_total_is_announced_and_old_neighbours_are_refused(inv):
    finer = inv & cdp.linear(np.array([[1.0, 1.0, 0, 0, 0]]))
    a, b = normal(cdp.Conditioned, inv, SIGMA), normal(cdp.Conditioned, finer, SIGMA)
    with pytest.raises(
        ValueError,
        match=r"^`neighbours` change a total that release 1 publishes[^\n]+so far[^\n]+$",
    ):
        cdp.compose([a, b], cdp.relocations(inv))
    with pytest.raises(ValueError, match="a total that release 1 publishes"):
        cdp.compose([a, b], cdp.differences([1, 0, -1, 0, 0]))
    loss = cdp.compose([a, b], cdp.relocations(finer))
    assert "release 1 adds 1 total to those before it" in str(loss)
    assert "adds" not in cdp.compose([b, a], cdp.relocations(finer)).scope


def test_a_query_beside_the_table(inv):
    a = normal(cdp.Conditioned, inv, SIGMA)
    W = np.array([[1.0, 0, 0, 0, 0]])
    v = cdp.differences([1, -1, 0, 0, 0])
    parts = [cdp.privacy_loss(a, v).mu, cdp.privacy_loss(a, v, query=W).mu]
    assert cdp.compose([a, (a, W)], v).mu == pytest.approx(np.hypot(*parts))


def test_laplace_goes_through_dp_accounting(inv):
    pytest.importorskip("dp_accounting")
    pair = cdp.totals(["a", "a"])
    view = cdp.Conditioned(dist.Laplace(np.zeros(2), 1.0), pair)
    nb = cdp.relocations(pair)
    one, three = cdp.privacy_loss(view, nb), cdp.compose([view], nb, times=[3])
    assert three.pure_epsilon == pytest.approx(3 * one.pure_epsilon)
    assert three.kind == "bound"
    # n = 2: the loss is Laplace's of rate 2, and three of them a sum; by simulation
    rng = np.random.default_rng(1)
    x = rng.laplace(size=(3, 400_000)) / 2  # scale ½: density ∝ e^{−2|x|} on the line
    draws = np.sum(2 * (np.abs(x - 1) - np.abs(x)), axis=0)
    for epsilon in (0.0, 2.0):
        excess = np.maximum(-np.expm1(epsilon - draws), 0)
        error = excess.std() / np.sqrt(draws.size)
        assert abs(three.delta(epsilon) - excess.mean()) < 5 * error + 1e-4
    assert three.delta(2.0) > one.delta(2.0)


def test_repeated():
    worst = cdp.privacy_loss(
        normal(cdp.Conditioned, cdp.totals(["a", "a"]), np.ones(2)),
        cdp.relocations(cdp.totals(["a", "a"])),
    )
    assert repeated(worst, 1) is worst
    assert repeated(worst, 9).mu == pytest.approx(3 * worst.mu)
    assert "9 releases together" in repeated(worst, 9).scope


def test_nothing_to_compose(inv):
    with pytest.raises(ValueError, match=r"^`releases` must hold at least one view"):
        cdp.compose([], cdp.relocations(inv))
    stranger = type("Stranger", (), {})()
    with pytest.raises(cdp.UnsupportedError, match=r"^`releases` 0: `view` of type Stranger"):
        cdp.compose([stranger], cdp.relocations(inv))


def test_rows_of_other_laws_cross(inv):
    """Two differences whose profiles cross: each is composed by itself."""
    pytest.importorskip("dp_accounting")
    sup, height = np.array([1.0, 2.0]), np.array([0.6, 0.2])

    def profile(epsilon):  # Laplace noise on one cell with chance `height`, else none is needed
        return -height * np.expm1(0.5 * np.minimum(epsilon - sup, 0))

    class View:
        invariant = inv

        def loss(self, differences, query=None):
            return ProfileLoss(profile, sup)

    V = cdp.differences([[1, -1, 0, 0, 0], [1, 0, -1, 0, 0]])
    loss = cdp.compose([View(), normal(cdp.Conditioned, inv, 50.0)], V)
    for epsilon in (0.0, 1.5):
        single = profile(epsilon).max()
        assert single <= loss.delta(epsilon) <= single + 0.03
    assert not isinstance(loss.law, GaussianLoss)
