"""What a ledger refuses: another table, another unit of privacy, too large a cost, a loose end."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from cdp_views.releases.budget import accounts
from cdp_views.releases.budget.accounts import Price
from cdp_views.releases.budget.cost import Cost
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.budget.sentences import amount

_STACKED = "column"  # what tells cells of several count columns apart, in a table of one file


def refuse_table(database: sqlite3.Connection, path: Path, cost: Cost) -> None:
    """A table of other labels, or other count columns of this one."""
    rows = database.execute("SELECT name, cells, sha256 FROM columns").fetchall()
    known = {name: (cells, seen) for name, cells, seen in rows}
    shared = [name for name in cost.columns if name in known]
    other = [name for name in shared if known[name] != (cost.cells, cost.columns[name])]
    if other:
        cells, seen = known[other[0]]
        stacked = (_STACKED in known) != (_STACKED in cost.columns)
        if cells != cost.cells and (stacked or seen == cost.columns[other[0]]):
            refuse_budget(database, path, cost.price)  # that would have to be mended too
            raise ValueError(_of_columns(database, path, cells, cost.cells))
        raise ValueError(
            f"`{path}` is the ledger of another table: its cells have other labels in "
            f'"{other[0]}". Name the ledger of this table, or create one.'
        )
    if known and not shared:
        columns = ", ".join(f'"{name}"' for name in known)
        raise ValueError(
            f"`{path}` knows its table by the labels in {columns}, and this release has none of "
            "these. Publish one of them as a name of the cells."
        )


def _of_columns(database: sqlite3.Connection, path: Path, then: int, now: int) -> str:
    sources = database.execute("SELECT DISTINCT source FROM releases WHERE source IS NOT NULL")
    named = "; ".join(name for (name,) in sources)
    return (
        f"`{path}` holds releases of other count columns together{f' ({named})' if named else ''}: "
        f"of {then} cells, where this one has {now}. What releases of different sets of columns "
        "cost together is not known here. Release the same columns together, or divide the budget: "
        "a ledger for each set of columns, whose epsilons add up for a person in both."
    )


def refuse_unit(database: sqlite3.Connection, path: Path, cost: Cost) -> None:
    """Another unit of privacy."""
    row = database.execute("SELECT unit, unit_key FROM releases LIMIT 1").fetchone()
    if row is not None and row[1] != cost.unit_key:
        raise ValueError(
            f'`{path}` counts budget for the unit "{row[0]}", and this release protects '
            f'"{cost.unit}". Costs add up for one unit of privacy only.'
        )


def refuse_budget(database: sqlite3.Connection, path: Path, price: Price) -> list[Price]:
    """A cost that exceeds what is left; else all costs, with this one."""
    prices = prices_in(database)
    epsilon, delta = database.execute("SELECT epsilon, delta FROM budget").fetchone()
    if not accounts.fits([*prices, price], epsilon, delta):
        rest = accounts.left(prices, epsilon, delta)
        raise ValueError(
            f"`{path}` has {amount(rest, delta)} left of epsilon {epsilon:g}, delta {delta:g}; "
            f"this release costs epsilon {price.epsilon:g}, delta {price.delta:g}. Nothing was "
            f"spent. {accounts.way_out(rest, price)}"
        )
    return [*prices, price]


def loose_ends(
    database: sqlite3.Connection, path: Path, request: str, output: Path | None
) -> list[str]:
    """A sentence for each unfinished release of another request; one of this output is refused.

    Args:
        database: of the ledger.
        path: of it.
        request: of the new release.
        output: where that goes.

    Raises:
        ValueError: an unfinished release goes to the same place.
    """
    said = []
    for number, name, asked, goes_to, sentence in unfinished_in(database, path):
        if asked == request or not Reservation.named(path, name).has_secret:
            continue
        if output is not None and goes_to == str(output.absolute()):
            raise ValueError(f"`{output}` is that of release {number}. {sentence} Nothing spent.")
        said.append(sentence)
    return said


def unfinished_in(
    database: sqlite3.Connection, path: Path
) -> list[tuple[int, str, str, str | None, str]]:
    """Of each release that is paid for and not saved: number, name, request, output, a sentence."""
    rows = database.execute(
        "SELECT number, reservation, request, output, reserved, epsilon, design FROM releases "
        "WHERE completed IS NULL ORDER BY number"
    ).fetchall()
    found = []
    for number, name, request, output, reserved, epsilon, design in rows:
        told, own = json.loads(design), Reservation.named(path, name)
        what = (
            f"Release {number} (epsilon {epsilon:g}, {told['view']} view of {told['noise']} noise, "
            f"{reserved[:16].replace('T', ' ')} UTC"
            + (f", to {output}" if output is not None else "")
            + ")"
        )
        if own.has_secret:
            sentence = (
                f"{what} is paid for and unfinished: repeat its command to finish it at no further "
                f"cost, or delete `{own.path}` to give it up."
            )
        else:
            sentence = f"{what} was given up: its secret is gone, its cost stays spent."
        found.append((number, name, request, output, sentence))
    return found


def prices_in(database: sqlite3.Connection) -> list[Price]:
    """What each release cost."""
    rows: Sequence[tuple[float, float, float | None]] = database.execute(
        "SELECT epsilon, delta, mu FROM releases ORDER BY number"
    ).fetchall()
    return [Price(*row) for row in rows]
