"""Finished points as small files, each of which appears whole or not at all."""

import contextlib
import hashlib
import json
import os
import platform
import tempfile
import zipfile
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import numpy as np

from cdp_views.study.inputs import Inputs, digest_of
from cdp_views.study.points import Point, asked

FORMAT = 2
RESULT = "study.nc"
REPORT = "report.html"
_ABOUT = "study.json"
_FOLDER = "points"
_LIBRARIES = ("numpy", "scipy", "jax", "jaxlib", "numpyro")


def versions() -> dict[str, str]:
    """What computes the numbers: Python and the libraries, by name."""
    # Not an import from below: the package at the top knows its version.
    own = import_module("cdp_views").__version__
    found = {"python": platform.python_version(), "cdp-views": own}
    return found | {name: version(name) for name in _LIBRARIES}


def fingerprints(inputs: Inputs, points: list[Point]) -> list[str]:
    """File names: hashes of the points and of all that their figures depend on.

    Another seed, workload, number of draws or version of a library is another file, so that a
    folder never mixes them; the random numbers of a point do not depend on its workloads.
    """
    study = inputs.study
    settings = [FORMAT, versions(), study.seed, study.draws, study.repetitions]
    of_table: dict[str, list[Any]] = {}
    for table in study.tables:
        told: list[Any] = []
        for name in asked(inputs, table):
            matrix = inputs.workload(table, name)
            below = inputs.ratio(table, name)
            parts = [
                p for m in (matrix, below) if m is not None for p in (m.indptr, m.indices, m.data)
            ]
            told.append([name, digest_of(*parts), list(study.workloads[name].thresholds)])
        of_table[table] = told
    return [
        hashlib.blake2b(
            json.dumps([point.identity, settings, of_table[point.table]]).encode(), digest_size=16
        ).hexdigest()
        for point in points
    ]


@final
class Store:
    """Finished points in a folder, or in memory only.

    Args:
        folder: made where it is missing; None keeps nothing on disk.
        plan: the study in words, to tell it from another.
        overwrite: a result of another study may be replaced.

    Raises:
        ValueError: the folder holds a study of another version, or the result of another study.
        OSError: the folder cannot be made or written to.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, plan: str, overwrite: bool) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is None:
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"`out` {self.folder} is a file. Name a folder.")
        about = self.folder / _ABOUT
        if about.exists():
            self._check(about, plan, overwrite)
        (self.folder / _FOLDER).mkdir(parents=True, exist_ok=True)
        told = {
            "about": "A study of cdp_views: finished points lie in points/, the whole in study.nc "
            "and report.html once all are done. Figures depend on the true counts unless these are "
            "public.",
            "format": FORMAT,
            "plan": plan,
        }
        text = json.dumps(told, ensure_ascii=False, indent=1)
        put(about, lambda file: file.write(text.encode()))

    def read(self, fingerprint: str) -> dict[str, Any] | None:
        """What was measured, or None: not there, or not to be read (then it is done again)."""
        if self.folder is None:
            return None
        path = self._path(fingerprint)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
                return {name: _plain(held[name]) for name in held.files}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError):
            return None

    def write(self, fingerprint: str, payload: dict[str, Any]) -> None:
        """Put one finished point in its place, whole.

        Raises:
            OSError: it cannot be written; then nothing is left behind.
        """
        if self.folder is not None:
            arrays: dict[str, Any] = {k: np.asarray(value) for k, value in payload.items()}
            try:
                put(self._path(fingerprint), lambda file: np.savez(file, **arrays))
            except OSError as reason:
                raise OSError(cannot_write(self.folder, reason)) from reason

    def _path(self, fingerprint: str) -> Path:
        assert self.folder is not None
        return self.folder / _FOLDER / f"{fingerprint}.npz"

    def _check(self, about: Path, plan: str, overwrite: bool) -> None:
        try:
            held = json.loads(about.read_text(encoding="utf-8"))
            found = held["format"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{about} is not what a study writes. Name another folder, or remove that file."
            ) from None
        if found != FORMAT:
            raise ValueError(other_version(str(about), found))
        if held.get("plan") != plan and (about.parent / RESULT).exists() and not overwrite:
            raise ValueError(
                f"{about.parent} holds the result of another study. Name another folder, or "
                "overwrite it (overwrite=True, --overwrite): finished points that both share are "
                "used again."
            )


def other_version(what: str, found: Any) -> str:
    """What to say of a file that another version wrote."""
    return (
        f"{what} has format {found}; this version of cdp_views reads format {FORMAT}. Use the "
        "version that wrote it, or run the study again in another folder."
    )


def cannot_write(folder: Path, reason: OSError) -> str:
    """What to say of a folder that takes no more."""
    why = reason.strerror or type(reason).__name__
    return (
        f"{folder} cannot be written to ({why}). Finished points are kept: make room and run it "
        "again."
    )


def put(path: Path, write: Any) -> None:
    """Write a file beside its place and move it there in one step.

    Args:
        path: where it shall be; its folder is there.
        write: called with an open binary file.

    Raises:
        OSError: it cannot be written; then nothing is left behind.
    """
    handle, scratch = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise


def _plain(array: np.ndarray) -> Any:
    """Texts and numbers as such, arrays as they are."""
    return array.item() if array.ndim == 0 else array
