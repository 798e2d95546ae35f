"""What a release has to know of all parts before it spends: looked up part by part."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from cdp_views.releases.part import Columns, read_part


@final
@dataclass(frozen=True, eq=False)
class Scan:
    """Of one part. Its counts are confidential, so is their digest; it stays in memory.

    Args:
        rows: their number.
        groups: (2, groups) ids.
        sizes: (s, 2) how many rows a group has, and how many groups have so many.
        fingerprint: see `Part.fingerprint`.
        counts_sum: of all counts.
        counts_digest: see `Part.counts_digest`.
    """

    rows: int
    groups: np.ndarray
    sizes: np.ndarray
    fingerprint: np.ndarray
    counts_sum: int
    counts_digest: str


def scan(folder: str, columns: Columns, name: str) -> Scan:
    """Read a part, refuse what is wrong with it, and tell what the whole needs of it."""
    source = Path(folder) / name
    part = read_part(source, columns)
    if not part.rows:
        none = np.zeros((len(columns.labels) + 1, 2), dtype=np.uint64)
        return Scan(0, none[:0].T[:2], np.zeros((0, 2), np.int64), none, 0, part.counts_digest())
    part.check(source)
    sizes = np.stack(np.unique(part.sizes, return_counts=True), axis=1)
    return Scan(
        part.rows,
        part.group_ids,
        sizes,
        part.fingerprint(),
        int(part.counts.sum()),
        part.counts_digest(),
    )


def require_whole_groups(scans: dict[str, Scan], within: tuple[str, ...]) -> None:
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
    split = [places for places in where.values() if len(places) > 1]
    if split:
        raise ValueError(
            f"{len(split)} group(s) of {', '.join(within)} lie in more than one part, one of them "
            f"in `{split[0][0]}` and `{split[0][1]}`. Put all rows of a group into one part: sort "
            "by these columns before writing parts. Nothing was spent."
        )
