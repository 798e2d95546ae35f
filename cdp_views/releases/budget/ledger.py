"""What the releases of one table have spent: written down before any output exists."""

import hmac
import json
import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from cdp_views import _checks
from cdp_views.releases.budget import accounts, checks, ledger_file, sentences
from cdp_views.releases.budget.accounts import Left, Spent
from cdp_views.releases.budget.cost import Cost, together
from cdp_views.releases.budget.earlier import Exact, distinct, hashes, refuse_changed, unknown
from cdp_views.releases.budget.ledger_file import reading, writing
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.noise.secret import Secret, fresh_secret


@final
class Ledger:
    """A file that says what the releases of one table cost, and refuses what exceeds the budget.

    (ε, δ) of all releases together ≤ budget, relative to all totals that they publish: Normal noise
    composes in closed form, μ = √Σμ², all else adds up; see `accounts`. A cost is in the file
    before the noise is drawn, so a killed release is paid for; the same call on bit-identical
    input then resumes it, with the same noise and no further cost. A corrected figure is a new
    release with its own cost; where it changes an exact total of an earlier release it is refused
    until `corrected` says so. The file holds no count, no total and no noise, but hashes of totals
    (keyed with the secret until they are published). Two processes may use it at once. The secret
    of an unfinished release lies beside it, `FILE.….secret`, for the owner's eyes only, and is
    destroyed when the release is saved.

    Sizes of later releases may be chosen in view of earlier ones where all noise is Normal (the
    composition of Gaussian differential privacy is a filter) or none is (basic composition is one).
    Where both are mixed, that is not proved: then decide on noises and sizes beforehand.

    Args:
        path: a ledger that `Ledger.create` made.
        announce: called with a sentence before each spending.
        output: where the next release goes: refused where an unfinished one goes there too.

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
        self,
        path: str | PathLike[str],
        *,
        announce: Callable[[str], None] | None = None,
        output: str | PathLike[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._announce = announce
        self._output = None if output is None else Path(output)
        ledger_file.bring_up_to_date(self.path)
        with reading(self.path) as database:
            self.epsilon, self.delta = database.execute(
                "SELECT epsilon, delta FROM budget"
            ).fetchone()
        if Reservation.all_of(self.path):
            with writing(self.path) as database:
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
        ledger_file.create(target, float(epsilon), float(delta))
        return cls(target)

    @property
    def entries(self) -> pd.DataFrame:
        """One row for each release, unfinished ones too: they are paid for; scales in counts."""
        with reading(self.path) as database:
            rows = database.execute(
                "SELECT number, reserved, completed, counted, corrected, epsilon, delta, "
                "added_totals, supersedes, design FROM releases ORDER BY number"
            ).fetchall()
        told = [json.loads(row[-1]) for row in rows]
        scales = [np.asarray(design["scale"], np.float64) for design in told]
        return pd.DataFrame(
            {
                "release": [row[0] for row in rows],
                "reserved": [row[1] for row in rows],
                "state": ["complete" if row[2] else "reserved" for row in rows],
                "view": [design["view"] for design in told],
                "noise": [design["noise"] for design in told],
                "smallest_scale": [float(scale.min()) for scale in scales],
                "largest_scale": [float(scale.max()) for scale in scales],
                "epsilon": [row[5] for row in rows],
                "delta": [row[6] for row in rows],
                "added_totals": [row[7] for row in rows],
                "corrected": [row[4] for row in rows],
                "supersedes": [row[8] or 0 for row in rows],
                "counted": [row[3] or "" for row in rows],
            }
        )

    @property
    def spent(self) -> Spent:
        """(ε, δ) of all releases together, at the budget's δ where Normal noise needs one."""
        with reading(self.path) as database:
            return accounts.spent(checks.prices_in(database), self.delta)

    @property
    def remaining(self) -> Left:
        """What a further release may cost; of Normal noise alone it may cost more."""
        with reading(self.path) as database:
            return accounts.left(checks.prices_in(database), self.epsilon, self.delta)

    @property
    def unfinished(self) -> list[str]:
        """The reservations that are not complete, by name."""
        with reading(self.path) as database:
            rows = database.execute("SELECT reservation FROM releases WHERE completed IS NULL")
            return [name for (name,) in rows]

    @property
    def loose_ends(self) -> list[str]:
        """Of each release that is paid for and not saved, how to finish it or to give it up."""
        with reading(self.path) as database:
            found = checks.unfinished_in(database, self.path.absolute())
            return [sentence for *_, sentence in found]

    def also_counts(self, counted: str) -> None:
        """Say that these words mean another thing than all words so far: neither is compared.

        Needed only where a release asks: count columns of different names are different things.

        Args:
            counted: the words, such as "households".
        """
        with writing(self.path) as database:
            for (other,) in database.execute(
                "SELECT DISTINCT counted FROM releases WHERE counted != ?", (counted,)
            ).fetchall():
                pair = sorted((counted, other))
                database.execute("INSERT OR IGNORE INTO apart VALUES (?, ?)", pair)

    def unfinished_of(self, request: str) -> list[Reservation]:
        """Reservations of this request that are not complete, each with its secret still there."""
        with reading(self.path) as database:
            return self._open(database, request)

    def _open(self, database: sqlite3.Connection, request: str) -> list[Reservation]:
        rows = database.execute(
            "SELECT number, reservation, design, added_totals, corrected, supersedes FROM releases "
            "WHERE request = ? AND completed IS NULL ORDER BY number",
            (request,),
        ).fetchall()
        prices = checks.prices_in(database)
        found = [
            Reservation(
                self.path.absolute(),
                number,
                name,
                np.asarray(json.loads(design)["scale"]),
                added,
                accounts.spent(prices[:number], self.delta),
                corrected,
                _dated(database, supersedes),
            )
            for number, name, design, added, corrected, supersedes in rows
        ]
        return [one for one in found if one.has_secret]

    def reserve(
        self,
        cost: Cost,
        bind: Callable[[Secret], str],
        request: str,
        *,
        exact: Exact,
        ready: Callable[[], None] | None = None,
        output: Path | None = None,
    ) -> tuple[Reservation, Secret]:
        """Write down what a release costs, and give it a secret; refuse what exceeds the budget.

        Where another process has reserved the same request on the same counts meanwhile, that
        reservation is returned: the cost is paid once, and the noise is the same.

        Args:
            cost: of the release.
            bind: the secret ↦ what binds it to the counts: only keyed digests of them may lie
                beside it.
            request: what was asked for; the same request on the same counts resumes.
            exact: its exact totals.
            ready: called last, while nobody else can spend; may refuse.
            output: where the release goes; left out, what the ledger was opened for.

        Raises:
            ValueError: the budget does not suffice (says what is left), another table, another
                unit of privacy, totals under which no record could move unseen, or totals that
                differ from those published before, or an unfinished release that goes to
                the same place.
        """
        output = self._output if output is None else output
        while True:
            with reading(self.path) as database:
                checks.refuse_table(database, self.path, cost)
                before = _designs(database)
            added = together(before, cost, self.path)
            seen = distinct(before, exact)
            secret = fresh_secret()
            own = Reservation.fresh(
                self.path.absolute(), len(before) + 1, cost.scale, added, Spent(np.nan, np.nan)
            )
            with writing(self.path) as database:
                if len(_designs(database)) != len(before):
                    continue  # another process was faster: look again
                self._clean(database)
                for other in self._open(database, request):
                    kept, bound = other.read()
                    if hmac.compare_digest(bind(kept), bound):
                        return other, kept
                checks.refuse_table(database, self.path, cost)
                checks.refuse_unit(database, self.path, cost)
                place = self.path.absolute()
                loose = checks.loose_ends(database, place, request, output)
                prices = checks.refuse_budget(database, self.path, cost.price)
                compared = refuse_changed(
                    database, self.path.absolute(), exact, cost.design["invariant"], seen
                )
                added = cost.totals if compared.beside else added
                if ready is not None:
                    ready()
                if self._announce is not None:
                    told = sentences.of_spending(
                        own.number,
                        cost.price,
                        accounts.left(prices, self.epsilon, self.delta),
                        self.delta,
                        added=added,
                        counted=exact.counted,
                        compared=compared,
                        unknown=unknown(database),
                    )
                    self._announce(" ".join([told, *loose]))
                # The secret first: a reservation without one could not repeat its noise.
                own.keep(secret, bind(secret))
                try:
                    self._insert(database, own, cost, request, added)
                    database.execute(
                        "UPDATE releases SET counted = ?, totals = ?, corrected = ?, "
                        "supersedes = ?, source = ?, output = ? WHERE reservation = ?",
                        (
                            exact.counted,
                            hashes(exact.own, secret.root),
                            compared.corrected,
                            compared.supersedes,
                            exact.source,
                            None if output is None else str(output.absolute()),
                            own.name,
                        ),
                    )
                except BaseException:
                    own.destroy()
                    raise
                dated = _dated(database, compared.supersedes)
            whole = accounts.spent(prices, self.delta)
            return own.known(whole, added, compared.corrected, dated), secret

    def complete(self, reservation: Reservation, totals: Iterable[bytes] | None) -> None:
        """The output is in its place, so its exact totals are public: note it, destroy the secret.

        Args:
            reservation: of the release.
            totals: that it publishes, as bytes; hashes of them stay in the ledger. None where
                they are not known.
        """
        noted = None if totals is None else hashes(totals)
        with writing(self.path) as database:
            database.execute(
                "UPDATE releases SET completed = ?, totals = ? "
                "WHERE reservation = ? AND completed IS NULL",
                (_now(), noted, reservation.name),
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
            "INSERT INTO releases (number, reservation, request, reserved, epsilon, delta, mu, "
            "unit, unit_key, added_totals, design) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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

    def __repr__(self) -> str:
        spent = self.spent
        return (
            f"Ledger({str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"spent epsilon={spent.epsilon:.6g}, delta={spent.delta:g})"
        )


def _designs(database: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = database.execute("SELECT design FROM releases ORDER BY number")
    return [json.loads(design) for (design,) in rows]


def _dated(database: sqlite3.Connection, number: int | None) -> tuple[int, str] | None:
    """The number of a release and its day."""
    if number is None:
        return None
    query = "SELECT reserved FROM releases WHERE number = ?"
    (reserved,) = database.execute(query, (number,)).fetchone()
    return number, str(reserved)[:10]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
