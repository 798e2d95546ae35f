"""Classes of differences of equal law, against all differences written out."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cdp_views.neighbours import additions, differences, exchanges, relocations, replacements

from .dense import content, invariant


def table(data, n, groups=3):
    """A few weighted groups with cells under no total, and exposures that tie."""
    labels = data.draw(st.lists(st.integers(-1, groups), min_size=n, max_size=n))
    labels[0] = 0
    weights = data.draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=n, max_size=n))
    exposure = np.array(data.draw(st.lists(st.integers(1, 2), min_size=n, max_size=n)), float)
    return invariant(labels, weights), exposure


def name(inv, exposure, v):
    """All that the law of the loss of v depends on, where noise of groups is independent."""
    A = inv.matrix.toarray()
    cells = np.flatnonzero(v)
    parts = {}
    for i in cells:
        row = np.flatnonzero(A[:, i])
        group = int(row[0]) if len(row) else -1 - int(i)
        parts.setdefault(group, []).append((A[:, i].sum(), exposure[i], abs(v[i])))
    # a cell under no total is in no company
    company = {g: content(inv, exposure, np.flatnonzero(A[g])[0]) if g >= 0 else () for g in parts}
    return tuple(sorted((company[g], tuple(sorted(part))) for g, part in parts.items()))


def check(found, inv, exposure, every):
    """Each class of all differences once, and no other."""
    want = {name(inv, exposure, v) for v in every}
    rows = found.differences.toarray()
    assert found.complete
    assert {name(inv, exposure, v) for v in rows} == want


def relocated(inv):
    return [
        np.eye(inv.n)[i] - np.eye(inv.n)[j]
        for i, j in combinations(range(inv.n), 2)
        if inv.blocks[i] == inv.blocks[j]
    ]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_relocation_has_a_representative_of_the_same_law(data):
    inv, exposure = table(data, data.draw(st.integers(2, 10)))
    if every := relocated(inv):
        check(relocations(inv).classes(exposure, inv), inv, exposure, every)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_replacement_has_one(data):
    inv, exposure = table(data, data.draw(st.integers(2, 8)))
    every = [np.eye(inv.n)[i] - np.eye(inv.n)[j] for i, j in combinations(range(inv.n), 2)]
    check(replacements(inv).classes(exposure, inv), inv, exposure, every)
    check(additions(inv).classes(exposure, inv), inv, exposure, np.eye(inv.n))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_exchange_has_one(data):
    inv, exposure = table(data, data.draw(st.integers(4, 9)))
    A = inv.matrix.toarray()

    def group(v):
        return tuple(np.flatnonzero(np.abs(A) @ np.abs(v)))

    one = relocated(inv)
    every = [v + w for v, w in combinations(one, 2) if group(v) != group(w)]
    if every:
        check(exchanges(inv).classes(exposure, inv), inv, exposure, every)


@pytest.mark.parametrize("make", [relocations, exchanges, replacements, additions])
def test_what_is_left_out_is_no_more_exposed_than_what_is_not(make):
    inv = invariant(np.repeat([0, 1, 2], 6))
    exposure = np.random.default_rng(0).random(18)
    full = make(inv).classes(exposure, inv)
    assert full.complete
    size = abs(full.differences) @ exposure
    for most in (1, 2, 5, 12):
        found = make(inv).classes(exposure, inv, most=most)
        assert not found.complete
        m = found.differences.shape[0]
        assert 1 <= m <= most
        got = np.sort(abs(found.differences) @ exposure)[::-1]
        np.testing.assert_allclose(got, np.sort(size)[::-1][:m])


def test_without_the_invariant_blocks_are_groups():
    inv = invariant([0, 0, 0, 1, 1, 1, 2, 2])
    found = relocations(inv).classes(np.array([3.0, 1, 1, 1, 3, 1, 1, 1]))
    assert found.differences.toarray().astype(int).tolist()[0] == [1, -1, 0, 0, 0, 0, 0, 0]
    assert found.differences.shape == (3, 8)


def test_groups_that_are_held_apart_stand_for_themselves():
    inv = invariant([0, 0, 1, 1, 2, 2])
    # totals fixed in advance, which records that come and go need, may lie at other distances
    for nb, inside in ((relocations(inv), 1), (additions(inv), 3), (replacements(inv), 6)):
        assert nb.classes(np.ones(6), inv).differences.shape[0] == inside
    two = np.array([0, 0, 0, 0, 1, 1])
    for nb, beside in ((relocations(inv), 2), (additions(inv), 2), (replacements(inv), 4)):
        assert nb.classes(np.ones(6), inv, apart=two).differences.shape[0] == beside


def test_totals_that_overlap_make_every_cell_its_own_class():
    A = np.vstack([np.ones((1, 4)), [[1, 1, 0, 0]], [[0, 1, 1, 0]]])
    inv = SimpleNamespace(n=4, matrix=sparse.csr_array(A), blocks=np.zeros(4, int))
    found = relocations(inv).classes(np.ones(4), inv)
    assert found.complete and found.differences.shape[0] == 6


def test_stated_differences_are_all_classes():
    found = differences([[1, -1], [2, -2]]).classes(np.ones(2))
    assert found.complete and found.differences.shape == (2, 2)


@pytest.mark.parametrize("ties", [True, False])
def test_many_cells(ties):
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(np.arange(1_000), 100))
    exposure = np.ones(100_000) if ties else rng.random(100_000)
    found = relocations(invariant(labels)).classes(exposure)
    assert found.complete is ties
    assert ties == (found.differences.shape[0] == 1)
