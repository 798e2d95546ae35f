"""The comparison as one picture: errors by mechanism, by cell and by size of count."""

import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from cdp_views.report.canvas import new_figure
from cdp_views.report.names import noise_name
from cdp_views.report.rows import Row, grouped, percent, records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito (2008): told apart with any colour vision. Widths let lines under others show.
_STYLE: dict[str, dict[str, Any]] = {
    "unconstrained": {"color": "#666666", "linewidth": 1.6, "linestyle": (0, (1, 1.5))},
    "conditioned": {"color": "#E69F00", "linewidth": 6.0, "linestyle": "-"},
    "imaged": {"color": "#009E73", "linewidth": 3.2, "linestyle": "-"},
    "max-entropy": {"color": "#0072B2", "linewidth": 1.3, "linestyle": "-"},
}
# What "none proved" is called in a table: no notion of privacy, and so not one to compare within.
_NO_NOTION = "none proved"
_ALIKE = 0.02  # lines that lie this close look like one
_OTHER = {"color": "#CC79A7", "linewidth": 1.5, "linestyle": "--"}


def comparison_figure(table: pd.DataFrame, dataset: xr.Dataset) -> "Figure":
    """One row of panels for each noise and pattern of scales, all at the privacy in the title.

    Left: typical (median) and worst 90 % margin of error of a cell. Middle: standard deviation of
    each cell. Right, if the dataset has it: the margin relative to the true count; that panel
    depends on the counts and the figure then says CONFIDENTIAL.

    Args:
        table: one row a mechanism, as in `Comparison.table`.
        dataset: the same mechanisms' cells, as in `Comparison.dataset`.

    Returns:
        A figure of matplotlib that belongs to no window; `write_figure` saves it.

    Raises:
        ImportError: matplotlib is not installed; the message says how to get it.

    Example:
        >>> import cdp_views as cdp
        >>> found = cdp.compare([3, 5, 8], cdp.totals(["a"] * 3), epsilon=1, delta=1e-6)
        >>> len(comparison_figure(found.table, found.dataset).axes)
        3
    """
    groups = grouped(records(table), "noise", "scales")
    several = len(_notions(table)) > 1
    relative = "relative_margin90_median" in dataset
    columns = 3 if relative else 2
    figure = new_figure(4.9 * columns, 1.7 + 2.9 * len(groups))
    axes = figure.subplots(len(groups), columns, squeeze=False, sharex="col", sharey=False)
    for row, ((noise, scales), rows) in zip(axes, groups, strict=True):
        _margins(row[0], rows)
        heading = f"{scales} scales, {noise_name(noise)} noise"
        row[0].set_title(
            f"{heading}\n{_proved(rows)}" if several else heading, loc="left", fontweight="bold"
        )
        _cells(row[1], rows, dataset)
        if relative:
            _sizes(row[2], rows, dataset)
    _share_margins(axes[:, 0], table)
    _share_ratios(axes[:, 1])
    if relative:
        _share_percentages(axes[:, 2])
    for ax in axes[:-1].ravel():
        ax.set_xlabel("")
    axes[0, 1].set_title("noise in each cell, against unconstrained noise", loc="left")
    if relative:
        axes[0, 2].set_title("error against the true count", loc="left")
    # A view may be missing in one group and not in another.
    shown = dict(zip(*reversed(axes[0, 1].get_legend_handles_labels()), strict=True))
    for ax in axes[1:, 1]:
        shown |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    order = list(dict.fromkeys(row["view"] for row in records(table)))
    figure.legend(
        [shown[view] for view in order],
        order,
        loc="outside lower center",
        ncols=len(order),
        frameon=False,
    )
    figure.suptitle(_title(table), x=0.01, ha="left", fontsize="large")
    _stamp(figure, dataset)
    return figure


def _margins(ax: "Axes", rows: list[Row]) -> None:
    """Dots at the typical margin, a line to the worst."""
    places = np.arange(len(rows))[::-1]
    proved = _proved(rows)
    for place, row in zip(places, rows, strict=True):
        color = view_style(row["view"])["color"]
        typical, worst = row["margin90_typical"], row["margin90_worst"]
        ax.plot([typical, worst], [place, place], color=color, linewidth=2, solid_capstyle="butt")
        ax.plot(worst, place, "|", color=color, markersize=11, markeredgewidth=2)
        # A hollow dot: without the guarantee of its panel.
        kept = row["guarantee"] == proved
        ax.plot(typical, place, "o", color=color, markersize=9, mfc=color if kept else "white")
        told = dict.fromkeys((f"{typical:,.1f}", f"{worst:,.1f}"))
        ax.annotate(
            " to ".join(told),
            (worst, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    ax.set_yticks(places, [_named(row, proved) for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xscale("log")
    ax.set_xlabel("90 % margin of error, counts: typical cell (dot) to worst")
    _clean(ax, "x")


def _cells(ax: "Axes", rows: list[Row], dataset: xr.Dataset) -> None:
    """Standard deviation of every cell against that of the first row, the unconstrained base."""
    first = dataset.isel(mechanism=rows[0]["index"])
    order = np.lexsort((dataset["sd"].isel(mechanism=rows[-1]["index"]), first["relative_scale"]))
    if "determined" in dataset:
        # A cell that the totals determine has no noise, and no place here.
        order = order[dataset["determined"].values[order] == 0]
    base = first["sd"].values[order]
    ratios = []
    for i, view in _thick_first(rows):
        sd = dataset["sd"].isel(mechanism=i).values[order]
        ratio = np.divide(sd, base, out=np.full_like(sd, np.nan), where=(sd > 0) & (base > 0))
        ax.plot(np.arange(1, sd.size + 1), ratio, label=view, **view_style(view))
        ratios.append(ratio)
    kept = np.array(ratios)[:, np.isfinite(ratios).all(axis=0)]
    spread = np.ptp(kept, axis=0).max(initial=0.0)
    if len(rows) > 1 and spread < _ALIKE:
        # Else a reader looks for the lines that lie under others.
        all_ = {2: "both", 3: "all three", 4: "all four"}.get(len(rows), f"all {len(rows)}")
        ax.text(
            0.02,
            0.05,
            f"{all_} lines lie together, within {100 * max(spread, 0.001):.1f} %",
            transform=ax.transAxes,
            fontsize="small",
        )
    ax.set_xlabel("cells, from the smallest scale asked for to the largest")
    ax.set_ylabel("standard deviation, relative")
    _clean(ax, "y")


def _sizes(ax: "Axes", rows: list[Row], dataset: xr.Dataset) -> None:
    """Typical relative margin in each size class of the true count."""
    filled = (dataset["queries"].values > 0) & (np.arange(dataset.sizes["size"]) > 0)
    places = np.arange(filled.sum())
    for i, view in _thick_first(rows):
        relative = dataset["relative_margin90_median"].isel(mechanism=i).values[filled]
        ax.plot(places, 100 * relative, marker="o", markersize=4, label=view, **view_style(view))
    ax.axhline(100, color="black", linewidth=0.8, zorder=0)
    ax.text(
        places[-1] if places.size else 0,
        100,
        "as large as the count",
        va="bottom",
        ha="right",
        fontsize="small",
    )
    ax.set_yscale("log")
    ax.set_xticks(places, dataset["size"].values[filled])
    ax.set_xlabel("true count of the cell")
    ax.set_ylabel("median 90 % margin, % of count")
    _clean(ax, "y")


def _thick_first(rows: list[Row]) -> list[tuple[int, str]]:
    pairs = [(row["index"], row["view"]) for row in rows]
    return sorted(pairs, key=lambda pair: -view_style(pair[1])["linewidth"])


def view_style(view: str) -> dict[str, Any]:
    """Colour and line of a view, the same in every picture.

    Example:
        >>> view_style("imaged")["color"]
        '#009E73'
    """
    return _STYLE.get(view, _OTHER)


def _share_margins(axes: np.ndarray, table: pd.DataFrame) -> None:
    """One axis down the column, with room for the numbers at the right."""
    low = min(row["margin90_typical"] for row in records(table))
    high = max(row["margin90_worst"] for row in records(table))
    for ax in axes:
        ax.set_xlim(low / 2, high * max(high / low, 10.0) ** 0.5)
        _plain_numbers(ax.xaxis, "2 5" if high < 20 * low else "")


def _share_ratios(axes: np.ndarray) -> None:
    """One axis down the column, never so narrow that equal looks different."""
    low = min(0.8, *(ax.get_ylim()[0] for ax in axes))
    high = max(1.2, *(ax.get_ylim()[1] for ax in axes))
    for ax in axes:
        ax.set_ylim(low, high)


def _share_percentages(axes: np.ndarray) -> None:
    """One axis down the column."""
    low = min(ax.get_ylim()[0] for ax in axes)
    high = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(low, high)
        _plain_numbers(ax.yaxis, "")


def _plain_numbers(axis: Any, minor: str) -> None:
    """1, 10, 100 instead of powers, and those minor ticks whose first digit is in `minor`."""
    axis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    axis.set_minor_formatter(
        lambda value, _: f"{value:,.12g}" if f"{value:e}"[0] in minor.split() else ""
    )


def _clean(ax: "Axes", grid: Literal["x", "y"]) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, axis=grid, color="#DDDDDD", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)


def _title(table: pd.DataFrame) -> str:
    notions = _notions(table)
    unit = f"Neighbours: {textwrap.shorten(str(table['neighbours'].iloc[0]), 110)}."
    chances = {
        guarantee: percent(worst["guess_rate"], worst["guess_rate_stderr"])
        for guarantee, rows in notions.items()
        if np.isfinite((worst := max(rows, key=_chance))["guess_rate"])
    }
    said = "An attacker tells two neighbouring tables apart with a chance of at most"
    blindly = "(guessing blindly: 50 %)"
    if len(notions) > 1:
        each = "; ".join(f"{chance} at {guarantee}" for guarantee, chance in chances.items())
        heading = "Errors at two notions of privacy: compare within one, not across"
        return "\n".join([heading, f"{said} {blindly}:", f"{each}.", unit])
    heading = f"Errors at equal privacy: {', '.join(notions)}"
    if table["guarantee"].eq(_NO_NOTION).any():
        heading += " (hollow dots: no guarantee is proved)"
    told = [f"{said} {chance} {blindly}." for chance in chances.values()]
    return "\n".join([heading, *told, unit])


def _notions(table: pd.DataFrame) -> dict[str, list[Row]]:
    """The rows of each guarantee, in order; without those for which none is proved."""
    rows = grouped(records(table), "guarantee")
    return {guarantee: some for (guarantee,), some in rows if guarantee != _NO_NOTION}


def _chance(row: Row) -> float:
    return -1.0 if np.isnan(row["guess_rate"]) else row["guess_rate"]


def _proved(rows: list[Row]) -> str:
    """What the rows of a panel keep: that of the first, the unconstrained base."""
    return rows[0]["guarantee"]


def _named(row: Row, proved: str) -> str:
    """The view, with what sets it apart: totals that are not exact, or another guarantee."""
    apart = []
    if row["view"] == "unconstrained":
        apart.append("totals not exact")
    if row["guarantee"] != proved:
        apart.append(row["guarantee"])
    return "\n".join([row["view"], *(f"({words})" for words in apart)])


def _stamp(figure: "Figure", dataset: xr.Dataset) -> None:
    """Say CONFIDENTIAL on a figure that shows what depends on the counts."""
    shown = [name for name in ("relative_margin90_median", "queries") if name in dataset]
    if any(dataset[name].attrs.get("confidential") for name in shown):
        figure.text(
            0.995,
            0.995,
            "CONFIDENTIAL: the right-hand panels depend on the true counts",
            color="#D55E00",
            fontweight="bold",
            ha="right",
            va="top",
        )
