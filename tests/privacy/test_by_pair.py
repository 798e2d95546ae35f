"""The table of losses by classes of cells, against a loop over all pairs."""

from collections import Counter

import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss, GaussianLoss
from cdp_views.loss.gaussian_dp import delta_of_mu
from cdp_views.privacy import PrivacyLoss, WorstDifference
from cdp_views.privacy.joined import JoinedLoss
from cdp_views.privacy.pairs import Pairs

RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(6), [3, 3, 4, 3, 2, 5])
SCALE = np.array([1.0, 2, 2, 2, 1, 2, 1, 2, 2, 2, 2, 2, 1, 1, 2, 1, 1, 1, 1, 1])
INV = cdp.totals([f"g{k}" for k in LABELS])


def company(group):
    return tuple(sorted(SCALE[group == LABELS]))


def test_one_row_for_each_kind_of_group():
    view = cdp.Imaged(dist.Normal(np.zeros(20), SCALE), INV)
    loss = cdp.privacy_loss(view, cdp.relocations(INV))
    table = loss.by_pair(0.7)
    kinds = Counter(company(k) for k in range(6))
    assert sorted(table.differences) == sorted(kinds.values())
    assert table.mu.is_monotonic_decreasing
    assert_allclose(table.mu[0], loss.mu)
    for row in table.itertuples():
        group = int(row.group[1:])
        assert all(LABELS[cell] == group for cell in row.cells)
        assert row.differences == kinds[company(group)]
        omega = 1 / np.sort(SCALE[group == LABELS]) ** 2
        want = omega[0] + omega[1] - (omega[0] - omega[1]) ** 2 / omega.sum()
        assert_allclose(row.mu**2, want, rtol=1e-9)
        assert_allclose(row.delta, delta_of_mu(0.7, row.mu), rtol=1e-12)
        assert row.kind == "exact"
    assert "delta" not in loss.by_pair()
    with pytest.raises(ValueError, match="`epsilon` must be one finite number"):
        loss.by_pair(np.inf)


def test_classes_against_all_pairs_of_stated_differences():
    """Two rows are alike if changes, scales and company agree, whatever the sign of the row."""
    pairs = [
        (i, j, size)
        for i in range(20)
        for j in range(i)
        for size in (1.0, -2.0)
        if LABELS[i] == LABELS[j]
    ]
    V = np.array([size * (np.eye(20)[i] - np.eye(20)[j]) for i, j, size in pairs])
    laws = BoundedLoss(np.ones(len(V)))
    first, count = Pairs(laws, sparse.csr_array(V), INV, 1 / SCALE).classes()
    want = Counter(
        (company(LABELS[i]), tuple(sorted((SCALE[i], SCALE[j]))), abs(size)) for i, j, size in pairs
    )
    assert sorted(count) == sorted(want.values())
    assert first[0] == 0 and np.all(np.diff(first) > 0)


def test_weights_overlaps_and_losses_tell_differences_apart():
    V = sparse.csr_array([[1.0, -1, 0, 0], [0, 0, 1, -1]])

    def many(inv, law, exposure):
        return len(Pairs(law, V, inv, exposure).classes()[0])

    alike, one = GaussianLoss(np.ones(2)), np.ones(4)
    assert many(cdp.totals([0, 0, 1, 1]), alike, one) == 1
    assert many(cdp.totals([0, 0, 1, 1]), alike, None) == 2
    assert many(cdp.totals([0, 0, 1, 1], [1.0, 1, 2, 2]), alike, one) == 2
    assert many(cdp.totals([0, 0, 1, 1]), GaussianLoss(np.array([1.0, 1.1])), one) == 2
    assert many(cdp.linear([[1, 1, 1, 1], [1, 1, 0, 0.0], [0, 1, 1, 0]]), alike, one) == 2


def test_a_result_without_them_says_so():
    loss = PrivacyLoss(GaussianLoss(np.ones(1)), WorstDifference(0, (0,), (1.0,)), 1.0, "one")
    with pytest.raises(UnsupportedError, match="`by_pair` needs the differences tried"):
        loss.by_pair()


def test_an_estimate_shows_what_was_drawn(key):
    inv = cdp.totals([0, 0, 0, 0, 1, 1, 1, 1])  # of three cells the profile is exact
    view = cdp.Imaged(dist.Laplace(np.zeros(8), np.array([1.0, 1, 2, 2, 1, 2, 2, 2])), inv)
    loss = cdp.privacy_loss(view, cdp.relocations(inv), key=key, draws=500)
    table = loss.by_pair(0.5)
    assert set(table.kind) == {loss.kind} == {"estimate"}
    assert_allclose(table.delta.max(), loss.delta(0.5))
    worst = table[table.cells == loss.worst.cells]
    assert_allclose(worst.pure_epsilon, loss.pure_epsilon)


def test_laws_side_by_side():
    parts = [GaussianLoss(np.array([1.0, 0.5])), BoundedLoss(np.array([0.4, 2.0]))]
    law = JoinedLoss(parts)
    both = np.concatenate([part.delta(0.3) for part in parts])
    assert_allclose(law.delta(0.3), both)
    assert_allclose(law.epsilon(0.01), np.concatenate([part.epsilon(0.01) for part in parts]))
    assert_allclose(law.delta(np.array([0.3, 0.1, 0.3, 0.3])).take([0, 2, 3]), both[[0, 2, 3]])
    assert_allclose(law.delta(np.array([[0.3], [0.3]])), np.stack([both, both]))
    assert_allclose(law.take(np.array([3, 0, 1])).delta(0.3), both[[3, 0, 1]])
    assert (law.kind, law.sup_kind) == ("bound", "exact")
    assert JoinedLoss(parts[:1]).kind == "exact"


@pytest.mark.slow
def test_a_million_cells():
    labels = RNG.integers(0, 10_000, 1_000_000)
    scale = RNG.choice([1.0, 2.0], 1_000_000)
    inv = cdp.totals(labels)
    view = cdp.Conditioned(dist.Normal(np.zeros(1_000_000), scale), inv)
    table = cdp.privacy_loss(view, cdp.relocations(inv)).by_pair(1.0)
    kinds = np.stack([np.bincount(labels, scale == s) for s in (1.0, 2.0)])
    classes = np.unique(kinds, axis=1).shape[1]
    assert len(table) == min(classes, 1000)
    assert table.attrs["classes left out"] == max(classes - 1000, 0)


def test_pairs_that_are_not_tried_are_bounded_by_what_is_less_exposed():
    """1,770 pairs of one group, none alike: the worst is still that of the two smallest scales."""
    scale = RNG.uniform(1, 3, 60)
    inv = cdp.totals([0] * 60)
    nb = cdp.relocations(inv)
    imaged = cdp.Imaged(dist.Laplace(np.zeros(60), scale), inv)
    loss = cdp.privacy_loss(imaged, nb)
    top = sparse.csr_array(nb.shortlist(1 / scale))[[0]]
    free = cdp.Conditioned(
        dist.Laplace(np.zeros(60), scale), cdp.totals([None] * 60, missing="free")
    )
    assert loss.kind == "bound" and len(nb.classes(1 / scale, inv).differences.indptr) < 1771
    for epsilon in (0.0, 0.5, 1.2):
        # not below the bound of the worst pair, not above what the base would give away
        low, high = (law.loss(top).delta(epsilon).max() for law in (imaged, free))
        assert low * (1 - 1e-9) <= loss.delta(epsilon) <= high * (1 + 1e-9) < low * 1.02
    whole = cdp.Imaged(cdp.DiscreteLaplace(np.zeros(60), scale), inv)
    rest = cdp.privacy_loss(whole, nb)
    assert rest.kind == "bound" and rest.pure_epsilon <= np.sort(1 / scale)[-2:].sum() * (1 + 1e-9)


def test_what_the_base_gives_away_bounds_every_imaged_pair():
    """It decides which pairs are looked at closely: too low, and the worst would be lost."""
    scale = np.array([1.0, 1.3, 2.0, 0.8, 1.1, 3.0])
    inv = cdp.totals([0] * 6)
    view = cdp.Imaged(dist.Laplace(np.zeros(6), scale), inv)
    i, j = np.triu_indices(6, 1)
    V = np.eye(6)[i] - np.eye(6)[j]
    profile = view.loss(sparse.csr_array(V)).profile
    grid = np.array([0.0, 0.2, 0.6, 1.0])
    every = profile(grid[:, None])
    caps = profile.profile.cap(grid[:, None], profile.profile.law)
    assert np.all(caps >= every * (1 - 1e-9)) and np.any(caps > every * 1.01)
    kept = profile.frontier()
    assert 0 < kept.size < 15
    assert_allclose(every[:, kept].max(axis=1), every.max(axis=1), rtol=1e-12)


def test_pairs_left_out_have_a_nearer_bound_in_small_groups():
    """120 groups of six cells, 1,800 kinds of pairs: less than the base would give away."""
    scale = RNG.uniform(1, 1.2, 720)
    inv = cdp.totals(np.repeat(np.arange(120), 6))
    nb = cdp.relocations(inv)
    view = cdp.Imaged(dist.Laplace(np.zeros(720), scale), inv)
    classes = nb.classes(1 / scale, inv)
    assert not classes.complete
    total = float((abs(classes.differences) @ (1 / scale)).min())
    largest = float((1 / scale).max())
    near, base = (view.loss_of_pairs_below(total, largest, size) for size in (1.0, None))
    assert near.delta(0.9)[0] < 0.97 * base.delta(0.9)[0]
    V = nb.shortlist(1 / scale)
    left = sparse.csr_array(V[(abs(V) @ (1 / scale)) <= total][:4])
    assert np.all(view.loss(left).delta(0.9) <= near.delta(0.9) * (1 + 1e-9))
    assert cdp.privacy_loss(view, nb).delta(0.9) >= near.delta(0.9)[0]
