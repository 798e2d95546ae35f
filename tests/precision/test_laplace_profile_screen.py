"""Which of many laws of two cells of a total may be worst: caps, screens, and what they leave."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views.loss.by_law import ByLaw
from cdp_views.precision.laplace_profile import two_cells
from cdp_views.precision.laplace_profile_caps import shares_of_free_cells
from cdp_views.precision.laplace_profile_pair import two_of_a_total
from cdp_views.precision.laplace_profile_screen import FINE, ROUGH, can_be_screened, screened

SHARES = np.array([0.0, 0.3, 0.8, 0.97, 1 - 1e-6])


def laws(n, k, spread, seed):
    rng = np.random.default_rng(seed)
    groups = [np.sort(rng.uniform(1, spread, n)) for _ in range(k)]
    return np.stack([own[:2] for own in groups]), [own[2:] for own in groups], groups


def exact(move, pair, rest):
    return two_of_a_total(move, tuple(pair), *np.unique(rest, return_counts=True))


@pytest.mark.parametrize(("n", "spread", "move"), [(3, 3, 1.0), (5, 15, 8.0), (20, 3, 0.2)])
def test_caps_and_screens_against_the_profile(n, spread, move):
    pairs, rests, groups = laws(n, 4, spread, 0)
    share = shares_of_free_cells(groups, np.arange(4), pairs)
    for j in range(4):
        assert can_be_screened(rests[j], tuple(pairs[j]), move)
        epsilon = move * np.sum(1 / pairs[j]) * SHARES
        want = exact(move, pairs[j], rests[j])(epsilon)
        for how in (ROUGH, FINE):
            got = screened(np.array([move]), pairs[[j]], rests[j : j + 1], epsilon, how)[:, 0]
            assert_allclose(got, want, rtol=how.error / 2, atol=1e-13)
        cap = share[j] * two_cells(epsilon, *(move / pairs[j][::-1]))
        assert np.all(want <= cap * (1 + 1e-9))
    if n == 20:  # the more cells at rest, the nearer
        assert want[0] > 0.9 * cap[0]
    assert not can_be_screened(np.array([1.0, 30.0]), (1.0, 2.0), move)


def test_what_is_left_is_worst_at_every_epsilon():
    """Against all 40 profiles: nothing that is largest anywhere is left out, and most are."""
    pairs, rests, groups = laws(5, 40, 3, 1)
    pairs[:15], moves = pairs[0], np.ones(40)  # equal supremum, and nearly equal profiles
    groups = [np.append(pair, rest) for pair, rest in zip(pairs, rests, strict=True)]
    share = shares_of_free_cells(groups, np.arange(40), pairs)
    made = [exact(1.0, pair, rest) for pair, rest in zip(pairs, rests, strict=True)]

    def cap(epsilon, law):
        return share[law] * two_cells(epsilon, *(1 / pairs[law, ::-1]).T)

    def screen(how):
        return lambda law, epsilon: screened(
            moves[law], pairs[law], [rests[k] for k in law], epsilon, how
        )

    sup = np.sum(1 / pairs, axis=1)
    law = ByLaw(
        [lambda f=f: f for f in made],
        np.arange(40),
        sup,
        cap,
        screens=[(screen(how), how.error) for how in (ROUGH, FINE)],
    )
    kept = law.frontier()
    epsilon = sup.max() * np.random.default_rng(2).uniform(size=40)
    everything = np.stack([f(epsilon) for f in made], axis=1)
    assert_allclose(everything[:, kept].max(axis=1), everything.max(axis=1), rtol=1e-12)
    assert kept.size <= 8
    worst = np.argmax(everything, axis=1)  # a control: without them it would be seen
    rest = np.setdiff1d(kept, worst)
    assert np.any(everything[:, rest].max(axis=1, initial=0) < everything.max(axis=1) * (1 - 1e-6))
