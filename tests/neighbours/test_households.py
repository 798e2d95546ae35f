"""Households against every choice of their members' moves."""

from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from scipy import sparse

from cdp_views.neighbours import households, relocations

from .dense import conditioned, fibre, imaged, invariant, laplace, normal, value


def every_household(inv, k):
    """Σ of k relocations (or none), each way round and of any block, written out."""
    n = inv.n
    one = [np.zeros(n)] + [
        np.eye(n)[i] - np.eye(n)[j]
        for i, j in permutations(range(n), 2)
        if inv.blocks[i] == inv.blocks[j]
    ]
    found = np.array([np.sum(c, axis=0) for c in combinations_with_replacement(one, k)])
    return found[np.abs(found).sum(axis=1) > 0]


@pytest.mark.parametrize("weights", [None, [1, 1, 2, 2, 1, 1]], ids=["plain", "weighted"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_all_members_along_the_worst_pair_are_the_worst_in_every_view(k, weights):
    inv = invariant([0, 0, 0, 0, 1, 1], weights)
    A, every = inv.matrix.toarray(), every_household(inv, k)
    for seed in range(4):
        sigma = np.random.default_rng(seed).choice([0.3, 1.0, 1.2, 2.0], 6)
        for law in (
            normal(conditioned(A, sigma)),
            normal(imaged(A, sigma)),
            laplace(1 / sigma),
            fibre(A, 1 / sigma),
        ):
            found = households(inv, size=k).worst(1 / sigma, law)
            assert value(law, found) == pytest.approx(value(law, every), rel=1e-9)


def test_the_proof_is_of_norms_only():
    nb = households(invariant([0, 0, 0]), size=2)
    assert nb.by_norm and nb.keeps_totals
    assert not relocations(invariant([0, 0])).by_norm
    # a loss that saturates, as of Student-t noise, is larger for members who part
    saturating = np.log1p
    together = saturating(np.abs(nb.shortlist(np.ones(3)).toarray()).astype(float)).sum()
    apart = saturating(np.abs([2.0, -1, -1])).sum()
    assert apart > together


def test_a_query_and_other_totals():
    nb = households(invariant([0, 0, 0]), size=2)
    seen = nb.seen_by(sparse.csr_array([[1.0, 0, 0]])).toarray()
    assert np.abs(seen).tolist() == [[2, 2, 0]]
    with pytest.raises(ValueError, match="published apart"):
        nb.require(invariant([0, 0, 1]))


def test_it_says_what_it_protects():
    nb = households(invariant([0, 0]), size=np.int64(4))
    assert nb.members == 4
    assert str(nb).startswith("up to 4 members of a household move")


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None, np.nan])
def test_bad_sizes(size):
    with pytest.raises(ValueError, match=r"^`size` must be a positive integer; got [^\n]+$"):
        households(invariant([0, 0]), size=size)


def test_nobody_can_move():
    with pytest.raises(ValueError, match=r"^`inv` must leave some record free to move"):
        households(invariant([0, 1]), size=2)
