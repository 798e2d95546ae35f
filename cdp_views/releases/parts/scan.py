"""What a release has to know of all parts before it spends: looked up part by part."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from cdp_views.releases.parts.part import Columns, Part, mixed, read_part

_LONGEST = 80  # letters of a label in a message
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


@final
@dataclass(frozen=True, eq=False)
class Scan:
    """Of one part. Its counts are confidential, so is their digest; it stays in memory.

    Args:
        rows: their number.
        groups: (2, groups) ids.
        sizes: (s, 2) how many rows with noise a group has, and how many groups have so many.
        fingerprint: see `Part.fingerprint`.
        counts_sum: of all counts.
        totals: (2,) uint64, a sum over groups that tells their exact totals from others, however
            the groups are dealt into parts.
        digest: see `Part.digest`.
        zeros: how many rows are 0 whatever the data.
        zeros_print: see `Part.zeros_print`.
    """

    rows: int
    groups: np.ndarray
    sizes: np.ndarray
    fingerprint: np.ndarray
    counts_sum: int
    totals: np.ndarray
    digest: str
    zeros: int
    zeros_print: np.ndarray


def scan(folder: str, columns: Columns, name: str) -> Scan:
    """Read a part, refuse what is wrong with it, and tell what the whole needs of it."""
    source = Path(folder) / name
    part = read_part(source, columns)
    if not part.rows:
        none = np.zeros((len(columns.labels) + 1, 2), dtype=np.uint64)
        sizes, digest = np.zeros((0, 2), np.int64), part.digest
        return Scan(0, none[:0].T[:2], sizes, none, 0, none[0], digest, 0, none[0])
    part.check(source, columns)
    _refuse_padded(part, source, columns)
    sizes = np.stack(np.unique(part.drawn.sizes, return_counts=True), axis=1)
    return Scan(
        part.rows,
        part.group_ids,
        sizes,
        part.fingerprint(),
        int(part.counts.sum()),
        _told_apart(part.group_ids, [part.totals(counts) for counts in part.counts]),
        part.digest,
        0 if part.zeros is None else int(np.count_nonzero(part.zeros)),
        part.zeros_print(),
    )


def _refuse_padded(part: Part, source: Path, columns: Columns) -> None:
    """Stop where a label of a group begins or ends with a blank, as a release in one file does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in columns.within:
        column = part.table[name]
        if not pa.types.is_integer(column.type):
            text = pc.cast(column.take(pa.array(part.heads)), pa.large_string())
            bare = pc.call_function("utf8_trim_whitespace", [text])
            padded = pc.call_function("not_equal", [text, bare]).to_numpy()
            if padded.any():
                at = int(np.argmax(padded))
                raise ValueError(
                    f'"{name}" has labels with a blank at an end in `{source}`, first '
                    f'"{str(text[at])[:_LONGEST]}" in data row {int(part.heads[at]) + 1}: another '
                    "group than without it. Strip them."
                )


def _told_apart(groups: np.ndarray, totals: list[np.ndarray]) -> np.ndarray:
    """(2,) uint64: sums over groups (2, m) of mixed bits of their ids and totals (m,) each.

    Two tables of other totals have equal sums by chance only, 2⁻¹²⁸. An adversary could find such
    tables, but it is the curator who is warned by them.
    """
    found = np.empty(2, dtype=np.uint64)
    for lane, start in enumerate(groups):
        state = mixed(start ^ np.uint64(_ODD[lane]))
        for own in totals:
            state += own.view(np.uint64) * np.uint64(_ODD[lane])
            state = mixed(state)
        found[lane] = state.sum(dtype=np.uint64)
    return found


def require_whole_groups(folder: Path, columns: Columns, scans: dict[str, Scan]) -> None:
    """Refuse a table in which a group lies in more than one part: its total would not be exact.

    Takes 16 bytes a group of memory, and some more while it looks.
    """
    names = list(scans)
    first = np.concatenate([scans[name].groups[0] for name in names])
    first.sort()
    doubtful = first[1:][first[1:] == first[:-1]]  # of 128 bits, 64 are alike
    del first
    if not doubtful.size:
        return
    where: dict[tuple[int, int], list[str]] = {}
    for name in names:
        ids = scans[name].groups
        for one in ids[:, np.isin(ids[0], doubtful)].T.tolist():
            where.setdefault((one[0], one[1]), []).append(name)
    split = {group: places for group, places in where.items() if len(places) > 1}
    if split:
        group, places = next(iter(split.items()))
        one, other = places[:2]
        more = f" ({len(split)} groups do)" if len(split) > 1 else ""
        raise ValueError(
            f"The group {_called(folder / one, columns, group)} lies in more than one part: in "
            f"`{one}` and `{other}`{more}. Put all rows of a group into one part: sort by "
            f"{', '.join(columns.within)} before writing parts. Nothing was spent."
        )


def _called(source: Path, columns: Columns, group: tuple[int, int]) -> str:
    """The public labels of a group of this part, by its id."""
    part = read_part(source, columns)
    (at,) = np.flatnonzero(np.all(np.array(group, dtype=np.uint64) == part.group_ids.T, axis=1))
    row = part.table.slice(int(part.heads[at]), 1).to_pylist()[0]
    return ", ".join(f'{name} "{str(row[name])[:_LONGEST]}"' for name in columns.within)
