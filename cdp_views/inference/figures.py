"""Calibration in pictures: ranks against their band, and two analyses side by side."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from cdp_views.inference.uniformity import bins_for, ecdf_band, ranks_below
from cdp_views.report.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cdp_views.inference.calibrated import Ranks

# Okabe & Ito (2008): told apart with any colour vision; markers differ too.
_STYLE: dict[str, dict[str, Any]] = {
    "naive": {"color": "#E69F00", "marker": "s", "label": "naive"},
    "aware": {"color": "#0072B2", "marker": "o", "label": "knows noise and totals"},
}
_OUT, _IN = "#D55E00", "#0072B2"


def rank_figure(found: "Ranks") -> "Figure":
    """One panel a site: how far the share of ranks below u is from u, cell by cell.

    The grey band holds all curves of the figure at once with chance 90 % if ranks are uniform
    (exact for each curve, Bonferroni over them). A curve that leaves it is drawn in vermilion. An S
    that first falls: posteriors too wide; one that first rises: too narrow; a bow: biased.

    Args:
        found: from `simulation_based_calibration`.

    Returns:
        A figure of matplotlib that belongs to no window.

    Raises:
        ImportError: matplotlib is not installed (extra `plot`).
    """
    figure = new_figure(0.6 + 4.2 * len(found.ranks.data_vars), 3.6)
    axes = figure.subplots(1, len(found.ranks.data_vars), squeeze=False, sharey=True)[0]
    count = found.ranks.sizes["simulation"]
    bins = bins_for(count, found.draws)
    u = np.arange(bins + 1) / bins
    low, high = ecdf_band(count, bins, 1 - 0.1 / len(found.table))
    for ax, (name, site) in zip(axes, found.ranks.items(), strict=True):
        ax.axhline(0, color="#666666", linewidth=0.8)
        ax.fill_between(
            u,
            np.append(np.insert(low / count, 0, 0), 1) - u,
            np.append(np.insert(high / count, 0, 0), 1) - u,
            color="#DDDDDD",
            linewidth=0,
        )
        outside = 0
        for ranks in site.values.T:
            below = ranks_below(ranks, found.draws, bins)
            out = bool(np.any((below < low) | (below > high)))
            outside += out
            curve = np.append(np.insert(below / count, 0, 0), 1) - u
            ax.plot(u, curve, color=_OUT if out else _IN, linewidth=1.2 if out else 0.8)
        curves = site.shape[1]
        told = f"{name}: {curves} {'curve' if curves == 1 else 'curves'}, {outside} outside"
        ax.set_title(told, loc="left")
        ax.set_xlabel("rank of the truth, as a share")
    axes[0].set_ylabel("share of ranks below − expected")
    figure.suptitle(
        f"{count} simulations, p = {found.p_value:.2g}\ngrey: holds all curves with chance 90%",
        x=0.01, ha="left", fontsize="medium",
    )  # fmt: skip
    return figure


def naive_and_aware_figure(found: xr.Dataset) -> "Figure":
    """Coverage, bias and width of 90 % intervals, one row a site; bars are ± 2 standard errors.

    Bias and width are in units of the mean width of the aware model's intervals, so that sites of
    different size share one axis.

    Args:
        found: from `naive_and_aware`.

    Returns:
        A figure of matplotlib that belongs to no window.

    Raises:
        ImportError: matplotlib is not installed (extra `plot`).
    """
    sites = [str(site) for site in found["site"].values]
    figure = new_figure(11.0, 1.9 + 0.55 * len(sites))
    axes = figure.subplots(1, 3, sharey=True)
    unit = found["mean_width90"].sel(analysis="aware")
    of_site = found["site_of_quantity"].values
    cells = xr.DataArray(of_site, dims="quantity")
    panels = (
        ("coverage90", 1.0, "share of 90% intervals that hold the truth", 0.9),
        ("bias", unit.sel(site=cells), "bias, in widths of the aware interval", 0),
        ("mean_width90", unit, "width of 90% intervals, aware = 1", 1.0),
    )
    places = np.arange(len(sites))[::-1]
    row_of = dict(zip(sites, places, strict=True))
    for ax, (name, divisor, title, line) in zip(axes, panels, strict=True):
        ax.axvline(line, color="#666666", linewidth=0.9, linestyle=(0, (4, 2)))
        for shift, (analysis, style) in zip((0.14, -0.14), _STYLE.items(), strict=True):
            value = (found[name] / divisor).sel(analysis=analysis).values
            error = (2 * found[f"{name}_se"] / divisor).sel(analysis=analysis).values
            place = np.array([row_of[s] for s in of_site]) if name == "bias" else places
            if value.size > len(sites):  # a dot a cell: bars would hide them
                faint = style | {"alpha": 0.5, "markersize": 4}
                ax.plot(value, place + shift, linestyle="", **faint)
            else:
                ax.errorbar(value, place + shift, xerr=error, linestyle="", capsize=2, **style)
        ax.set_title(title, loc="left", fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(places, sites)
    axes[0].set_ylim(-0.6, len(sites) - 0.4)
    axes[0].set_xlim(min(axes[0].get_xlim()[0], 0.8), 1.01)
    axes[2].set_xlim(left=0)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(
        f"The same {found.attrs['repetitions']} simulated releases, analysed twice",
        x=0.01, ha="left", fontsize="large",
    )  # fmt: skip
    return figure
