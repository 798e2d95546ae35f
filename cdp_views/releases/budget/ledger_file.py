"""The file of a ledger: its tables, its version, and transactions on it."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path

from cdp_views.releases.places import place_new, sync_folder

VERSION = 3
LIBRARY = f"cdp_views {import_module('cdp_views').__version__}"
_APPLICATION = 0x63647076  # "cdpv"
_PATIENCE = 60  # seconds to wait for another process that is spending
_TABLES = """
CREATE TABLE budget (epsilon REAL NOT NULL, delta REAL NOT NULL, library TEXT NOT NULL);
CREATE TABLE columns (name TEXT PRIMARY KEY, cells INTEGER NOT NULL, sha256 TEXT NOT NULL);
CREATE TABLE releases (
    number INTEGER PRIMARY KEY,
    reservation TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    reserved TEXT NOT NULL,
    completed TEXT,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    mu REAL,
    unit TEXT NOT NULL,
    unit_key TEXT NOT NULL,
    added_totals INTEGER NOT NULL,
    design TEXT NOT NULL
);
"""
# Version 2 knows what was counted, hashes of the exact totals, and how many differ from earlier
# ones. A line that a ledger of version 1 has had before is without: nothing is known there.
_SINCE_2 = (
    "ALTER TABLE releases ADD COLUMN counted TEXT",
    "ALTER TABLE releases ADD COLUMN totals TEXT",
    "ALTER TABLE releases ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0",
)
# Version 3 knows the count column, where the output goes, which release a corrected one replaces,
# and which words mean different things: of a ledger of version 2 all that are in it do.
_SINCE_3 = (
    "ALTER TABLE releases ADD COLUMN source TEXT",
    "ALTER TABLE releases ADD COLUMN output TEXT",
    "ALTER TABLE releases ADD COLUMN supersedes INTEGER",
    "CREATE TABLE apart (one TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY (one, other))",
    """INSERT INTO apart SELECT DISTINCT a.counted, b.counted FROM releases a, releases b
    WHERE a.counted < b.counted""",
)
_STEPS = {2: _SINCE_2, 3: _SINCE_3}


def create(target: Path, epsilon: float, delta: float) -> None:
    """A new file with this budget, whole or not at all; nothing is overwritten."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    os.close(handle)
    try:
        with closing(sqlite3.connect(scratch, isolation_level=None)) as database:
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.executescript(_TABLES)
            _raise_from(database, 1)
            database.execute("INSERT INTO budget VALUES (?, ?, ?)", (epsilon, delta, LIBRARY))
        place_new(Path(scratch), target)
    finally:
        Path(scratch).unlink(missing_ok=True)
    sync_folder(target.parent)


def bring_up_to_date(path: Path) -> None:
    """Add what a ledger of an earlier version lacks, in one transaction; nothing is lost."""
    with reading(path, oldest=1) as database:
        if _version(database) == VERSION:
            return
    with writing(path, oldest=1) as database:
        _raise_from(database, _version(database))  # another process may have been faster


def _raise_from(database: sqlite3.Connection, version: int) -> None:
    for later in range(version + 1, VERSION + 1):
        for step in _STEPS[later]:
            database.execute(step)
        database.execute(f"PRAGMA user_version = {later}")


@contextmanager
def writing(path: Path, *, oldest: int = VERSION) -> Iterator[sqlite3.Connection]:
    """One transaction that holds the write lock from its first line."""
    with reading(path, oldest=oldest) as database:
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")


@contextmanager
def reading(path: Path, *, oldest: int = VERSION) -> Iterator[sqlite3.Connection]:
    """The database, refused where it is no ledger of a version that is known.

    Args:
        path: of the ledger.
        oldest: version that is accepted.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be used now.
        ValueError: no ledger, a damaged one, or one of another version.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"`{path}` is {'a folder' if path.is_dir() else 'not there'}. Create a ledger: "
            "cdp.Ledger.create(path, …), or cdp-views ledger new."
        )
    where = f"{path.resolve().as_uri()}?mode=rw"
    try:
        with closing(
            sqlite3.connect(where, uri=True, timeout=_PATIENCE, isolation_level=None)
        ) as database:
            database.execute("PRAGMA synchronous = FULL")
            _check_version(database, path, oldest)
            yield database
    except sqlite3.OperationalError as reason:
        raise OSError(f"`{path}` cannot be used now ({reason}). Try again.") from None
    except sqlite3.DatabaseError as reason:
        raise ValueError(f"`{path}` is no ledger, or is damaged ({reason}).") from None


def _check_version(database: sqlite3.Connection, path: Path, oldest: int) -> None:
    (kind,) = database.execute("PRAGMA application_id").fetchone()
    if kind != _APPLICATION:
        raise ValueError(f"`{path}` is no ledger of cdp_views. Check the path.")
    version = _version(database)
    if not oldest <= version <= VERSION:
        raise ValueError(
            f"`{path}` is a ledger of version {version}; {LIBRARY} reads versions up to "
            f"{VERSION}. Use the library that made it, or a newer one."
        )


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])
