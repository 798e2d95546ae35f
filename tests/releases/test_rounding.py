"""Whole numbers from real noise, structural zeros, a table for print, and the noise by default."""

import importlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import cdp_views as cdp
from cdp_views.releases.noise.cells import cell_ids
from cdp_views.releases.noise.crossed import nearest_nonnegative
from cdp_views.releases.noise.rounding import _closest, for_print, round_whole
from cdp_views.releases.noise.secret import Secret

from .conftest import COUNTS, GROUPS

SECRET = Secret(bytes(range(32)))


def ids_of(n):
    return cell_ids({"cell": [str(i) for i in range(n)]})


def test_rounding_is_unbiased_and_keeps_totals():
    """10,000 groups alike: the mean error of every cell is 0 within 5 standard errors."""
    count, y = 10_000, np.array([0.25, -1.125, 7.75, 2.5, -0.375])
    inv = cdp.totals(np.repeat(np.arange(count), y.size))
    whole = round_whole(SECRET, ids_of(count * y.size), np.tile(y, count), inv)
    whole = whole.reshape(count, y.size)
    assert np.all(whole.sum(axis=1) == 9) and set((whole - np.floor(y)).ravel()) == {0, 1}
    f = y - np.floor(y)
    error = 5 * np.sqrt(f * (1 - f) / count)
    assert np.all(np.abs(whole.mean(axis=0) - y) < error)
    assert np.any(np.abs(np.rint(y) - y) > error)  # control: to the nearest is biased


@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
    step=st.sampled_from([0.5, 2.0**-20]),
)
@settings(deadline=None, max_examples=60)
def test_any_groups_in_any_order(sizes, seed, step):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    steps = rng.integers(-(2**24), 2**24, labels.size)
    last = np.zeros(len(sizes), dtype=int)
    last[labels] = np.arange(labels.size)
    steps[last] -= np.bincount(labels, steps, len(sizes)).astype(int) % round(1 / step)
    y = steps * step
    whole = round_whole(SECRET, ids_of(y.size), y, cdp.totals(labels))
    for group in range(len(sizes)):
        assert whole[labels == group].sum() == y[labels == group].sum()
    assert np.all(np.abs(whole - y) < 1) and np.all(whole == np.rint(whole))


@pytest.mark.parametrize(("view", "noise"), [("conditioned", "normal"), ("imaged", "laplace")])
def test_real_noise_rounded_to_whole_numbers(make, inv, view, noise, tmp_path):
    delta = 0.0 if noise == "laplace" else 1e-6
    made = make(view=view, noise=noise, delta=delta, output="whole")
    assert np.array_equal(made.released, np.rint(made.released))
    assert np.array_equal(inv.matrix @ made.released, inv.matrix @ COUNTS)
    assert made.metadata["rounding"].startswith("systematic")
    assert "rounded to whole numbers, each to one of its two nearest" in made.metadata["caveat"]
    made.save(tmp_path / "r.csv")
    cdp.read_release(tmp_path / "r.csv").verify(COUNTS)


def test_nested_totals_are_kept(make):
    rows = sparse.csr_array([[1] * 8, [1] * 4 + [0] * 4])
    unit = cdp.differences([1, -1] + [0] * 6)
    made = make(invariant=cdp.linear(rows), neighbours=unit, output="whole")
    assert np.array_equal(rows @ made.released, rows @ COUNTS)


def test_what_cannot_be_rounded_is_refused(make):
    cube = cdp.margins((2, 2, 2), keep=[(0, 1), (0, 2), (1, 2)])
    odd = cdp.linear([[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 2, 1, 1, 1, 0, 0]])
    unit = cdp.differences([1, -1] + [0] * 6)
    for wrong in (cube, odd):
        with pytest.raises(cdp.UnsupportedError, match=r"in two families.*Keep two margins"):
            make(invariant=wrong, neighbours=unit, output="whole", accept_exact=True)
    with pytest.raises(cdp.UnsupportedError, match="where its totals are whole"):
        make(COUNTS + 0.1, output="whole")
    with pytest.raises(ValueError, match='`output` must be one of "drawn", "whole"'):
        make(output="rounded")


def test_the_default_is_whole_noise_for_whole_counts(make, inv):
    given = {"view": "conditioned", "epsilon": 1.0, "neighbours": cdp.relocations(inv)}
    pure = cdp.release(COUNTS, inv, **given)
    assert pure.metadata["noise"] == "discrete-laplace" and pure.metadata["delta"] == 0
    approximate = cdp.release(COUNTS, inv, delta=1e-6, **given)
    assert approximate.metadata["noise"] == "discrete-normal"
    for made in (pure, approximate):
        assert np.array_equal(made.released, np.rint(made.released))
    with pytest.raises(ValueError, match="`noise` must be chosen, as the counts are not whole"):
        cdp.release(COUNTS + 0.5, inv, **given)


def test_a_table_for_print_is_whole_nonnegative_and_consistent(make, inv, seeded, tmp_path):
    seeded(5)
    made = make(epsilon=0.005, noise="discrete-laplace", delta=0, publishable=True)
    printed = made.publishable["released"].to_numpy()
    assert made.released.min() < 0 <= printed.min() and np.array_equal(printed, np.rint(printed))
    assert np.array_equal(inv.matrix @ printed, inv.matrix @ COUNTS)
    assert "Analyse this release" in made.metadata["publishable"]["note"]
    made.save(tmp_path / "r.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "r.csv", "r.csv.about.html", "r.csv.json", "r.print.csv",
    ]  # fmt: skip
    cdp.read_release(tmp_path / "r.csv").verify()
    with pytest.raises(FileExistsError):
        make(publishable=True).save(tmp_path / "r.csv")


def test_the_closest_table_without_negatives():
    """Oracle: the optimality conditions; one threshold for all cells above 0, none would gain."""
    y = np.array([-3.0, 5.0, 1.0, 2.0, 10.0, -1.0])
    labels = [0, 0, 0, 0, 1, 1]
    z = for_print(SECRET, ids_of(6), y, cdp.totals(labels))
    # −3 is cut: 5, 1, 2 share what is left of the total 5, one less each
    assert np.array_equal(z, [0, 4, 0, 1, 9, 0])
    # optimality of a large one: z = max(y − τ, 0) with one τ a group, and the totals
    rng = np.random.default_rng(0)
    labels, y = rng.integers(0, 9, 400), rng.normal(2, 5, 400)
    groups = cdp.totals(labels).segments
    labels = np.asarray(groups.labels)
    totals = np.array([0.0, 3, 10, 40, 100, 1, 7, 30, 90])
    z = _closest(y, totals, groups)
    np.testing.assert_allclose(np.bincount(labels, z), totals, rtol=1e-12, atol=1e-12)
    for group in range(1, 9):
        own, kept = z[labels == group], y[labels == group]
        tau = (kept - own)[own > 0]
        assert np.ptp(tau) < 1e-12 and np.all(kept[own == 0] <= tau[0] + 1e-12)


@pytest.mark.slow
def test_a_thousand_random_tables_keep_every_total_with_equality(tmp_path, monkeypatch):
    """Whole and rounded output, also through files; the rounding's errors have mean 0 as well."""
    module = importlib.import_module("cdp_views.releases.release")
    monkeypatch.setattr(module, "_calibrated", lambda *_: 2.5)  # the scale is not the question
    rng, errors = np.random.default_rng(0), []
    draw, unrounded = module.add_noise, []
    monkeypatch.setattr(
        module, "add_noise", lambda *given: unrounded.append(draw(*given)) or unrounded[-1]
    )
    for table in range(1_000):
        labels = rng.permutation(np.r_[0, 0, 1, 1, 1, rng.integers(0, 3, 7), 2, 2])
        counts = rng.integers(0, 10 ** rng.integers(1, 8), labels.size)
        inv = cdp.totals(labels)
        noise = ("discrete-laplace", "laplace")[table % 2]
        made = cdp.release(
            counts, inv, view=("conditioned", "imaged")[table // 2 % 2], noise=noise, epsilon=1.0,
            neighbours=cdp.relocations(inv), output="whole", publishable=True,
        )  # fmt: skip
        again, printed = made.released, made.publishable["released"].to_numpy()
        if table % 10 < 4:  # every view and noise: half of the time goes to files
            made.save(tmp_path / f"{table}.csv")
            again = cdp.read_release(tmp_path / f"{table}.csv").released
            printed = pd.read_csv(tmp_path / f"{table}.print.csv")["released"].to_numpy()
        for group in range(3):
            total = counts[labels == group].sum()
            assert again[labels == group].sum() == total == printed[labels == group].sum()
        assert np.array_equal(again, np.rint(again)) and printed.min() >= 0
        if noise == "laplace":
            errors.append(again - unrounded[-1][0])
    errors = np.concatenate(errors)
    assert errors.size == 500 * 14 and 0 < np.abs(errors).max() < 1
    # cells of one group are rounded together, never so that their errors add up
    assert abs(errors.mean()) < 5 * errors.std() / np.sqrt(errors.size)


def test_structural_zeros_have_no_noise_and_are_no_news(make):
    counts = COUNTS.copy()
    counts[[3, 5]] = 0
    inv = cdp.structural_zeros(cdp.totals(GROUPS), [3, 5])
    made = make(counts, inv, noise="discrete-laplace", delta=0, zeros=[3, 5])
    assert np.all(made.released[[3, 5]] == 0) and made.metadata["structural_zeros"] == [3, 5]
    assert made.released[:4].sum() == counts[:4].sum()
    assert np.any(made.released != counts)
    assert "structural zero 3" in made.invariants.index
    made.verify(counts)
    with pytest.raises(ValueError, match="determine 2 of 8 cells"):
        make(counts, inv)  # not said to be structural: they would be news
    with pytest.raises(
        ValueError, match=r"0 whatever the data; 2 of them are not, first at index 3"
    ):
        make(COUNTS, inv, zeros=[3, 5])
    with pytest.raises(ValueError, match=r"Build it, and the unit .*cdp\.structural_zeros"):
        make(counts, zeros=[3, 5])
    alone = cdp.structural_zeros(cdp.totals(GROUPS), [0, 1, 2])  # the fourth is then the total
    with pytest.raises(ValueError, match="determine 1 of 8 cells"):
        make(np.where(np.arange(8) < 3, 0, COUNTS), alone, zeros=[0, 1, 2])
    column = "For a column of 0 and 1: column == 1"
    for bad, words in (
        ([8], "indices from 0 to 7"),
        ([True], r"must have shape \(8,\)"),
        ([0, 0, 1, 0, 0, 0, 0, 1], column),
        ([3, 3], "each once"),
    ):
        with pytest.raises(ValueError, match=words):
            cdp.structural_zeros(cdp.totals(GROUPS), bad)
    with pytest.raises(ValueError, match=column):
        cdp.structural_zeros(cdp.totals(["x", "x"]), np.array([1, 0]))
    assert cdp.structural_zeros(cdp.totals(GROUPS), []).rank == 2


def test_two_margins_are_rounded_without_bias_and_kept():
    """6,000 tables alike in one call: every mean error is 0 within 5 standard errors."""
    count, shape = 6_000, (3, 4)
    rng = np.random.default_rng(3)
    y = rng.normal(0, 9, shape)
    y[:, -1] += np.rint(y.sum(axis=1)) - y.sum(axis=1)
    y[-1] += np.rint(y.sum(axis=0)) - y.sum(axis=0)
    inv = cdp.margins((count, *shape), keep=[(0, 1), (0, 2)])
    whole = round_whole(SECRET, ids_of(inv.n), np.tile(y.ravel(), count), inv)
    whole = whole.reshape(count, *shape)
    assert np.all(whole.sum(axis=2) == np.rint(y.sum(axis=1)))
    assert np.all(whole.sum(axis=1) == np.rint(y.sum(axis=0)))
    assert set((whole - np.floor(y)).ravel()) == {0, 1}
    f = y - np.floor(y)
    error = 5 * np.sqrt(f * (1 - f) / count)
    assert np.all(np.abs(whole.mean(axis=0) - y) < error)
    assert np.any(np.abs(np.rint(y) - y) > error)  # control: to the nearest is biased


@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 6)),
    seed=st.integers(0, 2**32),
    drop=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_any_two_families_of_totals(shape, seed, drop):
    """Also totals that leave cells out, and structural zeros; sums hold with equality."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-5, 5, shape)
    rows, columns = np.indices(shape).reshape(2, -1)
    A = np.vstack([rows == r for r in range(shape[0])] + [columns == c for c in range(shape[1])])
    A = A[rng.random(len(A)) < 0.7] if drop else A
    A = A.astype(float)
    # any table whose totals are whole: the nearest to z, by dense algebra
    y = z.ravel()
    y = y + np.linalg.pinv(A) @ (np.rint(A @ y) - A @ y) if len(A) else y
    if not np.allclose(A @ y, np.rint(A @ y), atol=1e-9):
        return  # rounded row and column totals that contradict each other
    inv = cdp.linear(A if len(A) else np.zeros((1, y.size)))
    whole = round_whole(Secret(seed.to_bytes(32, "little")), ids_of(y.size), y, inv)
    assert np.array_equal(A @ whole, np.rint(A @ y)) and np.all(whole == np.rint(whole))
    assert np.all(np.abs(whole - y) < 1 + 1e-8)


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_a_table_with_two_margins_is_released_in_whole_numbers(noise, seeded, tmp_path):
    seeded(2)
    inv = cdp.margins((3, 4), keep=[(0,), (1,)])
    counts = np.array([11, 2, 77, 3, 901, 12, 640, 31, 0, 8, 5, 14])
    made = cdp.release(
        counts, inv, view="imaged", noise=noise, epsilon=0.1,
        delta=0 if noise == "laplace" else 1e-6,
        neighbours=cdp.exchanges(inv), output="whole", publishable=True,
    )  # fmt: skip
    printed = made.publishable["released"].to_numpy()
    for table in (made.released, printed):
        assert np.array_equal(table, np.rint(table))
        assert np.array_equal(inv.matrix @ table, inv.matrix @ counts)
    assert printed.min() >= 0 > made.released.min() and made.metadata["step"] == 1
    made.save(tmp_path / "r.csv")
    cdp.read_release(tmp_path / "r.csv").verify(counts)
    assert ".0" not in (tmp_path / "r.csv").read_text()


def test_the_nearest_table_without_negatives_against_scipy_by_hand():
    """Two rows, two columns: one number tells the table, so the answer is seen at once."""
    inv = cdp.margins((2, 2), keep=[(0,), (1,)])
    y = np.array([-3.0, 8, 7, 1])  # y + t(1, −1, −1, 1): t = 3 is the least that helps
    near = nearest_nonnegative(y, inv, inv.matrix @ y)
    np.testing.assert_allclose(near, [0, 5, 4, 4], atol=1e-9)
