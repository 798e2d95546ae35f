"""Labels and numbers come out as they are written."""

import numpy as np
import pandas as pd
import pytest

from cdp_views.cli.tables import labels, numbers, read_table

TEXT = "code,nation,count\n01,NA,3\n1,None,4.5\n001,nan,0\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_labels_keep_zeros_and_words_that_look_missing(csv, mark):
    table = read_table(csv(mark + TEXT))
    assert labels(table, ["code"], "--within") == ["01", "1", "001"]
    assert labels(table, ["nation", "code"], "--within") == ["NA, 01", "None, 1", "nan, 001"]
    np.testing.assert_array_equal(numbers(table, "count", "--count"), [3, 4.5, 0])


def test_columns_of_one_name_keep_it_and_unnamed_ones_are_harmless(csv):
    table = read_table(csv(",count,count\na,1,2\nb,3,4\n"))
    assert list(table.columns) == ["Unnamed: 0", "count", "count"]
    with pytest.raises(ValueError, match="names several columns"):
        numbers(table, "count", "--count")


def test_tabs(csv):
    assert (
        labels(read_table(csv(TEXT.replace(",", "\t"), "t.tsv")), ["code"], "--within")[0] == "01"
    )


def test_parquet_with_integers_categories_and_missing_values(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pd.DataFrame(
        {"g": pd.Categorical(["a", "b", "a"]), "count": pd.array([1, None, 3], dtype="Int64")}
    ).to_parquet(path)
    table = read_table(path)
    assert labels(table, ["g"], "--within") == ["a", "b", "a"]
    with pytest.raises(ValueError, match="1 of 3 entries that are missing, first in data row 2"):
        numbers(table, "count", "--count")


def test_booleans_are_no_counts(tmp_path):
    with pytest.raises(ValueError, match="are not finite numbers"):
        numbers(pd.DataFrame({"count": [True, False]}), "count", "--count")


def test_two_columns_of_one_name():
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="several columns"):
        numbers(table, "a", "--count")
