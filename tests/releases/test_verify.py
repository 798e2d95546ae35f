"""Verification: what was changed is found and named, what is confidential never shown."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cdp_views as cdp
from cdp_views.releases.about import about_page

from .conftest import COUNTS


def with_cells(made, changes):
    table = made.table.copy()
    for row, change in changes.items():
        table.loc[row, "released"] += change
    return replace(made, table=table)


def test_a_release_verifies(make):
    made = make()
    made.verify()
    made.verify(COUNTS)
    assert [check.ok for check in made.checks(COUNTS)] == [True] * 6


def test_a_changed_cell_names_its_total(make):
    made = with_cells(make(), {5: 2**-10})
    with pytest.raises(
        ValueError, match=r'total "y" sums to 9684.0009\d+, published as 9684.0'
    ) as error:
        made.verify()
    assert '"x"' not in str(error.value) and "\n" not in str(error.value)


def test_a_change_that_keeps_the_totals_is_found_too(make):
    with pytest.raises(ValueError, match="its SHA-256 differs"):
        with_cells(make(), {0: 1.0, 1: -1.0}).verify()


@pytest.mark.parametrize("named", [False, True], ids=["as they come", "by two columns"])
def test_rows_in_another_order_are_told_from_changed_ones(make, inv, named):
    import cdp_views as cdp

    given, by = {}, '"group"'
    if named:
        halves = {"half": list("ppqqppqq"), "sort": list("ssttsstt"), "area": list("abcdefgh")}
        both = [", ".join(pair) for pair in zip(halves["half"], halves["sort"], strict=True)]
        given, by = {"invariant": cdp.totals(both), "names": halves}, '"half" and "sort"'
    made = make(**given)
    moved = replace(made, table=made.table.iloc[[0, 4, 1, 5, 2, 6, 3, 7]])
    with pytest.raises(ValueError, match=f"another order than .*: by {by} every total holds"):
        moved.verify()
    moved.table.iloc[3, -1] += 1  # and now one is changed too
    with pytest.raises(ValueError, match=r'total ".*" sums to') as error:
        moved.verify()
    assert "another order" not in str(error.value)


def test_many_totals_are_counted(inv):
    wide = cdp.totals(np.repeat(np.arange(6), 2))
    made = cdp.release(
        np.arange(12), wide, view="imaged", noise="normal", epsilon=1, delta=1e-6,
        neighbours=cdp.relocations(wide),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r'total "0" .*total "2" .*and 3 more totals differ'):
        with_cells(made, {2 * g: 1.0 for g in range(6)}).verify()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.iloc[:-1], "has 7 rows where 8 cells were released"),
        (lambda table: table.assign(released=np.nan), "row 1 of the table holds no finite number"),
        (lambda table: table.assign(cell="0"), "its SHA-256 differs"),
        (lambda table: table.rename(columns={"cell": "area"}), "its SHA-256 differs"),
    ],
    ids=["short", "nan", "labels", "name"],
)
def test_a_table_of_another_shape(make, change, words):
    made = make()
    with pytest.raises(ValueError, match=words):
        replace(made, table=change(made.table)).verify()


def test_counts_that_are_not_those_released_without_showing_them(make):
    other = COUNTS.copy()
    other[4] += 1
    with pytest.raises(
        ValueError, match='the counts given are not those released: total "y" diff'
    ) as error:
        make().verify(other)
    assert "9685" not in str(error.value) and "9002" not in str(error.value)


def test_counts_of_several_columns_are_the_table_that_they_stand_in(make):
    frame = pd.DataFrame(COUNTS.reshape(4, 2), columns=["men", "women"]).assign(town=list("abcd"))
    inv = cdp.totals(["m", "w"] * 4)
    made = make(invariant=inv, names={"column": ["men", "women"] * 4})
    for table in (frame[["women", "town", "men"]], COUNTS.reshape(4, 2), COUNTS):
        made.verify(table)
    for table, words in (
        (frame.rename(columns={"women": "w"}), 'no column "women". The release is of men, women'),
        (frame.assign(men=1), 'not those released: total "m" differs'),
        (COUNTS.reshape(2, 4)[:1], "1 rows of 4 columns where 8 cells were released"),
    ):
        with pytest.raises(ValueError, match=words):
            made.verify(table)


def test_metadata_of_another_version(make):
    made = make()
    with pytest.raises(
        ValueError, match=r"metadata of version 2, where cdp_views \S+ reads version 1"
    ):
        replace(made, metadata=made.metadata | {"version": 2}).verify()


def test_edited_metadata_do_not_verify(make):
    made = make()
    edited = replace(made, metadata=made.metadata | {"epsilon": 5.0})
    assert [check.text for check in edited.checks() if not check.ok] == [
        "the metadata are not those of the release: their SHA-256 differs from what they say"
    ]


def test_the_table_for_print_is_verified_too(make, tmp_path):
    """Nonnegative, whole, the same totals and cells, as it was made; or it is not there."""
    make(noise="discrete-laplace", delta=0, publishable=True).save(tmp_path / "r.csv")
    printed = tmp_path / "r.print.csv"
    made = cdp.read_release(tmp_path / "r.csv")
    made.verify(COUNTS)
    assert (
        made.checks()[-1].text == "table for print: whole, nonnegative, the same totals (SHA-256)"
    )
    head, *lines = printed.read_text().splitlines()

    def first(change):
        *labels, value = lines[0].split(",")
        return ",".join([*labels, str(change(int(value)))])

    other = lines[1].split(",")
    for forged, words in (
        ([first(lambda v: f"{v}.5"), *lines[1:]], "row 1 .* no whole number of at least 0"),
        ([first(lambda v: "-1"), *lines[1:]], "row 1 .* no whole number of at least 0"),
        ([first(lambda v: v + 1), *lines[1:]], 'has another total "x"'),
        (["9" + lines[0], *lines[1:]], "has other cells than the release"),
        (lines[1:], "has other cells than the release"),
        (
            [
                first(lambda v: v + 1),
                ",".join([*other[:-1], str(int(other[-1]) - 1)]),
                *lines[2:],
            ],
            "not the one made: its SHA-256 differs",
        ),
    ):
        printed.write_text("\n".join([head, *(str(line) for line in forged)]))
        with pytest.raises(ValueError, match=words):
            cdp.read_release(tmp_path / "r.csv").verify()
    printed.unlink()
    left = cdp.read_release(tmp_path / "r.csv")
    left.verify()
    assert "not beside this one" in left.checks()[-1].text


def test_structural_zeros_are_no_totals_and_no_noisy_cells(make, inv, tmp_path):
    counts = np.where(np.arange(8) % 5 == 3, 0, COUNTS)  # the cell of row 4 can only be 0
    zeros = cdp.structural_zeros(inv, [3])
    made = make(counts, zeros, zeros=[3], names={"town": list("abcdefgh")})
    texts = [check.text for check in made.checks()]
    assert "2 totals hold, with equality" in texts and "1 cell that can only be 0 is 0" in texts
    assert "8 cells, 1 that can only be 0, 2 exact totals" in repr(made)
    promise, words = made.metadata["guarantee"], about_page(made, "r.csv")
    assert "1 of the 8 cells can only be 0" in promise and "cell that they determine" not in promise
    assert "7 counts were published" in words and "2 totals exactly as counted" in words
    assert "leave them out of k and of n" in words and "So are the cells that follow" not in words
    assert "every other cell, but for those that can only be 0, is its count" in words
    table = made.table.copy()
    table["released"] += np.array([-2.0, 0, 0, 2, 0, 0, 0, 0])  # the total holds
    with pytest.raises(ValueError, match=r'"released" is not 0 in row 4 \(d\), which can only be'):
        replace(made, table=table).verify()
