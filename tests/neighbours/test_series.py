"""Whole series against every choice of one relocation per group."""

from itertools import chain, combinations, permutations, product

import numpy as np
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.loss import ProfileLoss
from cdp_views.neighbours import series

from .dense import conditioned, fibre, imaged, invariant, laplace, normal, value


def every_series(inv, periods=None):
    """A relocation in each of so many groups, every sign."""
    n, groups = inv.n, inv.matrix.toarray().astype(bool)
    one = [
        [
            np.eye(n)[i] - np.eye(n)[j]
            for i, j in permutations(np.flatnonzero(g), 2)
            if inv.blocks[i] == inv.blocks[j]
        ]
        for g in groups
    ]
    one = [moves for moves in one if moves]
    sets = combinations(one, periods or len(one))
    return np.array([np.sum(c, axis=0) for c in chain(*(product(*s) for s in sets))])


@pytest.mark.parametrize("weights", [None, [1, 1, 2, 2, 2, 1, 1, 1]], ids=["plain", "weighted"])
@pytest.mark.parametrize("periods", [None, 1, 2])
def test_the_worst_of_every_group_together_are_the_worst_in_every_view(weights, periods):
    inv = invariant([0, 0, 0, 0, 0, 1, 1, 2], weights)
    A, every = inv.matrix.toarray(), every_series(inv, periods)
    nb = series(inv, periods=periods)
    for seed in range(4):
        sigma = np.random.default_rng(seed).choice([0.3, 1.0, 1.2, 2.0], 8)
        for law in (
            normal(conditioned(A, sigma)),
            normal(imaged(A, sigma)),
            laplace(1 / sigma),
            fibre(A, 1 / sigma),
        ):
            found = nb.worst(1 / sigma, law)
            assert found.shape == (1, 8)
            assert value(law, found) == pytest.approx(value(law, every), rel=1e-9)


def test_many_periods():
    inv = invariant(np.arange(60_000) % 20_000)
    v = series(inv).shortlist(np.random.default_rng(0).random(60_000))
    assert v.nnz == 40_000
    found = series(inv).classes(np.ones(60_000))
    assert found.complete and found.differences.shape[0] == 1


def test_classes_are_all_choices_of_kinds():
    inv = invariant([0, 0, 0, 1, 1, 1])
    exposure = np.array([3.0, 2, 1, 1, 1, 5])
    found = series(inv).classes(exposure)
    assert found.complete
    sizes = np.sort(abs(found.differences) @ exposure)
    assert sizes.tolist() == sorted(a + b for a in (5, 4, 3) for b in (6, 2))
    one = series(inv, periods=1).classes(exposure)
    assert one.complete
    assert np.sort(abs(one.differences) @ exposure).tolist() == [2, 3, 4, 5, 6]


def test_where_the_order_depends_on_epsilon_all_kinds_are_tried_or_none():
    def law(rows):
        return ProfileLoss(lambda e: np.zeros(rows.shape[0]), np.full(rows.shape[0], 1.0))

    inv = invariant([0, 0, 0, 0, 1, 1], [1, 1, 2, 2, 1, 1])
    assert series(inv).worst(np.ones(6), law).shape[0] == 2  # either weight of the first group
    assert series(invariant([0, 0, 1, 1])).worst(np.ones(4), law).shape[0] == 1
    uneven = invariant([0, 0, 0, 1, 1, 2, 2, 2, 2])
    assert series(uneven).by_block and not series(uneven, periods=2).by_block
    assert series(uneven, periods=2).worst(np.ones(9), law).shape[0] == 3
    many = invariant(np.repeat(np.arange(40), 2))
    with pytest.raises(cdp.UnsupportedError, match=r"more ways than can be tried"):
        series(many, periods=20).worst(np.ones(80), law)


def test_where_nothing_is_known_the_most_exposed_are_given():
    def law(rows):
        raise cdp.UnsupportedError

    inv = invariant([0, 0, 0, 1, 1, 1])
    v = series(inv, periods=1).worst(np.array([1.0, 1, 1, 3, 2, 1]), law).toarray()
    assert v.tolist() == [[0, 0, 0, 1, -1, 0]]


def test_a_query_needs_both_signs_of_every_part():
    inv = invariant([0, 0, 1, 1, 1])
    W = np.array([[1.0, 0, 0, -1, 0], [0, 1, 1, 0, 0]])
    seen = series(inv).seen_by(sparse.csr_array(W)).toarray() @ W.T
    want = every_series(inv) @ W.T
    assert {tuple(w) for w in want} <= {tuple(s) for s in [*seen, *-seen]}
    blind = series(inv).seen_by(sparse.csr_array(np.ones((1, 5))))
    assert blind.shape == (1, 5)
    many = invariant(np.repeat(np.arange(12), 3))
    with pytest.raises(cdp.UnsupportedError, match=r"^`series` under a query"):
        series(many).seen_by(sparse.csr_array(np.eye(36)))


def test_it_says_what_it_protects():
    inv = invariant([0, 0, 1, 1, 2, 2])
    assert "records in every group move at once" in series(inv).describe()
    assert "in up to 2 of 3 groups" in series(inv, periods=2).describe()
    assert series(inv, periods=9).periods == 3


@pytest.mark.parametrize("periods", [0, -1, 1.5, True, "all"])
def test_bad_periods(periods):
    with pytest.raises(ValueError, match=r"^`periods` must be a positive integer; got [^\n]+$"):
        series(invariant([0, 0]), periods=periods)


def test_nobody_can_move_and_other_totals():
    with pytest.raises(ValueError, match=r"^`inv` must leave some record free to move"):
        series(invariant([0, 1]))
    with pytest.raises(ValueError, match="published apart"):
        series(invariant([0, 0, 0])).require(invariant([0, 0, 1]))
