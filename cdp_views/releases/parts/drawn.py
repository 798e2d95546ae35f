"""One part of a release: drawn, closed, written whole; the same bits in every process."""

import hmac
import json
import os
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b, sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, final

import numpy as np

from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.noise import blocks
from cdp_views.releases.noise.secret import Secret
from cdp_views.releases.parts.part import Columns, Part, parquet, read_part, released_names
from cdp_views.releases.places import sync_file, sync_folder

TOTALS = "_totals"
_RECORDS = "records"


@final
@dataclass(frozen=True)
class Job:
    """What a worker has to know; it reads the secret where that lies.

    Args:
        source: folder of the confidential parts.
        scratch: folder beside the output, in which all is written first.
        columns: what they are for.
        view: "conditioned" or "imaged".
        noise: "discrete-laplace" or "discrete-normal".
        scale: of the noise, counts.
        request: digest of what was asked for.
        ledger: that holds the reservation.
        reservation: its name.
        bits: the generator of the noise.
    """

    source: str
    scratch: str
    columns: Columns
    view: str
    noise: str
    scale: float
    request: str
    ledger: str
    reservation: str
    bits: str

    @property
    def secret_at(self) -> Reservation:
        """Where the secret and the digests of the counts lie."""
        found = Reservation.all_of(Path(self.ledger))
        own = [one for one in found if one.name == self.reservation]
        if not own:
            raise ValueError(
                f"The secret of this release is not beside `{self.ledger}`, which every worker "
                "must be able to read. Use a folder that all of them share."
            )
        return own[0]


@final
@dataclass(frozen=True)
class Record:
    """What the metadata say of a part."""

    rows: int
    groups: int
    sha256: str
    totals_sha256: str


def bound(secret: Secret, request: str, name: str, digest: str) -> str:
    """What binds the secret to the counts of one part: a keyed hash of its file's SHA-256."""
    own = blake2b(key=secret.root, digest_size=32, person=b"part")
    own.update(json.dumps([request, name, digest]).encode())
    return own.hexdigest()


def make(job: Job, name: str) -> tuple[str, dict[str, Any]]:
    """Draw and write one part, unless it is there already and is what it was.

    Returns:
        Its name and `Record`, as a dict.

    Raises:
        ValueError: its counts are not those that the release was reserved for.
    """
    source = Path(job.source) / name
    part = read_part(source, job.columns)
    secret, digests = job.secret_at.read()
    own = bound(secret, job.request, name, part.digest)
    if not hmac.compare_digest(own, str(json.loads(digests).get(name))):
        raise ValueError(changed([str(source)]))
    known = _finished(job, name)
    if known is not None:
        return name, asdict(known)
    several = len(job.columns.counts) > 1
    splits = blocks.splits_of(job.noise, job.scale)
    draw = blocks.conditioned if job.view == "conditioned" else blocks.imaged
    totals = np.empty((len(job.columns.counts), part.sizes.size), dtype=np.int64)
    for i, column in enumerate(job.columns.counts):
        counts = part.counts[i]  # becomes the released column, in place
        if counts.size == 0:
            continue
        totals[i] = part.totals(counts)
        sizes, rows = part.drawn
        if sizes.size == 0:  # all can only be 0
            continue
        noise = draw(replace(secret, bits=job.bits), part.ids(column, several), sizes, splits)
        if rows is None:
            counts += noise
        else:
            counts[rows] += noise
        if not np.array_equal(part.totals(counts), totals[i]):
            raise ArithmeticError("a total was not kept: this must not happen, nothing was written")
    record = Record(
        part.rows, int(part.sizes.size), content_digest(part), digest_of_totals(part, totals)
    )
    _write(job, name, part, totals, record)
    return name, asdict(record)


def changed(parts: list[str]) -> str:
    """Why an unfinished release is not gone on with."""
    return (
        f"`{parts[0]}` is another file than when this release was reserved, and the same noise "
        f"on other counts would publish the change ({len(parts)} such part(s)). Restore it, byte "
        "for byte, or give the unfinished release up: a new one has its own noise and its own cost."
    )


def content_digest(part: Part) -> str:
    """SHA-256 of a released part: its labels as text and its whole numbers, row by row.

    The file may be compressed otherwise without changing it.
    """
    seen = sha256(json.dumps(part.table.column_names).encode())
    for labels in part.labels:
        labels.tell(seen)
    if part.zeros is not None:
        seen.update(np.packbits(part.zeros))
    _tell(seen, part.counts)
    return seen.hexdigest()


def _tell(seen: Any, numbers: np.ndarray) -> None:
    """Take whole numbers into a hash, in 32 bits where that is enough."""
    small = np.abs(numbers).max(initial=0) < 2**31
    kind = "<i4" if small else "<i8"
    seen.update(f"{kind} {numbers.size} ".encode())
    seen.update(np.ascontiguousarray(numbers, dtype=kind))


def digest_of_totals(part: Part, totals: np.ndarray) -> str:
    """SHA-256 of the groups' ids and their totals (columns, groups)."""
    seen = sha256(np.ascontiguousarray(part.group_ids, dtype="<u8") if part.rows else b"")
    _tell(seen, totals)
    return seen.hexdigest()


def _finished(job: Job, name: str) -> Record | None:
    """The record of a part that an earlier try wrote, if the files are still what it says."""
    place = Path(job.scratch) / _RECORDS / f"{name}.json"
    try:
        record = Record(**json.loads(place.read_text()))
        there = read_part(Path(job.scratch) / "parts" / name, job.columns, released=True)
        listed = read_totals(Path(job.scratch) / "parts", name, job.columns)
        good = content_digest(there) == record.sha256
        good &= digest_of_totals(listed, listed.counts) == record.totals_sha256
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return record if good else None


def read_totals(folder: Path, name: str, columns: Columns) -> Part:
    """The groups of a released part with their exact totals as counts, as they were written."""
    return read_part(folder / TOTALS / name, Columns(columns.counts, columns.within, ()))


def _write(job: Job, name: str, part: Part, totals: np.ndarray, record: Record) -> None:
    import pyarrow as pa

    released = part.table
    for values, column in zip(
        part.counts, released_names(job.columns.counts).values(), strict=True
    ):
        released = released.append_column(column, pa.array(values))
    groups = part.table.select(list(dict.fromkeys(job.columns.within))).take(pa.array(part.heads))
    for values, column in zip(totals, job.columns.counts, strict=True):
        groups = groups.append_column(column, pa.array(values))
    folder = Path(job.scratch) / "parts"
    _place(groups, folder / TOTALS / name)
    _place(released, folder / name)
    written = Path(job.scratch) / _RECORDS / f"{name}.json"
    written.parent.mkdir(parents=True, exist_ok=True)
    fresh = written.with_name(f".{written.name}-{token_hex(8)}")
    fresh.write_text(json.dumps(asdict(record)))
    os.replace(fresh, written)


def _place(table: Any, place: Path) -> None:
    """Write a file beside its place, then move it there: two workers may do so at once."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}-{token_hex(8)}")
    parquet().write_table(table, fresh)
    sync_file(fresh)
    os.replace(fresh, place)
    sync_folder(place.parent)
