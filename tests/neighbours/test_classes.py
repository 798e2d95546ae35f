"""Classes of differences of equal law, against all pairs written out."""

from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from cdp_views.neighbours import differences, relocations

from .dense import content, invariant


@given(st.data())
def test_every_pair_has_a_representative_of_the_same_law(data):
    n = data.draw(st.integers(2, 10))
    labels = data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n))
    labels[0] = 0
    weights = data.draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=n, max_size=n))
    exposure = np.array(data.draw(st.lists(st.integers(1, 2), min_size=n, max_size=n)), float)
    inv = invariant(labels, weights)
    want = Counter()
    for i, j in combinations(range(n), 2):
        if inv.blocks[i] == inv.blocks[j]:
            pair = tuple(sorted([exposure[i], exposure[j]]))
            want[content(inv, exposure, i), weights[i] * (labels[i] >= 0), pair] += 1
    if not want:
        return
    found = relocations(inv).classes(exposure, inv)
    assert found.complete
    got = Counter()
    for v, count in zip(found.differences.toarray(), found.count, strict=True):
        i, j = np.flatnonzero(v)
        assert inv.blocks[i] == inv.blocks[j]
        pair = tuple(sorted([exposure[i], exposure[j]]))
        got[content(inv, exposure, i), weights[i] * (labels[i] >= 0), pair] += int(count)
    assert len(got) == found.differences.shape[0]  # no class twice
    assert got == want


def test_without_the_invariant_blocks_are_groups():
    inv = invariant([0, 0, 0, 1, 1, 1, 2, 2])
    found = relocations(inv).classes(np.array([3.0, 1, 1, 1, 3, 1, 1, 1]))
    assert found.count.tolist() == [4, 2, 1]
    assert found.differences.toarray().astype(int).tolist()[0] == [1, -1, 0, 0, 0, 0, 0, 0]


def test_at_most_so_many_and_then_it_says_that_it_is_not_complete():
    inv = invariant(np.repeat([0, 1, 2], 40))
    exposure = np.random.default_rng(0).random(120)
    found = relocations(inv).classes(exposure, inv, most=30)
    assert found.differences.shape[0] <= 30 and not found.complete
    top = relocations(inv).shortlist(exposure).toarray()
    tried = {tuple(np.flatnonzero(v)) for v in found.differences.toarray()}
    assert {tuple(np.flatnonzero(v)) for v in top} <= tried


def test_totals_that_overlap_make_every_cell_its_own_class():
    A = np.vstack([np.ones((1, 4)), [[1, 1, 0, 0]], [[0, 1, 1, 0]]])
    inv = SimpleNamespace(n=4, matrix=sparse.csr_array(A), blocks=np.zeros(4, int))
    found = relocations(inv).classes(np.ones(4), inv)
    assert found.complete and found.count.tolist() == [1] * 6


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
    assert found.count[0] == (1_000 * 4950 if ties else 1)
