"""Additions and replacements, for totals that were fixed in advance, against all pairs."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.loss import GaussianLoss, ProfileLoss
from cdp_views.neighbours import Replacements, additions, replacements

from .dense import conditioned, every_pair, fibre, imaged, invariant, normal, value


def table(rng, *, signs=False):
    """A few weighted groups, cells under no total and scales with ties."""
    n = 9
    labels = rng.integers(-1, 3, n)
    labels[:2] = 0
    weights = rng.choice([1.0, 2.0, -1.0] if signs else [1.0, 2.0], n)
    sigma = rng.choice([0.2, 0.5, 1.0, 1.3, 2.0, 3.0], n)
    labels = np.where(
        labels < 0, -1, np.unique(labels, return_inverse=True)[1] - (labels < 0).any()
    )
    return invariant(labels, weights), sigma


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_worst_replacement_in_every_view(seed, signs):
    inv, sigma = table(np.random.default_rng(seed), signs=signs)
    A = inv.matrix.toarray()
    nb, exposure = replacements(inv), 1 / sigma
    for law in (
        normal(conditioned(A, sigma)),
        normal(imaged(A, sigma)),
        fibre(A, 1 / sigma),
    ):
        want = value(law, every_pair(inv.n))
        assert value(law, nb.shortlist(exposure)) == pytest.approx(want, rel=1e-9)
        assert value(law, nb.worst(exposure, law)) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("seed", [13, 53, 70])
def test_with_weights_of_both_signs_exposure_does_not_order_a_projection(seed):
    rng = np.random.default_rng(seed)
    weights, sigma = rng.choice([1.0, 3.0, -1.0, -3.0], 5), 10 ** rng.uniform(-1, 1, 5)
    inv = invariant([0] * 5, weights)
    law = normal(imaged(inv.matrix.toarray(), sigma))
    want = value(law, every_pair(5))
    assert value(law, replacements(inv).shortlist(1 / sigma)) == pytest.approx(want, rel=1e-9)
    kind = np.unique(weights, return_inverse=True)[1]  # as if it did
    ordered = Replacements(5, kind, np.zeros(5, dtype=int))
    assert value(law, ordered.shortlist(1 / sigma)) < 0.95 * want


def test_many_groups_are_combined_by_their_losses(monkeypatch):
    monkeypatch.setattr(import_module("cdp_views.neighbours.replacements"), "_FEW", 0)
    for seed in range(12):
        inv, sigma = table(np.random.default_rng(seed))
        A = inv.matrix.toarray()
        for law in (normal(imaged(A, sigma)), fibre(A, 1 / sigma)):
            got = replacements(inv).worst(1 / sigma, law)
            assert value(law, got) == pytest.approx(value(law, every_pair(inv.n)), rel=1e-9)


def test_many_cells_in_groups():
    n = 200_000
    inv = invariant(np.arange(n) % 20_000)
    exposure = np.random.default_rng(0).random(n)
    law = normal_without_totals(exposure)
    got = replacements(inv).worst(exposure, law)
    top = np.sort(exposure)[-2:]
    assert np.max(law(got).additive()) == pytest.approx(np.sum(top**2))


def normal_without_totals(exposure):
    return lambda rows: GaussianLoss(np.sqrt(rows.power(2) @ exposure**2))


def test_cells_alone_try_every_pair():
    nb = replacements(4, records=2)
    assert nb.shortlist(np.ones(4)).shape == (6, 4)
    np.testing.assert_array_equal(abs(nb.shortlist(np.ones(4))).sum(axis=1), 4)
    with pytest.raises(cdp.UnsupportedError, match=r"replacements\(inv\), or state differences"):
        replacements(3_000).shortlist(np.ones(3_000))


def test_where_the_order_depends_on_epsilon_replacements_of_every_kind_are_tried():
    def law(rows):
        return ProfileLoss(lambda e: np.zeros(rows.shape[0]), np.full(rows.shape[0], 1.0))

    inv = invariant([0, 0, 0, 1, 1, -1, -1])
    found = replacements(inv).worst(np.ones(7), law)
    # inside each of three groups, of which one is under no total, and between every two of them
    assert found.shape[0] == 6


def test_every_addition_is_tried_and_alike_ones_once():
    inv, _ = table(np.random.default_rng(3))
    nb = additions(inv, records=3)
    np.testing.assert_array_equal(nb.shortlist().toarray(), 3 * np.eye(9))
    assert additions(4).classes(np.array([1.0, 2, 1, 2])).differences.shape == (2, 4)
    assert not additions(4).classes(np.arange(1.0, 5), most=2).complete


def test_a_query_shows_one_cell_for_each_of_its_columns():
    W = sparse.csr_array([[1.0, 1, 0, 2], [0, 0, 0, 1]])
    assert additions(4).seen_by(W).toarray().tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert replacements(4).seen_by(W).shape == (3, 4)
    assert replacements(4).seen_by(sparse.csr_array(np.ones((1, 4)))).shape == (1, 4)


def test_totals_computed_from_the_data_are_refused_with_the_way_out():
    inv = cdp.totals(["a", "a", "b"])
    for nb, name in ((additions(3), "additions"), (replacements(3), "replacements")):
        assert not nb.keeps_totals
        with pytest.raises(ValueError, match=rf"^`neighbours` .* infinite for {name}.* total="):
            nb.require(inv)
    replacements(3).require(cdp.totals(["a", "a", "a"]))  # one total covers all cells: it stays
    with pytest.raises(ValueError, match="infinite for additions"):
        additions(3).require(cdp.totals(["a", "a", "a"]))
    assert cdp.relocations(inv).keeps_totals


def test_they_say_what_they_protect():
    assert str(additions(2)).startswith("one record is added or removed, the totals being fixed")
    assert "up to 2 records are added" in additions(2, records=2).describe()
    assert str(replacements(2)).startswith("one record is replaced by any other")
    assert "3 records of one cell are replaced" in replacements(2, records=3).describe()


@pytest.mark.parametrize("make", [additions, replacements])
@pytest.mark.parametrize("n", [0, -1, 2.5, True, "two", np.nan])
def test_bad_numbers(make, n):
    with pytest.raises(ValueError, match=r"^`n` must be a positive integer; got [^\n]+$"):
        make(n)
    with pytest.raises(ValueError, match=r"^`records` must be a positive integer"):
        make(4, records=n)


def test_one_cell_has_nothing_to_replace_it():
    with pytest.raises(ValueError, match=r"^`n` must be at least 2 cells; got 1"):
        replacements(1)


def test_overlapping_totals_try_every_pair():
    A = np.vstack([np.ones((1, 5)), [[1, 1, 0, 0, 0]], [[0, 1, 1, 0, 0]]])
    inv = SimpleNamespace(n=5, matrix=sparse.csr_array(A), blocks=np.arange(5))
    assert replacements(inv).shortlist(np.ones(5)).shape == (10, 5)
