"""`python -m benchmarks [--only NAME] [--quick]`: every row, printed, and written as JSON."""

import argparse

from benchmarks import building, densities, draws, memory, overlapping, paper, solving
from benchmarks.harness import HEADER, Row, measure, write
from cdp_views import UnsupportedError

_SUBJECTS = (draws, densities, building, solving, paper, overlapping)
_CELLS, _QUICK = 5_000_000, 20_000


def main(arguments: list[str] | None = None) -> None:
    """Measure what was asked for; a missed target is printed, never an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="rows whose name contains NAME")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK:,} cells and 3 pairs")
    parser.add_argument("--cells", type=int, help=f"cells of the largest table ({_CELLS:,})")
    parser.add_argument("--pairs", type=int, help="timed calls of each side (15)")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="one of the two only")
    chosen = parser.parse_args(arguments)
    cells = chosen.cells or (_QUICK if chosen.quick else _CELLS)
    pairs = chosen.pairs or (3 if chosen.quick else 15)
    dtypes = (chosen.dtype,) if chosen.dtype else ("float32", "float64")

    print(HEADER)
    rows: list[Row] = []
    for case in (case for subject in _SUBJECTS for case in subject.cases(cells)):
        if chosen.only not in case.name:
            continue
        try:
            for row in measure(case, pairs, dtypes):
                rows.append(row)
                print(row.line(), flush=True)
        except UnsupportedError:
            print(f"{case.name}: not built", flush=True)
    for row in memory.rows(cells, dtypes, chosen.only):
        if isinstance(row, Row):
            rows.append(row)
        print(row.line() if isinstance(row, Row) else row, flush=True)
    print(f"{sum(not row.met for row in rows)} of {len(rows)} rows missed; {write(rows)}")


if __name__ == "__main__":
    main()
