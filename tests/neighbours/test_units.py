"""Units of weighted totals that move, against all pairs."""

from itertools import combinations
from math import gcd

import numpy as np
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.loss import ProfileLoss
from cdp_views.neighbours import relocations
from cdp_views.neighbours.best_pair import best_pair

from .dense import conditioned, fibre, imaged, invariant, laplace, normal, same_up_to_sign, value

LABELS = [0, 0, 0, 0, 0, 1, 1, 1, 2, -1]


def every_unit(inv, unit):
    A, n = inv.matrix.toarray(), inv.n
    found = []
    for i, j in combinations(range(n), 2):
        rows = np.flatnonzero(A[:, i] * A[:, j])
        if not len(rows):
            continue
        b = A[rows[0]]
        if unit == "total":
            found.append(np.eye(n)[i] / b[i] - np.eye(n)[j] / b[j])
        else:
            move = b[j] * np.eye(n)[i] - b[i] * np.eye(n)[j]
            found.append(move / gcd(int(b[i]), int(b[j])))
    return np.array(found)


def table(seed):
    rng = np.random.default_rng(seed)
    weights = rng.choice([1.0, 2.0, 3.0, -2.0, 6.0], 10)
    # far apart, so that the best pair of a projection need not be the two most exposed
    return invariant(LABELS, weights), 10 ** rng.choice([-1.0, -0.3, 0.0, 0.05, 0.4], 10)


@pytest.mark.parametrize("unit", ["total", "whole"])
@pytest.mark.parametrize("seed", range(15))
def test_the_worst_unit_in_every_view(seed, unit):
    inv, sigma = table(seed)
    A, every = inv.matrix.toarray(), every_unit(inv, unit)
    form = np.random.default_rng(seed).normal(size=(10, 10))
    laws = {
        "conditioned": normal(conditioned(A, sigma)),
        "imaged": normal(imaged(A, sigma)),
        "laplace": laplace(1 / sigma),
        "imaged laplace": fibre(A, 1 / sigma),
    }
    if unit == "total":  # whole moves rest on the order of cells of equal weight
        laws |= {
            "maximum entropy": normal(np.diag(np.random.default_rng(seed).random(10) - 0.1)),
            "unknown": normal(form @ form.T),
        }
    nb = relocations(inv, unit=unit)
    for law in laws.values():
        found = nb.worst(1 / sigma, law)
        assert same_up_to_sign(found.toarray(), every)
        assert value(law, found) == pytest.approx(value(law, every), rel=1e-9)


def test_several_units_scale_with_what_the_law_says():
    inv, sigma = table(0)
    A = inv.matrix.toarray()
    for law, times in ((normal(imaged(A, sigma)), 9), (fibre(A, 1 / sigma), 3)):
        one, three = (relocations(inv, unit="total", records=k) for k in (1, 3))
        got = value(law, three.worst(1 / sigma, law))
        assert got == pytest.approx(times * value(law, one.worst(1 / sigma, law)))


def test_neither_top_two_nor_neighbours_in_order_are_the_worst_of_a_projection():
    apart, rng = 0, np.random.default_rng(0)
    for _ in range(200):
        inv = invariant([0] * 5, rng.choice([1.0, 2.0, 3.0], 5))
        sigma = 10 ** rng.uniform(-1, 0.5, 5)
        law = normal(imaged(inv.matrix.toarray(), sigma))
        nb = relocations(inv, unit="total")
        found = nb.worst(1 / sigma, law)
        want = value(law, every_unit(inv, "total"))
        assert value(law, found) == pytest.approx(want, rel=1e-9)
        top = np.argsort(np.abs(inv.matrix.toarray()[0]) * sigma)[:2]
        pair = every_unit(inv, "total")
        two = [v for v in pair if set(np.flatnonzero(v)) == set(top)]
        apart += value(law, np.array(two)) < want * (1 - 1e-9)
    assert apart > 5


def test_a_known_law_is_recognised_so_that_few_pairs_are_tried():
    rng = np.random.default_rng(3)
    inv, sigma = invariant([0] * 40, rng.choice([1.0, 2.0], 40)), rng.uniform(1, 2, 40)
    A, nb = inv.matrix.toarray(), relocations(inv, unit="total")
    for law in (normal(conditioned(A, sigma)), normal(imaged(A, sigma)), fibre(A, 1 / sigma)):
        assert nb.worst(1 / sigma, law).shape[0] <= 3
    form = rng.normal(size=(40, 40))
    assert nb.worst(1 / sigma, normal(form @ form.T)).shape[0] == 40 * 39 // 2


@pytest.mark.parametrize("unit", ["total", "whole"])
def test_where_the_order_depends_on_epsilon_one_of_every_kind_is_given(unit):
    def law(rows):
        return ProfileLoss(lambda e: np.zeros(rows.shape[0]), np.full(rows.shape[0], 1.0))

    inv, exposure = invariant([0, 0, 0, 1, 1, 2, 2], [1.0, 1, 2, 1, 1, 1, 1]), np.ones(7)
    nb = relocations(inv, unit=unit)
    # of the first group the equal weights and the unequal ones; each other group may lie otherwise
    assert nb.worst(exposure, law).shape[0] == 4
    assert nb.classes(exposure).differences.shape[0] == 3


def test_the_best_pair_is_exact_and_ties_end_the_search():
    rng = np.random.default_rng(1)
    for trial in range(60):
        x = rng.integers(0, 5, 9).astype(float) if trial % 2 else rng.random(9)
        group = np.append(rng.integers(0, 2, 7), [0, 0])
        group = np.unique(group, return_inverse=True)[1]
        loss = rng.random((9, 9))
        loss = loss + loss.T

        def worth(i, j, x=x, loss=loss):
            return x[i] + x[j] - loss[i, j]

        i, j = best_pair(x, group, worth)
        assert group[i] == group[j] and i != j
        pairs = [(a, b) for a, b in combinations(range(9), 2) if group[a] == group[b]]
        assert worth(i, j) == pytest.approx(max(worth(a, b) for a, b in pairs))
    calls = []

    def counted(i, j):
        calls.append(len(i))
        return 2.0 * np.ones(len(i))

    best_pair(np.ones(100_000), np.zeros(100_000, dtype=int), counted)
    assert calls == [1]


@pytest.mark.parametrize("unit", ["total", "whole"])
def test_classes_hold_the_worst_of_every_law(unit):
    for seed in range(6):
        inv, sigma = table(seed)
        A, every = inv.matrix.toarray(), every_unit(inv, unit)
        found = relocations(inv, unit=unit).classes(1 / sigma)
        assert found.complete
        sizes = np.unique((np.abs(every) @ (1 / sigma)).round(9))
        got = np.unique((abs(found.differences) @ (1 / sigma)).round(9))
        np.testing.assert_array_equal(got, sizes)
        law = normal(imaged(A, sigma))
        assert value(law, found.differences) == pytest.approx(value(law, every))
    some = relocations(inv, unit="total").classes(1 / sigma, most=2)
    assert not some.complete and some.differences.shape[0] <= 2


def test_a_query_lists_what_it_tells_apart():
    inv = invariant([0, 0, 0, 0], [1.0, 1.0, 2.0, 2.0])
    nb = relocations(inv, unit="total")
    seen = nb.seen_by(sparse.csr_array([[0.0, 0, 1, 0]])).toarray()
    assert {tuple(np.abs(v)) for v in seen} == {(1, 0, 0.5, 0), (1, 0, 0, 0.5), (0, 0, 0.5, 0.5)}
    assert nb.seen_by(sparse.csr_array([[1.0, 1, 2, 2]])).shape == (1, 4)


def test_other_totals_are_refused():
    inv = invariant([0, 0, 0], [1.0, 2.0, 2.0])
    for unit in ("total", "whole"):
        relocations(inv, unit=unit).require(inv)
        with pytest.raises(ValueError, match=rf'a total weighs otherwise.*unit="{unit}"'):
            relocations(inv, unit=unit).require(invariant([0, 0, 0]))


def test_it_says_what_it_protects():
    inv = invariant([0, 0], [1.0, 2.0])
    assert "one unit of a weighted total moves" in str(relocations(inv, unit="total"))
    assert "3 times the smallest whole" in str(relocations(inv, unit="whole", records=3))
    assert relocations(inv, unit="whole").shortlist(np.ones(2)).toarray().tolist() == [[2, -1]]


def test_what_has_no_units():
    with pytest.raises(ValueError, match=r'^`unit` must be one of "record", "total", "whole"; got'):
        relocations(invariant([0, 0]), unit="person")
    with pytest.raises(ValueError, match=r"^`inv` must have whole weights .* got 1.5 in cell 1"):
        relocations(invariant([0, 0], [1.0, 1.5]), unit="whole")
    with pytest.raises(ValueError, match=r"^`inv` must leave some unit free to move"):
        relocations(invariant([0, 1]), unit="total")
    with pytest.raises(ValueError, match=r"^`records` must be a positive integer"):
        relocations(invariant([0, 0]), unit="total", records=0)
    crossed = invariant([0, 0, 0])
    crossed.matrix = sparse.csr_array([[1.0, 1, 1], [1, 1, 0]])
    with pytest.raises(cdp.UnsupportedError, match=r"^`unit=\"total\"` is for totals that share"):
        relocations(crossed, unit="total")
