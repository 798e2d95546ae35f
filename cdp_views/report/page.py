"""One self-contained HTML page of a comparison: it opens offline and says how it was made."""

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from cdp_views.report.names import mechanism_name, noise_name
from cdp_views.report.queries import MOST, query_order
from cdp_views.report.rows import figure, percent, records
from cdp_views.report.template import as_data, aside, fill, listed, plain, rerun

MEASURES = {
    "mean_sd": "standard deviation of a cell, mean over the cells",
    "margin90_typical": "90 % margin of a cell, the median cell",
    "margin90_worst": "90 % margin of a cell, the worst cell",
    "mean_absolute_error": "absolute error of a cell, mean over the cells",
    "total_absolute_error": "absolute errors, summed over the cells",
    "totals_margin90_worst": "90 % margin of a published total, the worst one",
}
_RELATIVE = re.compile(r"(?:CONFIDENTIAL_)?median_relative_margin90_of_(.+)")
_RANKS = 400


def comparison_page(
    table: pd.DataFrame,
    dataset: xr.Dataset,
    *,
    sentences: Mapping[str, Sequence[str]],
    public: bool,
    budgets: Mapping[str, Any] | None = None,
    curves: xr.Dataset | None = None,
    command: str | None = None,
) -> str:
    """The page: verdict, table, charts that answer to controls, methods, how to cite and rerun.

    Args:
      table: one row a mechanism, as `cdp.compare` makes it.
      dataset: `margin90` (mechanism, cell), counts.
      sentences: "verdict", "determined" (names of cells), "notes" ↦ texts.
      public: the counts are public; otherwise the page is marked confidential.
      budgets: `epsilon` (b,) and `factor` (mechanism, b): by how much every error of a mechanism
        grows or shrinks when the budget is ε instead; None leaves the slider out.
      curves: from `profile_curves`; None leaves them out.
      command: what was typed, so that a reader can rerun it.

    Returns:
      HTML, one file without outside requests, below 3 MB whatever the number of cells.

    Example:
      >>> import cdp_views as cdp
      >>> found = cdp.compare([3, 5, 8], cdp.totals(["a"] * 3), epsilon=1, delta=1e-6, public=True)
      >>> "http://" in found.page() or "https://" in found.page()
      False

    Reference: none; it draws what `cdp.compare` found.
    """
    rows = records(table)
    data = {
        "rows": [_row(row) for row in rows],
        "noises": {name: noise_name(name) for name in dict.fromkeys(table["noise"].astype(str))},
        "measures": MEASURES,
        "sizes": [m[1] for name in table.columns if (m := _RELATIVE.fullmatch(str(name)))],
        "cells": _cells(dataset),
        "each": _each(dataset),
        "budgets": None if budgets is None else {k: plain(v) for k, v in budgets.items()},
        "curves": None if curves is None else _curves(curves),
        "public": public,
    }
    parts = {
        "TITLE": "Three views compared" if public else "CONFIDENTIAL: three views compared",
        "BANNER": ""
        if public
        else '<p class="banner">CONFIDENTIAL: relative errors by size depend on the true counts. '
        "Do not publish this page.</p>",
        "QUESTION": _question(table, dataset),
        "VERDICT": listed(sentences.get("verdict", ())),
        "NOTES": aside("Published exactly, not protected", [_named(sentences["determined"])])
        * bool(sentences.get("determined"))
        + aside("Before you use these numbers", sentences.get("notes", ())),
        "TABLE": _table(rows),
        "RERUN": rerun(command),
        "DATA": as_data(data),
    }
    return fill("page.html", parts)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("noise", "scales", "view", "guarantee", "kind", "error_kind")
    relative = {m[1]: v for name, v in row.items() if (m := _RELATIVE.fullmatch(name))}
    errors = {f"{name}_stderr": row.get(f"{name}_stderr", math.nan) for name in MEASURES}
    return {
        **{name: str(row[name]) for name in kept},
        "label": mechanism_name(row["view"], row["noise"])
        + (f", {row['scales']} scales" if row["scales"] != "equal" else ""),
        "values": plain({name: row[name] for name in MEASURES} | errors),
        "relative": plain(relative),
    }


def _cells(dataset: xr.Dataset) -> dict[str, Any]:
    """Margins of the cells, sorted, at no more than some hundred ranks."""
    margin = np.sort(np.atleast_2d(dataset["margin90"].values), axis=1)
    n = margin.shape[1]
    at = np.unique(np.linspace(0, n - 1, min(n, _RANKS)).round().astype(int))
    return {"share": plain((at + 0.5) / n), "margin90": plain(margin[:, at]), "n": n}


def _each(dataset: xr.Dataset) -> dict[str, Any] | None:
    """Errors of every cell by name, sorted; None where they are more than can be read."""
    margin, fixed = dataset["margin90"].values, dataset["determined"].values != 0
    if not 0 < np.count_nonzero(~fixed) <= MOST:
        return None
    order = query_order(margin, fixed)
    names = [str(name) for name in dataset["cell"].values[order]]
    mae = dataset["mae"].values[:, order]
    return {"names": names, "mae": plain(mae, 5), "margin90": plain(margin[:, order], 5)}


def _curves(curves: xr.Dataset) -> dict[str, Any]:
    names = ("delta", "delta_low", "delta_high", "tradeoff", "tradeoff_low", "tradeoff_high")
    axes = {name: plain(curves[name].values) for name in ("epsilon", "type_one")}
    lines = {name: plain(np.round(curves[name].values, 6)) for name in names}
    labels = {name: [str(v) for v in curves[name].values] for name in ("noise", "view", "kind")}
    called = [
        mechanism_name(view, noise) if noise else view
        for view, noise in zip(labels["view"], labels["noise"], strict=True)
    ]
    return axes | lines | labels | {"label": called}


def _question(table: pd.DataFrame, dataset: xr.Dataset) -> str:
    guarantees = list(dict.fromkeys(table["guarantee"].astype(str)))
    units = list(dict.fromkeys(table["neighbours"].astype(str)))
    noises = " and ".join(noise_name(n) for n in dict.fromkeys(table["noise"].astype(str)))
    return html.escape(
        f"{dataset.sizes['cell']:,} counts are published with {noises} noise, and their totals "
        f"exactly. Which way of making the noise keep the totals leaves the counts most useful? "
        f"Guarantees: {'; '.join(guarantees)}. Unit of privacy: {'; '.join(units)}."
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = (
        "noise",
        "scales",
        "view",
        "guarantee",
        "kind",
        "best guess",
        "mean sd",
        "typical 90 % margin",
        "worst 90 % margin",
        "errors are",
    )
    lines = []
    for row in rows:
        guess = percent(float(row["guess_rate"]), float(row["guess_rate_stderr"])) or "–"
        texts = [
            noise_name(row["noise"]),
            row["scales"],
            row["view"],
            row["guarantee"],
            row["kind"],
        ]
        numbers = [guess]
        numbers += [figure(row[n]) for n in ("mean_sd", "margin90_typical", "margin90_worst")]
        lines.append(
            "".join(f"<td>{html.escape(str(text))}</td>" for text in texts)
            + "".join(f'<td class="n">{number}</td>' for number in numbers)
            + f"<td>{html.escape(row['error_kind'])}</td>"
        )
    right = heads[5:9]
    head = "".join(
        f'<th scope="col"{' class="n"' * (name in right)}>{html.escape(name)}</th>'
        for name in heads
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _named(names: Sequence[str], most: int = 40) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
