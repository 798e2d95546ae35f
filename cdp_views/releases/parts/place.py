"""Where a release in parts is while it is made, and how it gets its name."""

import os
import shutil
from pathlib import Path
from typing import Any

from cdp_views.releases.budget.ledger import Ledger
from cdp_views.releases.budget.lock import alone
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.metadata import dump
from cdp_views.releases.parts.released import ABOUT, ReleasedParts, read_parts
from cdp_views.releases.places import sync_file, sync_folder

_PATIENCE = 10  # seconds, for another process to take its last step


def private_ledger(hidden: Path, request: str, epsilon: float, delta: float) -> Ledger:
    """A ledger of this release alone, which makes it as safe against kills as any other."""
    path = hidden / "ledger"
    if path.exists() and not Ledger(path).unfinished and len(Ledger(path).entries):
        shutil.rmtree(hidden)  # of a release that is done: a kill came before this
    if not path.exists():
        hidden.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return Ledger.create(path, epsilon=epsilon, delta=delta)
        except FileExistsError:
            pass  # another process began the same release a moment ago
    ledger = Ledger(path)
    if len(ledger.unfinished) != len(ledger.unfinished_of(request)):
        raise ValueError(
            f"`{hidden}` holds an unfinished release of another design or table. Finish that one "
            "by the same call, or remove the folder to give it up."
        )
    return ledger


def put_in_place(release: ReleasedParts, out: Path, pages: dict[str, str]) -> None:
    """Give the complete folder its name, with the metadata and pages in it."""
    made = release.folder
    for stray in made.rglob(".*"):  # of workers that were killed while they wrote
        stray.unlink()
    for name, text in {ABOUT: dump(release.metadata), **pages}.items():
        (made / name).write_text(text, encoding="utf-8")
        sync_file(made / name)
    sync_folder(made)
    out.parent.mkdir(parents=True, exist_ok=True)
    refuse_existing(out)
    os.rename(made, out)
    sync_folder(out.parent)


def refuse_existing(out: Path) -> None:
    """A release is never overwritten."""
    if out.exists():
        raise FileExistsError(
            f"`{out}` is there already, and a release is never overwritten. Name another folder."
        )


def require_unfinished(reservation: Reservation, out: Path) -> None:
    """Refuse to go on with what another process has finished since it was looked up."""
    if not reservation.has_secret:
        refuse_existing(out)
        raise BlockingIOError(
            f"Another process has made this release meanwhile, in another place than `{out}`. "
            "The same call again makes a new one, with its own noise and its own cost."
        )


def remove_unused(hidden: Path) -> None:
    """Remove a private ledger that nothing was spent in."""
    path = hidden / "ledger"
    if path.exists() and not len(Ledger(path).entries):
        shutil.rmtree(hidden, ignore_errors=True)


def left_by_a_kill(
    out: Path, hidden: Path, ledger: Ledger | None, asked: dict[str, Any], records: int
) -> ReleasedParts:
    """The release whose folder is in its place, if it is the one asked for and only its last step
    is missing.
    """
    there = ledger is None and (hidden / "ledger").exists()
    found = Ledger(hidden / "ledger") if there else ledger
    try:
        told = read_parts(out).metadata
        totals = told.get("totals_fingerprint")
        same = all(told.get(key) == value for key, value in asked.items())
        same &= told["neighbours"].get("records", records) == records
        name = told["reservation"] if same else None
    except (OSError, ValueError):
        name = totals = None
    if found is None or name not in found.unfinished:
        if ledger is None and (found is None or (len(found.entries) and not found.unfinished)):
            shutil.rmtree(hidden, ignore_errors=True)  # the kill came after the last step
        refuse_existing(out)
    assert found is not None
    own = Reservation.named(found.path.absolute(), str(name))
    with alone(own.path, str(out), patience=_PATIENCE):
        found.complete(own, None if totals is None else [bytes.fromhex(totals)])
    shutil.rmtree(hidden, ignore_errors=True)
    return read_parts(out)
