"""Running a study: what is finished is read, the rest is measured, by however many workers."""

import importlib.util
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import xarray as xr

from cdp_views._checks import UnsupportedError
from cdp_views.report import study_page, write_together
from cdp_views.study.findings import findings
from cdp_views.study.inputs import Inputs
from cdp_views.study.measure import Payload, SkippedError, measure
from cdp_views.study.plan import Study
from cdp_views.study.points import Point, points
from cdp_views.study.stored import REPORT, RESULT, Store, cannot_write, fingerprints
from cdp_views.study.tree import assemble

Progress = Callable[[int, int, str], None]
_SKIPPED = "text/skipped"
_DEATHS = 3  # of a pool of processes, before it is taken for a fault of the work itself


def run(
    study: Study,
    out: str | os.PathLike[str] | None,
    *,
    workers: int,
    client: Any,
    overwrite: bool,
    command: str,
    progress: Progress | None,
) -> xr.DataTree:
    """As `Study.run` says."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"`workers` must be a whole number of at least 1; got {workers!r}.")
    if out is not None and importlib.util.find_spec("h5netcdf") is None:
        raise ValueError("A result file needs the extra io: pip install 'cdp-views[io]'.")
    inputs = Inputs(study)
    todo, skipped = points(inputs)
    names = fingerprints(inputs, todo)
    store = Store(out, study.described(), overwrite)
    found = {name: payload for name in names if (payload := store.read(name)) is not None}
    rest = {name: point for name, point in zip(names, todo, strict=True) if name not in found}
    everything = len(set(names))
    if progress is not None:
        progress(len(found), everything, f"{len(found)} points are there already")
    for name, payload in _measured(study, inputs, rest, workers, client):
        store.write(name, payload)
        found[name] = payload
        if progress is not None:
            progress(len(found), everything, rest[name].label)
    had = [(p, found[n]) for p, n in zip(todo, names, strict=True) if _SKIPPED not in found[n]]
    skipped += [
        (p.label, str(found[n][_SKIPPED]))
        for p, n in zip(todo, names, strict=True)
        if _SKIPPED in found[n]
    ]
    if not had:
        reasons = " ".join(dict.fromkeys(reason for _, reason in skipped))
        raise UnsupportedError(f"Nothing of this study can be had. {reasons}")
    tree = assemble(study, had, skipped, command or "cdp.Study(...).run()")
    if store.folder is not None:
        _write(store.folder, tree)
    return tree


def page(tree: xr.DataTree) -> str:
    """The result as one HTML page that opens offline, with controls; below 3 MB."""
    return study_page(tree, verdict=findings(tree))


def _write(folder: Path, tree: xr.DataTree) -> None:
    """The result and its page, both or neither."""
    text = page(tree)
    writers = {
        RESULT: lambda path: tree.to_netcdf(path, engine="h5netcdf"),
        REPORT: lambda path: path.write_text(text, encoding="utf-8"),
    }
    try:
        write_together(folder, writers)
    except OSError as reason:
        raise OSError(cannot_write(folder, reason)) from reason


def _measured(
    study: Study, inputs: Inputs, rest: dict[str, Point], workers: int, client: Any
) -> Iterator[tuple[str, Payload]]:
    """Names and payloads in the order in which they are finished."""
    if client is not None:
        yield from _by_client(client, pickle.dumps(study), rest)
    elif workers > 1 and len(rest) > 1:
        yield from _by_processes(pickle.dumps(study), rest, min(workers, len(rest)))
    else:
        for name, point in rest.items():
            yield name, _one(inputs, point)


def _by_processes(
    packed: bytes, rest: dict[str, Point], workers: int
) -> Iterator[tuple[str, Payload]]:
    """Spawned processes: none inherits threads or a state of JAX. A lost one is replaced."""
    left, deaths = dict(rest), 0
    while left:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
        try:
            futures = {pool.submit(work, packed, point): name for name, point in left.items()}
            for future in as_completed(futures):
                payload = future.result()
                del left[futures[future]]
                yield futures[future], payload
        except BrokenProcessPool:
            deaths += 1
            if deaths == _DEATHS:
                raise OSError(
                    "Workers were ended from outside three times (for want of memory?). Finished "
                    "points are kept: run it again, with fewer workers."
                ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _by_client(client: Any, packed: bytes, rest: dict[str, Point]) -> Iterator[tuple[str, Payload]]:
    """A Dask client: the scheduler gives the points of a lost worker to others."""
    try:
        from distributed import as_completed as completed  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            "A client needs the extra distributed: pip install 'cdp-views[distributed]'."
        ) from None
    submit = partial(client.submit, work, packed, pure=False, retries=2)
    futures = {submit(point): name for name, point in rest.items()}
    try:
        for future in completed(list(futures)):
            yield futures[future], future.result()
    finally:
        client.cancel(list(futures))


def work(packed: bytes, point: Point) -> Payload:
    """One point, in another process."""
    return _one(_unpacked(packed), point)


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> Inputs:
    """Tables are read once by each process."""
    # Without this JAX warns of a missing accelerator on some machines: this work needs none.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return Inputs(pickle.loads(packed))


def _one(inputs: Inputs, point: Point) -> Payload:
    try:
        return measure(inputs, point)
    except SkippedError as reason:
        return {_SKIPPED: str(reason)}
