"""A release on disk: the table, its metadata and a page about it; all whole or none."""

import json
import os
import shutil
import tempfile
from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cdp_views import _checks
from cdp_views.releases import geometry, metadata
from cdp_views.releases.about import about_page
from cdp_views.releases.budget.earlier import as_bytes
from cdp_views.releases.budget.lock import alone
from cdp_views.releases.digest import RELEASED, digest
from cdp_views.releases.places import literal, place_new, sync_folder

if TYPE_CHECKING:
    from cdp_views.releases.result import Release

_CSV, _PARQUET = (".csv",), (".parquet", ".pq")
_PATIENCE = 60  # seconds to wait for another process that saves the same release


def metadata_path(path: str | PathLike[str]) -> Path:
    """Where the metadata of the table at `path` lies."""
    return Path(f"{os.fspath(path)}.json")


def print_path(path: str | PathLike[str]) -> Path:
    """Where the table for print lies: FILE.print.csv beside FILE.csv."""
    target = Path(path)
    return target.with_name(f"{target.stem}.print{target.suffix}")


def about_path(path: str | PathLike[str]) -> Path:
    """Where the page about the table at `path` lies."""
    return Path(f"{os.fspath(path)}.about.html")


def check_target(path: str | PathLike[str], *, reservations: Collection[str] = ()) -> Path:
    """The path, refused where a release could not be written to it.

    Args:
        path: of the table.
        reservations: names of unfinished releases, whose files may be there already.
    """
    target = Path(path)
    if target.suffix.lower() not in _CSV + _PARQUET:
        raise ValueError(f"`{target}` must end in .csv or .parquet, the formats of a release.")
    if reservations and _reservation_of(target) in reservations:
        return target
    for there in (target, metadata_path(target), print_path(target), about_path(target)):
        if there.exists():
            raise FileExistsError(
                f"`{there}` is there already, and a release is never overwritten. "
                "Name another file."
            )
    _checks.writable_folder(target.parent)
    return target


def _reservation_of(target: Path) -> str | None:
    """The reservation that the metadata at a target speak of."""
    try:
        told = json.loads(metadata_path(target).read_text(encoding="utf-8"))
        return told["ledger"]["reservation"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(release: "Release", path: str | PathLike[str], *, about: bool = True) -> None:
    """Write all files beside their place, read them back, then put them in place."""
    own = release.reservation
    if own is None:
        _save(release, path, about)
        return
    with alone(own.path, os.fspath(path), patience=_PATIENCE):
        _save(release, path, about)


def _save(release: "Release", path: str | PathLike[str], about: bool) -> None:
    own = release.reservation
    target = check_target(path, reservations=() if own is None else (own.name,))
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}-" if own is None else f".{target.name}-{own.name}-"
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        table = scratch / target.name
        told = metadata_path(table)
        told.write_text(metadata.dump(release.metadata), encoding="utf-8")
        _write(release.table, table)
        if digest(_read(table)) != digest(release.table):
            raise ValueError(
                f"A {target.suffix} file would change labels of this table. Save a .parquet file."
            )
        # The table comes last: whoever sees it finds its metadata.
        files = [(told, metadata_path(target)), (table, target)]
        if about:
            page = about_path(table)
            page.write_text(about_page(release, target.name), encoding="utf-8")
            files.insert(1, (page, about_path(target)))
        if release.publishable is not None:
            printed = print_path(table)
            _write(release.publishable, printed)
            files.insert(1, (printed, print_path(target)))
        placed = []
        try:
            for made, place in files:
                try:
                    place_new(made, place)
                except FileExistsError:
                    if own is None or not _same(made, place):
                        raise
                    continue  # a kill came after this file: the rest is still to do
                placed.append(place)
        except BaseException:
            for place in placed:
                place.unlink()
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sync_folder(target.parent)
    if own is not None:
        from cdp_views.releases.budget.ledger import Ledger

        for stale in target.parent.glob(f"{literal(prefix)}*"):  # of tries that were killed
            shutil.rmtree(stale, ignore_errors=True)
        Ledger(own.ledger).complete(own, as_bytes(release.invariants))


def _same(made: Path, place: Path) -> bool:
    """Whether a file in its place is what was to be put there."""
    if made.suffix.lower() in _PARQUET:
        return digest(_read(made)) == digest(_read(place))
    return made.read_bytes() == place.read_bytes()


def read_release(path: str | PathLike[str]) -> "Release":
    """A release from its files, without the confidential table; with its print if that is there.

    It is read as it is: `verify()` says whether it is what was released.

    Args:
        path: of the table; its metadata is `path`.json.

    Returns:
        The release, unchecked: call its `verify()`.

    Raises:
        FileNotFoundError: one of the two files is missing.
        ValueError: a file is unreadable, or the metadata is of another version.

    Example:
        >>> import cdp_views as cdp
        >>> cdp.read_release("nowhere.csv")
        Traceback (most recent call last):
        FileNotFoundError: `nowhere.csv` is not there. Check the path.
    """
    from cdp_views.releases.result import Release

    source, about = Path(path), metadata_path(path)
    for there in (source, about):
        if there.is_dir():
            raise ValueError(f"`{there}` is a folder. A release in parts: cdp.read_parts(folder).")
        if not there.is_file():
            raise FileNotFoundError(_missing(source, there))
    try:
        text = about.read_text(encoding="utf-8")
    except UnicodeError:
        raise ValueError(f"`{about}` is not JSON. Restore the file as it was released.") from None
    told = metadata.load(text, about)
    try:
        invariant = geometry.from_json(told["invariants"])
        Release(pd.DataFrame({RELEASED: []}), told, invariant).invariants  # noqa: B018
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError(f"`{about}` has invariants that cannot be built. Restore it.") from None
    printed = print_path(source)
    there = "publishable" in told and printed.is_file()
    return Release(_read(source), told, invariant, None, _read(printed) if there else None)


def _missing(source: Path, there: Path) -> str:
    """Which file is not there; or which to name, where a companion of a release was named."""
    name, stem = str(source), str(source.with_suffix(""))
    beside = (
        (f"{stem.removesuffix('.print')}{source.suffix}", "table for print"),
        (name.removesuffix(".json"), "metadata"),
        (name.removesuffix(".about.html"), "page about the release"),
    )
    for release, what in beside:
        if release != name and Path(release).is_file() and metadata_path(release).is_file():
            return f"`{source}` is the {what} of a release. Name the release: `{release}`."
    for folder in () if there == source else source.parents:
        if (folder / "_release.json").is_file():
            return f"`{source}` is a part of a release. Name the folder of the whole: `{folder}`."
    if there != source:
        return (
            f"`{there}` is not there: a release is read with its metadata beside it. Put them "
            "there, or name a released table."
        )
    return f"`{there}` is not there. Check the path."


def _write(table: pd.DataFrame, path: Path) -> None:
    y = table[RELEASED].to_numpy()
    if np.all(np.abs(y) < 2**53) and np.array_equal(y, np.rint(y)):
        table = table.assign(**{RELEASED: y.astype(np.int64)})  # 5734, not 5734.0
    if path.suffix.lower() in _CSV:
        table.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")
        return
    try:
        table.to_parquet(path, index=False)
    except ImportError:
        raise ValueError("Parquet needs the extra io: pip install 'cdp-views[io]'.") from None


def _read(path: Path) -> pd.DataFrame:
    """Labels as text, the released numbers to the last bit."""
    try:
        if path.suffix.lower() in _PARQUET:
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        # Python's own parser is exact, pandas' faster one is not.
        numbers = np.array([float(x) for x in table[RELEASED]], dtype=np.float64)
    except ImportError:
        raise ValueError("Parquet needs the extra io: pip install 'cdp-views[io]'.") from None
    except KeyError:
        raise ValueError(f'`{path}` has no column "{RELEASED}". Name a released table.') from None
    except (ValueError, TypeError, OSError) as reason:
        # pandas' and pyarrow's own messages quote the file and run over several lines
        raise ValueError(f"`{path}` cannot be read ({type(reason).__name__}).") from None
    return table.assign(**{RELEASED: numbers})
