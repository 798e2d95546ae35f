"""A run's JSON as the Markdown table of the documentation: python -m benchmarks.table FILE.json…

Prints to standard output. Of several files, a row's last measurement counts. No date is printed:
what matters is the machine, the versions and the commit.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.harness import Row

LAYOUTS = ("scrambled", "sorted", "one group")


def markdown(files: Iterable[Path]) -> Iterator[str]:
    """The lines: where it was measured, then a table for each precision."""
    runs = [json.loads(path.read_text()) for path in files]
    rows = {(row.name, row.dtype): row for run in runs for row in _rows(run)}
    yield from _where(runs)
    for dtype in ("float32", "float64", "-"):
        yield from _table(dtype, [row for (_, of), row in rows.items() if of == dtype])
    missed = sum(not row.met for row in rows.values())
    yield f"{missed} of {len(rows)} rows miss their target."


def _rows(run: dict) -> Iterator[Row]:
    for raw in run["rows"]:
        names = Row.__dataclass_fields__
        yield Row(**{name: raw[name] for name in names})


def _where(runs: list[dict]) -> Iterator[str]:
    machines = {(r["machine"]["processor"], r["machine"]["cores"]) for r in runs}
    for processor, cores in sorted(machines):
        yield f"Machine: {processor}, {cores} cores."
    packages = sorted({f"{name} {number}" for r in runs for name, number in r["versions"].items()})
    yield f"Versions: {', '.join(packages)}."
    commits = dict.fromkeys(commit for r in runs for commit in r["commit"].split())
    yield f"Commits: {', '.join(commits)}."


def _table(dtype: str, rows: list[Row]) -> Iterator[str]:
    """Rows of the three layouts side by side; median (smallest–largest) ratio, missed ones bold."""
    if not rows:
        return
    by_subject: dict[str, dict[str, Row]] = {}
    for row in rows:
        subject, _, layout = row.name.rpartition(", ")
        known = layout in LAYOUTS
        by_subject.setdefault(subject if known else row.name, {})[layout if known else ""] = row
    pairs = sorted({len(row.ratios) for row in rows} - {1})
    yield ""
    yield f"### {'Either precision' if dtype == '-' else dtype}, pairs: {_listed(pairs)}"
    yield ""
    yield f"| subject | rival | target | {' | '.join(LAYOUTS)} |"
    yield "|---|---|---|---|---|---|"
    for subject, found in by_subject.items():
        any_row = next(iter(found.values()))
        target = "–" if any_row.target is None else f"{any_row.target:g}"
        if "" in found:
            cells = [_ratio(found[""]), "", ""]
        else:
            cells = [_ratio(found[layout]) if layout in found else "–" for layout in LAYOUTS]
        yield f"| {subject} | {any_row.rival} | {target} | {' | '.join(cells)} |"
    yield ""


def _ratio(row: Row) -> str:
    low, middle, high = row.ratios[0], median(row.ratios), row.ratios[-1]
    text = _short(middle) if low == high else f"{_short(middle)} ({_short(low)}–{_short(high)})"
    return text if row.met else f"**{text}**"


def _listed(pairs: list[int]) -> str:
    return " or ".join(str(number) for number in pairs)


def _short(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


if __name__ == "__main__":
    print("\n".join(markdown(Path(name) for name in sys.argv[1:])))
