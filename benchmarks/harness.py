"""One way to measure: subject and rival alternate in one process, and only ratios are judged."""

import json
import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("jax", "jaxlib", "numpy", "numpyro", "pandas", "scipy")

type Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A row before it is measured: `prepare` builds subject and rival, and may be unsupported."""

    name: str
    rival: str
    target: float | None
    prepare: Callable[[], tuple[Run, Run]]
    sizes: dict[str, int]
    dtypes: tuple[str, ...] = ("float32", "float64")


@dataclass(frozen=True)
class Row:
    """A measured row: raw numbers of both sides (seconds, or arrays of memory) pair by pair."""

    name: str
    rival: str
    target: float | None
    dtype: str
    sizes: dict[str, int]
    subject_raw: list[float]
    rival_raw: list[float]

    @property
    def ratios(self) -> list[float]:
        """Subject / rival, sorted."""
        return sorted(a / b for a, b in zip(self.subject_raw, self.rival_raw, strict=True))

    @property
    def met(self) -> bool:
        """Whether the median ratio is within the target; true where there is none."""
        return self.target is None or median(self.ratios) <= self.target

    def line(self) -> str:
        """One line of the table."""
        low, middle, high = self.ratios[0], median(self.ratios), self.ratios[-1]
        target = "      -" if self.target is None else f"{self.target:7.1f}"
        verdict = "" if self.met else "  MISSED"
        return (
            f"{self.name:<54} {self.dtype}  {low:7.2f} {middle:7.2f} {high:7.2f} {target}{verdict}"
        )


HEADER = f"{'subject / rival':<54} {'dtype':<7}  {'min':>7} {'median':>7} {'max':>7} {'target':>7}"


def compare(
    name: str,
    subject: Run,
    rival: Run,
    pairs: int = 15,
    *,
    target: float | None = None,
    dtype: str = "-",
    sizes: dict[str, int] | None = None,
    against: str = "",
) -> Row:
    """Seconds of both, alternating, after one call of each that compiles and is not counted.

    Args:
        name, against: what the row is called, and its rival.
        subject, rival: calls without arguments; their results are waited for.
        pairs: timed calls of each; who goes first alternates as well.
        target: the largest median ratio that is good enough.
        dtype, sizes: recorded beside the numbers.
    """
    for run in (subject, rival):
        _seconds(run)
    mine: list[float] = []
    theirs: list[float] = []
    for pair in range(pairs):
        if pair % 2:
            theirs.append(_seconds(rival))
            mine.append(_seconds(subject))
        else:
            mine.append(_seconds(subject))
            theirs.append(_seconds(rival))
    return Row(name, against, target, dtype, sizes or {}, mine, theirs)


def measure(case: Case, pairs: int, dtype: str) -> Row:
    """The case's row in one dtype, with JAX's flag set for it."""
    with jax.enable_x64(dtype == "float64"):
        subject, rival = case.prepare()
        return compare(
            case.name, subject, rival, pairs,
            target=case.target, dtype=dtype, sizes=case.sizes, against=case.rival,
        )  # fmt: skip


@dataclass
class Record:
    """A run's rows and its file, benchmarks/results/<time>.json, written after every row."""

    path: Path
    rows: list[Row]
    started: dict[str, Any]

    @staticmethod
    def of(path: Path | None = None, folder: Path = RESULTS) -> "Record":
        """A new run; or one to go on with, its rows kept. What it was measured on is checked."""
        now = datetime.now(UTC)
        here = {
            "commit": _commit(),
            "machine": machine(),
            "versions": {"python": platform.python_version()} | {p: version(p) for p in _PACKAGES},
        }
        if path is None:
            new = folder / f"{now:%Y%m%dT%H%M%S}.json"
            return Record(new, [], {"time": now.isoformat(timespec="seconds")} | here)
        content = json.loads(path.read_text())
        rows = content.pop("rows")
        if content["machine"] != here["machine"] or content["versions"] != here["versions"]:
            raise ValueError(f"{path} was measured elsewhere. Start a new run.")
        names = [field.name for field in fields(Row)]
        content["commit"] = " ".join(dict.fromkeys([*content["commit"].split(), here["commit"]]))
        return Record(path, [Row(**{k: row[k] for k in names}) for row in rows], content)

    def has(self, name: str, dtype: str) -> bool:
        """Whether that row is measured already."""
        return any((row.name, row.dtype) == (name, dtype) for row in self.rows)

    def add(self, row: Row) -> None:
        """Keep the row, raw, and write the file anew."""
        self.rows.append(row)
        rows = [asdict(row) | {"median": median(row.ratios), "met": row.met} for row in self.rows]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.started | {"rows": rows}, indent=1))


def _seconds(run: Run) -> float:
    start = perf_counter()
    jax.block_until_ready(run())
    return perf_counter() - start


def machine() -> dict[str, Any]:
    """What is measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "backend": jax.default_backend(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        return names[0].partition(": ")[2] if names else platform.machine()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit, with + where files differ from it; empty outside a checkout."""
    here = Path(__file__).parent
    asked = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    answer = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=False)
    return answer.stdout.strip()
