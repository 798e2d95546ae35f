"""A comparison on the terminal, or in a pipe: plain text that fits 100 columns."""

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from cdp_views.report import grouped, percent, records

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from cdp_views.study import Comparison

_PIPE_WIDTH, _NARROWEST, _WIDEST = 110, 100, 120
_NAMES_SHOWN = 20


def show(comparison: "Comparison", intro: list[str]) -> None:
    """Print what was compared, the table, the relative errors, the verdict and the notes."""
    from rich.console import Console

    width = min(max(shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns, _NARROWEST), _WIDEST)
    if not sys.stdout.isatty():
        width = _PIPE_WIDTH
    console = Console(width=width, highlight=False, emoji=False, markup=False)
    for sentence in intro:
        _wrap(sentence, width)
    console.print()
    # The last column only where it fits: rich would cut its numbers.
    with console.capture() as printed:
        console.print(_mechanisms(comparison.table, entropy=True))
    told = ["entropy", *map(_nats, comparison.table["entropy"])]
    entropy = all(word in printed.get() for word in told)
    console.print(_mechanisms(comparison.table, entropy=entropy))
    estimated = comparison.table["guess_rate_stderr"].notna().any()
    _wrap(
        "unconstrained does not keep the totals, the views do. kind: how sure the privacy is. "
        "guess: the best chance of telling two neighbouring tables apart (50 % is blind)"
        + (", with its standard error where it is estimated." if estimated else ".")
        + " scale: what the base noise takes, mean of the cells; sd: mean of the cells; ± is the "
        "half-width that holds a cell's error in 9 of 10 releases, of the median (typical) and the "
        "worst cell. Σ|error|: the cells' expected absolute errors, summed."
        + (
            " Errors in counts, entropy in nats."
            if entropy
            else " All in counts; entropy is in comparison.csv (--out)."
        ),
        width,
    )
    if (comparison.table["error_kind"] == "estimate").any():
        _wrap("≈ estimate; standard errors in comparison.csv", width)
    console.print()
    mark = "" if comparison.public else "CONFIDENTIAL (depends on the true counts): "
    _wrap(f"{mark}median ± relative to the true count, by size of the count", width)
    console.print(_relative(comparison.table))
    console.print()
    for sentence in comparison.verdict:
        _wrap(sentence, width, "• ")
    if comparison.determined:
        _wrap(_determined(comparison.determined), width, "• ")
    for note in comparison.notes:
        _wrap(note, width, "! ")


def _mechanisms(table: "pd.DataFrame", *, entropy: bool) -> "Table":
    from rich.table import Table

    several = _several(table)
    # Two noises need the room: standard errors and estimates are long.
    out = _table(gap=0 if several else 1)
    first = "noise, scales" if several else "scales"
    for heading in (first, "view", "privacy", "kind"):
        # A guarantee shared by several tables or the name of a pattern is long: these may wrap.
        wraps = heading in ("privacy", first)
        out.add_column(heading, no_wrap=not wraps, min_width=13 if heading == "privacy" else None)
    figures = ("guess", "scale", "sd", "± typical", "± worst", "Σ|error|", "entropy")
    for heading in figures if entropy else figures[:-1]:
        out.add_column(heading, justify="right", no_wrap=True)
    for (noise, scales), rows in grouped(records(table), "noise", "scales"):
        # The noise beside the first row, the scales beside the second: no cell need wrap.
        names = [noise, scales] if several and len(rows) > 1 else [f"{noise}, {scales}"]
        for place, row in enumerate(rows):
            about = "≈" if row["error_kind"] == "estimate" else ""
            out.add_row(
                "".join((names if several else [scales])[place : place + 1]),
                row["view"],
                _guarantee(row),
                row["kind"],
                percent(row["guess_rate"], row["guess_rate_stderr"]),
                _number(row["scale"]),
                _number(row["mean_sd"]),
                about + _number(row["margin90_typical"]),
                about + _number(row["margin90_worst"]),
                about + _whole(row["total_absolute_error"]),
                *([_nats(row["entropy"])] if entropy else []),
            )
        out.add_section()
    assert isinstance(out, Table)
    return out


def _guarantee(row: dict[str, Any]) -> str:
    """What is proved: of one cell alone where nothing is of all."""
    one = row.get("one_cell_epsilon", np.nan)
    return row["guarantee"] + ("" if np.isnan(one) else f"; of one cell ε = {one:g}")


def _relative(table: "pd.DataFrame") -> "Table":
    """Median 90 % margin relative to the true count, by size of the count."""
    columns = [str(c) for c in table.columns if "median_relative_margin90_of_" in c]
    columns = [c for c in columns if np.isfinite(table[c].to_numpy(dtype=float)).any()]
    out = _table()
    several = _several(table)
    out.add_column("noise, scales" if several else "scales", no_wrap=True)
    out.add_column("view", no_wrap=True)
    for name in columns:
        out.add_column(name.rsplit("_of_", 1)[1], justify="right", no_wrap=True)
    for (noise, scales), rows in grouped(records(table), "noise", "scales"):
        group = f"{noise}, {scales}" if several else scales
        for place, row in enumerate(rows):
            out.add_row(
                group if place == 0 else "", row["view"], *(_percent(row[c]) for c in columns)
            )
        out.add_section()
    return out


def _several(table: "pd.DataFrame") -> bool:
    return table["noise"].nunique() > 1


def _table(gap: int = 1) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.2f}"


def _nats(value: float) -> str:
    return "" if np.isnan(value) else f"{value:,.1f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _percent(ratio: float) -> str:
    if np.isnan(ratio):
        return ""
    return f"{100 * ratio:,.0f} %" if ratio >= 0.1 else f"{100 * ratio:.2g} %"


def _determined(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = "" if len(names) <= _NAMES_SHOWN else f" and {len(names) - _NAMES_SHOWN:,} more"
    return (
        f"Published exactly, not protected, because the totals alone determine them: {shown}{more}."
        " They are left out of the averages above."
    )


def _wrap(sentence: str, width: int, bullet: str = "") -> None:
    print(
        textwrap.fill(
            sentence,
            width,
            initial_indent=bullet,
            subsequent_indent=" " * len(bullet),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
