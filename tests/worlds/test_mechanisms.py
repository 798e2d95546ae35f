"""[TV] §2 on mechanisms: what holds of finite beliefs holds of noise on real and whole numbers.

Laplace bases on two cells are compared, by their densities on a grid, with the mixture that a base
of random scale is; whole-number noise is a finite belief, and its views are what `Belief` says.
"""

from functools import cache

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views.worlds import Belief

TWO = cdp.totals([0, 0])
SCALES, WEIGHTS = (1.0, 3.0), (0.4, 0.6)
T = (np.arange(1201) - 600) / 20  # along a line of the plane, and across it
CELL = np.sqrt(2) * (T[1] - T[0])


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def at(total):
    """Points of {x₁ + x₂ = total}: (1201, 2)."""
    return np.stack([total / 2 + T, total / 2 - T], -1)


def base(scale, points):
    return np.prod(stats.laplace(0, scale).pdf(points), -1)


log_prob = jax.jit(lambda law, x: law.log_prob(x))


@cache
def view(make, scale, total):
    law = make(dist.Laplace(np.zeros(2), np.array([scale])), TWO, total=np.array([total]))
    return np.exp(np.asarray(log_prob(law, at(total))))


def moved(density, total):
    """The image of a density of two cells: its integral along the fibres (1, 1)/√2."""
    along = T[:, None, None]  # by which both cells move
    return np.sum(density(at(total) + along), 0) * CELL


@pytest.mark.parametrize("total", [0.0, 6.0])
def test_update_of_a_mixture_of_bases_is_the_mixture_of_updates(total):
    """[TV] Theorem 3.9, and that revision does otherwise: it moves the odds of the bases."""

    def mixture(points):
        return sum(w * base(s, points) for w, s in zip(WEIGHTS, SCALES, strict=True))

    images = [view(cdp.Imaged, s, total) for s in SCALES]
    apart = np.tensordot(WEIGHTS, images, 1)
    assert_allclose(moved(mixture, total), apart, atol=3e-4)
    # the grid can tell: with the weights the other way round it differs
    assert np.abs(np.tensordot(WEIGHTS[::-1], images, 1) - apart).max() > 0.01

    known = mixture(at(total))
    known = known / (known.sum() * CELL)
    revised = [view(cdp.Conditioned, s, total) for s in SCALES]
    # f(total) of the sum of two Laplace numbers: (1 + |t|/λ) e^{−|t|/λ}/4λ
    odds = [
        w * (1 + total / s) * np.exp(-total / s) / (4 * s)
        for w, s in zip(WEIGHTS, SCALES, strict=True)
    ]
    assert_allclose(known, np.tensordot(odds / np.sum(odds), revised, 1), atol=1e-3)
    assert np.abs(known - np.tensordot(WEIGHTS, revised, 1)).max() > 0.005


def test_revision_by_a_union_of_totals_is_a_mixture_and_update_is_not():
    """[TV] Theorem 3.5 for "together −1 or together 2", as the limit of two slabs of one width."""
    totals, rng = (-1.0, 2.0), np.random.default_rng(0)
    height = [(1 + abs(t)) * np.exp(-abs(t)) / 4 for t in totals]
    share = height[1] / sum(height)
    revised = [view(cdp.Conditioned, 1.0, t) for t in totals]
    # the base on both lines, normalised together, is both revisions in the odds of the heights
    both = np.concatenate([base(1.0, at(t)) for t in totals])
    both /= both.sum() * CELL
    assert_allclose(both, np.concatenate([(1 - share) * revised[0], share * revised[1]]), atol=1e-3)
    u = rng.laplace(size=(2_000_000, 2))
    slabs = [np.abs(u.sum(1) - t) < 0.05 for t in totals]
    count = np.array([np.sum(slab) for slab in slabs])
    error = np.sqrt(share * (1 - share) / count.sum())
    assert abs(count[1] / count.sum() - share) < 5 * error < 0.02
    # update sends each world to the nearer line: the upper one receives those of sum above ½
    upper = u[u.sum(1) > 0.5]
    image = upper[:, 0] + (totals[1] - upper.sum(1)) / 2
    cdf = np.cumsum(view(cdp.Imaged, 1.0, totals[1])) * CELL
    score = stats.kstest(image[:20_000], lambda x: np.interp(x, totals[1] / 2 + T, cdf))
    assert score.pvalue < 1e-6  # not the update by that total alone, with whatever weight
    everyone = u[:20_000, 0] + (totals[1] - u[:20_000].sum(1)) / 2
    score = stats.kstest(everyone, lambda x: np.interp(x, totals[1] / 2 + T, cdf))
    assert score.pvalue > 1e-4


def test_views_of_mixtures_and_unions_are_numpyros_mixtures_of_views(key):
    """No function of its own is needed: update keeps the weights, and revision moves each by
    log p(y) − log p(y | total), whatever y on the total, the base's height there."""
    bases = [dist.Laplace(np.zeros(2), np.array([s])) for s in SCALES]
    total, y = np.array([6.0]), np.array([[4.0, 2.0], [-1.0, 7.0]])
    of = {
        make: [make(noise, TWO, total=total) for noise in bases]
        for make in (cdp.Conditioned, cdp.Imaged)
    }

    def height(noise, law, y):
        return np.asarray(noise.log_prob(y).sum(-1) - law.log_prob(y))

    rise = np.array([height(b, v, y) for b, v in zip(bases, of[cdp.Conditioned], strict=True)])
    assert_allclose(rise[:, 0], rise[:, 1], rtol=1e-12)
    share = np.exp(rise[:, 0]) * WEIGHTS / (np.exp(rise[:, 0]) @ WEIGHTS)
    revised = dist.MixtureGeneral(dist.Categorical(probs=share), of[cdp.Conditioned])
    known = sum(w * base(s, at(6.0)) for w, s in zip(WEIGHTS, SCALES, strict=True))
    found = np.exp(np.asarray(revised.log_prob(at(6.0))))
    assert_allclose(found, known / (known.sum() * CELL), atol=1e-3)
    x = np.asarray(revised.sample(key, (20_000,)))
    assert_allclose(x.sum(1), 6, atol=1e-12)
    cdf = np.cumsum(found) * CELL
    assert stats.kstest(x[:, 0], lambda x: np.interp(x, 3 + T, cdf)).pvalue > 1e-4
    updated = dist.MixtureGeneral(dist.Categorical(probs=np.array(WEIGHTS)), of[cdp.Imaged])
    apart = np.tensordot(WEIGHTS, [view(cdp.Imaged, s, 6.0) for s in SCALES], 1)
    assert_allclose(np.exp(np.asarray(updated.log_prob(at(6.0)))), apart, rtol=1e-9)

    # "together −1 or together 2" of one base: each total by the base's height on it
    totals = (-1.0, 2.0)
    laws = [cdp.Conditioned(bases[0], TWO, total=np.array([t])) for t in totals]
    points = [np.array([t / 2, t / 2]) for t in totals]
    rise = [height(bases[0], law, y) for law, y in zip(laws, points, strict=True)]
    share = np.exp(rise) / np.sum(np.exp(rise))
    assert_allclose(share[1], 1 / (1 + 2 / 3 * np.exp(1.0)), rtol=1e-9)  # (1 + |t|)e^{−|t|}/4
    either = dist.MixtureGeneral(
        dist.Categorical(probs=share), laws, support=dist.constraints.real_vector
    )
    both = np.concatenate([base(1.0, at(t)) for t in totals])
    found = np.exp(np.asarray(either.log_prob(np.concatenate([at(t) for t in totals]))))
    assert_allclose(found, both / (both.sum() * CELL), atol=1e-3)
    x = np.asarray(either.sample(key, (20_000,)))
    upper = np.isclose(x.sum(1), 2, atol=1e-9)
    assert np.all(upper | np.isclose(x.sum(1), -1, atol=1e-9))
    assert abs(upper.mean() - share[1]) < 5 * np.sqrt(share[1] * share[0] / 20_000)


def whole(loc, reach=24):
    """A release of two whole counts as a belief over worlds: loc + discrete Laplace noise."""
    worlds = [(a, b) for a in range(-reach, reach + 1) for b in range(-reach, reach + 1)]
    p = np.exp(-np.abs(np.array(worlds) - loc).sum(1) / 0.7)
    return Belief(worlds, p / p.sum())


@pytest.mark.parametrize("change", ["condition", "image"])
def test_whole_number_views_are_the_changes_of_a_finite_belief(change):
    loc = np.array([2, -1])
    belief = getattr(whole(loc), change)(lambda world: sum(world) == 1)
    make = {"condition": cdp.Conditioned, "image": cdp.Imaged}
    points = np.array([(a, 1 - a) for a in range(-4, 9)])
    want = [belief(tuple(map(int, point))) for point in points]

    def masses(which):
        law = make[which](cdp.DiscreteLaplace(loc, 0.7), TWO)
        return np.exp(np.asarray(law.log_prob(points), np.float64))

    assert_allclose(masses(change), want, rtol=1e-6, atol=1e-12)
    (other,) = make.keys() - {change}
    assert np.abs(masses(other) - want).max() > 0.02


def test_revision_keeps_relative_weights_and_is_nearest_in_information():
    """Of all laws on the total, also of the other views of the same noise."""
    p = whole(np.array([0, 0]))
    event = [world for world in p.worlds if sum(world) == 0]
    revised, updated = p.condition(event), p.image(event)
    ratio = np.array([revised(w) / p(w) for w in event if p(w) > 1e-12])
    assert_allclose(ratio, 1 / p(event))
    assert np.ptp([updated(w) / p(w) for w in event if p(w) > 1e-12]) > 1
    assert p.divergence(revised) == pytest.approx(-np.log(p(event)))
    assert p.divergence(updated) > p.divergence(revised) + 0.05
    for scale in (1.0, 3.0):  # on real numbers: log p is kept up to a constant on each total
        gap = np.log(view(cdp.Conditioned, scale, 6.0)) - np.log(base(scale, at(6.0)))
        assert np.ptp(gap) < 1e-9
        gap = np.log(view(cdp.Imaged, scale, 6.0)) - np.log(base(scale, at(6.0)))
        assert np.ptp(gap) > 1
