"""[TV] §2 as executable properties of any finite belief, and what each change can't do."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from cdp_views.worlds import Belief, closest

WORLDS = [(a, b) for a in range(3) for b in range(3)]
weights = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 1)), min_size=9, max_size=9)
events = st.sets(st.sampled_from(WORLDS), min_size=1)


def belief(raw):
    assume(sum(raw) > 0)
    return Belief(WORLDS, np.array(raw) / sum(raw))


@given(weights, events)
def test_revision_keeps_the_ratios_inside_and_drops_the_rest(raw, event):
    p = belief(raw)
    assume(p(event) > 0)
    revised = p.condition(event)
    for world in WORLDS:
        assert_allclose(revised(world), p(world) / p(event) if world in event else 0)


@given(weights, events, events)
def test_revision_by_a_union_is_a_mixture(raw, one, two):
    """[TV] Theorem 3.5: P(· | C ∪ C′) for disjoint C, C′, with weights P(C) and P(C′)."""
    p, two = belief(raw), two - one
    assume(two and p(one) > 0 and p(two) > 0)
    weight = p(two) / (p(one) + p(two))
    mixed = p.condition(one).mix(p.condition(two), weight)
    assert_allclose(p.condition(one | two).probability, mixed.probability, atol=1e-15)


@given(weights, weights, events, st.floats(0, 1))
def test_update_is_homomorphic(raw, other, event, weight):
    """[TV] Theorem 3.9: imaging a mixture is the mixture of the images."""
    p, q = belief(raw), belief(other)
    together = p.mix(q, weight).image(event)
    apart = p.image(event).mix(q.image(event), weight)
    assert_allclose(together.probability, apart.probability, atol=1e-15)


def test_revision_is_not_homomorphic_and_update_is_no_mixture_over_a_union():
    p, q = Belief([0, 1, 2], [0.8, 0.1, 0.1]), Belief([0, 1, 2], [0.0, 0.9, 0.1])
    together = p.mix(q, 0.5).condition([1, 2])
    assert together(1) != pytest.approx(
        p.condition([1, 2]).mix(q.condition([1, 2]), 0.5)(1), abs=0.01
    )
    line = Belief([0, 1, 2, 3, 4], [0.2] * 5)
    both, one, two = line.image([0, 4]), line.image([0]), line.image([4])
    assert both(2) == 0 and (one(0), two(0), both(0)) == (1, 0, 0.5)
    uneven = Belief([0, 1, 2, 3, 4], [0.5, 0, 0.5, 0, 0])
    # any mixture of the images by 1 and by {3} has P(1) = 1 − P(3); a union's image does, too, but
    # its weight depends on more than P(1) and P(3), which here are both 0
    assert uneven(1) == uneven(3) == 0 and uneven.image([1, 3])(1) == 0.75


@given(weights, events, weights)
def test_revision_is_the_nearest_belief_in_information(raw, event, other):
    p, q = belief(raw), belief(other)
    assume(p(event) > 0 and q(event) > 0)
    assert p.divergence(p.condition(event)) <= p.divergence(q.condition(event)) + 1e-12
    assert_allclose(p.divergence(p.condition(event)), -np.log(p(event)), atol=1e-12)


def test_nearest_in_information_by_a_general_optimiser():
    p = Belief([0, 1, 2, 3], [0.4, 0.3, 0.2, 0.1])

    def distance(free):
        q = np.exp(free) / np.exp(free).sum()
        return np.sum(q * np.log(q / p.probability[:3]))

    q = np.exp(minimize(distance, np.zeros(3), tol=1e-12).x)
    assert_allclose(q / q.sum(), p.condition([0, 1, 2]).probability[:3], atol=1e-5)


def test_update_makes_the_impossible_possible_and_the_sure_unsure():
    p = Belief([0, 1, 2, 3], [0.5, 0.0, 0.0, 0.5])
    updated = p.image([1, 3])
    assert p(1) == 0 and updated(1) == 0.5  # was impossible
    assert p([0, 3]) == 1 and updated([0, 3]) == 0.5  # was sure
    revised = p.condition([1, 3])
    assert revised(1) == 0 and revised([0, 3]) == 1


@given(weights, events)
def test_both_accept_what_they_are_told_and_change_nothing_when_told_again(raw, event):
    p = belief(raw)
    for change in (Belief.condition, Belief.image):
        if change is Belief.condition and not p(event) > 0:
            continue
        once = change(p, event)
        assert once(event) == pytest.approx(1)
        assert_allclose(change(once, event).probability, once.probability, atol=1e-15)


def test_closest_worlds_by_brute_force():
    target = [(0, 2), (1, 1), (2, 0)]
    for weights in ((1, 1), (1, 9)):
        nearest = closest(target, weights=weights)
        for world in itertools.product(range(4), repeat=2):

            def far(to, world=world, weights=weights):
                return sum(w * (a - b) ** 2 for w, a, b in zip(weights, to, world, strict=True))

            best = [t for t in target if far(t) == min(map(far, target))]
            assert nearest(world) == {t: 1 / len(best) for t in best}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: Belief([1, 1]), "`worlds` must be distinct"),
        (lambda p: Belief([]), "`worlds` must be distinct, and at least one"),
        (lambda p: Belief([1, 2], [0.5, 0.6]), "`probability` must be 2 numbers"),
        (lambda p: Belief([1, 2], [1.5, -0.5]), "`probability` must be 2 numbers"),
        (lambda p: Belief([1, 2], [np.nan, 1]), "`probability` must be 2 numbers"),
        (lambda p: p.condition([2]), "`event` has probability 0, .*Use image"),
        (lambda p: p.condition(["no"]), "`event` names 'no', which is no world"),
        (lambda p: p.image(lambda w: w > 9), "`event` holds in no world"),
        (lambda p: p.image([0], lambda w: {1: 1.0}), "`nearest` must send world 0 into"),
        (lambda p: p.image([0], lambda w: {0: 0.5}), "`nearest` must send world 0 into"),
        (lambda p: Belief(["a", "b"]).image(["a"]), "`target` must be worlds that are numbers"),
        (lambda p: p.mix(Belief([7]), 0.5), "`mix` needs the same worlds"),
        (lambda p: p.mix(p, 2), "weight from 0 to 1; got weight 2"),
        (lambda p: closest([(0, 1)], weights=[1, 0]), "`weights` must be 2 positive numbers"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(Belief([0, 1, 2], [0.5, 0.5, 0.0]))
