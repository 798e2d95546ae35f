"""A released table in many parts, read one at a time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from cdp_views.invariants import totals
from cdp_views.releases.checks import Check
from cdp_views.releases.labels import coords_of
from cdp_views.releases.mechanism import Mechanism
from cdp_views.releases.metadata import LIBRARY, digest_of_metadata
from cdp_views.releases.observed import Observed
from cdp_views.releases.parts.drawn import TOTALS, content_digest, digest_of_totals, read_totals
from cdp_views.releases.parts.part import (
    Columns,
    Part,
    parquet,
    parts_of,
    read_part,
    released_names,
)
from cdp_views.releases.parts.zeros import first_filled

SCHEMA, VERSION = "cdp_views.release_of_parts", 2
ABOUT = "_release.json"
_KEYS = (
    "schema", "version", "library", "view", "noise", "scale", "epsilon", "delta", "neighbours",
    "guarantee", "caveat", "columns", "cells", "groups", "geometry", "reservation", "parts",
    "digest",
)  # fmt: skip


@final
@dataclass(frozen=True, eq=False, repr=False)
class ReleasedParts:
    """A folder of Parquet files whose totals are exact, and what a reader needs to analyse them.

    Each file has the public columns of its part and the released counts, int64: `released`, or
    `released_COLUMN` where there are several. The exact totals of its groups lie in a file of the
    same name in the folder `_totals`; the metadata are in `_release.json` and speak of the whole.

    Args:
        folder: of the parts.
        metadata: what was done and what it guarantees; JSON types only.

    Example:
        >>> import cdp_views as cdp
        >>> cdp.read_parts("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: `nowhere` is no release of parts: it has no `_release.json`. Check it.
    """

    folder: Path
    metadata: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """Of the parts."""
        return list(self.metadata["parts"])

    @property
    def columns(self) -> Columns:
        """Which columns were counts, groups and names."""
        told = self.metadata["columns"]
        several = (tuple(told[key]) for key in ("counts", "within", "names"))
        return Columns(*several, zeros=told.get("zeros"))

    def part(self, name: str) -> pd.DataFrame:
        """One part: its labels and released counts."""
        return pd.read_parquet(self.folder / self._known(name), partitioning=None)

    def totals(self, name: str) -> pd.DataFrame:
        """The exact totals of one part, one row a group, under the names of the count columns."""
        return pd.read_parquet(self.folder / TOTALS / self._known(name), partitioning=None)

    def observed(self, name: str, column: str | None = None) -> Observed:
        """What a model conditions on: one column of one part, with its mechanism and totals.

        Each cell that is 0 whatever the data is its own exact total, 0, and no prior is asked of
        it.

        Args:
            name: of the part.
            column: of counts; needed where there are several.
        """
        columns = self.columns
        if column is None and len(columns.counts) == 1:
            column = columns.counts[0]
        if column is None or column not in columns.counts:
            raise ValueError(f"`column` must be one of {', '.join(columns.counts)}.")
        part = read_part(self.folder / self._known(name), columns, released=True)
        labels = np.repeat(np.arange(part.sizes.size), part.sizes)
        if part.order is not None:
            labels[part.order] = labels.copy()
        m, at = self.metadata, columns.counts.index(column)
        exact = read_totals(self.folder, name, columns).counts[at]
        if part.zeros is not None:  # `structural_zeros` of these totals, as disjoint ones
            zeros = np.flatnonzero(part.zeros)
            labels[zeros] = exact.size + np.arange(zeros.size)
            exact = np.append(exact, np.zeros_like(zeros))
        first = list(dict.fromkeys(labels.tolist()))  # as `totals` numbers its groups
        return Observed(
            Mechanism(m["view"], m["noise"], m["scale"], totals(labels)),
            part.counts[at].astype(np.float64),
            exact[first].astype(np.float64),
            coords=coords_of(part.table.select(list(columns.labels)).to_pandas()),
            zeros=part.zeros if part.zeros is not None and part.zeros.any() else None,
        )

    def checks(self) -> Iterator[Check]:
        """Every check of `verify`, as it is made; one part is in memory at a time."""
        m = self.metadata
        same = m["digest"].get("metadata") == digest_of_metadata(m)
        edited = "the metadata are not those of the release: their SHA-256 differs from theirs"
        yield Check(same, "metadata as written (SHA-256)" if same else edited)
        missing, more = set(self.names) - set(there := _there(self.folder)), set(there)
        more -= set(self.names)
        for name in sorted(missing):
            yield Check(False, f"`{name}` is missing")
        for name in sorted(more):
            yield Check(False, f"`{name}` is no part of the release")
        cells = 0
        for name in self.names:
            if name not in missing:
                check, rows = self._check(name)
                cells += rows * len(self.columns.counts)
                yield check
        if not missing and cells != m["cells"]:
            yield Check(False, f"the parts have {cells} cells where {m['cells']} were released")

    def verify(self) -> None:
        """Check metadata, every part and every exact total, with equality.

        Raises:
            ValueError: one line that names what fails. It shows no number that is not in the files.
        """
        failed = [check.text for check in self.checks() if not check.ok]
        if failed:
            more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
            raise ValueError(f"The release does not verify: {'; '.join(failed[:3])}{more}.")

    def _check(self, name: str) -> tuple[Check, int]:
        columns, told = self.columns, self.metadata["parts"][name]
        try:
            part = read_part(self.folder / name, columns, released=True)
            listed = read_totals(self.folder, name, columns)
        except (ValueError, OSError, KeyError) as reason:
            return Check(False, f"`{name}` or its totals cannot be read ({reason})"), 0
        exact = listed.counts
        more = self._more_columns(name)
        if more:
            return Check(False, f'`{name}` or its totals have a column "{more[0]}" more'), part.rows
        off = _first_off(part, exact, columns)
        if off is not None:
            return Check(False, f"`{name}`: {off}"), part.rows
        if content_digest(part) != told["sha256"]:
            text = f"`{name}` is not the part released: its SHA-256 differs from the metadata's"
            return Check(False, text), part.rows
        if digest_of_totals(listed, exact) != told["totals_sha256"]:
            return Check(False, f"the totals of `{name}` are not those released"), part.rows
        return Check(True, f"`{name}`: {exact.size:,} totals hold, with equality"), part.rows

    def _more_columns(self, name: str) -> list[str]:
        """Columns of a part or of its totals that were not released, and are in no digest."""
        columns = self.columns
        part = (*columns.public, *released_names(columns.counts).values())
        totals_ = (*columns.within, *columns.counts)
        return [
            column
            for path, own in ((self.folder / name, part), (self.folder / TOTALS / name, totals_))
            for column in parquet().read_schema(path).names
            if column not in own
        ]

    def _known(self, name: str) -> str:
        if name not in self.metadata["parts"]:
            raise ValueError(f"`{name}` is no part of this release. See `names`.")
        return name

    def __repr__(self) -> str:
        m = self.metadata
        return (
            f"ReleasedParts({m['cells']} cells in {len(m['parts'])} parts, {m['view']} view of "
            f"{m['noise']} noise, epsilon={m['epsilon']}, delta={m['delta']})"
        )


def _there(folder: Path) -> list[str]:
    try:
        return parts_of(folder)
    except ValueError:
        return []


def _first_off(part: Part, exact: np.ndarray, columns: Columns) -> str | None:
    """What is wrong with the zeros and totals of a part, the first of it."""
    if not part.rows:
        return None
    filled = first_filled(part.zeros, part.counts)
    if filled is not None:
        column, many, row = filled
        name = list(released_names(columns.counts).values())[column]
        return (
            f'"{name}" is not 0 in {many} rows that "{columns.zeros}" says are 0 whatever the '
            f"data, first in data row {row + 1}"
        )
    if exact.shape[1] != part.sizes.size:
        return f"it has {part.sizes.size} groups where {exact.shape[1]} totals were published"
    for counts, published in zip(part.counts, exact, strict=True):
        seen = part.totals(counts)
        wrong = np.flatnonzero(seen != published)
        if wrong.size:
            row = int(part.heads[wrong[0]]) + 1
            return (
                f"{wrong.size} totals differ, first in data row {row}: its group sums to "
                f"{seen[wrong[0]]}, published as {published[wrong[0]]}"
            )
    return None


def read_parts(folder: str | PathLike[str]) -> ReleasedParts:
    """A partitioned release from its folder, without the confidential table.

    Args:
        folder: that `cdp.release_parts` wrote.

    Returns:
        The release, unchecked: call its `verify()`.

    Raises:
        FileNotFoundError: no metadata there.
        ValueError: metadata that cannot be read, or of another version.
    """
    about = Path(folder) / ABOUT
    if Path(f"{folder}.json").is_file() and Path(folder).is_file():
        raise FileNotFoundError(
            f"`{folder}` is a release in one file: cdp.read_release reads it, no parts."
        )
    if not about.is_file():
        raise FileNotFoundError(
            f"`{folder}` is no release of parts: it has no `{ABOUT}`. Check it."
        )
    try:
        told = json.loads(about.read_text(encoding="utf-8"))
        known = told["schema"] == SCHEMA and told["version"] == VERSION
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"`{about}` is not JSON of a release. Restore it.") from None
    if not known:
        raise ValueError(f"`{about}` is of another version than {LIBRARY} reads, {VERSION}.")
    missing = [key for key in _KEYS if key not in told]
    if missing:
        raise ValueError(f"`{about}` lacks {missing[0]!r}. Restore the file as it was released.")
    return ReleasedParts(Path(folder), told)
