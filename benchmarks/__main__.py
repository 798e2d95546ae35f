"""`python -m benchmarks [--only NAME]`: every row, printed and written as it is measured."""

import argparse
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from time import perf_counter

from benchmarks import (
    analysis,
    building,
    densities,
    draws,
    memory,
    overlapping,
    paper,
    releasing,
    solving,
)
from benchmarks.harness import HEADER, Case, Record, Row, measure
from cdp_views import UnsupportedError

_CELLS, _QUICK = 5_000_000, 20_000


def main(arguments: list[str] | None = None) -> None:
    """Measure what was asked for; a missed target is printed, never an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="rows whose name contains NAME")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK:,} cells and 3 pairs")
    parser.add_argument("--cells", type=int, help=f"cells of the largest table ({_CELLS:,})")
    parser.add_argument("--pairs", type=int, help="timed calls of each side (15)")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="one of the two only")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on with a run's JSON file")
    chosen = parser.parse_args(arguments)
    cells = chosen.cells or (_QUICK if chosen.quick else _CELLS)
    pairs = chosen.pairs or (3 if chosen.quick else 15)
    dtypes = (chosen.dtype,) if chosen.dtype else ("float32", "float64")

    record = Record.of(chosen.resume)
    print(f"{HEADER}   {record.path}")

    def wanted(name: str, dtype: str) -> bool:
        return chosen.only in name and not record.has(name, dtype)

    start = perf_counter()
    for row in _measured(cells, pairs, dtypes, wanted):
        if isinstance(row, Row):
            record.add(row)
            row = f"{row.line():<108} {perf_counter() - start:5.0f} s"
        print(row, flush=True)
        start = perf_counter()
    rows = record.rows
    print(f"{sum(not row.met for row in rows)} of {len(rows)} rows missed; {record.path}")


def _measured(
    cells: int, pairs: int, dtypes: tuple[str, ...], wanted: memory.Wanted
) -> Iterator[Row | str]:
    """Rows, and a message for each that is not built or whose subject fails."""
    for case in _cases(cells):
        for dtype in case.dtypes:
            if (dtype not in dtypes and dtype != "-") or not wanted(case.name, dtype):
                continue
            try:
                yield measure(case, pairs, dtype)
            except UnsupportedError:
                yield f"{case.name}: not built"
                break
            except AssertionError as error:
                yield f"{case.name} {dtype}: FAILED, {error}"
    yield from memory.rows(cells, dtypes, wanted)
    yield from analysis.rows(cells, dtypes, wanted)


def _cases(cells: int) -> Iterator[Case]:
    """A view's draw and its density side by side, so that it is built once."""
    both = zip_longest(draws.cases(cells), densities.cases(cells))
    yield from (case for case in chain.from_iterable(both) if case is not None)
    for subject in (building, solving, paper, overlapping, releasing):
        yield from subject.cases(cells)


if __name__ == "__main__":
    main()
