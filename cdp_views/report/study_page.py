"""One self-contained HTML page of a study: every point, by controls, with what to keep in mind."""

import html
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from cdp_views.report.names import mechanism_name, noise_name
from cdp_views.report.template import as_data, aside, fill, listed, plain, rerun

MEASURES = {
    "mae": "absolute error, mean of the answers",
    "margin90_typical": "90 % margin, the median answer",
    "margin90_worst": "90 % margin, the worst answer",
    "rmse": "root mean squared error, all answers",
    "sd": "standard deviation, mean of the answers",
}
_LARGEST = 2_600_000  # bytes of data: the page stays below 3 MB
_DIGITS = 5
_SENTENCES = 5  # that are read at a glance
_COORDINATES = ("table", "invariant", "noise", "scales", "view", "notion")


def study_page(tree: xr.DataTree, *, verdict: Sequence[str] = ()) -> str:
    """The page: verdict, charts that answer to controls, methods, how to cite and rerun.

    Args:
      tree: `points`, `workloads` and `skipped`, as a study makes it.
      verdict: sentences that stand first.

    Returns:
      HTML, one file without outside requests, below 3 MB: of a very large study the first points
      only, which the page says.

    Example:
      >>> import cdp_views as cdp
      >>> tables = {"blocks": {"source": "lafferty_blocks", "count": "count", "public": True}}
      >>> found = cdp.Study(tables, {"state": "state"}, epsilon=[1], delta=1e-6).run()
      >>> "https://" in study_page(found), "<title>A study of mechanisms" in study_page(found)
      (False, True)

    Reference: none; it draws what `cdp.Study` found.
    """
    points, workloads, skipped = (
        tree[name].to_dataset() for name in ("points", "workloads", "skipped")
    )
    public = not tree.attrs["confidential"]
    number = points.sizes["point"]
    kept, text = number, as_data(_data(points, workloads, public))
    while len(text.encode()) > _LARGEST and kept > 1:
        kept = max(1, int(kept * 0.9 * _LARGEST / len(text.encode())))
        first = slice(kept)
        text = as_data(_data(points.isel(point=first), workloads.isel(point=first), public))
    left = [f"The charts show the first {kept:,} of {number:,} points; study.nc holds all."]
    reasons = Counter(str(reason) for reason in skipped["reason"].values)
    why = [
        f"{'1 combination' if times == 1 else f'{times:,} combinations'}: {reason}"
        for reason, times in reasons.items()
    ]
    title = "A study of mechanisms with exact totals"
    parts = {
        "TITLE": title if public else f"CONFIDENTIAL: {title[0].lower()}{title[1:]}",
        "BANNER": ""
        if public
        else '<p class="banner">CONFIDENTIAL: relative errors, decisions, ratios and what offices '
        "do today depend on the true counts. Do not publish this page.</p>",
        "QUESTION": _question(points, workloads),
        "VERDICT": _verdict(verdict),
        "NOTES": aside("Not all is shown", left * (kept < number))
        + aside("What could not be had, and why", why),
        "RERUN": rerun(str(tree.attrs["command"])) + _made(tree),
        "PLAN": html.escape(
            json.dumps(json.loads(tree.attrs["plan"]), indent=1, ensure_ascii=False)
        ),
        "DATA": text,
    }
    return fill("study.html", parts)


def _verdict(sentences: Sequence[str]) -> str:
    """The first sentences, and the others for whoever opens them."""
    rest = sentences[_SENTENCES:]
    folded = f"<details><summary>{len(rest)} more comparisons</summary>{listed(rest)}</details>"
    return listed(sentences[:_SENTENCES]) + folded * bool(rest)


def _data(points: xr.Dataset, workloads: xr.Dataset, public: bool) -> dict[str, Any]:
    told = [
        {name: str(value) for name, value in zip(_COORDINATES, row, strict=True)}
        for row in zip(*(points[name].values for name in _COORDINATES), strict=True)
    ]
    for i, one in enumerate(told):
        one["label"] = mechanism_name(one["view"], one["noise"])
        one |= {name: str(points[name].values[i]) for name in ("guarantee", "kind", "neighbours")}
        one |= plain(
            {"budget": points["budget"].values[i], "guess": points["guess_rate"].values[i]}
        )
    figures: dict[str, Any] = {}
    for name in MEASURES:
        figures[name] = _mean(workloads, name)
        figures[f"{name}_stderr"] = _stderr(workloads, name)
    figures["relative"] = _mean(workloads, "relative_margin90")
    figures["wrong"] = _mean(workloads, "wrong_side") if "wrong_side" in workloads else None
    figures["best"] = plain(workloads["best_gaussian_rmse"].values, _DIGITS)
    kinds, bests = (workloads[name].values for name in ("error_kind", "best_gaussian_kind"))
    shown = np.where(
        workloads["first_order"].values == 1, "estimate; moments to first order", kinds
    )
    names: dict[str, Any] = {}
    for key, values in (("kind", shown), ("best_kind", bests)):
        names[key], place = np.unique(values, return_inverse=True)
        figures[key] = place.reshape(values.shape).tolist()
    return {
        "points": told,
        "noises": {name: noise_name(name) for name in dict.fromkeys(p["noise"] for p in told)},
        "workloads": [str(name) for name in workloads["workload"].values],
        "units": [str(unit) for unit in workloads["unit"].values],
        "measures": MEASURES,
        "sizes": [str(size) for size in workloads["size"].values],
        "thresholds": plain(workloads["threshold"].values) if "threshold" in workloads else [],
        "figures": {name: value for name, value in figures.items() if value is not None},
        "kinds": [str(kind) for kind in names["kind"]],
        "bests": [str(kind) for kind in names["best_kind"]],
        "public": public,
    }


def _mean(workloads: xr.Dataset, name: str) -> Any:
    """Over repetitions."""
    return plain(workloads[name].mean("repetition").values, _DIGITS)


def _stderr(workloads: xr.Dataset, name: str) -> Any:
    """Of that mean: repetitions are independent. Exact figures are the same in all of them."""
    variance = np.square(workloads[f"{name}_stderr"].values).sum(axis=2)
    return plain(np.sqrt(variance) / workloads.sizes["repetition"], 3)


def _question(points: xr.Dataset, workloads: xr.Dataset) -> str:
    def several(values: Any) -> str:
        return ", ".join(dict.fromkeys(str(value) for value in values))

    noises = several(map(noise_name, points["noise"].values))
    return html.escape(
        f"Counts are published with noise, and some totals exactly. Which noise, made to keep the "
        f"totals in which way, answers which question best, at which budget? "
        f"{points.sizes['point']:,} mechanisms: tables {several(points['table'].values)}; exact "
        f"within {several(points['invariant'].values)}; noise {noises}; "
        f"{several(points['view'].values)}; scales {several(points['scales'].values)}. Questions: "
        f"{several(workloads['workload'].values)}."
    )


def _made(tree: xr.DataTree) -> str:
    held = json.loads(tree.attrs["versions"])
    versions = ", ".join(f"{name} {version}" for name, version in held.items())
    return f"<p>Measured with {html.escape(versions)}; seed {tree.attrs['seed']}.</p>"
