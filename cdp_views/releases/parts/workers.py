"""The same work on every part, by however many workers; a lost worker changes nothing."""

import importlib.util
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, Self, final

_DEATHS = 3  # of a pool of processes, before it is taken for a fault of the work itself


def check_workers(workers: Any, client: Any) -> None:
    """Refuse what is no number of workers, or a client without its library."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"`workers` must be a whole number of at least 1; got {workers!r}.")
    if client is not None and importlib.util.find_spec("distributed") is None:
        raise ValueError(
            "A client needs the extra distributed: pip install 'cdp-views[distributed]'."
        )


@final
class Workers:
    """One process, several, or those of a Dask client, for all that a release has to do.

    Args:
        count: processes; 1 is this one.
        client: a Dask client instead.
    """

    def __init__(self, count: int, client: Any) -> None:
        self._count, self._client = count, client
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def each[T](self, work: Callable[[str], T], names: list[str]) -> Iterator[tuple[str, T]]:
        """(name, result) in the order in which they are finished; an error of one ends all.

        Args:
            work: from a part's name; `functools.partial` of a function in a module.
            names: of the parts.
        """
        if self._client is not None:
            return self._by_client(work, names)
        if self._count > 1 and len(names) > 1:
            return self._by_processes(work, names)
        return ((name, work(name)) for name in names)

    def _by_processes[T](
        self, work: Callable[[str], T], names: list[str]
    ) -> Iterator[tuple[str, T]]:
        """Spawned processes: none inherits threads or a state of JAX. A lost one is replaced."""
        left, deaths = dict.fromkeys(names), 0
        while left:
            if self._pool is None:
                own = min(self._count, len(names))
                spawn = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(own, spawn, initializer=_end_with_parent)
            try:
                futures = {self._pool.submit(_quiet, work, name): name for name in left}
                for future in as_completed(futures):
                    found = future.result()
                    del left[futures[future]]
                    yield futures[future], found
            except BrokenProcessPool:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
                deaths += 1
                if deaths == _DEATHS:
                    raise OSError(
                        "Workers were ended from outside three times (for want of memory?). "
                        "Finished parts are kept: run it again, with fewer workers or smaller "
                        "parts."
                    ) from None

    def _by_client[T](self, work: Callable[[str], T], names: list[str]) -> Iterator[tuple[str, T]]:
        """A Dask client: the scheduler gives the parts of a lost worker to others."""
        from distributed import as_completed as completed  # pyright: ignore[reportMissingImports]

        submit = partial(self._client.submit, _quiet, work, pure=False, retries=2)
        futures = {submit(name): name for name in names}
        try:
            for future in completed(list(futures)):
                yield futures[future], future.result()
        finally:
            self._client.cancel(list(futures))


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever, with a part in memory."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _quiet[T](work: Callable[[str], T], name: str) -> T:
    # Without this JAX warns of a missing accelerator on some machines: this work needs none.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return work(name)
