from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cdp_views as cdp
from cdp_views.neighbours import relocations

WHERE = "between two cells without changing a published total (relocation)"


def invariant(blocks):
    """As much of an invariant as neighbours look at."""
    return SimpleNamespace(n=len(blocks), blocks=np.asarray(blocks))


@given(st.data())
def test_the_worst_pair_of_every_block_is_tried(data):
    n = data.draw(st.integers(2, 9))
    blocks = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)))
    exposure = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), float)
    pairs = [(i, j) for i, j in combinations(range(n), 2) if blocks[i] == blocks[j] >= 0]
    if not pairs:
        with pytest.raises(ValueError, match=r"^`inv` must leave some record free to move"):
            relocations(invariant(blocks))
        return
    V = relocations(invariant(blocks)).shortlist(exposure).toarray()
    assert len(V) == len({blocks[i] for i, _ in pairs})
    tried = {}
    for v in V:
        (i,), (j,) = np.flatnonzero(v == 1), np.flatnonzero(v == -1)
        assert np.abs(v).sum() == 2
        assert exposure[i] >= exposure[j]
        tried[blocks[i]] = exposure[i] + exposure[j]
        assert blocks[i] == blocks[j]
    for block in tried:
        best = max(exposure[i] + exposure[j] for i, j in pairs if blocks[i] == block)
        assert tried[block] == best


def test_ties_go_to_the_first_cells():
    V = relocations(invariant([7, 7, 7, 2, 2])).shortlist(np.ones(5)).toarray()
    assert V.tolist() == [[0, 0, 0, 1, -1], [1, -1, 0, 0, 0]]


def test_infinite_exposure_is_an_exposure():
    exposure = [1.0, np.inf, -np.inf, np.inf]
    V = relocations(invariant([0, 0, 0, 0])).shortlist(exposure).toarray()
    assert V.tolist() == [[0, 1, 0, -1]]


def test_cells_that_may_not_move_are_left_alone():
    V = relocations(invariant([-1, 0, 0, -1, 1])).shortlist([9.0, 1, 1, 9, 9]).toarray()
    assert V.tolist() == [[0, 1, -1, 0, 0]]


def test_several_records():
    nb = relocations(invariant([0, 0]), records=np.int64(3))
    assert nb.shortlist([1.0, 2.0]).toarray().tolist() == [[-3, 3]]
    assert nb.describe() == f"3 records move together {WHERE}"


def test_it_says_what_it_protects():
    nb = relocations(invariant([0, 0]))
    assert str(nb) == f"one record moves {WHERE}"


def test_a_million_cells():
    rng = np.random.default_rng(1)
    blocks, exposure = rng.integers(0, 10_000, 1_000_000), rng.random(1_000_000)
    V = relocations(invariant(blocks)).shortlist(exposure)
    assert V.shape == (10_000, 1_000_000)
    assert V.nnz == 20_000
    order = np.lexsort((-exposure, blocks))  # sorted the slow way, the first two of each block
    starts = np.searchsorted(blocks[order], np.arange(10_000))
    want = np.stack([order[starts], order[starts + 1]], axis=1)
    np.testing.assert_array_equal(V.indices.reshape(-1, 2), want)


@pytest.mark.parametrize("records", [0, -1, 1.5, True, "two", np.nan])
def test_bad_records(records):
    with pytest.raises(ValueError, match=r"^`records` must be a positive integer; got [^\n]+$"):
        relocations(invariant([0, 0]), records=records)


def test_no_record_can_move():
    with pytest.raises(ValueError, match=r"^`inv` must leave some record free to move[^\n]+$"):
        relocations(invariant([0, 1, -1, -1]))


@pytest.mark.parametrize(
    ("exposure", "match"), [([1.0], r"shape \(2,\)"), ([1.0, np.nan], "got nan at index 1")]
)
def test_bad_exposure(exposure, match):
    with pytest.raises(ValueError, match=rf"^`exposure` must [^\n]*{match}"):
        relocations(invariant([0, 0])).shortlist(exposure)


def test_relocations_across_groups_are_refused_whatever_the_scales():
    wide, narrow = relocations(invariant([0] * 4)), invariant([0, 0, 1, 1])
    with pytest.raises(ValueError, match="cells whose totals are published apart"):
        wide.require(narrow)
    relocations(narrow).require(invariant([0] * 4))  # fewer moves than are possible: stated, fine
    assert not relocations(narrow).all_of(invariant([0] * 4))
    assert relocations(invariant([5, 5, 3, 3])).all_of(narrow)


def test_bounds_beside_the_totals_change_no_record_s_moves():
    inv = cdp.totals([0, 0, 1, 1])
    for relation in (cdp.relocations, cdp.exchanges):
        plain, bounded = relation(inv), relation(inv & cdp.nonnegative(4))
        exposure = np.arange(1.0, 5)
        assert abs(plain.shortlist(exposure) - bounded.shortlist(exposure)).nnz == 0
