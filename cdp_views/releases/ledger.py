"""What the releases of one table have spent: written down before any output exists."""

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from cdp_views import _checks
from cdp_views.releases import accounts
from cdp_views.releases.accounts import Left, Price, Spent
from cdp_views.releases.cost import Cost, together
from cdp_views.releases.places import place_new, sync_folder
from cdp_views.releases.reservation import Reservation
from cdp_views.releases.secret import Secret, fresh_secret

VERSION = 1
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


@final
class Ledger:
    """A file that says what the releases of one table cost, and refuses what exceeds the budget.

    (ε, δ) of all releases together ≤ budget, relative to all totals that they publish: Normal noise
    composes in closed form, μ = √Σμ², all else adds up; see `accounts`. A cost is in the file
    before the noise is drawn, so a killed release is paid for; the same call on bit-identical
    input then resumes it, with the same noise and no further cost. A corrected figure is a new
    release with its own cost. The file holds no count, no total and no noise. Two processes may use
    it at once. The secret of an unfinished release lies beside it, `FILE.….secret`, for the owner's
    eyes only, and is destroyed when the release is saved.

    Sizes of later releases may be chosen in view of earlier ones where all noise is Normal (the
    composition of Gaussian differential privacy is a filter) or none is (basic composition is one).
    Where both are mixed, that is not proved: then decide on noises and sizes beforehand.

    Args:
        path: a ledger that `Ledger.create` made.
        announce: called with a sentence before each spending.

    Raises:
        FileNotFoundError: there is none.
        ValueError: no ledger, or one of another version.

    Example:
        >>> import cdp_views as cdp, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "budget.ledger")
        >>> ledger = cdp.Ledger.create(path, epsilon=2.0, delta=1e-6)
        >>> ledger.spent.epsilon, ledger.remaining.epsilon
        (0.0, 2.0)

    Reference: McSherry 2009 (privacy budgets); Rogers, Roth, Ullman and Vadhan 2016 (filters);
    Smith and Thakurta 2022 (Gaussian differential privacy, fully adaptive).
    """

    def __init__(
        self, path: str | PathLike[str], *, announce: Callable[[str], None] | None = None
    ) -> None:
        self.path = Path(path)
        self._announce = announce
        with self._reading() as database:
            self.epsilon, self.delta = database.execute(
                "SELECT epsilon, delta FROM budget"
            ).fetchone()
        if Reservation.all_of(self.path):
            with self._writing() as database:
                self._clean(database)

    @classmethod
    def create(cls, path: str | PathLike[str], *, epsilon: float, delta: float = 0.0) -> "Ledger":
        """A new ledger with this budget; a file that is there is never overwritten.

        Args:
            path: of the new file.
            epsilon: what all releases may cost together (nats), above 0.
            delta: the same of δ, between 0 and 1; 0 admits pure noise only.
        """
        _checks.positive("epsilon", epsilon)
        if not 0 <= delta < 1:
            raise ValueError(f"`delta` must be at least 0 and below 1; got {delta}.")
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        os.close(handle)
        try:
            with closing(sqlite3.connect(scratch, isolation_level=None)) as database:
                database.execute(f"PRAGMA application_id = {_APPLICATION}")
                database.execute(f"PRAGMA user_version = {VERSION}")
                database.executescript(_TABLES)
                row = (float(epsilon), float(delta), _library())
                database.execute("INSERT INTO budget VALUES (?, ?, ?)", row)
            place_new(Path(scratch), target)
        finally:
            Path(scratch).unlink(missing_ok=True)
        sync_folder(target.parent)
        return cls(target)

    @property
    def entries(self) -> pd.DataFrame:
        """One row for each release, unfinished ones too: they are paid for."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT number, reserved, completed, epsilon, delta, added_totals, design "
                "FROM releases ORDER BY number"
            ).fetchall()
        told = [json.loads(row[-1]) for row in rows]
        return pd.DataFrame(
            {
                "release": [row[0] for row in rows],
                "reserved": [row[1] for row in rows],
                "state": ["complete" if row[2] else "reserved" for row in rows],
                "view": [design["view"] for design in told],
                "noise": [design["noise"] for design in told],
                "epsilon": [row[3] for row in rows],
                "delta": [row[4] for row in rows],
                "added_totals": [row[5] for row in rows],
            }
        )

    @property
    def spent(self) -> Spent:
        """(ε, δ) of all releases together, at the budget's δ where Normal noise needs one."""
        with self._reading() as database:
            return accounts.spent(_prices(database), self.delta)

    @property
    def remaining(self) -> Left:
        """What a further release may cost; of Normal noise alone it may cost more."""
        with self._reading() as database:
            return accounts.left(_prices(database), self.epsilon, self.delta)

    @property
    def unfinished(self) -> list[str]:
        """The reservations that are not complete, by name."""
        with self._reading() as database:
            rows = database.execute("SELECT reservation FROM releases WHERE completed IS NULL")
            return [name for (name,) in rows]

    def open(self, request: str) -> list[Reservation]:
        """Reservations of this request that are not complete, each with its secret still there."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT number, reservation, design, added_totals FROM releases "
                "WHERE request = ? AND completed IS NULL ORDER BY number",
                (request,),
            ).fetchall()
            prices = _prices(database)
        found = [
            Reservation(
                self.path.absolute(),
                number,
                name,
                np.asarray(json.loads(design)["scale"]),
                added,
                accounts.spent(prices[:number], self.delta),
            )
            for number, name, design, added in rows
        ]
        return [one for one in found if one.has_secret]

    def reserve(
        self, cost: Cost, bind: Callable[[Secret], str], request: str
    ) -> tuple[Reservation, Secret]:
        """Write down what a release costs, and give it a secret; refuse what exceeds the budget.

        Args:
            cost: of the release.
            bind: the secret ↦ what binds it to the counts: only keyed digests of them may lie
                beside it.
            request: what was asked for; the same request on the same counts resumes.

        Raises:
            ValueError: the budget does not suffice (says what is left), another table, another
                unit of privacy, or totals under which no record could move unseen.
        """
        while True:
            with self._reading() as database:
                before = _designs(database)
            added = together(before, cost, self.path)
            secret = fresh_secret()
            own = Reservation.fresh(
                self.path.absolute(), len(before) + 1, cost.scale, added, Spent(np.nan, np.nan)
            )
            with self._writing() as database:
                if len(_designs(database)) != len(before):
                    continue  # another process was faster: look again
                self._clean(database)
                self._check_table(database, cost)
                self._check_unit(database, cost)
                prices = [*_prices(database), cost.price]
                self._check_budget(prices, cost)
                if self._announce is not None:
                    self._announce(self._sentence(prices, cost, added))
                # The secret first: a reservation without one could not repeat its noise.
                own.keep(secret, bind(secret))
                try:
                    self._insert(database, own, cost, request, added)
                except BaseException:
                    own.destroy()
                    raise
            return own.with_spent(accounts.spent(prices, self.delta)), secret

    def complete(self, reservation: Reservation) -> None:
        """The output is in its place: note it, and destroy the secret."""
        with self._writing() as database:
            database.execute(
                "UPDATE releases SET completed = ? WHERE reservation = ? AND completed IS NULL",
                (_now(), reservation.name),
            )
        reservation.destroy()

    def _insert(
        self, database: sqlite3.Connection, own: Reservation, cost: Cost, request: str, added: int
    ) -> None:
        for name, seen in cost.columns.items():
            database.execute(
                "INSERT OR IGNORE INTO columns VALUES (?, ?, ?)", (name, cost.cells, seen)
            )
        database.execute(
            "INSERT INTO releases VALUES (?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?)",
            (
                own.number,
                own.name,
                request,
                _now(),
                *cost.price,
                cost.unit,
                cost.unit_key,
                added,
                json.dumps(cost.design),
            ),
        )

    def _check_table(self, database: sqlite3.Connection, cost: Cost) -> None:
        rows = database.execute("SELECT name, cells, sha256 FROM columns").fetchall()
        known = {name: (cells, seen) for name, cells, seen in rows}
        shared = [name for name in cost.columns if name in known]
        other = [name for name in shared if known[name] != (cost.cells, cost.columns[name])]
        if other:
            raise ValueError(
                f"`{self.path}` is the ledger of another table: its cells have other labels in "
                f'"{other[0]}". Name the ledger of this table, or create one.'
            )
        if known and not shared:
            columns = ", ".join(f'"{name}"' for name in known)
            raise ValueError(
                f"`{self.path}` knows its table by the labels in {columns}, and this release has "
                "none of these. Publish one of them as a name of the cells."
            )

    def _check_unit(self, database: sqlite3.Connection, cost: Cost) -> None:
        row = database.execute("SELECT unit, unit_key FROM releases LIMIT 1").fetchone()
        if row is not None and row[1] != cost.unit_key:
            raise ValueError(
                f'`{self.path}` counts budget for the unit "{row[0]}", and this release protects '
                f'"{cost.unit}". Costs add up for one unit of privacy only.'
            )

    def _check_budget(self, prices: list[Price], cost: Cost) -> None:
        if accounts.fits(prices, self.epsilon, self.delta):
            return
        rest = accounts.left(prices[:-1], self.epsilon, self.delta)
        way = "Release with a smaller budget." if rest.epsilon > 0 else "No further release fits."
        raise ValueError(
            f"`{self.path}` has {_amount(rest, self.delta)} left of epsilon {self.epsilon:g}, "
            f"delta {self.delta:g}; this release costs epsilon {cost.price.epsilon:g}, delta "
            f"{cost.price.delta:g}. Nothing was spent. {way}"
        )

    def _sentence(self, prices: list[Price], cost: Cost, added: int) -> str:
        rest = accounts.left(prices, self.epsilon, self.delta)
        later = added and len(prices) > 1
        adds = f" It adds {_totals(added)} to those published before." if later else ""
        own = f"epsilon {cost.price.epsilon:g}, delta {cost.price.delta:g}"
        return (
            f"Release {len(prices)} of this table costs {own}: a new release with its own cost, "
            "also where it corrects a figure of an earlier one; an exact total that was corrected "
            f"shows by how much.{adds} Afterwards "
            f"{_amount(rest, self.delta)} is left."
        )

    def _clean(self, database: sqlite3.Connection) -> None:
        """Destroy secrets that no unfinished release needs: what a kill may leave behind."""
        needed = {
            name
            for (name,) in database.execute(
                "SELECT reservation FROM releases WHERE completed IS NULL"
            )
        }
        for stale in Reservation.all_of(self.path):
            if stale.name not in needed:
                stale.destroy()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its first line."""
        with self._reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not self.path.is_file():
            raise FileNotFoundError(
                f"`{self.path}` is not there. Create it: cdp.Ledger.create(path, epsilon=, "
                "delta=), or cdp-views ledger new."
            )
        where = f"{self.path.resolve().as_uri()}?mode=rw"
        try:
            with closing(
                sqlite3.connect(where, uri=True, timeout=_PATIENCE, isolation_level=None)
            ) as database:
                database.execute("PRAGMA synchronous = FULL")
                self._check_version(database)
                yield database
        except sqlite3.OperationalError as reason:
            raise OSError(f"`{self.path}` cannot be used now ({reason}). Try again.") from None
        except sqlite3.DatabaseError as reason:
            raise ValueError(f"`{self.path}` is no ledger, or is damaged ({reason}).") from None

    def _check_version(self, database: sqlite3.Connection) -> None:
        (kind,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if kind != _APPLICATION:
            raise ValueError(f"`{self.path}` is no ledger of cdp_views. Check the path.")
        if version != VERSION:
            raise ValueError(
                f"`{self.path}` is a ledger of version {version}; {_library()} reads version "
                f"{VERSION}. Use the library that made it."
            )

    def __repr__(self) -> str:
        spent = self.spent
        return (
            f"Ledger({str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"spent epsilon={spent.epsilon:.6g}, delta={spent.delta:g})"
        )


def _prices(database: sqlite3.Connection) -> list[Price]:
    rows = database.execute("SELECT epsilon, delta, mu FROM releases ORDER BY number")
    return [Price(*row) for row in rows]


def _designs(database: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = database.execute("SELECT design FROM releases ORDER BY number")
    return [json.loads(design) for (design,) in rows]


def _amount(rest: Left, delta: float) -> str:
    text = f"epsilon {rest.epsilon:.6g}"
    if rest.epsilon_normal > rest.epsilon * (1 + 1e-9):
        text += f" ({rest.epsilon_normal:.6g} of normal noise at delta {delta:g})"
    return text


def _totals(count: int) -> str:
    return f"{count} exact total{'s' if count != 1 else ''}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _library() -> str:
    return f"cdp_views {import_module('cdp_views').__version__}"
