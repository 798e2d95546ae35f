"""Exchanges against brute force: every four-cell change, every view."""

from itertools import product

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.neighbours import differences, exchanges

LABELS = ["a", "b", "a", "c", "b", "a", "c", "b"]
WEIGHTS = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 1.1, 1.0, 2.0])
SCALE = np.array([1.0, 2.5, 1.7, 0.9, 1.4, 2.2, 1.1, 3.0])
# a pair needs equal |weight|·scale under maximum entropy
EVEN = SCALE.copy()
EVEN[6] = EVEN[3]
VIEWS = [
    (cdp.Conditioned, dist.Normal, "mu"),
    (cdp.Imaged, dist.Normal, "mu"),
    (cdp.MaxEntropy, dist.Normal, "mu"),
    (cdp.Conditioned, dist.Laplace, "pure_epsilon"),
    (cdp.Imaged, dist.Laplace, "pure_epsilon"),
]


def every_exchange(inv):
    """All (e_j − e_i) + (e_l − e_k) between groups that keep the totals, written out."""
    A, n = inv.matrix.toarray(), inv.n
    group = A.astype(bool).T @ np.arange(1, len(A) + 1)
    moves = [np.eye(n)[j] - np.eye(n)[i] for i, j in product(range(n), repeat=2) if i != j]
    moves = [(v, group[np.flatnonzero(v)[0]]) for v in moves if np.allclose(A @ v, 0)]
    return np.array([v + w for v, g in moves for w, h in moves if g != h])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize(("view", "noise", "figure"), VIEWS)
def test_the_shortlist_holds_the_worst_exchange(weights, view, noise, figure):
    inv = cdp.totals(LABELS, weights=weights)
    y = view(noise(np.zeros(inv.n), EVEN), inv)
    short = cdp.privacy_loss(y, exchanges(inv))
    full = cdp.privacy_loss(y, differences(every_exchange(inv)))
    assert getattr(short, figure) == pytest.approx(getattr(full, figure), rel=1e-12)
    assert getattr(cdp.privacy_loss(y, cdp.relocations(inv)), figure) < getattr(short, figure)
    assert short.sensitivity == pytest.approx(2)


def test_combining_by_loss_finds_the_same_without_trying_every_two():
    inv = cdp.totals(LABELS, weights=WEIGHTS)
    view, nb = cdp.MaxEntropy(dist.Normal(np.zeros(inv.n), EVEN), inv), exchanges(inv)
    parts = nb.parts(view.exposure)
    worst = nb.combine(parts, view.loss(parts).mu ** 2)
    assert worst.shape == (1, inv.n)
    want = cdp.privacy_loss(view, nb).mu
    assert view.loss(worst).mu[0] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.Imaged])
def test_a_query_that_crosses_groups_needs_both_signs(view):
    inv = cdp.totals(LABELS)
    W = np.array([[1.0, 0, 0, 2, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1, 1, 0], [1, 1, 0, 0, 0, 0, 0, 0]])
    y = view(dist.Normal(np.zeros(inv.n), SCALE), inv)
    group = np.array(LABELS)
    for turned in ("none", "b", "c"):  # turning the signs of a group turns its half of the worst
        query = np.where(group == turned, -W, W)
        full = cdp.privacy_loss(y, differences(every_exchange(inv)), query=query)
        assert cdp.privacy_loss(y, exchanges(inv), query=query).mu == pytest.approx(full.mu)


def test_half_of_an_exchange_may_be_all_that_a_query_sees():
    inv = cdp.totals(["a", "a", "b", "b"])
    seen = exchanges(inv).seen_by(sparse.csr_array([[1.0, 0, 0, 0]])).toarray()
    assert np.abs(seen).tolist() == [[1, 1, 0, 0]]
    blind = exchanges(inv).seen_by(sparse.csr_array(np.ones((1, 4)))).toarray()
    assert np.abs(blind).tolist() == [[1, 1, 1, 1]]


def test_totals_that_cross_list_every_exchange():
    A = np.vstack([np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))])
    V = exchanges(cdp.linear(A)).shortlist().toarray()
    assert len(V) == 3  # one per pair of columns of a 2 × 3 table
    np.testing.assert_array_equal(A @ V.T, 0)
    assert (np.abs(V).sum(axis=1) == 4).all()
    assert "two records change places" in exchanges(cdp.linear(A)).describe()


def test_nested_totals_are_the_disjoint_ones_they_stand_for():
    nested = cdp.linear([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    nb = exchanges(nested)
    assert nb.shortlist(np.array([1.0, 1, 3, 1, 2])).toarray().tolist() == [[1, -1, 1, 0, -1]]
    assert nb.all_of(cdp.totals([0, 0, 1, 1, 1]))
    assert not nb.all_of(cdp.totals([0, 0, 1, 1, 2]) & cdp.totals([0] * 5))


def test_it_says_what_it_protects():
    nb = exchanges(cdp.totals(["a", "a", "b", "b"]))
    assert str(nb).startswith("two records of different groups change places")


def test_other_totals_are_refused():
    nb = exchanges(cdp.totals(["a", "a", "b", "b"]))
    nb.require(cdp.totals([0, 0, 0, 0]))
    with pytest.raises(ValueError, match="epsilon would be infinite"):
        nb.require(cdp.totals([0, 1, 1, 0]))


def test_one_group_has_nobody_to_change_places_with():
    with pytest.raises(ValueError, match=r"^`inv` must have two groups .* records=2"):
        exchanges(cdp.totals(["a", "a", "a"]))
    with pytest.raises(ValueError, match=r"^`inv` must have two groups"):
        exchanges(cdp.totals(["a", "a", "a"], weights=[1.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match=r"^`inv` must let two records change places"):
        exchanges(cdp.totals(["a", "b"]))


def test_too_many_groups_are_refused_with_the_way_out():
    nb = exchanges(cdp.totals(np.repeat(np.arange(2_000), 2)))
    with pytest.raises(cdp.UnsupportedError, match=r"2,000 relocations .* relocations\(inv\)"):
        nb.shortlist(np.ones(4_000))
    assert nb.combine(nb.parts(np.ones(4_000)), np.arange(2_000)).nnz == 4
