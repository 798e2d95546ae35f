"""Whole noise drawn in blocks: its law, and that it belongs to a group wherever that lies."""

from typing import Any

import numpy as np
import pytest

from cdp_views.noise import masses
from cdp_views.precision.whole_alias import Alias
from cdp_views.precision.whole_coarse import Coarse
from cdp_views.precision.whole_splits import Splits
from cdp_views.precision.whole_sums import Mass, convolve
from cdp_views.releases.noise import blocks
from cdp_views.releases.noise.secret import Secret

SECRET = Secret(bytes(range(32)))
RANDOM = np.random.default_rng(5)
IDS = RANDOM.integers(0, 2**63, (2, 400_000)).astype(np.uint64)


def named(cells: Any = slice(None)):
    """Ids of cells, as blocks ask for them."""
    return lambda places: IDS[:, cells][:, places]


NOISES = ["discrete-laplace", "discrete-normal"]


def power(noise, scale, n):
    """The mass of a sum of n cells, one convolution after the other."""
    one = found = Mass(*masses(noise, scale))
    for _ in range(n - 1):
        found = convolve(found, one)
    return found


def far(x, mass):
    """Pearson's χ² of draws against a mass, in standard deviations from its mean."""
    p = mass.p / mass.p.sum()
    common = np.flatnonzero(p * x.size > 20)
    seen = np.bincount(x - mass.low, minlength=p.size)
    seen = np.append(seen[common], x.size - seen[common].sum())
    p = np.append(p[common], 1 - p[common].sum())
    expected = np.maximum(p * x.size, 1e-9)
    return (np.sum((seen - expected) ** 2 / expected) - p.size) / np.sqrt(2 * p.size)


@pytest.mark.parametrize("width", [1, 2, 50, 300])
def test_a_table_gives_each_number_its_mass_to_the_last_bit(width):
    """All 2⁶² outcomes counted from the table's own columns, in Python's whole numbers."""
    p = RANDOM.random((3, width)) ** RANDOM.integers(1, 30)
    alias = Alias(p, np.array([-3, 0, 7]))
    for row, found in enumerate(column_masses(alias, 3)):
        assert sum(found) == 2**62
        share = np.array([f / 2**62 for f in found])
        assert np.all(np.abs(share[:width] - p[row] / p[row].sum()) < 1e-15)
        assert not share[width:].any()


def test_a_number_is_on_its_side_of_the_threshold():
    """Against the columns read in plain Python; where 32 bits tie, the others decide."""
    p = RANDOM.random((3, 50)) ** 8
    alias, first = Alias(p, np.array([-3, 0, 7])), [-3, 0, 7]
    bits = RANDOM.integers(0, 2**32, 20_000, dtype=np.uint32)
    row = RANDOM.integers(0, 3, bits.size)
    own = alias._entries[row * 64 + bits % 64]
    bits[::2] = own[::2] // 64 * 64 + bits[::2] % 64  # half of them tie
    rest = RANDOM.integers(0, 2**32, bits.size, dtype=np.uint32)
    plain = []
    for r, b, more in zip(row.tolist(), bits.tolist(), rest.tolist(), strict=True):
        entry, fine = (int(t[r * 64 + b % 64]) for t in (alias._entries, alias._fine))
        below = (b // 64 << 30) + (more >> 2) < (entry // 64 << 30) + fine
        plain.append(first[r] + (b if below else entry) % 64)
    assert alias.draw(row, bits, lambda which: rest[which]).tolist() == plain


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n", "scale"), [(2, 1.3), (3, 0.4), (8, 2.0), (70, 1.0), (200, 0.7)])
def test_sums_of_a_part_have_their_law_given_a_sum_of_zero(noise, n, scale):
    """Each cell, and the first third of the cells: χ² against plain convolutions."""
    splits = Splits(Mass(*masses(noise, scale)), quadratic=noise == "discrete-normal")
    groups = 400_000 // n
    sizes = np.full(groups, n)
    x = blocks.conditioned(SECRET, named(), sizes, splits).reshape(groups, n)
    assert not x.sum(axis=1).any()
    one, rest = power(noise, scale, 1), power(noise, scale, n - 1)
    law = Mass(one.low, one.p * rest.at(-(one.low + np.arange(one.p.size))))
    for cell in {0, n // 2, n - 1}:
        assert abs(far(x[:, cell], law)) < 5
        assert far(x[:, cell] + (np.arange(groups) % 8 == 0), law) > 5  # control
    if n > 2:
        part, other = power(noise, scale, n // 3), power(noise, scale, n - n // 3)
        sums = Mass(part.low, part.p * other.at(-(part.low + np.arange(part.p.size))))
        assert abs(far(x[:, : n // 3].sum(axis=1), sums)) < 5


def column_masses(alias, rows):
    """Of each row, in units of 2⁻⁶², counted from the table's own columns."""
    columns = alias._columns
    each, entries = 2**62 // columns, alias._entries.reshape(rows, columns).tolist()
    found = [[0] * columns for _ in range(rows)]
    for row, fine in enumerate(alias._fine.reshape(rows, columns).tolist()):
        for own, (entry, last) in enumerate(zip(entries[row], fine, strict=True)):
            threshold = (entry // columns << 30) + last
            found[row][own] += threshold
            found[row][entry % columns] += each - threshold
    return found


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n", "scale"), [(2, 3.0), (3, 60.0), (8, 90.0)])
def test_a_coarse_table_proposes_no_less_than_the_law(noise, n, scale):
    """Limits in proportion to the chance of a column, above the mass of all in it: then what is
    kept has the law. A draw is kept as plain Python keeps it."""
    splits = Splits(Mass(*masses(noise, scale)), quadratic=noise == "discrete-normal")
    left = n // 2
    one, two = splits.mass(left), splits.mass(n - left)
    rows = int(4 * scale)
    table = Coarse(one, two, left, n, rows)
    chance = column_masses(table._alias, len(table._limit))
    chance = np.array(chance, dtype=float)[:, : table._limit.shape[1]]
    assert np.all(np.abs(table._limit / chance / (table._limit / chance)[:, :1] - 1) < 1e-12)
    worst = 0.0
    for t in range(rows):
        x = np.arange(max(one.low, t - two.high), min(one.high, t - two.low) + 1)
        mass = one.at(x) * two.at(t - x)
        column = (x - left * t // n - table._first) // table._wide
        inside = (column >= 0) & (column < table._limit.shape[1])
        assert mass[~inside].sum() < 1e-17 * mass.sum()
        worst = max(worst, np.max(mass[inside] / table._limit[t // table._band, column[inside]]))
    assert 0.9 < worst <= 1
    total = RANDOM.integers(0, rows, 3_000)
    words = RANDOM.integers(0, 2**64, (4, total.size), dtype=np.uint64)
    x, kept = table.draw(total, words)
    column, extra = np.divmod(x - left * total // n - table._first, table._wide)
    assert np.array_equal(extra, (words[0] >> np.uint64(32)).astype(int) % table._wide)
    height = (words[1] >> np.uint64(12)).astype(float) / 2**52
    mass = one.at(x) * two.at(total - x)
    assert np.array_equal(kept, height * table._limit[total // table._band, column] < mass)
    assert kept.mean() > 0.8


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("n", "scale", "wide"), [(2, 3.0, 1), (3, 60.0, 2), (8, 90.0, 4), (64, 40.0, 8)]
)
def test_coarse_tables_have_the_law(noise, n, scale, wide, monkeypatch):
    """No table fits, so that boxes propose: of one value, and of several values and sums."""
    monkeypatch.setattr("cdp_views.precision.whole_splits._ENTRIES", 1)
    splits = Splits(Mass(*masses(noise, scale)), quadratic=noise == "discrete-normal")
    groups = 400_000 // n
    x = blocks.conditioned(SECRET, named(), np.full(groups, n), splits).reshape(groups, n)
    one, rest = power(noise, scale, 1), power(noise, scale, n - 1)
    law = Mass(one.low, one.p * rest.at(-(one.low + np.arange(one.p.size))))
    assert all(abs(far(x[:, cell], law)) < 5 for cell in {0, n // 2, n - 1})
    half, other = power(noise, scale, n // 2), power(noise, scale, n - n // 2)
    sums = Mass(half.low, half.p * other.at(-(half.low + np.arange(half.p.size))))
    assert abs(far(x[:, : n // 2].sum(axis=1), sums)) < 5
    tables = splits._tables.values()
    assert all(isinstance(table, Coarse) for table in tables)
    assert max(table._wide for table in tables) >= wide


@pytest.mark.parametrize("noise", NOISES)
def test_rejection_has_the_law_of_the_tables(noise, monkeypatch):
    """Every split is by rejection, of even and of odd numbers of cells."""
    monkeypatch.setattr(
        Splits, "split", lambda self, n, t, _, more: self.reject(np.full(t.size, n), t, more)
    )
    splits = Splits(Mass(*masses(noise, 2.0)), quadratic=noise == "discrete-normal")
    x = blocks.conditioned(SECRET, named(), np.full(50_000, 3), splits).reshape(-1, 3)
    one, rest = power(noise, 2.0, 1), power(noise, 2.0, 2)
    law = Mass(one.low, one.p * rest.at(-(one.low + np.arange(one.p.size))))
    assert all(abs(far(x[:, cell], law)) < 5 for cell in range(3))


@pytest.mark.parametrize("view", ["conditioned", "imaged"])
@pytest.mark.parametrize("noise", NOISES)
def test_groups_keep_their_noise_in_any_company(view, noise):
    sizes = np.array([8, 1, 130, 64, 3, 700, 65, 8])
    starts = np.cumsum(sizes) - sizes
    splits, draw = blocks.splits_of(noise, 1.5), getattr(blocks, view)
    x = draw(SECRET, named(), sizes, splits)
    assert not np.add.reduceat(x, starts).any() and x.any()
    for order in ([6, 5, 4, 3, 2, 1, 0], [2], [5, 7]):
        cells = np.concatenate([np.arange(starts[g], starts[g] + sizes[g]) for g in order])
        assert np.array_equal(draw(SECRET, named(cells), sizes[order], splits), x[cells])


@pytest.mark.parametrize("n", [5, 90])
def test_the_residual_goes_to_every_cell_alike(n):
    splits = blocks.splits_of("discrete-laplace", 1.5)
    groups = 400_000 // n
    x = blocks.imaged(SECRET, named(), np.full(groups, n), splits).reshape(groups, n)
    error = x.std(axis=0) / np.sqrt(groups)
    assert np.all(np.abs(x.mean(axis=0)) < 5 * error)
    mass = power("discrete-laplace", 1.5, 1)
    variance = np.sum(mass.p * (mass.low + np.arange(mass.p.size)) ** 2) * (1 - 1 / n)
    # whole noise is at most ¼ wider than the projection of its base
    assert np.all(x.var(axis=0) > variance * (1 - 5 * np.sqrt(6 / groups)))
    assert np.all(x.var(axis=0) < (variance + 0.25) * (1 + 5 * np.sqrt(6 / groups)))


def test_free_cells_have_the_noise_of_the_base():
    splits = blocks.splits_of("discrete-normal", 2.0)
    x = blocks.independent(SECRET, IDS, splits)
    assert abs(far(x, power("discrete-normal", 2.0, 1))) < 5
