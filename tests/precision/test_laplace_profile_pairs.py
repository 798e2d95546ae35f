"""Which of many laws of two cells of a total may be worst: caps, screens, and what they leave."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views.loss.by_law import ByLaw
from cdp_views.precision.laplace_profile import two_cells
from cdp_views.precision.laplace_profile_caps import shares_of_free_cells
from cdp_views.precision.laplace_profile_pair import two_of_a_total
from cdp_views.precision.laplace_profile_pairs import ERROR, NEAR, ManyPairs, is_short
from cdp_views.precision.laplace_profile_sum import convolved, tabulated

SHARES = np.array([0.0, 0.3, 0.8, 0.97, 1 - 1e-6])


def laws(n, k, spread, seed):
    rng = np.random.default_rng(seed)
    groups = [np.sort(rng.uniform(1, spread, n)) for _ in range(k)]
    return np.stack([own[:2] for own in groups]), [own[2:] for own in groups], groups


def exact(move, pair, rest):
    return two_of_a_total(move, tuple(pair), *np.unique(rest, return_counts=True))


@pytest.mark.parametrize(
    ("n", "spread", "move"),
    [(3, 3, 1.0), (5, 15, 8.0), (20, 3, 0.2), (4, 40, 15.0), (120, 8, 2.0), (6, 1, 1.0)],
)
def test_caps_and_screens_against_the_profile(n, spread, move):
    pairs, rests, groups = laws(n, 4, spread, 0)
    if n == 4:  # the cells that move are the noisiest, and unlike
        pairs, rests = np.stack([own[[-1, 0]] for own in groups]), [own[1:-1] for own in groups]
    share = shares_of_free_cells(groups, np.arange(4), pairs)
    many = ManyPairs(np.full(4, move), pairs, rests)
    for j in range(4):
        assert is_short(rests[j], tuple(pairs[j]), move)
        near = is_short(rests[j], tuple(pairs[j]), move, 0.5)
        epsilon = move * np.sum(1 / pairs[j]) * SHARES
        want = exact(move, pairs[j], rests[j])(epsilon)
        got = many(epsilon, np.full(epsilon.size, j))
        assert_allclose(got, want, rtol=2 * NEAR if near else 0.05 * ERROR, atol=1e-14)
        cap = share[j] * two_cells(epsilon, *(move / np.sort(pairs[j])[::-1]))
        assert np.all(want <= cap * (1 + 1e-9))
    if n == 20:  # the more cells at rest, the nearer
        assert want[0] > 0.9 * cap[0]
    assert not is_short(np.array([1.0, 30.0]), (1.0, 2.0), 20.0)
    assert many(np.array([1e3]), np.array([0]))[0] == 0


def built(pairs, rests, groups, makers=None, screen=True):
    moves = np.ones(len(pairs))
    share = shares_of_free_cells(groups, np.arange(len(pairs)), pairs)

    def cap(epsilon, law):
        return share[law] * two_cells(epsilon, *(1 / pairs[law, ::-1]).T)

    def value(law, epsilon):
        many = ManyPairs(moves[law], pairs[law], [rests[k] for k in law])
        at = many(np.tile(epsilon, len(law)), np.repeat(np.arange(len(law)), epsilon.size))
        return at.reshape(len(law), -1).T

    made = [exact(1.0, pair, rest) for pair, rest in zip(pairs, rests, strict=True)]
    law = ByLaw(
        makers or [lambda f=f: f for f in made],
        np.arange(len(pairs)),
        np.sum(1 / pairs, axis=1),
        cap,
        screen=value if screen else None,
        slack=ERROR,
    )
    return law, made


def test_what_is_left_is_worst_at_every_epsilon():
    """Against all 40 profiles: nothing that is largest anywhere is left out, and most are."""
    pairs, rests, groups = laws(5, 40, 3, 1)
    pairs[:15] = pairs[0]  # equal supremum, and nearly equal profiles
    groups = [np.append(pair, rest) for pair, rest in zip(pairs, rests, strict=True)]
    law, made = built(pairs, rests, groups)
    kept, sup = law.frontier(), law.sup
    epsilon = sup.max() * np.random.default_rng(2).uniform(size=40)
    epsilon = np.append(epsilon, sup.max() * (1 - 10.0 ** -np.arange(5, 9)))
    everything = np.stack([f(epsilon) for f in made], axis=1)
    assert_allclose(everything[:, kept].max(axis=1), everything.max(axis=1), rtol=1e-12)
    assert kept.size <= 8 and sup[kept].max() == sup.max()
    worst = np.argmax(everything, axis=1)  # a control: without them it would be seen
    rest = np.setdiff1d(kept, worst)
    assert np.any(everything[:, rest].max(axis=1, initial=0) < everything.max(axis=1) * (1 - 1e-6))


def test_profiles_a_hair_apart_are_all_kept():
    """Twenty laws within 1e-10 of each other: which is worst is not for a screen to say."""
    pairs, rests, groups = laws(5, 1, 3, 3)
    change = 1 + 1e-10 * np.arange(20)
    rests = [rests[0] * c for c in change]
    pairs = np.tile(pairs, (20, 1))
    groups = [np.append(pairs[0], rest) for rest in rests]
    kept = built(pairs, rests, groups)[0].frontier()
    assert kept.size == 20
    # a control: 1 % apart, the least noisy of the cells at rest remains, or a few of them
    far = [rests[0] * (1 + 0.01 * j) for j in range(20)]
    kept = built(pairs, far, [np.append(pairs[0], rest) for rest in far])[0].frontier()
    assert kept.size <= 6 and 0 in kept


def test_the_largest_supremum_is_kept_however_little_lies_there():
    """δ of one law ends a little later than all others, and is less before."""

    def line(height, end):
        return lambda: lambda e: height * np.maximum(np.expm1(end) - np.expm1(e), 0.0)

    sup = np.array([1 - 2e-7, 1 - 1e-7, *np.linspace(0.8, 0.9, 8), 1.0])
    makers = [line(h, s) for h, s in zip([0.3, 0.2, *[0.1] * 8, 1e-3], sup, strict=True)]
    made = [make() for make in makers]

    def cap(epsilon, law):
        return np.stack([1.0001 * made[k](epsilon[..., 0]) for k in law], axis=-1)

    law = ByLaw(makers, np.arange(11), sup, cap)
    assert {0, 1, 10} <= set(law.frontier().tolist()) and law.frontier().size <= 6


def test_a_table_lies_above_its_profile_and_is_asked_few_times():
    pairs, rests, _ = laws(4, 1, 3, 5)
    many, asked = ManyPairs(np.ones(1), pairs, rests), []

    def profile(epsilon):
        asked.append(epsilon.size)
        return many(epsilon, np.zeros(epsilon.size, dtype=int))

    sup = float(np.sum(1 / pairs))
    table = tabulated(profile, sup)
    epsilon = sup * np.random.default_rng(0).uniform(size=200)
    want = exact(1.0, pairs[0], rests[0])(epsilon)
    got = table(epsilon)
    assert np.all(got >= want * (1 - 1e-10)) and np.max(got - want) < 1e-7
    assert sum(asked) == 2048 and table(np.array([sup, 2 * sup])).tolist() == [0, 0]
    together = convolved([(table, sup)] * 3)
    assert sum(asked) == 2048  # however many sums it is part of
    assert np.all(together(epsilon) >= got)  # three lose more than one
