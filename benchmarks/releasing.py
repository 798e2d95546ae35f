"""Whole noise of a release from its secret, against NumPy's raw noise for the same cells.

`python -m benchmarks.releasing` also releases a table in parts and tells CPU time and memory; with
`--workers 1`, which is this process, also what it takes without reading and writing Parquet.
"""

import argparse
import resource
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run
from cdp_views.releases.noise import blocks
from cdp_views.releases.noise.secret import Secret

_SCALE = 10.0  # counts
_MOST = 2_000_000  # cells: one part of a release
_GROUPS = {"groups of 8": 8, "groups of 2,500": 2_500, "one group": 0}


def cases(cells: int) -> Iterator[Case]:
    """Both views and noises; groups as blocks by race, as counties and as one state."""
    n = max(min(cells, _MOST) // 20_000, 1) * 20_000  # whole groups of every size
    for name, size in _GROUPS.items():
        for view in ("conditioned", "imaged"):
            for noise in ("discrete-laplace", "discrete-normal"):
                yield Case(
                    f"release {noise} {view}, {name}",
                    "numpy.random raw noise",
                    3.0,
                    partial(prepare, view, noise, n, size or n),
                    {"cells": n, "groups": n // (size or n)},
                    dtypes=("-",),
                )


def prepare(view: str, noise: str, n: int, size: int) -> tuple[Run, Run]:
    """Noise that keeps every total, tables made before; and independent noise of this family."""
    secret = Secret(bytes(range(32)))
    random = np.random.default_rng(1)
    ids = random.integers(0, 2**63, (2, n)).astype(np.uint64)
    splits = blocks.splits_of(noise, _SCALE)
    draw = blocks.conditioned if view == "conditioned" else blocks.imaged
    sizes = np.full(n // size, size)
    raw = raw_laplace if noise == "discrete-laplace" else raw_normal
    return (
        partial(draw, secret, lambda cells: ids[:, cells], sizes, splits),
        partial(raw, random, n),
    )


def raw_laplace(random: np.random.Generator, n: int) -> np.ndarray:
    """The difference of two geometric numbers."""
    p = 1 - np.exp(-1 / _SCALE)
    return random.geometric(p, n) - random.geometric(p, n)


def raw_normal(random: np.random.Generator, n: int) -> np.ndarray:
    """NumPy has no discrete normal numbers: real ones, rounded."""
    return np.rint(random.normal(0, _SCALE, n)).astype(np.int64)


def write_blocks(folder: Path, parts: int, blocks_each: int) -> None:
    """Parts of a table of blocks by eight races, one row a cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    races = pa.array([f"race {i}" for i in range(8)])
    for part in range(parts):
        code = 170_310_000_000_000 + part * blocks_each + np.arange(blocks_each)
        race = pa.array(np.tile(np.arange(8, dtype=np.int8), blocks_each))
        table = {
            "block": np.repeat(code, 8),
            "race": pa.DictionaryArray.from_arrays(race, races),
            "persons": random.poisson(5, 8 * blocks_each),
        }
        pq.write_table(pa.table(table), folder / f"part-{part:03}.parquet")


def main() -> None:
    """Release parts with so many workers; CPU seconds of all processes, peak memory of each."""
    import cdp_views as cdp

    parser = argparse.ArgumentParser(prog="python -m benchmarks.releasing", description=__doc__)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=500_000, help="of each part, by 8 races")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--view", choices=("conditioned", "imaged"), default="conditioned")
    given = parser.parse_args()
    cells = given.parts * given.blocks * 8
    with tempfile.TemporaryDirectory(dir=".") as home:
        source, out = Path(home) / "in", Path(home) / "out"
        write_blocks(source, given.parts, given.blocks)
        parquet = _ParquetTime()
        start, began = _cpu(), perf_counter()
        made = cdp.release_parts(
            source, out, counts="persons", within="block", names="race", view=given.view,
            epsilon=0.2, workers=given.workers,
        )  # fmt: skip
        spent, wall = _cpu() - start, perf_counter() - began
        apart = parquet.seconds
        kids, own = (
            resource.getrusage(who).ru_maxrss / 1024
            for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)
        )
        begin = process_time()
        for _ in range(given.parts):
            raw_laplace(np.random.default_rng(0), given.blocks * 8)
        raw = process_time() - begin
        begin = process_time()
        made.verify()
        print(
            f"{cells:,} cells: {spent:.1f} s of CPU with Parquet ({spent / cells * 1e9:.0f} ns a "
            f"cell), {wall:.0f} s on the clock; raw noise {raw:.1f} s; verified in "
            f"{process_time() - begin:.1f} s; at most {own:.0f} MiB here, {kids:.0f} MiB a worker"
        )
        if given.workers == 1:
            left = spent - apart
            print(
                f"without Parquet {left:.1f} s ({left / cells * 1e9:.0f} ns a cell), "
                f"{left / raw:.1f} times raw noise, compilation and tables included"
            )


class _ParquetTime:
    """CPU seconds of Arrow's Parquet files in this process, from now on."""

    def __init__(self) -> None:
        import pyarrow.parquet as pq

        self.seconds = 0.0
        for name in ("read_table", "write_table", "read_schema"):
            setattr(pq, name, self._timed(getattr(pq, name)))

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any, **options: Any) -> Any:
            begin = process_time()
            try:
                return call(*args, **options)
            finally:
                self.seconds += process_time() - begin

        return timed


def _cpu() -> float:
    kids = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + kids.ru_utime + kids.ru_stime


if __name__ == "__main__":
    main()
