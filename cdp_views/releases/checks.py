"""Whether a release is what it says: each check in one line, with no confidential number."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cdp_views._counts import as_counts
from cdp_views.invariants import Invariant
from cdp_views.releases.digest import RELEASED, digest
from cdp_views.releases.metadata import LIBRARY, SCHEMA, VERSION, digest_of_metadata
from cdp_views.releases.noise.closing import slack_of, totals_of
from cdp_views.releases.zeros import as_mask, rows_of_zeros

_SHOWN = 3
_COLUMN = "column"  # of a release of several columns of counts: which of them


class Check(NamedTuple):
    """One thing that was looked at, or could not be."""

    ok: bool
    text: str
    skipped: bool = False


def run(
    table: pd.DataFrame,
    metadata: dict[str, Any],
    invariant: Invariant,
    counts: Any = None,
    printed: pd.DataFrame | None = None,
) -> tuple[Check, ...]:
    """All checks that make sense: those on numbers only where their shape is right.

    Args:
        table: as released.
        metadata: of it.
        invariant: what must hold exactly.
        counts: true counts (n,) or a table of them, for the curator.
        printed: the table for print, where it is there.
    """
    found = [_version(metadata), _shape(table, invariant, metadata)]
    if found[-1].ok:
        found.append(_totals(table, metadata, invariant))
        moved = None if found[-1].ok else _moved(table, metadata)
        if moved is not None:
            found[-1] = Check(
                False,
                f"the rows stand in another order than they were released in: by {moved} every "
                "total holds, so put them back, or restore the file",
            )
        elif (zeros := _zeros(metadata)).any():
            found.append(_filled(table, zeros))
        same = digest(table) == metadata["digest"]["sha256"]
        changed = "the table is not the one released: its SHA-256 differs from the metadata's"
        found.append(Check(same, "table as it was released (SHA-256)" if same else changed))
    written = metadata["digest"].get("metadata") == digest_of_metadata(metadata)
    edited = "the metadata are not those of the release: their SHA-256 differs from what they say"
    found.append(Check(written, "metadata as written (SHA-256)" if written else edited))
    if "publishable" in metadata:
        found.append(_printed(printed, table, metadata, invariant))
    if counts is not None:
        found.append(_counts(_flat(counts, table), metadata, invariant))
    return tuple(found)


def _version(metadata: dict[str, Any]) -> Check:
    if (metadata["schema"], metadata["version"]) == (SCHEMA, VERSION):
        return Check(True, f"metadata of version {VERSION}, written by {metadata['library']}")
    return Check(
        False,
        f"metadata of version {metadata['version']}, where {LIBRARY} reads version {VERSION}",
    )


def _shape(table: pd.DataFrame, invariant: Invariant, metadata: dict[str, Any]) -> Check:
    n = metadata["cells"]
    if len(table) != n or invariant.n != n:
        return Check(False, f"the table has {len(table)} rows where {n} cells were released")
    bad = ~np.isfinite(table[RELEASED].to_numpy(dtype=np.float64))
    if bad.any():
        return Check(False, f"row {int(np.argmax(bad)) + 1} of the table holds no finite number")
    return Check(True, f"{n:,} cells, each with a number")


def _totals(table: pd.DataFrame, metadata: dict[str, Any], invariant: Invariant) -> Check:
    released = table[RELEASED].to_numpy(dtype=np.float64)
    stored = metadata["invariants"]
    published, seen = np.asarray(stored["values"], dtype=np.float64), totals_of(invariant, released)
    exact = metadata["step"] is not None
    slack = np.zeros_like(seen) if exact else slack_of(invariant, released)
    others = ~rows_of_zeros(invariant, _zeros(metadata))
    bad = np.flatnonzero(~(np.abs(seen - published) <= slack) & others)
    if bad.size == 0:
        how = "equality" if exact else "equality up to rounding"
        return Check(True, f"{np.count_nonzero(others):,} totals hold, with {how}")
    texts = [
        f"{_called(stored, i)} sums to {float(seen[i])!r}, published as {float(published[i])!r}"
        for i in bad[:_SHOWN]
    ]
    more = f", and {bad.size - _SHOWN} more totals differ" if bad.size > _SHOWN else ""
    return Check(False, ", ".join(texts) + more)


def _zeros(metadata: dict[str, Any]) -> np.ndarray:
    return as_mask(metadata.get("structural_zeros"), metadata["cells"])


def _filled(table: pd.DataFrame, zeros: np.ndarray) -> Check:
    """Cells that can only be 0 are."""
    wrong = np.flatnonzero(zeros & (table[RELEASED].to_numpy(dtype=np.float64) != 0))
    if wrong.size == 0:
        count = np.count_nonzero(zeros)
        which = "1 cell that can only be 0 is 0"
        return Check(True, which if count == 1 else f"{count:,} cells that can only be 0 are 0")
    labels = table.drop(columns=RELEASED).astype(str)
    called = [" / ".join(labels.iloc[row]) for row in wrong[:_SHOWN]]
    texts = [
        f"row {row + 1}{f' ({name})' if name else ''}"
        for row, name in zip(wrong[:_SHOWN].tolist(), called, strict=True)
    ]
    more = f" and {wrong.size - _SHOWN} more" if wrong.size > _SHOWN else ""
    return Check(False, f'"{RELEASED}" is not 0 in {", ".join(texts)}{more}, which can only be 0')


def _moved(table: pd.DataFrame, metadata: dict[str, Any]) -> str | None:
    """The columns by which all totals hold whatever the order of the rows; None for none."""
    stored, labels = metadata["invariants"], table.drop(columns=RELEASED).astype(str)
    zeros = {f"structural zero {i}" for i in metadata.get("structural_zeros", ())}
    values = zip(stored["names"] or (), stored["values"], strict=False)
    published = pd.Series({name: value for name, value in values if name not in zeros}, dtype=float)
    released = table[RELEASED].to_numpy(dtype=np.float64)
    slack = 0.0 if metadata["step"] is not None else 1e-12 * np.abs(released).sum()
    names = list(labels)
    # a group is called by one column, or by the first ones (and the last, of counts) together
    tried = [[name] for name in names] + [names[:k] for k in range(2, len(names) + 1)]
    for columns in tried + [[*names[:k], names[-1]] for k in range(2, len(names) - 1)]:
        called = labels[columns[0]]
        for name in columns[1:]:
            called = called + ", " + labels[name]
        sums = pd.Series(released).groupby(called.to_numpy()).sum()
        if set(sums.index) == set(published.index):
            off = np.abs(sums - published.reindex(sums.index))
            if np.all(off <= slack):
                return " and ".join(f'"{name}"' for name in columns)
    return None


def _printed(
    printed: pd.DataFrame | None,
    table: pd.DataFrame,
    metadata: dict[str, Any],
    invariant: Invariant,
) -> Check:
    """The table for print: of the same cells, whole, nonnegative, with the same totals."""
    if printed is None:
        return Check(True, "no print file: the table for print is not beside this one", True)
    labels, own = (t.drop(columns=RELEASED).astype(str) for t in (table, printed))
    if not labels.equals(own):
        return Check(False, "the table for print has other cells than the release")
    z = printed[RELEASED].to_numpy(dtype=np.float64)
    odd = np.flatnonzero(~((z >= 0) & (z == np.rint(z))))
    if odd.size:
        row = int(odd[0]) + 1
        return Check(False, f"row {row} of the table for print is no whole number of at least 0")
    stored = metadata["invariants"]
    published, seen = np.asarray(stored["values"], dtype=np.float64), totals_of(invariant, z)
    bad = np.flatnonzero(seen != published)
    if bad.size:
        names = ", ".join(_called(stored, i) for i in bad[:_SHOWN])
        return Check(False, f"the table for print has another {names}")
    if digest(printed) != metadata["publishable"]["sha256"]:
        return Check(False, "the table for print is not the one made: its SHA-256 differs")
    return Check(True, "table for print: whole, nonnegative, the same totals (SHA-256)")


def _flat(counts: Any, table: pd.DataFrame) -> Any:
    """Counts (n,) of a table of several columns: row after row, each with all of its columns."""
    if isinstance(counts, pd.DataFrame) and _COLUMN in table:
        wanted = table[_COLUMN].drop_duplicates().astype(str).tolist()
        missing = [name for name in wanted if name not in counts]
        if missing:
            raise ValueError(
                f'`counts` has no column "{missing[0]}". The release is of {", ".join(wanted)}: '
                "give a table with these columns, a row for each of its rows, in its order."
            )
        counts = counts[wanted]
    if np.ndim(counts) != 2:
        return counts
    array = np.asarray(counts)
    if array.size != len(table):
        raise ValueError(
            f"`counts` has {array.shape[0]} rows of {array.shape[1]} columns where {len(table)} "
            "cells were released. Give the counts that were released, row after row, each with all "
            "of its columns."
        )
    return array.ravel()


def _counts(counts: Any, metadata: dict[str, Any], invariant: Invariant) -> Check:
    true = as_counts(counts, invariant.n)
    stored = metadata["invariants"]
    published, seen = np.asarray(stored["values"], dtype=np.float64), totals_of(invariant, true)
    bad = np.flatnonzero(np.abs(seen - published) > slack_of(invariant, true))
    if bad.size == 0:
        return Check(True, "the counts given have the published totals")
    names = ", ".join(_called(stored, i) for i in bad[:_SHOWN])
    more = f" and {bad.size - _SHOWN} more" if bad.size > _SHOWN else ""
    return Check(False, f"the counts given are not those released: {names}{more} differs")


def _called(stored: dict[str, Any], row: int) -> str:
    names = stored["names"]
    return f"total {row}" if names is None else f'total "{names[row]}"'
