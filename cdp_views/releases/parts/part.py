"""One part of a partitioned table: what is read from its Parquet file, and what its rows are."""

from dataclasses import dataclass
from functools import cached_property, reduce
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from cdp_views.releases.noise.cells import joined, label_ids
from cdp_views.releases.parts.labels import Labels, labels_of
from cdp_views.releases.parts.zeros import Drawn, drawn, first_filled, mask_of

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = 2**53  # counts up to which sums in float64 are exact, for those who read the table


class Columns(NamedTuple):
    """What the columns of a partitioned table are for.

    Args:
        counts: of true counts; each has totals of its own.
        within: whose values together name a group.
        names: further public columns, which tell the rows of a group apart.
        zeros: a public column that says which rows are 0 whatever the data; no label.
    """

    counts: tuple[str, ...]
    within: tuple[str, ...]
    names: tuple[str, ...]
    zeros: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """All columns that name a cell, each once."""
        return tuple(dict.fromkeys((*self.within, *self.names)))

    @property
    def public(self) -> tuple[str, ...]:
        """All columns that are published as they are."""
        return self.labels if self.zeros is None else (*self.labels, self.zeros)

    @property
    def stated(self) -> dict[str, Any]:
        """What each is for, in JSON types."""
        told: dict[str, Any] = {key: list(getattr(self, key)) for key in self._fields[:3]}
        return told if self.zeros is None else told | {"zeros": self.zeros}

    def checked(self) -> "Columns":
        """The same, refused where it makes no sense."""
        for option in ("counts", "within"):
            if not getattr(self, option):
                raise ValueError(f"`{option}` must name at least one column.")
        twice = [c for c in self.counts if self.counts.count(c) > 1 or c in self.labels]
        if twice:
            raise ValueError(
                f'`counts` names "{twice[0]}" twice, or a column of labels: counts stay secret.'
            )
        taken = [c for c in self.public if c in released_names(self.counts).values()]
        if taken:
            option = "zeros" if taken[0] == self.zeros else "names"
            raise ValueError(f'`{option}` has "{taken[0]}", as the release is called. Rename it.')
        if self.zeros is not None and not isinstance(self.zeros, str):
            raise ValueError(f"`zeros` must name a column of all parts; got {self.zeros!r:.60}.")
        if self.zeros in (*self.labels, *self.counts):
            raise ValueError(
                f'`zeros` is "{self.zeros}", which is a column of counts or labels too. Name it '
                "once: it is published beside the labels."
            )
        return self


def released_names(counts: tuple[str, ...]) -> dict[str, str]:
    """What the released column of each count column is called."""
    if len(counts) == 1:
        return {counts[0]: "released"}
    return {name: f"released_{name}" for name in counts}


def parts_of(folder: Path) -> list[str]:
    """The Parquet files of a folder and those below it, in order; hidden ones are none.

    Raises:
        ValueError: no folder, or none in it.
    """
    if not folder.is_dir():
        raise ValueError(f"`{folder}` is not a folder of Parquet files. Check the path.")
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    own = [path for path in found if not any(step[0] in "._" for step in path.parts)]
    other = [path for path in own if path.suffix.lower() not in (".parquet", ".pq")]
    if other:
        raise ValueError(
            f"`{folder / min(other)}` is no Parquet file. Leave only the parts of the table there."
        )
    if not own:
        raise ValueError(f"`{folder}` holds no Parquet file. Check the path.")
    return sorted(path.as_posix() for path in own)


def check_schemas(folder: Path, names: list[str], columns: Columns) -> None:
    """Refuse, from the files' footers, what is unreadable, lacks a column or has another type."""
    first: dict[str, str] = {}
    for name in names:
        schema = _reading(folder / name, lambda path: parquet().read_schema(path))
        here = {field.name: str(field.type) for field in schema}
        for column in (*columns.public, *columns.counts):
            if column not in here:
                raise ValueError(
                    f'`{folder / name}` has no column "{column}"; its columns are '
                    f"{', '.join(list(here)[:30])}."
                )
            if first.setdefault(column, here[column]) != here[column]:
                raise ValueError(
                    f'"{column}" is {here[column]} in `{folder / name}` and {first[column]} in '
                    f"`{folder / names[0]}`. Write all parts with the same types."
                )
        for column in columns.counts:
            if not here[column].startswith(("int", "uint", "float", "double")):
                raise ValueError(
                    f'"{column}" is {here[column]} in `{folder / name}`: counts are numbers.'
                )


@final
@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one part; groups are numbered as they first appear.

    Args:
        table: its label columns, as they were.
        counts: (columns, n) int64, confidential.
        labels: one for each label column.
        within: how many of the labels name the group.
        digest: SHA-256 of the file. Confidential, as few counts could be guessed from it.
        zeros: (n,) which rows are 0 whatever the data; None where no column says so.
    """

    table: "pa.Table"
    counts: np.ndarray
    labels: tuple[Labels, ...]
    within: int
    digest: str
    zeros: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Their number."""
        return self.table.num_rows

    @cached_property
    def _groups(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """(first row of each group, rows group after group or None where they are, sizes)."""
        key = _keys([codes for codes, _ in self.labels[: self.within]])
        begins = _begins(key)
        heads = key[begins]
        if np.all(heads[1:] > heads[:-1]) or np.unique(heads).size == heads.size:
            return begins, None, np.diff(begins, append=key.size)
        order = np.argsort(key, kind="stable")
        begins = _begins(key[order])
        return order[begins], order, np.diff(begins, append=key.size)

    @property
    def sizes(self) -> np.ndarray:
        """(groups,) rows of each."""
        return self._groups[2]

    @property
    def order(self) -> np.ndarray | None:
        """(n,) rows group after group, None where they stand so."""
        return self._groups[1]

    @property
    def heads(self) -> np.ndarray:
        """(groups,) the first row of each."""
        return self._groups[0]

    @cached_property
    def drawn(self) -> Drawn:
        """What noise is drawn for."""
        return drawn(self.sizes, self.order, self.zeros)

    @property
    def group_ids(self) -> np.ndarray:
        """(2, groups) of the labels that name each group."""
        return self._ids(self.heads, self.within)

    def ids(self, column: str, several: bool) -> Any:
        """Places of `drawn` cells ↦ their ids (2, m), as `cells.cell_ids` has them."""
        order = self.drawn.rows
        own = label_ids([column]) if several else None

        def named(places: np.ndarray) -> np.ndarray:
            rows = self._ids(places if order is None else order[places], len(self.labels))
            return rows if own is None else joined(rows, np.broadcast_to(own, rows.shape))

        return named

    def check(self, source: Path, columns: Columns) -> None:
        """Refuse rows that no label tells apart, whose noise would be the same, and false zeros."""
        filled = first_filled(self.zeros, self.counts)
        if filled is not None:
            column, many, row = filled
            raise ValueError(
                f'"{columns.zeros}" says of {many} rows in `{source}` that they are 0 whatever the '
                f'data, and "{columns.counts[column]}" is not 0 there, first in data row '
                f"{row + 1}. Correct one of the two."
            )
        codes = [codes for codes, _ in self.labels]
        if _in_order(codes):
            return
        key = _keys(codes)
        if np.unique(key).size < key.size:
            raise ValueError(
                f"`{source}` has {key.size - np.unique(key).size} rows with the labels of another "
                "row. Name a column that tells them apart (names=, --names)."
            )

    def _ids(self, rows: np.ndarray, count: int) -> np.ndarray:
        own = (np.take(ids, codes[rows], axis=1) for codes, ids in self.labels[:count])
        return reduce(joined, own)

    def fingerprint(self) -> np.ndarray:
        """(labels + 1, 2) uint64: sums over rows of the ids in each column, and over groups.

        They add up over parts, whatever the order, and tell this table's cells from others.
        """
        found, sizes = [], self.sizes.astype(np.uint64)
        for i, (codes, ids) in enumerate(self.labels):
            if i < self.within:  # all rows of a group have it in common
                found.append(np.take(ids, codes[self.heads], axis=1) @ sizes)
            else:
                found.append(ids @ np.bincount(codes, minlength=ids.shape[1]).astype(np.uint64))
        found.append(np.sum(mixed(self.group_ids + mixed(sizes)), axis=1))
        return np.stack(found)

    def zeros_print(self) -> np.ndarray:
        """(2,) uint64: a sum of ids that tells which rows are 0 whatever the data."""
        if self.zeros is None:
            return np.zeros(2, dtype=np.uint64)
        return mixed(self._ids(np.flatnonzero(self.zeros), len(self.labels))).sum(axis=1)

    def totals(self, counts: np.ndarray) -> np.ndarray:
        """(groups,) sums of one column (n,) over the groups."""
        ordered = counts if self.order is None else counts[self.order]
        return np.add.reduceat(ordered, np.cumsum(self.sizes) - self.sizes)


def read_part(source: Path, columns: Columns, *, released: bool = False) -> Part:
    """Read and check one part.

    Raises:
        ValueError: unreadable, an entry missing (the column is named), or counts that are not
            whole numbers of at least 0. No message shows a count.
    """
    own = released_names(columns.counts)
    counts = [own[name] for name in columns.counts] if released else list(columns.counts)
    wanted = [*columns.public, *counts]
    table, digest = _reading(source, lambda path: _read(path, wanted))
    for name in wanted:
        if name not in table.column_names:
            raise ValueError(f'`{source}` has no column "{name}".')
        missing = _missing(table[name])
        if missing:
            raise ValueError(
                f'"{name}" has {missing} of {table.num_rows} entries missing in `{source}`. Fill '
                "them in: a row that is left out would be missing from its total."
            )
    numbers = np.empty((len(counts), table.num_rows), dtype=np.int64)
    for i, name in enumerate(counts):
        numbers[i] = _whole(table[name].to_numpy(), name, source, released)
    labels = tuple(_labels(table[name], name, source) for name in columns.labels)
    zero = columns.zeros
    zeros = None if zero is None else mask_of(table[zero], zero, source)
    import pyarrow as pa

    # columns alone: a schema may carry notes, and names of columns that are not released
    public = pa.table({name: table[name] for name in columns.public})
    return Part(public, numbers, labels, len(dict.fromkeys(columns.within)), digest, zeros)


def _read(path: Path, wanted: list[str]) -> tuple["pa.Table", str]:
    """The table, and the SHA-256 of the very bytes that it was read from."""
    import pyarrow as pa

    data = path.read_bytes()
    table = parquet().read_table(pa.BufferReader(data), columns=wanted)
    return table, sha256(data).hexdigest()


def _missing(column: "pa.ChunkedArray") -> int:
    """NaN is missing too: its many bit patterns would be values of one text, hence of one id."""
    import pyarrow as pa

    coded = pa.types.is_dictionary(column.type)
    real = pa.types.is_floating(column.type.value_type if coded else column.type)
    if real and not coded:
        return int(np.count_nonzero(column.is_null(nan_is_null=True).to_numpy()))
    found = column.null_count
    for chunk in column.chunks if coded else ():
        if real or chunk.dictionary.null_count:  # a value of the dictionary may be missing too
            lost = chunk.dictionary.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
            lost = np.append(lost, False)
            found += int(np.count_nonzero(lost[chunk.indices.fill_null(-1).to_numpy()]))
    return found


def _whole(values: np.ndarray, name: str, source: Path, released: bool) -> np.ndarray:
    least = -_MOST if released else 0
    whole = values.dtype.kind in "iu" and values.size > 0
    if whole and least <= values.min() and values.max() <= _MOST // 2 // values.size:
        return values  # so that their sum is exact too: the usual case, told at once
    wrong = ~np.isfinite(values) | (values != np.rint(values)) | (np.abs(values) > _MOST)
    wrong |= values < least
    if wrong.any():
        raise ValueError(
            f'"{name}" has {int(wrong.sum())} of {wrong.size} entries in `{source}` that are not '
            f"whole numbers of at least 0, first in data row {int(wrong.argmax()) + 1}."
        )
    if not released and values.sum(dtype=np.float64) > _MOST / 2:
        raise ValueError(f'"{name}" adds up to more than 2**52 in `{source}`: sums are not exact.')
    return values


def _labels(column: Any, name: str, source: Path) -> Labels:
    import pyarrow as pa

    try:
        return labels_of(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f'"{name}" is {column.type} in `{source}` and cannot be read as text. Labels are text, '
            "numbers or dates."
        ) from None


def _keys(codes: list[np.ndarray]) -> np.ndarray:
    """(n,) one number for each combination of values."""
    key = codes[0]
    for more in codes[1:]:
        key, width = key.astype(np.int64, copy=False), int(more.max(initial=0)) + 1
        if int(key.max(initial=0)) >= 2**62 // width:  # renumber before it overflows
            key = np.unique(key, return_inverse=True)[1]
        key = key * width + more
    return key


def mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of x (uint64) moves every bit of the result."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _in_order(codes: list[np.ndarray]) -> bool:
    """Whether each row's values (n,) come after those of the row before: all are different."""
    later = np.zeros(max(codes[0].size - 1, 0), dtype=bool)
    for own in reversed(codes):
        later &= own[1:] == own[:-1]
        later |= own[1:] > own[:-1]
    return bool(later.all())


def _begins(key: np.ndarray) -> np.ndarray:
    """Where a number differs from the one before it."""
    fresh = np.empty(key.size, dtype=bool)
    fresh[:1] = True
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    return np.flatnonzero(fresh)


def parquet() -> Any:
    """Arrow's module for Parquet files, or a word on what to install."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("Parquet needs the extra io: pip install 'cdp-views[io]'.") from None
    return pq


def _reading(path: Path, read: Any) -> Any:
    try:
        return read(path)
    except (OSError, ValueError, KeyError) as reason:
        if isinstance(reason, ValueError) and "extra io" in str(reason):
            raise
        # pyarrow's own messages quote bytes of the file
        raise ValueError(
            f"`{path}` cannot be read ({type(reason).__name__}). Is the Parquet file whole?"
        ) from None
