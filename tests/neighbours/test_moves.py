"""Table moves against every minor of small tables, written out."""

from importlib import import_module
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.neighbours import moves
from cdp_views.neighbours.minors import best_minor

from .dense import imaged, laplace, normal, same_up_to_sign, value

TABLES = [
    ((3, 4), [(0,), (1,)]),
    ((2, 5), [(0,), (1,)]),
    ((5, 2), [(0,), (1,)]),
    ((2, 2), [(0,), (1,)]),
    ((3, 2, 3), [(0,), (1,), (2,)]),
    ((3, 2, 4), [(0, 1), (2,)]),
    ((2, 3, 3), [(0, 1), (0, 2)]),
    ((3, 2, 3), [(0, 1), (0, 2), (1, 2)]),
    ((2, 3, 1), [(0,), (1, 2)]),
    ((2, 2, 2), [(0, 1), (2,)]),
    ((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3)]),
]


def rows_of(sizes, keep):
    """A, one dense row for each number of each margin."""
    found = []
    for axes in keep:
        for index in product(*(range(sizes[a]) for a in axes)):
            table = np.zeros(sizes)
            where = [slice(None)] * len(sizes)
            for a, i in zip(axes, index, strict=True):
                where[a] = i
            table[tuple(where)] = 1
            found.append(table.ravel())
    return np.array(found)


def every_swap(sizes, A):
    found = set()
    for x, y in combinations(product(*map(range, sizes)), 2):
        for bits in product((False, True), repeat=len(sizes)):
            v = np.zeros(sizes, dtype=int)
            for place, sign in ((x, 1), (y, 1)):
                v[place] += sign
            v[tuple(np.where(bits, y, x))] -= 1
            v[tuple(np.where(bits, x, y))] -= 1
            v = v.ravel()
            if v.any() and not (A @ v).any():
                found.add(tuple((v * np.sign(v[np.flatnonzero(v)[0]])).tolist()))
    return np.array(sorted(found), dtype=float)


def margins(sizes, keep):
    A = rows_of(sizes, keep)
    return SimpleNamespace(sizes=sizes, keep=keep, n=A.shape[1], matrix=sparse.csr_array(A))


def every_move(sizes, keep):
    """Every exchange of some attributes between two people that keeps all margins, one by one.

    Where there is none, ⊗ (e_i − e_k) over three axes.
    """
    A = rows_of(sizes, keep)
    swaps = every_swap(sizes, A)
    if len(swaps):
        return swaps
    for size in (3,):
        found = []
        for T in combinations(range(len(sizes)), size):
            factors = [
                [np.eye(m)[i] - np.eye(m)[k] for i, k in combinations(range(m), 2)]
                if a in T
                else list(np.eye(m))
                for a, m in enumerate(sizes)
            ]
            for parts in product(*factors):
                v = parts[0]
                for part in parts[1:]:
                    v = np.multiply.outer(v, part)
                found.append(v.ravel())
        found = [v for v in found if not (A @ v).any()]
        if found:
            return np.array(found)
    raise AssertionError


@pytest.mark.parametrize(("sizes", "keep"), TABLES)
@pytest.mark.parametrize("kind", ["squares", "rates", "uneven", "dense"])
def test_the_worst_move_of_every_kind_of_law(sizes, keep, kind):
    inv, every, rng = margins(sizes, keep), every_move(sizes, keep), np.random.default_rng(2)
    for _ in range(3):
        sigma = rng.choice([0.3, 0.5, 1.0, 1.1, 2.0], inv.n)
        law = {
            "squares": normal(np.diag(1 / sigma**2)),  # conditioned
            "rates": laplace(1 / sigma),
            "uneven": normal(np.diag(rng.permutation(sigma) ** 2 + 0.1)),  # maximum entropy
            "dense": normal(imaged(rows_of(sizes, keep), sigma)),
        }[kind]
        found = moves(inv).worst(1 / sigma, law)
        assert same_up_to_sign(found.toarray(), every)
        assert value(law, found) == pytest.approx(value(law, every), rel=1e-9)


def test_a_table_written_with_fewer_axes_has_the_same_moves():
    """Two attributes kept jointly are one: people exchange the third, whoever they are."""
    s = np.full((2, 2, 2), 10.0)
    s[0, 0, :] = s[1, 1, :] = 1.0
    found = []
    for shape, keep in (((2, 2, 2), [(0, 1), (2,)]), ((4, 2), [(0,), (1,)])):
        inv = cdp.margins(shape, keep=keep)
        view = cdp.Conditioned(dist.Laplace(np.zeros(8), s.ravel()), inv)
        found.append(cdp.privacy_loss(view, cdp.moves(inv)).pure_epsilon)
    assert found == pytest.approx([4.0, 4.0], rel=1e-12)


def test_precisions_that_are_negative_are_found_too():
    inv = margins((3, 4), [(0,), (1,)])
    nu = np.ones(12)
    nu[[0, 5]] = [-0.2, 3.0]
    law, every = normal(np.diag(nu)), every_move((3, 4), [(0,), (1,)])
    found = moves(inv).worst(np.linspace(1, 2, 12), law)
    assert value(law, found) == pytest.approx(value(law, every)) == 6


@pytest.mark.parametrize(("sizes", "keep"), TABLES)
def test_equal_cells_need_one_move_of_each_kind(sizes, keep):
    inv, every = margins(sizes, keep), every_move(sizes, keep)
    nb = moves(inv)
    law = normal(imaged(rows_of(sizes, keep), np.full(inv.n, 2.0)))
    found = nb.worst(np.full(inv.n, 0.5), law)
    assert found.shape[0] <= 2 ** len(sizes)
    assert value(law, found) == pytest.approx(value(law, every))
    classes = nb.classes(np.ones(inv.n))
    assert classes.complete and classes.differences.shape[0] == found.shape[0]
    one_by_one = nb.classes(np.arange(1.0, inv.n + 1))
    assert one_by_one.complete and one_by_one.differences.shape[0] == len(every)


def test_the_largest_minor_is_exact_and_fast_where_numbers_tie():
    rng = np.random.default_rng(0)
    for trial in range(60):
        shape = tuple(rng.integers(2, 6, 3))
        h = rng.integers(-3, 4, shape) if trial % 2 else rng.normal(size=shape)
        s, (i, k), (j, l) = best_minor(h.astype(float))  # noqa: E741
        assert i != k and j != l
        got = h[s, i, j] + h[s, i, l] + h[s, k, j] + h[s, k, l]
        minors = [
            h[s, i, j] + h[s, i, l] + h[s, k, j] + h[s, k, l]
            for s in range(shape[0])
            for i, k in combinations(range(shape[1]), 2)
            for j, l in combinations(range(shape[2]), 2)  # noqa: E741
        ]
        assert got == pytest.approx(max(minors), abs=1e-12)
    assert best_minor(np.ones((1, 1000, 1000)))[0] == 0


def test_losses_that_are_no_sums_are_refused_where_moves_are_many(monkeypatch):
    sizes, keep = (6, 6), [(0,), (1,)]
    inv, sigma = margins(sizes, keep), np.linspace(1, 2, 36)
    law = normal(imaged(rows_of(sizes, keep), sigma))
    for room in ("corners", "moves"):
        monkeypatch.setattr(import_module(f"cdp_views.neighbours.{room}"), "_MOST", 100)
    with pytest.raises(cdp.UnsupportedError, match=r"^`moves` has 225 .* differences\(V\)\.$"):
        moves(inv).worst(1 / sigma, law)
    # two unequal cells: only the moves of both show that it is no sum of cells
    two = np.ones(36)
    two[[0, 7]] = 3
    with pytest.raises(cdp.UnsupportedError):
        moves(inv).worst(1 / two, normal(imaged(rows_of(sizes, keep), two)))
    assert not moves(inv).classes(1 / sigma).complete


def test_a_query_lists_the_moves_that_it_tells_apart():
    sizes, keep = (2, 3), [(0,), (1,)]
    nb = moves(margins(sizes, keep), records=2)
    seen = nb.seen_by(sparse.csr_array(np.eye(6)[:1])).toarray()
    assert {abs(v[0]) for v in seen} == {0, 2}
    assert len(seen) == 2
    assert nb.seen_by(sparse.csr_array(np.eye(6))).shape == (3, 6)


def test_real_margins_and_totals_that_a_move_would_change():
    inv = cdp.margins((3, 4), keep=[(0,), (1,)])
    nb = moves(inv)
    nb.require(inv)
    nb.require(cdp.totals([0] * 12))
    with pytest.raises(
        ValueError, match=r"^`neighbours` has moves along axes \(0, 1\) that change"
    ):
        nb.require(cdp.totals([0] * 5 + [1] * 7))
    assert "4 counts at the corners" in str(nb)
    assert "change by 3" in moves(inv, records=3).describe()
    assert abs(moves(inv, records=3).shortlist(np.ones(12))).max() == 3


def test_tables_without_moves():
    with pytest.raises(ValueError, match=r"^`inv` must be margins.* relocations\(inv\)"):
        moves(cdp.totals([0, 0, 1]))
    with pytest.raises(ValueError, match=r"^`inv` keeps no margin of axis 2"):
        moves(margins((2, 3, 4), [(0,), (1,)]))
    with pytest.raises(ValueError, match=r"^`inv` must let the table change"):
        moves(margins((2, 3), [(0, 1)]))
    with pytest.raises(ValueError, match=r"^`records` must be a positive integer"):
        moves(margins((2, 3), [(0,), (1,)]), records=0)
