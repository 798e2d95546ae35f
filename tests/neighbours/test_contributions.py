"""People counted in several columns, against every move written out."""

from contextlib import suppress
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.neighbours import relocations

from .dense import conditioned, imaged, invariant, laplace, normal, same_up_to_sign, value

PLACES, COLUMNS = 6, 3
# young, old, and old who are counted once more where no total asks
KINDS = np.array([[1.0, 1, 0], [1, 0, 1], [2, 1, 1]])
COUNTY = np.array([0, 0, 0, 0, 1, 1])


def totals(kept):
    """Totals of each county in each of the kept columns; other columns have none."""
    labels = [
        COUNTY[p] * COLUMNS + c if c in kept else -1 for p in range(PLACES) for c in range(COLUMNS)
    ]
    used = np.unique([x for x in labels if x >= 0])
    return invariant([np.searchsorted(used, x) if x >= 0 else -1 for x in labels])


def across():
    """One total for each county, of all columns."""
    return invariant(np.repeat(COUNTY, COLUMNS))


def every_move(inv, M):
    A = inv.matrix.toarray()
    people = []
    for p in range(PLACES):
        for row in M:
            table = np.zeros((PLACES, COLUMNS))
            table[p] = row
            people.append(table.ravel())
    moves = [b - a for a, b in combinations(people, 2) if np.any(a != b)]
    return np.array([v for v in moves if not np.any(A @ v)])


TABLES = {
    "all columns": totals([0, 1, 2]),
    "first column": totals([0]),
    "across": across(),
}


def laws(A, sigma):
    return [
        normal(conditioned(A, sigma)),
        normal(imaged(A, sigma)),
        laplace(1 / sigma),
        normal(np.diag(np.exp(1 / sigma))),  # as of maximum entropy: ordered by σ, no power of it
    ]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_few_are_all_tried(table, kinds):
    inv = TABLES[table]
    every = every_move(inv, KINDS[:kinds])
    nb = relocations(inv, contribution=KINDS[:kinds])
    V = nb.shortlist(np.ones(inv.n)).toarray()
    assert len(V) == len(every)
    assert same_up_to_sign(V, every) and same_up_to_sign(every, V)
    nb.require(inv)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_the_worst_of_many_is_exact_or_refused(table, kinds, monkeypatch):
    monkeypatch.setattr(import_module("cdp_views.neighbours.contributions"), "_FEW", 0)
    inv, M = TABLES[table], KINDS[:kinds]
    A, every, nb = inv.matrix.toarray(), every_move(inv, M), relocations(inv, contribution=M)
    found = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sigma = rng.choice([0.3, 1.0, 1.1, 2.0], inv.n)
        if seed % 2:  # one scale for each place: the same places lead in all columns
            sigma = np.repeat(sigma[::COLUMNS], COLUMNS)
        for law in laws(A, sigma):
            with suppress(cdp.UnsupportedError):
                V = nb.worst(1 / sigma, law)
                found += 1
                assert same_up_to_sign(V.toarray(), every)
                assert value(law, V) == pytest.approx(value(law, every), rel=1e-9)
    assert found >= 12


def test_three_columns_cost_root_six():
    inv = totals([0, 1, 2])
    three, one = ([[1.0, 1, 1]], [[1.0, 0, 0]])
    for M, records, want in ((three, 1, 6), (one, 1, 2), (one, 3, 18)):
        nb = relocations(inv, contribution=M, records=records)
        np.testing.assert_allclose(nb.shortlist(np.ones(inv.n)).power(2).sum(axis=1), want)


def test_what_is_not_found_is_refused(monkeypatch):
    monkeypatch.setattr(import_module("cdp_views.neighbours.contributions"), "_FEW", 0)
    inv, sigma = across(), np.linspace(1, 2, 18)
    with pytest.raises(cdp.UnsupportedError, match=r"too many to try .* differences\(V\)\.$"):
        relocations(inv, contribution=KINDS[:1]).worst(
            1 / sigma, normal(imaged(inv.matrix.toarray(), sigma))
        )


def test_many_places_in_one_pass():
    places, columns = 50_000, 3
    labels = (np.arange(places) % 1000)[:, None] * columns + np.arange(columns)
    inv = invariant(labels.ravel())
    sigma = np.random.default_rng(0).uniform(1, 2, places * columns)
    law, M = laplace(1 / sigma), np.array([[1.0, 2, 0], [1, 1, 1]])
    nb = relocations(inv, contribution=M)
    got = value(law, nb.worst(1 / sigma, law))
    size = (1 / sigma).reshape(places, columns) @ M.T
    county = np.arange(places) % 1000
    want = max(np.sort(size[county == g, t])[-2:].sum() for g in range(1000) for t in range(2))
    assert got == pytest.approx(want)


def test_classes_find_the_kinds_of_moves(monkeypatch):
    monkeypatch.setattr(import_module("cdp_views.neighbours.contributions"), "_FEW", 0)
    inv = totals([0, 1, 2])
    nb = relocations(inv, contribution=KINDS[:1])
    found = nb.classes(np.ones(18), inv)
    assert found.complete and found.differences.shape[0] == 2  # a county of four, one of two
    sigma = np.random.default_rng(0).choice([1.0, 2.0], 18)
    found = nb.classes(1 / sigma, inv)
    size = {round(x, 9) for x in np.abs(every_move(inv, KINDS[:1])) @ (1 / sigma)}
    assert {round(x, 9) for x in abs(found.differences) @ (1 / sigma)} == size
    several = relocations(totals([0]), contribution=KINDS[:2]).classes(1 / sigma, totals([0]))
    assert not several.complete


def test_a_query_tells_some_moves_apart():
    inv = totals([0, 1, 2])
    nb = relocations(inv, contribution=KINDS[:2])
    first = np.zeros((1, 18))
    first[0, 1] = 1  # the second column of the first place: only the first kind is counted there
    seen = nb.seen_by(sparse.csr_array(first)).toarray()
    assert len(seen) == 1 and abs(seen @ first.T).item() == 1
    assert nb.seen_by(sparse.csr_array(np.zeros((1, 18)))).shape == (1, 18)


def test_it_says_what_it_protects_and_what_it_cannot():
    inv = totals([0, 1, 2])
    text = relocations(inv, contribution=KINDS).describe()
    assert "one person, counted in up to 3 of 3 columns, moves between two places without" in text
    assert "becomes one of another kind" in str(relocations(totals([0]), contribution=KINDS))
    assert "2 people together" in str(relocations(inv, contribution=KINDS, records=2))
    with pytest.raises(ValueError, match=r"^`neighbours` moves people between places whose totals"):
        relocations(across(), contribution=KINDS).require(inv)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ([[1, 0, 0], [0, 0, 0]], "must count every kind somewhere; got only zeros in row 1"),
        ([[1, np.nan, 0]], "must be a numeric matrix"),
        ("abc", "must be a numeric matrix"),
        ([], "must be a numeric matrix"),
        (np.ones((1, 2, 3)), "must be a numeric matrix"),
        ([[1, 1, 1, 1]], "must have as many columns as the table; got 4, which does not divide"),
    ],
)
def test_bad_contributions(bad, match):
    with pytest.raises(ValueError, match=rf"^`contribution` [^\n]*{match}[^\n]*$"):
        relocations(totals([0]), contribution=bad)


def test_nobody_can_move():
    with pytest.raises(ValueError, match=r"^`inv` must leave some person free to move"):
        relocations(invariant(np.arange(6)), contribution=[[1.0, 1.0]])
    with pytest.raises(ValueError, match=r"^`unit` must be \"record\" where contribution"):
        relocations(totals([0]), contribution=KINDS, unit="total")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"^`records` must be a positive integer"):
        relocations(totals([0]), contribution=KINDS, records=0)
