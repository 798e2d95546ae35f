"""The error of each query as dots, from the surest to the least sure."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from cdp_views.report.canvas import new_figure
from cdp_views.report.figure import view_style
from cdp_views.report.names import noise_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 60


def query_order(margin: np.ndarray, fixed: np.ndarray, most: int = MOST) -> np.ndarray:
    """Which queries are drawn, from the smallest margin to the largest.

    Args:
        margin: (mechanism, query) 90 % margins, counts; the order is that of their means.
        fixed: (query,) true where the totals determine the answer: it has no error to draw.
        most: as many at most, evenly spread over the order.

    Example:
        >>> query_order(np.array([[3.0, 1, 2, 5]]), np.array([False, False, False, True])).tolist()
        [1, 2, 0]
    """
    order = np.argsort(margin.mean(axis=0), kind="stable")
    order = order[~fixed[order]]
    if order.size <= most:
        return order
    return order[np.linspace(0, order.size - 1, most).round().astype(int)]


def query_figure(dataset: xr.Dataset) -> "Figure":
    """Mean absolute error of each query (dot) and what 9 of 10 errors stay within (end of line).

    One panel for each noise and pattern of scales, one colour a view; of more than 60 queries those
    evenly spread over the order are drawn, which the figure says. Answers that the totals determine
    are left out.

    Args:
        dataset: `mae` and `margin90` (mechanism, cell), counts, as in `Comparison.dataset`.

    Returns:
        A figure of matplotlib that belongs to no window; `write_figure` saves it.

    Raises:
        ImportError: matplotlib is not installed; the message says how to get it.

    Example:
        >>> import cdp_views as cdp
        >>> found = cdp.compare([3, 5, 8], cdp.totals(["a"] * 3), epsilon=1, delta=1e-6)
        >>> len(query_figure(found.dataset).axes)
        1
    """
    noise, scales, view = (
        dataset[f"mechanism_{name}"].values.astype(str) for name in ("noise", "scales", "view")
    )
    panels = list(dict.fromkeys(zip(noise, scales, strict=True)))
    fixed = dataset["determined"].values != 0
    order = query_order(dataset["margin90"].values, fixed)
    height = 1.7 + 0.27 * max(order.size, 4)
    figure = new_figure(2.2 + 3.9 * len(panels), height)
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for ax, panel in zip(axes, panels, strict=True):
        rows = [i for i, one in enumerate(zip(noise, scales, strict=True)) if one == panel]
        for k, i in enumerate(rows):
            places = np.arange(order.size) + 0.7 * ((k + 0.5) / len(rows) - 0.5)
            mae, margin = (dataset[name].values[i, order] for name in ("mae", "margin90"))
            color = view_style(view[i])["color"]
            ax.hlines(places, mae, margin, color=color, linewidth=1.5)
            ax.plot(mae, places, "o", color=color, markersize=4, label=view[i])
        ax.set_title(f"{panel[1]} scales, {noise_name(panel[0])} noise", loc="left")
        ax.set_xlabel("absolute error, counts")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(visible=True, axis="x", color="#DDDDDD", linewidth=0.6, zorder=0)
        ax.set_axisbelow(True)
    # One axis for all panels, wide enough for the widest line of any.
    axes[0].set_xlim(0, 1.04 * dataset["margin90"].values[:, order].max(initial=1e-9))
    axes[0].set_yticks(np.arange(order.size), dataset["cell"].values[order].astype(str))
    axes[0].set_ylim(order.size - 0.4, -0.6)
    shown: dict[str, Any] = {}
    for ax in axes:
        shown |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(
        shown.values(), shown, loc="outside lower center", ncols=len(shown), frameon=False
    )
    figure.suptitle(_title(dataset, int((~fixed).sum()), order.size), x=0.01, ha="left")
    return figure


def _title(dataset: xr.Dataset, noisy: int, drawn: int) -> str:
    told = ["Dot: mean absolute error; end of the line: 9 of 10 errors are smaller"]
    if drawn < noisy:
        told.append(f"{drawn} of {noisy:,}, evenly spread from the surest to the least sure")
    kinds = dataset["mechanism_error_kind"].values.astype(str)
    if (kinds == "estimate").any():
        who = dataset["mechanism_noise"].values.astype(str)[kinds == "estimate"]
        names = " and ".join(map(noise_name, dict.fromkeys(who)))
        told.append(f"Of {names} noise some are estimates from draws")
    if any(dataset[name].attrs.get("confidential") for name in ("mae", "margin90")):
        told.insert(0, "CONFIDENTIAL: depends on the true counts")
    return "\n".join(told)
