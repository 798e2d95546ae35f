"""Whether exact totals are those that earlier releases published, told by hashes of them."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from cdp_views.invariants import Invariant
from cdp_views.releases import geometry
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.noise.closing import totals_of

_SIZE = 8  # bytes


@final
class Exact(NamedTuple):
    """The exact totals of a release, for a ledger to compare with those published before.

    Confidential: it can tell every total of the counts.

    Args:
        counted: what the counts are of, in words; None where nobody said.
        values: a design's invariant, as a ledger keeps it ↦ its totals of these counts, as bytes.
        own: the totals that this release publishes, as bytes.
        corrected: whether they may differ from those published before.
        source: the name of the count column; None where it is not known.
    """

    counted: str | None
    values: Callable[[dict[str, Any]], list[bytes]]
    own: list[bytes]
    corrected: bool
    source: str | None = None

    @classmethod
    def of(
        cls,
        counts: np.ndarray,
        invariant: Invariant,
        *,
        counted: str | None,
        corrected: bool,
        source: str | None = None,
    ) -> "Exact":
        """Those of counts (n,)."""

        def values(stored: dict[str, Any]) -> list[bytes]:
            return as_bytes(totals_of(geometry.from_json(stored), counts))

        return cls(counted, values, as_bytes(totals_of(invariant, counts)), corrected, source)


@final
class Compared(NamedTuple):
    """What the exact totals of a release are to those published before.

    Args:
        corrected: how many of an earlier release are others now.
        supersedes: the number of that release.
        beside: where nothing was compared, the words of what was counted before.
    """

    corrected: int = 0
    supersedes: int | None = None
    beside: tuple[str, ...] = ()


def as_bytes(totals: Any) -> list[bytes]:
    """Each total (k,), as the eight bytes of its float64."""
    return [value.tobytes() for value in np.asarray(totals, dtype="<f8") + 0.0]


def hashes(totals: Iterable[bytes], key: bytes = b"") -> str:
    """64 bits for each total, in JSON.

    With the secret of a release as `key` they tell nobody anything: so they stand in the ledger
    while it is unfinished. Once its totals are published no key is needed.
    """
    found = [
        blake2b(
            i.to_bytes(8, "little") + total, key=key, digest_size=_SIZE, person=b"total"
        ).hexdigest()
        for i, total in enumerate(totals)
    ]
    return json.dumps(found)


def distinct(designs: Iterable[dict[str, Any]], exact: Exact) -> dict[str, list[bytes]]:
    """What each of the earlier invariants, as JSON, adds up to for these counts."""
    kinds = {json.dumps(design["invariant"]): design["invariant"] for design in designs}
    return {text: exact.values(kind) for text, kind in kinds.items()}


@final
class _Earlier(NamedTuple):
    """A line of the ledger, beside the totals that these counts have."""

    number: int
    counted: str | None
    doubtful: bool
    changed: int
    totals: int
    published: bool


def refuse_changed(
    database: sqlite3.Connection,
    ledger: Path,
    exact: Exact,
    own: dict[str, Any],
    seen: dict[str, list[bytes]],
) -> Compared:
    """How many totals of earlier releases differ for these counts; refused unless that is said.

    The newest release of each kind of totals counts. Where that of its own kind has the same ones,
    a release shows nothing new. Else all are compared, whether finer or coarser: where they
    differ, the counts were changed, and exact totals show by how much. Nothing is compared across
    different count columns, or across words that are known to mean different things; one column
    under other words (or a column of no name) may be the same thing, so it is asked which it is.

    Args:
        database: of the ledger, in a transaction.
        ledger: its path.
        exact: of the new release.
        own: its invariant, as the ledger keeps it.
        seen: what `distinct` found.

    Raises:
        ValueError: some differ, and `exact.corrected` does not say so, or it is not clear whether
            the same thing was counted.
    """
    rows = database.execute(
        "SELECT number, reservation, completed, counted, source, design, totals FROM releases "
        "ORDER BY number"
    ).fetchall()
    apart = set(database.execute("SELECT one, other FROM apart"))
    newest: dict[str, _Earlier] = {}
    beside: dict[str, None] = {}
    comparable = False
    for number, name, completed, counted, source, design, totals in rows:
        key = b""
        if completed is None:
            reserved = Reservation.named(ledger, name)
            if not reserved.has_secret:
                continue  # given up: it was not saved, and cannot be
            key = reserved.read()[0].root
        doubtful = None not in (exact.counted, counted) and counted != exact.counted
        if doubtful and (
            (None not in (exact.source, source) and source != exact.source)
            or tuple(sorted((exact.counted or "", counted))) in apart
        ):
            beside[counted] = None
            continue
        comparable = True
        if totals is None:
            continue
        kind = json.dumps(json.loads(design)["invariant"])
        now, then = json.loads(hashes(seen[kind], key)), json.loads(totals)
        changed = sum(a != b for a, b in zip(now, then, strict=True))
        newest[kind] = _Earlier(
            number, counted, doubtful, changed, len(then), completed is not None
        )
    if not comparable:
        return Compared(beside=tuple(beside))
    mine = newest.get(json.dumps(own))
    found = [one for one in newest.values() if one.changed]
    if not found or (mine is not None and mine.changed == 0):
        return Compared()
    first = mine or next((one for one in found if one.doubtful), found[0])
    if first.doubtful:
        raise ValueError(
            f'`{ledger}` holds totals of "{first.counted}", and {_differing(first)}. Is '
            f'"{exact.counted}" the same thing? Then use that word (counted=, --counted). If it is '
            f"another thing, say so: `ledger.also_counts({exact.counted!r})`, or cdp-views ledger "
            f'also-counts {ledger} "{exact.counted}". Nothing was spent.'
        )
    if not exact.corrected:
        raise ValueError(
            f"`{ledger}`: {_differing(first)}, and the change would be public to the last unit: no "
            "noise covers it. Where a figure was corrected, say so (corrected=True, --corrected); "
            "where something else was counted, say what (counted=, --counted). Nothing was spent."
        )
    return Compared(max(one.changed for one in found), max(one.number for one in found))


def _differing(one: _Earlier) -> str:
    if one.totals > 1:
        which = f"{one.changed} of the {one.totals} exact totals"
        verb = "differs" if one.changed == 1 else "differ"
    else:  # of parts all are noted as one
        which, verb = "some of the exact totals", "differ"
    done = "published" if one.published else "is about to publish"
    return f"{which} that release {one.number} {done} {verb} by these counts"


def unknown(database: sqlite3.Connection) -> bool:
    """Whether totals of some release were not noted, as in a ledger of version 1."""
    query = "SELECT COUNT(*) FROM releases WHERE totals IS NULL"
    return bool(database.execute(query).fetchone()[0])
