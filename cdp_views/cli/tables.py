"""Reading a table of counts; no message shows a count."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

_CSV = (".csv", ".csv.gz", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")


def read_table(path: Path) -> pd.DataFrame:
    """The table in a CSV or Parquet file, one row a cell.

    CSV is read as text, so that labels such as "01" or "NA" stay what they are; an empty field is
    missing.

    Raises:
        ValueError: not there, not readable, neither CSV nor Parquet, or without rows.
    """
    if path.is_dir():
        raise ValueError(f"`{path}` is a folder, not a table. Name a CSV or Parquet file.")
    if not path.exists():
        raise ValueError(f"`{path}` is not there. Check the path.")
    name = path.name.lower()
    try:
        if name.endswith(_PARQUET):
            table = pd.read_parquet(path)
        elif name.endswith(_CSV):
            table = _read_csv(path, "\t" if name.endswith(".tsv") else ",")
        else:
            raise ValueError(f"`{path}` is neither CSV nor Parquet. Convert it to one of them.")
    except pd.errors.EmptyDataError:
        raise ValueError(f"`{path}` is empty. Give a table with a header and rows.") from None
    except pd.errors.ParserWarning:
        raise ValueError(
            f"`{path}` cannot be read: rows have more fields than the header. Name every column."
        ) from None
    except (pd.errors.ParserError, UnicodeError, OSError) as reason:
        raise ValueError(
            f"`{path}` cannot be read ({type(reason).__name__}). Is it really "
            f"{'Parquet' if name.endswith(_PARQUET) else 'CSV in UTF-8'}?"
        ) from None
    except ValueError as reason:
        # pyarrow says ArrowInvalid, a ValueError that quotes bytes of the file.
        if type(reason) is ValueError:
            raise
        raise ValueError(
            f"`{path}` cannot be read ({type(reason).__name__}). Is it really "
            f"{'Parquet' if name.endswith(_PARQUET) else 'CSV'}?"
        ) from None
    except ImportError:
        raise ValueError("Parquet needs the extra io: pip install 'cdp-views[io]'.") from None
    table.columns = [str(column).strip() for column in table.columns]
    if len(table) == 0:
        raise ValueError(f"`{path}` is empty: it has a header and no rows. Give a table with rows.")
    return table


def _read_csv(path: Path, separator: str) -> pd.DataFrame:
    """Every field as text; columns of one name keep it, so that whoever asks for it is told."""
    how = {
        "dtype": str,
        "keep_default_na": False,
        "na_values": [""],
        "skipinitialspace": True,
        "encoding": "utf-8-sig",
        "sep": separator,
        # pandas would take the first column for an index where rows are longer than the header
        "index_col": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        table = pd.read_csv(path, **how)
    header = pd.read_csv(path, header=None, nrows=1, **how).iloc[0]
    table.columns = [
        read if pd.isna(written) else written
        for read, written in zip(table.columns, header, strict=True)
    ]
    return table


def column(table: pd.DataFrame, name: str, option: str) -> pd.Series:
    """The column called `name`, asked for by `option`."""
    if name not in table.columns:
        there = ", ".join(map(str, table.columns[:30])) + (", …" if table.shape[1] > 30 else "")
        only = table.shape[1] == 1 and set(there) & set(";\t|")
        hint = " Separate columns with commas." if only else ""
        raise ValueError(f'{option} "{name}" is not a column; the columns are {there}.{hint}')
    found = table[name]
    if isinstance(found, pd.DataFrame):
        raise ValueError(f'{option} "{name}" names several columns. Rename all but one.')
    return found


def numbers(
    table: pd.DataFrame, name: str, option: str, *, positive: bool = False, signed: bool = False
) -> np.ndarray:
    """The column as float64, refused unless all are finite and at least (or above) 0."""
    values = column(table, name, option)
    parsed = pd.Series(pd.to_numeric(values, errors="coerce"))
    array = parsed.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype == bool:
        # pandas would read them as 1 and 0.
        array = np.full(len(values), np.nan)
    checks = [
        (values.isna().to_numpy(), "are missing"),
        (~np.isfinite(array), "are not finite numbers"),
    ]
    if not signed:
        checks.append((array < 0, "are negative"))
    if positive:
        checks.append((array == 0, "are 0: a scale must be positive"))
    for bad, what in checks:
        if bad.any():
            raise ValueError(
                f'{option} "{name}" has {int(bad.sum())} of {bad.size} entries that {what}, first '
                f"in data row {int(np.argmax(bad)) + 1}. Correct them; a row that is left "
                "out would be missing from its total."
            )
    return array


def published(
    table: pd.DataFrame, name: str | None, option: str, count: str, *, signed: bool = False
) -> np.ndarray | None:
    """A column that the release publishes (scales, or weights of any sign); None if not asked."""
    if name is None:
        return None
    if name == count:
        raise ValueError(
            f'{option} "{name}" is the count column: what a release is made with is published, and '
            "so would the counts be. Use a published column."
        )
    return numbers(table, name, option, positive=not signed, signed=signed)


def labels(table: pd.DataFrame, names: Sequence[str], option: str) -> list[str]:
    """One label a row: the columns' values, joined where there are several."""
    if not names:
        raise ValueError(f"{option} is missing: name the column of groups whose totals stay exact.")
    parts = []
    for name in names:
        values = column(table, name, option)
        missing = values.isna().to_numpy()
        if missing.any():
            raise ValueError(
                f'{option} "{name}" has {int(missing.sum())} of {missing.size} labels missing, '
                f"first in data row {int(np.argmax(missing)) + 1}. Fill them in."
            )
        text = values.astype(str)
        padded = (text != text.str.strip()).to_numpy()
        if padded.any():
            first = int(np.argmax(padded))
            raise ValueError(
                f'{option} "{name}" has {int(padded.sum())} of {padded.size} labels with a blank '
                f'at an end, first "{text.iloc[first]}" in data row {first + 1}: another group '
                "than without it. Strip them."
            )
        parts.append(text)
    return [", ".join(row) for row in zip(*parts, strict=True)]


def in_words(message: str, names: Sequence[str]) -> str:
    """`message` of the library with cells called as this table calls them.

    The geometry knows cells by their index only; a group keeps its own name, whatever it is.

    Args:
        message: with cells such as "cell 7", from 0.
        names: what each cell is called in the table, (n,).

    Returns:
        The message, with the names in quotation marks.

    Example:
        >>> in_words("Lower cell 1.", ["Cook", "Will"])
        'Lower cell "Will".'
    """
    return re.sub(
        r"(?<!group )\bcell (\d+)\b", lambda found: f'cell "{names[int(found[1])]}"', message
    )


@contextmanager
def errors_in_words(names: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Refusals within are told `in_words`; `names` is called only if there is one."""
    try:
        yield
    except (ValueError, NotImplementedError) as reason:
        raise ValueError(in_words(str(reason), names())) from reason
