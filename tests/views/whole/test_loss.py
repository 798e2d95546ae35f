"""Profiles of whole-number noise, against listing small tables one by one."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss, delta_of_mu, epsilon_of_mu
from cdp_views.loss.conversions import delta_of_rho
from cdp_views.neighbours import Differences
from cdp_views.precision.whole_losses import Listed, together

EPSILONS = np.array([0.0, 0.2, 0.5, 1.0, 1.7, 2.9])
BASES = {"laplace": cdp.DiscreteLaplace, "normal": cdp.DiscreteNormal}


def log_p(base, x, scale):
    return -np.abs(x) / scale if base == "laplace" else -0.5 * (x / scale) ** 2


def listed(base, scale, A, v, reach):
    """δ(ε) from all whole x in a box with A x = 0, their chances and those of x − v."""
    box = np.array(list(itertools.product(range(-reach, reach + 1), repeat=len(scale))))
    x = box[np.all(box @ np.transpose(A) == 0, axis=1)]
    here, there = log_p(base, x, scale).sum(1), log_p(base, x - v, scale).sum(1)
    p = np.exp(here) / np.exp(here).sum()
    gap = EPSILONS[:, None] - (here - there)
    return np.where(gap < 0, -np.expm1(np.minimum(gap, 0)), 0) @ p


CASES = {
    "a pair": ([[1, 1, 1]], [0.6, 0.6, 0.6], [1, -1, 0], 14),
    "two at once": ([[1, 1, 1]], [0.6, 0.6, 0.6], [2, -2, 0], 14),
    "unequal scales": ([[1, 1, 1]], [0.6, 0.9, 0.5], [1, -1, 0], 14),
    "all of a group": ([[1, 1, 1]], [0.6, 0.9, 0.5], [1, 1, -2], 14),
    "two cells in all": ([[1, 1]], [0.8, 0.8], [1, -1], 60),
    "two groups": ([[1, 1, 0, 0], [0, 0, 1, 1]], [0.6, 0.6, 0.5, 0.7], [1, -1, -1, 1], 10),
    "weights": ([[1, 1, 2]], [0.6, 0.6, 0.8], [1, -1, 0], 14),
    "overlap": ([[1, 1, 1, 0], [0, 0, 1, 1]], [0.6, 0.6, 0.5, 0.7], [1, -1, 0, 0], 10),
    "no total": ([[1, 1, 0]], [0.6, 0.6, 0.9], [1, -1, 1], 14),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("base", BASES)
def test_conditioned_against_a_list_of_all_tables(base, name):
    A, scale, v, reach = CASES[name]
    scale, v = np.array(scale), np.array(v)
    if base == "normal" and name == "all of a group":
        return  # only bounded: below
    view = cdp.Conditioned(BASES[base](np.zeros(len(scale)), scale), cdp.linear(A))
    law = view.loss(csr_array(v[None].astype(float)))
    want = listed(base, scale, np.array(A), v, reach)
    got = law.delta(EPSILONS[:, None])[:, 0]
    assert law.kind == "exact"
    # what lies outside the box
    tolerance = 2e-6 if reach < 14 else {"laplace": 1e-7, "normal": 1e-12}[base]
    assert_allclose(got, want, atol=tolerance)
    if reach >= 14:
        assert base == "laplace" or np.all(got >= want - 1e-15)
        other = listed(base, scale * 1.02, np.array(A), v, reach)
        assert np.abs(got - other).max() > 1e-3  # two per cent more noise would be seen
    if base == "laplace":
        assert_allclose(law.sup, np.sum(np.abs(v) / scale))
        assert law.delta(law.sup[0] - 1e-9) > 0 == law.delta(law.sup[0])
    else:
        assert_allclose(law.zcdp, np.sum(v**2 / scale**2) / 2)
        assert np.all(got <= delta_of_rho(law.zcdp, EPSILONS))


def test_conditioned_normal_beyond_two_cells_is_bounded_by_rho():
    A, scale, v, reach = CASES["all of a group"]
    view = cdp.Conditioned(cdp.DiscreteNormal(np.zeros(3), np.array(scale)), cdp.totals([0] * 3))
    law = view.loss(csr_array(np.array([v], float)))
    want = listed("normal", np.array(scale), np.array(A), np.array(v), reach)
    rho = np.sum(np.square(v) / np.square(scale)) / 2
    assert law.kind == "bound" and law.zcdp == pytest.approx(rho)
    assert_allclose(law.delta(EPSILONS[:, None])[:, 0], delta_of_rho(rho, EPSILONS))
    assert np.all(want <= delta_of_rho(rho, EPSILONS))
    # some rows listed, others not: each by what is known of it
    both = view.loss(csr_array(np.array([v, [1, -1, 0]], float)))
    pair = listed("normal", np.array(scale), np.array(A), np.array([1, -1, 0]), reach)
    assert both.kind == "bound"
    assert_allclose(both.take(np.array([1])).delta(EPSILONS[:, None])[:, 0], pair, atol=1e-12)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("scale", [[0.6, 0.6, 0.6], [0.3, 0.8, 0.8]])
def test_imaged_is_below_its_bound_and_that_below_the_base(base, scale):
    """Listing all noise of three cells, each moved to a closest world as the mechanism does."""
    scale, v = np.array(scale), np.array([1, -1, 0])
    view = cdp.Imaged(BASES[base](np.zeros(3), scale), cdp.totals([0] * 3))
    law = view.loss(csr_array(v[None].astype(float)))
    u = np.array(list(itertools.product(range(-13, 14), repeat=3)))
    p = np.exp(log_p(base, u, scale).sum(1))
    s = u.sum(1)
    chances = []
    for shift in (np.zeros(3, int), v):
        image: dict[tuple, float] = {}
        for first in itertools.combinations(range(3), 1), itertools.combinations(range(3), 2):
            for chosen in first:
                moved = np.isin(np.arange(3), chosen).astype(int)
                for x, weight in _images(u, p, s, moved, len(chosen)):
                    image[tuple(x + shift)] = image.get(tuple(x + shift), 0.0) + weight
        for x, weight in _images(u, p, s, np.zeros(3, int), 0):
            image[tuple(x + shift)] = image.get(tuple(x + shift), 0.0) + weight
        chances.append(image)
    here, there = chances
    total = sum(here.values())
    exact = [
        sum(max(0.0, w - np.exp(e) * there.get(x, 0.0)) for x, w in here.items()) / total
        for e in EPSILONS
    ]
    got = law.delta(EPSILONS[:, None])[:, 0]
    assert (law.kind, law.sup_kind) == ("bound", "bound")
    assert np.all(exact <= got + 1e-6)
    free = cdp.Conditioned(BASES[base](np.zeros(3), scale), cdp.totals([None] * 3, missing="free"))
    unconstrained = free.loss(csr_array(v[None].astype(float)))
    assert_allclose(
        unconstrained.delta(EPSILONS[:, None])[:, 0],
        listed(base, scale, np.zeros((1, 3)), v, 13),
        atol=1e-6,
    )
    if scale[0] == scale[1]:  # no way along the fibre is cheaper
        assert_allclose(got, unconstrained.delta(EPSILONS[:, None])[:, 0], rtol=1e-12)
    else:
        assert got[4] < 0.95 * unconstrained.delta(EPSILONS[4])[0]


def _images(u, p, s, moved, count):
    """Noise whose residual leaves `count` cells to move by one more, in these cells."""
    here = s % 3 == count
    share = {0: 1.0, 1: 1 / 3, 2: 1 / 3}[count]
    return zip(u[here] - (s[here] // 3)[:, None] - moved, p[here] * share, strict=True)


def test_wide_noise_is_near_real_noise():
    """Scale 300: the discrete normal pair is the conditioned Normal's, to the grid; and Laplace."""
    inv, v = cdp.totals([0] * 6), csr_array(np.array([[1.0, -1, 0, 0, 0, 0]]))
    epsilon = np.array([0.0, 0.002, 0.01])
    normal = cdp.Conditioned(cdp.DiscreteNormal(np.zeros(6), 300.0), inv).loss(v)
    assert_allclose(
        normal.delta(epsilon[:, None])[:, 0], delta_of_mu(epsilon, np.sqrt(2) / 300), rtol=2e-3
    )
    laplace = cdp.Conditioned(cdp.DiscreteLaplace(np.zeros(6), 300.0), inv).loss(v)
    near = cdp.Conditioned(cdp.DiscreteLaplace(np.zeros(6), 3.0), inv).loss(v)
    for law, scale in ((laplace, 300.0), (near, 3.0)):
        assert law.kind == "exact"
        assert law.delta(0.0) <= np.tanh(1 / scale)  # what the supremum alone proves
    assert_allclose(normal.epsilon(1e-6), epsilon_of_mu(1e-6, np.sqrt(2) / 300), rtol=2e-2)


def test_the_evaluator_takes_the_worst_of_all_classes():
    labels, scale = np.repeat([0, 1, 2], [2, 3, 3]), np.array([1.0, 1, 1, 1, 2, 1, 1, 2])
    inv = cdp.totals(labels)
    view = cdp.Conditioned(cdp.DiscreteLaplace(np.zeros(8), scale), inv)
    loss = cdp.privacy_loss(view, cdp.relocations(inv))
    pairs = [(i, j) for i in range(8) for j in range(i) if labels[i] == labels[j]]
    V = csr_array(np.array([np.eye(8)[i] - np.eye(8)[j] for i, j in pairs]))
    every = view.loss(V)
    assert loss.kind == "exact"
    for epsilon in (0.0, 0.6, 1.4):
        assert_allclose(loss.delta(epsilon), every.delta(epsilon).max(), rtol=1e-12)
    assert_allclose(loss.epsilon(1e-3), every.epsilon(1e-3).max(), rtol=1e-9)
    assert len(loss.by_pair()) == 3


def test_within_bounds_a_guarantee_is_of_every_table():
    """All tables of 12 records in three cells by enumeration; one table's own loss is less."""
    region, v = cdp.totals([0, 0, 0]) & cdp.nonnegative(3), np.array([1, -1, 0])
    tables = [(a, b, 12 - a - b) for a in range(13) for b in range(13 - a)]
    outputs = np.array(tables)

    def log_p(q):
        value = -np.abs(outputs - q).sum(1) / 2.0
        return value - np.logaddexp.reduce(value)

    worst = max(
        np.abs(log_p(np.array(q)) - log_p(np.array(q) - v)).max() for q in tables if q[0] > 0
    )

    def at(q, **asked):
        view = cdp.Conditioned(cdp.DiscreteLaplace(np.array(q), 2.0), region)
        return cdp.privacy_loss(view, cdp.differences(v), **asked)

    for q in ([3, 4, 5], [0, 1, 11]):
        assert at(q).pure_epsilon == 2.0 >= worst and at(q).scope == ""
    here = at([0, 1, 11], table="this")
    assert here.pure_epsilon < worst and here.scope.startswith("holds for this table")


def test_bounds_are_refused_where_nothing_is_proved():
    region = cdp.totals([0, 0, 0]) & cdp.nonnegative(3)
    view = cdp.Conditioned(cdp.DiscreteLaplace(np.array([1, 0, 2]), 0.8), region)
    assert cdp.privacy_loss(view, cdp.differences([1, 0, -1])).pure_kind == "bound"
    normal = cdp.Conditioned(cdp.DiscreteNormal(np.array([1, 0, 2]), 0.8), region)
    with pytest.raises(UnsupportedError, match="Within bounds use"):
        cdp.privacy_loss(normal, cdp.differences([1, 0, -1]))
    with pytest.raises(ValueError, match="`neighbours` must be whole numbers"):
        cdp.privacy_loss(view, cdp.differences([0.5, 0, -0.5]))


def test_too_long_lists_are_rounded_up():
    rng = np.random.default_rng(0)
    one = Listed(np.sort(rng.normal(size=5000)), np.full(5000, 1 / 5000), 0.0)
    two = Listed(np.array([-1.0, 0.3, 1.0]), np.array([0.2, 0.3, 0.5]), 0.0)
    exact, whole = together([one, two])
    assert whole and exact.loss.size <= 15_000
    coarse, whole = together([one, one])
    assert not whole and coarse.loss.size < 4_000_000
    want = np.mean(
        [np.maximum(0, -np.expm1(0.5 - (one.loss + shift))).mean() for shift in one.loss]
    )
    got = float(coarse.profile()(np.array(0.5)))
    assert want <= got <= want + 0.01


class ByNorm(Differences):
    """Stated differences of which only a norm is worst."""

    by_norm = True


def test_what_is_worst_by_a_norm_is_bounded_by_pure_epsilon_or_rho():
    matrix = csr_array(np.array([[1.0, -1, 0]]))
    nb, inv = ByNorm(1, 3, matrix), cdp.totals([0] * 3)
    normal = cdp.privacy_loss(cdp.Conditioned(cdp.DiscreteNormal(np.zeros(3), 2.0), inv), nb)
    assert normal.kind == "bound"
    assert_allclose([normal.rho, normal.delta(1.0)], [0.25, delta_of_rho(0.25, 1.0)], rtol=1e-12)
    laplace = cdp.privacy_loss(cdp.Conditioned(cdp.DiscreteLaplace(np.zeros(3), 2.0), inv), nb)
    assert (laplace.kind, laplace.pure_kind) == ("bound", "exact")
    assert_allclose(laplace.guess_rate, 1 / (1 + np.exp(-1.0)))


def not_listed(name):
    """A view, and neighbours of which some difference has too many losses to list."""
    if name == "conditioned":
        table = cdp.margins((2, 3), keep=[(0,), (1,)])
        noise = cdp.DiscreteLaplace(np.zeros(6, int), 2.0)
        return cdp.Conditioned(noise, table), cdp.moves(table)
    if name == "one of several":
        weighted = cdp.totals(["a"] * 3, [1.0, 2.0, 1.0])
        noise = cdp.DiscreteLaplace(np.zeros(3, int), np.array([1.0, 2.0, 1.0]))
        return cdp.Conditioned(noise, weighted), cdp.relocations(weighted, unit="whole")
    far = np.where(np.arange(12) < 4, 200.0 * (-1.0) ** np.arange(12), 0.0)
    noise = cdp.DiscreteLaplace(np.zeros(12, int), np.linspace(1, 2, 12))
    return cdp.Imaged(noise, cdp.totals(["a"] * 12)), cdp.differences(far)


@pytest.mark.parametrize("name", ["conditioned", "one of several", "imaged"])
def test_what_is_not_listed_has_numbers_of_every_shape(name):
    view, neighbours = not_listed(name)
    loss = cdp.privacy_loss(view, neighbours)
    law, pure = loss.law, BoundedLoss(np.array([loss.pure_epsilon]))
    assert loss.kind == "bound" and str(loss)
    grid = loss.pure_epsilon * np.array([0.0, 0.5, 0.99])
    at_once = law.delta(grid[:, None])
    assert at_once.shape == (3, law.sup.size)
    assert_allclose([law.delta(e) for e in grid], at_once)
    assert np.all(at_once.max(axis=1) <= pure.delta(grid) * (1 + 1e-12))
    assert loss.guess_rate == 0.5 + 0.5 * at_once[0].max()
    assert loss.delta(loss.epsilon(0.01)) <= 0.01
    assert cdp.prior_to_posterior(loss).success == loss.guess_rate
    assert len(loss.by_pair(0.5)) >= 1
