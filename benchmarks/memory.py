"""Peak memory of one draw, in arrays of the data, each in a process of its own.

    python -m benchmarks.memory normal conditioned equal 5000000 float32

prints how far the resident memory rises during a compiled draw, its inputs already there, in
units of n·itemsize; the output itself is one of these arrays.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Row

_STATUS = Path("/proc/self/status")
_TARGET = 6.0


type Wanted = Callable[[str, str], bool]


def rows(cells: int, dtypes: tuple[str, ...], wanted: Wanted) -> Iterator[Row | str]:
    """One row per view, noise, scales and dtype (ratio = arrays); a message where not built."""
    if not Path("/proc/self/clear_refs").exists():
        yield "memory: skipped, needs Linux's /proc"
        return
    for noise in ("normal", "laplace"):
        for view_name in ("max-entropy", "conditioned", "imaged"):
            for kind in ("equal", "unequal"):
                name = f"memory {noise} {view_name} {kind}, scrambled"
                for dtype in dtypes:
                    if not wanted(name, dtype):
                        continue
                    asked = [noise, view_name, kind, str(cells), dtype]
                    answer = subprocess.run(
                        [sys.executable, "-m", "benchmarks.memory", *asked],
                        capture_output=True, text=True, check=False,
                    )  # fmt: skip
                    if answer.returncode == 3:
                        yield f"{name}: not built"
                        break
                    if answer.returncode:
                        raise RuntimeError(answer.stderr)
                    arrays, size = [float(answer.stdout)], {"cells": cells}
                    yield Row(name, "one array of the data", _TARGET, dtype, size, arrays, [1.0])


def main(noise: str, view_name: str, kind: str, cells: int, dtype: str) -> float:
    """Arrays of the data by which resident memory rises at the peak of one draw."""
    import jax

    from benchmarks.tables import layouts, view

    jax.config.update("jax_enable_x64", dtype == "float64")
    subject = view(layouts(cells)[0], noise, kind, view_name, dtype == "float64")  # type: ignore[arg-type]
    key = jax.random.key(0)
    draw = jax.jit(lambda view, key: view.sample(key)).lower(subject, key).compile()
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building and compiling
    jax.block_until_ready(draw(subject, key))
    rise = max(_kilobytes("VmHWM") - before, 0)
    return 1024 * rise / (cells * (8 if dtype == "float64" else 4))


def _kilobytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


if __name__ == "__main__":
    from cdp_views import UnsupportedError

    try:
        print(main(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5]))  # type: ignore[misc]
    except UnsupportedError:
        sys.exit(3)
