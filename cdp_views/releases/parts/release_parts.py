"""One private table from one confidential table that lies in many Parquet files."""

import hmac
import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cdp_views import _checks
from cdp_views.invariants import Totals
from cdp_views.invariants import totals as totals_of
from cdp_views.neighbours import Contributions, Relocations
from cdp_views.releases.admission import checked_budget, doubts_of_budget
from cdp_views.releases.budget.accounts import Price
from cdp_views.releases.budget.cost import Cost
from cdp_views.releases.budget.earlier import Exact
from cdp_views.releases.budget.ledger import Ledger
from cdp_views.releases.budget.lock import alone
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.mechanism import NOISES, NoiseName, View, check_mechanism
from cdp_views.releases.metadata import LIBRARY
from cdp_views.releases.noise.generator import check_generator
from cdp_views.releases.noise.secret import DRAW, Secret
from cdp_views.releases.parts.about import describe_parts
from cdp_views.releases.parts.drawn import Job, bound, changed, make
from cdp_views.releases.parts.page import PAGE, folder_page
from cdp_views.releases.parts.part import Columns, check_schemas, parts_of
from cdp_views.releases.parts.place import (
    left_by_a_kill,
    private_ledger,
    put_in_place,
    refuse_existing,
    remove_unused,
    require_unfinished,
)
from cdp_views.releases.parts.released import ReleasedParts, read_parts
from cdp_views.releases.parts.scan import Scan, require_whole_groups, scan
from cdp_views.releases.parts.unit import (
    Contribution,
    kinds_of,
    listed,
    scale_of,
    standing_for_all,
    together,
)
from cdp_views.releases.parts.workers import Workers, check_workers
from cdp_views.releases.wording import unit_of_count

Progress = Callable[[int, int, str], None]


def release_parts(
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    counts: str | Sequence[str],
    within: str | Sequence[str],
    names: str | Sequence[str] = (),
    zeros: str | None = None,
    view: View,
    noise: NoiseName | None = None,
    epsilon: float,
    delta: float = 0.0,
    records: int = 1,
    contribution: Contribution = None,
    per_column: bool = False,
    accept_exact: bool = False,
    bits: Literal["threefry", "aes256"] = "threefry",
    ledger: Ledger | None = None,
    corrected: bool = False,
    counted: str | None = None,
    about: bool = True,
    workers: int = 1,
    client: Any = None,
    progress: Progress | None = None,
) -> ReleasedParts:
    """Publish y = q + X of a table in many Parquet files, one part in memory at a time.

    Law, support and guarantee are those of `cdp.release` with whole noise: every total of a count
    column within a group is exact, with `==`. Noise is a function of the release's secret and of
    the labels of the cells, so that the result is the same, bit for bit, for any number of workers
    and however the groups are dealt into parts.

    Everything is written in a hidden folder beside `out`, which appears whole or not at all. After
    a kill the same call goes on: with the same noise, at no further cost, and only with the parts
    that are not finished. It refuses parts whose counts were changed meanwhile.

    Args:
        source: folder of Parquet files with the same columns, one row a cell (or one cell for each
            of `counts`). All rows of a group must lie in one file.
        out: new folder for the parts (of the same names), their exact totals and the metadata.
        counts: columns of true counts, whole and at least 0; each has totals of its own.
        within: columns whose values together name a group.
        names: further public columns, which tell the rows of a group apart.
        zeros: a public column, true (or 1) for rows that are 0 whatever the data: structural zeros,
            as in `cdp.release`. They get no noise, no record moves there, the column is published.
        view: "conditioned" or "imaged".
        noise: left out, "discrete-laplace" where `delta` is 0, else "discrete-normal".
        epsilon: privacy budget (nats), above 0.
        delta: its δ; 0 for discrete Laplace noise.
        records: how many records move at once, within a group and column: the unit of privacy.
        contribution: with several count columns, "disjoint" states that a person is counted in one
            of them only; else (kinds, columns), what one person of each kind adds in each column
            (pure noise only), as in `cdp.relocations`. It is published.
        per_column: `epsilon` is that of each column alone; the release states, and the ledger
            counts, that of all together (the same where contributions are disjoint).
        accept_exact: publish also where a group has one cell (that can be other than 0), which is
            then exact.
        bits: the generator of the noise, as in `cdp.release`.
        ledger: of this table; without one, a ledger of this release alone lies in the hidden folder
            until it is done.
        corrected: go on where exact totals differ from those that earlier releases of the ledger
            published: the change becomes public to the last unit.
        counted: what was counted, such as "persons"; left out, the names of `counts`.
        about: write `_about.html` too, by which anybody checks totals and reads margins offline.
        workers: processes.
        client: a Dask client instead; all of its workers must see the folders and the ledger.
        progress: called with parts done, parts in all, and a word.

    Returns:
        The release, which reads a part at a time.

    Raises:
        ValueError: a group in two parts, rows of the same labels, missing entries, counts that are
            not whole, a count where `zeros` says that there is none, an unreadable file, parts of
            different types, a budget that does not suffice, changed counts, other exact totals than
            those published before. Each says where.
        BlockingIOError: another process makes this release now.
        FileExistsError: `out` is there: a release is never overwritten.
        UnsupportedError: real noise, whose rounding needs the whole table: `cdp.release`.

    Example:
        >>> import cdp_views as cdp, pandas as pd, pathlib, tempfile
        >>> home = pathlib.Path(tempfile.mkdtemp()); (home / "in").mkdir()
        >>> table = pd.DataFrame({"state": ["a", "a", "b", "b"], "county": [1, 2, 3, 4]})
        >>> table.assign(persons=[3, 5, 8, 1]).to_parquet(home / "in" / "part.parquet")
        >>> cdp.release_parts(home / "in", home / "out", counts="persons", within="state",
        ...                   names="county", view="conditioned", epsilon=1.0)
        ReleasedParts(4 cells in 1 parts, conditioned view of discrete-laplace noise,
        epsilon=1.0, delta=0.0)

    Reference: as `cdp.release`.
    """
    source, out = Path(source).absolute(), Path(out).absolute()
    columns = Columns(_several(counts), _several(within), _several(names), zeros).checked()
    noise = ("discrete-laplace" if delta == 0 else "discrete-normal") if noise is None else noise
    check_mechanism(view, noise)
    if not NOISES[noise].whole:
        raise _checks.UnsupportedError(
            f"A table in parts is released with whole noise, not {noise}: "
            'noise="discrete-laplace" or "discrete-normal". Real noise: cdp.release.'
        )
    check_generator(bits, view, noise, totals_of([0, 0]))
    epsilon, delta = checked_budget(epsilon, delta, noise)
    kinds = kinds_of(contribution, len(columns.counts), noise)
    each = epsilon if per_column and len(columns.counts) > 1 else None
    check_workers(workers, client)
    counted = unit_of_count(counted) or " and ".join(columns.counts)
    if corrected and ledger is None:
        raise ValueError("`corrected` needs `ledger`, which knows what was published before.")
    hidden = out.with_name(f".{out.name}-unfinished")
    if out.exists():
        asked = {"view": view, "noise": noise, "columns": columns.stated, "delta": delta}
        asked |= {"epsilon_per_column": each, "contribution": listed(kinds)}
        asked |= {"epsilon": epsilon} if each is None else {}
        return left_by_a_kill(out, hidden, ledger, asked, records)
    parts = parts_of(source)
    if source == out or source in out.parents:
        raise ValueError(f"`{out}` lies in the folder of the confidential parts. Name another.")
    check_schemas(source, parts, columns)
    told = progress or (lambda *_: None)
    looked: dict[str, Scan] = {}
    told(0, 2 * len(parts), "reading")
    with Workers(workers, client) as crew:
        for name, found in crew.each(partial(scan, str(source), columns), parts):
            looked[name] = found
            told(len(looked), 2 * len(parts), f"read {name}")
        scans = {name: looked[name] for name in parts}
        require_whole_groups(source, columns, scans)
        sizes = _sizes(scans)
        single = int(sizes.get(1, 0)) * len(columns.counts)
        _require_something_to_protect(scans, sizes, single, columns, accept_exact)
        sample, unit = standing_for_all(sizes, records, kinds)
        scale = None
        if each is not None and kinds is not None:
            scale = scale_of(view, noise, *standing_for_all(sizes, records, None), each, delta)
            epsilon = together(view, noise, sample, unit, scale)
        records_in_all = sum(one.counts_sum for one in scans.values())
        for doubt in doubts_of_budget(epsilon, delta, records_in_all):
            warnings.warn(doubt, UserWarning, stacklevel=2)
        shape = _shape(scans, columns, sizes)
        digests = {name: one.digest for name, one in scans.items()}
        rows = sum(one.rows for one in scans.values())
        fixed = sum(one.zeros for one in scans.values())
        totals = np.sum([one.totals for one in scans.values()], axis=0, dtype=np.uint64)
        exact = _exact(
            totals.astype("<u8").tobytes(), counted, corrected, " and ".join(columns.counts)
        )
        del scans, looked
        asked = [
            LIBRARY, DRAW, view, noise, epsilon, delta, records, columns[:3], shape, parts, bits,
            counted,
        ]  # fmt: skip
        more = {"zeros": zeros, "kinds": listed(kinds), "each": each}
        asked += [{key: value} for key, value in more.items() if value is not None]
        request = sha256(json.dumps(asked).encode()).hexdigest()

        def bind(secret: Secret) -> str:
            return json.dumps({n: bound(secret, request, n, d) for n, d in digests.items()})

        try:
            own = private_ledger(hidden, request, epsilon, delta) if ledger is None else ledger
            reservation = _resumed(own, request, bind, source)
            if reservation is None:
                if scale is None:
                    scale = scale_of(view, noise, sample, unit, epsilon, delta)
                design = view, noise, np.asarray(scale)
                cost = _cost(Price(epsilon, delta, None), design, sample, unit, shape, accept_exact)
                reservation, _ = own.reserve(
                    cost, bind, request, exact=exact, ready=partial(refuse_existing, out),
                    output=out,
                )  # fmt: skip
        except OSError:  # another process has made the same release meanwhile?
            if ledger is None:
                remove_unused(hidden)
            refuse_existing(out)
            raise
        with alone(reservation.path, str(out), patience=0):
            require_unfinished(reservation, out)
            job = Job(
                str(source), str(hidden / reservation.name), columns, view, noise,
                float(reservation.scale), request, str(own.path.absolute()), reservation.name, bits,
            )  # fmt: skip
            made: dict[str, Any] = {}
            for name, (_, record) in crew.each(partial(make, job), parts):
                made[name] = record
                told(len(parts) + len(made), 2 * len(parts), f"wrote {name}")
            described = describe_parts(
                job, epsilon, delta, sample, unit, reservation if ledger is not None else None,
                {name: made[name] for name in parts}, shape, rows * len(columns.counts), single,
                fixed * len(columns.counts), counted, exact.own[0].hex(), each,
                listed(kinds),
            )  # fmt: skip
            whole = ReleasedParts(Path(job.scratch) / "parts", described)
            pages = {PAGE: folder_page(whole, out.name)} if about else {}
            put_in_place(whole, out, pages)
            own.complete(reservation, exact.own)
            shutil.rmtree(hidden, ignore_errors=True)
    return read_parts(out)


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _sizes(scans: Mapping[str, Scan]) -> dict[int, int]:
    """How many groups have so many rows with noise."""
    found: dict[int, int] = {}
    for one in scans.values():
        for size, times in one.sizes.tolist():
            found[size] = found.get(size, 0) + times
    return found


def _require_something_to_protect(
    scans: Mapping[str, Scan],
    sizes: dict[int, int],
    alone: int,
    columns: Columns,
    accept_exact: bool,
) -> None:
    free = "" if columns.zeros is None else " that can be other than 0"
    if all(size == 1 for size in sizes):
        raise ValueError(
            f"No group of {', '.join(columns.within)} has two rows{free}, so that every count "
            "would be published exactly. Choose coarser groups."
        )
    if alone and not accept_exact:
        where = next(name for name, one in scans.items() if np.any(one.sizes[:, 0] == 1))
        raise ValueError(
            f"The totals alone determine {alone} cells, which would be published exactly: those "
            f"alone{' with zeros' if free else ''} in their group, the first in `{where}`. Use "
            "coarser groups, or accept it (accept_exact=True, --accept-exact)."
        )


def _shape(scans: Mapping[str, Scan], columns: Columns, sizes: dict[int, int]) -> dict[str, Any]:
    """What tells this table's cells and groups from others, in a few numbers."""
    prints = np.sum([one.fingerprint for one in scans.values()], axis=0, dtype=np.uint64)
    seen = sha256(json.dumps([columns[:3], sorted(sizes.items())]).encode())
    seen.update(prints.astype("<u8").tobytes())
    if any(one.zeros for one in scans.values()):  # whichever column says so
        zeros = np.sum([one.zeros_print for one in scans.values()], axis=0, dtype=np.uint64)
        seen.update(zeros.astype("<u8").tobytes())
    return {
        "cells": sum(one.rows for one in scans.values()) * len(columns.counts),
        "totals": sum(one.groups.shape[1] for one in scans.values()) * len(columns.counts),
        "sha256": seen.hexdigest(),
        "labels": {
            name: sha256(own.astype("<u8").tobytes()).hexdigest()
            for name, own in zip(columns.labels, prints[:-1], strict=True)
        },
    }


def _resumed(
    ledger: Ledger, request: str, bind: Callable[[Secret], str], source: Path
) -> Reservation | None:
    """The unfinished release of this request, refused where a part's counts are others now."""
    for reservation in ledger.unfinished_of(request):
        secret, digests = reservation.read()
        then, now = json.loads(digests), json.loads(bind(secret))
        other = [name for name in now if not hmac.compare_digest(now[name], str(then.get(name)))]
        if other:
            raise ValueError(
                f"{changed([str(source / name) for name in other])} To do so, delete "
                f"`{reservation.path}`."
            )
        return reservation
    return None


def _exact(totals: bytes, counted: str, corrected: bool, source: str) -> Exact:
    """All exact totals as one: other groups than those of earlier releases are refused anyway."""
    return Exact(counted, lambda _: [totals], [totals], corrected, source)


def _cost(
    price: Price,
    design: tuple[str, str, np.ndarray],
    sample: Totals,
    unit: Relocations | Contributions,
    shape: dict[str, Any],
    accept_exact: bool,
) -> Cost:
    parts = {key: shape[key] for key in ("cells", "totals", "sha256")}
    return Cost(price, unit, sample, shape["labels"], *design, accept_exact, parts)
