"""A posterior of a table in one picture: intervals, and what was released."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from cdp_views.report.canvas import new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST, _LETTERS = 120, 110  # cells shown, letters in a line of the title


def posterior_figure(
    summary: "pd.DataFrame",
    *,
    released: Any,
    threshold: float | None = None,
    title: str | None = None,
) -> "Figure":
    """Posterior mean and 90 % interval of each cell beside its released count, by size.

    Above as counts; below less the released count, where intervals are seen that are small beside
    the counts.

    Args:
        summary: one row a cell, columns `mean`, `eti90_lower`, `eti90_upper`, counts.
        released: (n,) counts.
        threshold: a line to draw, counts.
        title: what it is a posterior of, and from how many draws.

    Returns:
        A matplotlib figure. Of more than 120 cells those nearest the threshold are shown, or a
        sample evenly spread over the sizes.

    Raises:
        ImportError: without matplotlib (extra `plot`).
    """
    order = np.argsort(summary["mean"].to_numpy(), kind="stable")
    what = f"{order.size} cells"
    if order.size > _MOST:
        if threshold is None:
            order = order[np.linspace(0, order.size - 1, _MOST).round().astype(int)]
            what = f"{_MOST} of {summary.shape[0]} cells, evenly spread over the sizes"
        else:
            gap = np.abs(summary["mean"].to_numpy()[order] - threshold)
            order = order[np.sort(np.argsort(gap, kind="stable")[:_MOST])]
            what = f"the {_MOST} of {summary.shape[0]} cells nearest the threshold"
    chosen, seen = summary.iloc[order], np.asarray(released)[order]
    figure = new_figure(9.0, 6.4)
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
    at = np.arange(order.size)
    for ax, zero in ((above, np.zeros_like(seen, dtype=float)), (below, seen)):
        low, high = chosen["eti90_lower"] - zero, chosen["eti90_upper"] - zero
        ax.vlines(at, low, high, color="#0072B2", alpha=0.45, linewidth=2.5)
        ax.plot(at, chosen["mean"] - zero, "o", color="#0072B2", markersize=4)
        ax.plot(at, seen - zero, "x", color="#D55E00", markersize=4)
        ax.spines[["top", "right"]].set_visible(False)
    above.lines[0].set_label("posterior mean and 90 % interval (equal tails)")
    above.lines[1].set_label("released count")
    if threshold is not None:
        above.axhline(threshold, color="0.3", linewidth=0.9, label=f"threshold {threshold:,g}")
    if np.max(np.abs(seen)) > 50 * np.median(np.abs(seen)):
        above.set_yscale("symlog", linthresh=max(float(np.median(np.abs(seen))), 1.0))
    if order.size <= 40:
        names = [str(name).partition("[")[2].rstrip("]") for name in chosen.index]
        below.set_xticks(at, names, rotation=90, fontsize=7)
    else:
        below.set_xticks([])
    above.set(ylabel="count")
    below.set(xlabel=f"{what}, by posterior mean", ylabel="count less released")
    above.legend(frameon=False)
    if title is not None:
        figure.suptitle(fill(title, _LETTERS), x=0.01, ha="left", fontsize="medium")
    return figure
