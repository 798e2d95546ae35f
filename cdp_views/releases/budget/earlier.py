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
    """

    counted: str | None
    values: Callable[[dict[str, Any]], list[bytes]]
    own: list[bytes]
    corrected: bool

    @classmethod
    def of(
        cls, counts: np.ndarray, invariant: Invariant, *, counted: str | None, corrected: bool
    ) -> "Exact":
        """Those of counts (n,)."""

        def values(stored: dict[str, Any]) -> list[bytes]:
            return as_bytes(totals_of(geometry.from_json(stored), counts))

        return cls(counted, values, as_bytes(totals_of(invariant, counts)), corrected)


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


def refuse_changed(
    database: sqlite3.Connection,
    ledger: Path,
    exact: Exact,
    own: dict[str, Any],
    seen: dict[str, list[bytes]],
) -> int:
    """How many totals of earlier releases differ for these counts; refused unless that is said.

    The newest release of each kind of totals counts. Where that of its own kind has the same ones,
    a release shows nothing new. Else all are compared, whether finer or coarser: where they
    differ, the counts were changed, and exact totals show by how much.

    Args:
        database: of the ledger, in a transaction.
        ledger: its path.
        exact: of the new release.
        own: its invariant, as the ledger keeps it.
        seen: what `distinct` found.

    Raises:
        ValueError: some differ, and `exact.corrected` does not say so.
    """
    rows = database.execute(
        "SELECT number, reservation, completed, counted, design, totals FROM releases "
        "WHERE totals IS NOT NULL ORDER BY number"
    ).fetchall()
    newest: dict[str, tuple[int, int, int, bool]] = {}
    for number, name, completed, counted, design, totals in rows:
        if exact.counted is not None and counted is not None and counted != exact.counted:
            continue
        key = b""
        if completed is None:
            reserved = Reservation.named(ledger, name)
            if not reserved.has_secret:
                continue  # given up: it was not saved, and cannot be
            key = reserved.read()[0].root
        kind = json.dumps(json.loads(design)["invariant"])
        now, then = json.loads(hashes(seen[kind], key)), json.loads(totals)
        changed = sum(a != b for a, b in zip(now, then, strict=True))
        newest[kind] = number, changed, len(then), completed is not None
    mine = newest.get(json.dumps(own))
    found = [one for one in newest.values() if one[1]]
    if not found or (mine is not None and mine[1] == 0):
        return 0
    if not exact.corrected:
        number, changed, of, completed = mine or found[0]
        done = "published" if completed else "is about to publish"
        which = f"{changed} of the {of}" if of > 1 else "some of the"  # of parts: all as one
        raise ValueError(
            f"`{ledger}`: {which} exact totals that release {number} {done} are "
            "others by these counts, and the change would be public to the last unit: no noise "
            "covers it. Where a figure was corrected, say so (corrected=True, --corrected); where "
            "something else was counted, say what (counted=, --counted). Nothing was spent."
        )
    return max(changed for _, changed, _, _ in found)


def unknown(database: sqlite3.Connection) -> bool:
    """Whether totals of some release were not noted, as in a ledger of version 1."""
    query = "SELECT COUNT(*) FROM releases WHERE totals IS NULL"
    return bool(database.execute(query).fetchone()[0])
