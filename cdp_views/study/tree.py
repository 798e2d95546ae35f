"""The result of a study: one tree, in which every figure says what it is."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from cdp_views.study.baselines import BASELINES
from cdp_views.study.measure import Payload
from cdp_views.study.plan import Study
from cdp_views.study.points import Point
from cdp_views.study.stored import FORMAT, RESULT, other_version, versions
from cdp_views.usefulness import SIZE_CLASSES
from cdp_views.usefulness.size import mark

# name ↦ (dimension beyond point, workload and repetition; unit; what it is; depends on the counts)
_OF_WORKLOADS: dict[str, tuple[str, str, str, bool]] = {
    "relative_margin90": ("size", "1", "median 90 % margin / true answer, by its size", True),
    "relative_mae": ("size", "1", "median mean absolute error / true answer, by its size", True),
    "bias_by_size": ("size", "counts", "mean error, by size of the true answer", True),
    "queries": ("size", "1", "number of queries, by size of the true answer", True),
    "mae": ("", "counts", "mean absolute error, mean of the queries", False),
    "rmse": ("", "counts", "root mean squared error over all queries", False),
    "sd": ("", "counts", "standard deviation of the error, mean of the queries", False),
    "margin90_typical": ("", "counts", "90 % margin, median of the queries", False),
    "margin90_worst": ("", "counts", "90 % margin, largest of the queries", False),
    "wrong_side": ("threshold", "1", "expected share of queries decided wrongly", True),
    "misallocated": ("threshold", "1", "expected share of counts in queries decided wrongly", True),
}
_OF_POINTS: dict[str, tuple[str, str]] = {
    "scale": ("counts", "scale of the base noise, mean of the cells"),
    "epsilon": ("nat", "ε that is kept, with delta"),
    "delta": ("1", "δ that is kept, with epsilon"),
    "pure_epsilon": ("nat", "largest privacy loss; infinite for Normal noise"),
    "mu": ("1", "μ of Gaussian differential privacy"),
    "rho": ("nat", "ρ of zero-concentrated differential privacy"),
    "guess_rate": ("1", "best chance of telling two neighbouring tables apart"),
    "entropy": ("nat", "entropy of the release on the tables that keep the totals"),
    "entropy_stderr": ("nat", "standard error of entropy"),
    "kl": ("nat", "divergence from independent noise given the totals, at the same scale"),
    "kl_stderr": ("nat", "standard error of kl"),
    "total_correlation": ("nat", "of all cells but one a group, mean over which"),
    "total_correlation_stderr": ("nat", "standard error of total_correlation"),
    "draws": ("1", "draws of the noise of each estimate"),
}
_TEXTS = ("guarantee", "kind", "guess_rate_kind", "neighbours")


def assemble(
    study: Study,
    measured: Sequence[tuple[Point, Payload]],
    skipped: Sequence[tuple[str, str]],
    command: str,
) -> xr.DataTree:
    """All points in one tree.

    Args:
        study: the plan.
        measured: points with what was found, in the order of the plan.
        skipped: combinations that cannot be had, and why.
        command: what made it.
    """
    public = all(table.public for table in study.tables.values())
    tree = xr.DataTree.from_dict(
        {
            "points": _points(study, measured),
            "workloads": _workloads(study, measured, public),
            "skipped": xr.Dataset(
                {"reason": ("combination", _texts(reason for _, reason in skipped))},
                coords={"combination": _texts(what for what, _ in skipped)},
            ),
        }
    )
    tree.attrs = {
        "title": "A study of mechanisms with exact totals",
        "format": FORMAT,
        "command": command,
        "plan": study.described(),
        "seed": study.seed,
        "versions": json.dumps(versions(), sort_keys=True),
        "confidential": 0 if public else 1,
        "note": "Standard errors end in _stderr and are 0 where a figure is exact. "
        + ("" if public else "CONFIDENTIAL: variables marked so depend on the true counts."),
    }
    return tree


def read_study(path: str | os.PathLike[str]) -> xr.DataTree:
    """The result that a study wrote.

    Args:
        path: `study.nc`, or the folder that holds it.

    Raises:
        ValueError: not there, not of a study, or of another version.
    """
    file = Path(path)
    file = file / RESULT if file.is_dir() else file
    if not file.is_file():
        raise ValueError(f"`{file}` is not there: the study is not finished, or lies elsewhere.")
    try:
        tree = xr.open_datatree(file, engine="h5netcdf").load()
    except (OSError, ValueError, KeyError):
        raise ValueError(f"`{file}` cannot be read: it is no netCDF file.") from None
    tree.close()
    found = tree.attrs.get("format")
    if found is None or "points" not in tree:
        raise ValueError(f"`{file}` is not the result of a study.")
    if found != FORMAT:
        raise ValueError(other_version(f"`{file}`", found))
    return tree


def _points(study: Study, measured: Sequence[tuple[Point, Payload]]) -> xr.Dataset:
    """What each point is, and what it gives away."""
    told = [point for point, _ in measured]
    coords: dict[str, Any] = {
        name: ("point", _texts(getattr(point, name) for point in told))
        for name in ("table", "invariant", "noise", "scales", "view", "notion", "identity")
    }
    coords["point"] = _texts(point.label for point in told)
    coords["budget"] = ("point", np.array([point.level.value for point in told], dtype=float))
    data: dict[str, Any] = {
        name: ("point", [_figure(held, name) for _, held in measured], _attrs(*about))
        for name, about in _OF_POINTS.items()
    }
    for name in _TEXTS:
        data[name] = ("point", _texts(held[f"text/{name}"] for _, held in measured))
    data["seed"] = ("point", np.full(len(told), study.seed), {"long_name": "with `identity`: key"})
    return xr.Dataset(data, coords=coords)


def _workloads(study: Study, measured: Sequence[tuple[Point, Payload]], public: bool) -> xr.Dataset:
    """What each point is good for."""
    names = list(study.workloads)
    thresholds = sorted({float(t) for q in study.workloads.values() for t in q.thresholds})
    sizes = {"size": len(SIZE_CLASSES), "threshold": len(thresholds)}
    shape = (len(measured), len(names), study.repetitions)
    adjusted = any(point.view in BASELINES for point, _ in measured)
    # Errors of ratios are divided by true totals.
    told = adjusted or any(queries.ratio for queries in study.workloads.values())
    data: dict[str, Any] = {}
    for name, (beyond, unit, meaning, depends) in _OF_WORKLOADS.items():
        if beyond == "threshold" and not thresholds:
            continue
        dims = ("point", "workload", "repetition", *([beyond] if beyond else []))
        for suffix in ("", "_stderr"):
            held = np.full((*shape, *([sizes[beyond]] if beyond else [])), np.nan)
            there = False
            for i, (_, payload) in enumerate(measured):
                for j, workload in enumerate(names):
                    value = payload.get(f"workload/{workload}/{name}{suffix}")
                    if value is None:
                        continue
                    there = True
                    if beyond == "threshold":
                        own = [float(t) for t in study.workloads[workload].thresholds]
                        held[i, j][:, np.searchsorted(thresholds, own)] = value
                    else:
                        held[i, j] = value
            if not there:
                continue
            long_name = meaning if not suffix else f"standard error of {name}"
            variable = xr.Variable(dims, held, {"unit": unit, "long_name": long_name})
            # What offices do to make counts add up has errors that depend on the counts.
            if depends or told:
                mark(variable, public)
            data[f"{name}{suffix}"] = variable
    variable = _best(data, names, measured)
    if told:
        mark(variable, public)
    kinds = np.full(shape[:2], "not asked", dtype=object)
    first_order = np.zeros(shape[:2], dtype=np.int8)
    for i, (_, payload) in enumerate(measured):
        for j, workload in enumerate(names):
            estimated = payload.get(f"workload/{workload}/estimated")
            if estimated is not None:
                kinds[i, j] = "estimate" if np.any(estimated) else "exact"
            if f"workload/{workload}/first_order" in payload:
                first_order[i, j] = 1
    data["error_kind"] = (("point", "workload"), kinds.astype(str))
    about = "1: of a ratio over a noisy total; mae, rmse and sd are those of its first order"
    data["first_order"] = (("point", "workload"), first_order, {"long_name": about})
    coords: dict[str, Any] = {
        "point": _texts(point.label for point, _ in measured),
        "workload": _texts(names),
        "unit": ("workload", _texts("1" if study.workloads[w].ratio else "counts" for w in names)),
        "repetition": np.arange(study.repetitions),
        "size": list(SIZE_CLASSES),
    }
    if thresholds:
        coords["threshold"] = thresholds
    for name in ("table", "invariant", "noise", "scales", "view", "notion"):
        coords[name] = ("point", _texts(getattr(point, name) for point, _ in measured))
    coords["budget"] = ("point", np.array([point.level.value for point, _ in measured]))
    return xr.Dataset(data, coords=coords)


def _best(
    data: dict[str, Any], names: Sequence[str], measured: Sequence[tuple[Point, Payload]]
) -> xr.Variable:
    """The yardstick of every point and workload, and what it rests on."""
    rmse = np.full((len(measured), len(names)), np.nan)
    kind = np.full(rmse.shape, "not asked", dtype=object)
    for i, (_, payload) in enumerate(measured):
        for j, workload in enumerate(names):
            if f"best/{workload}/rmse" in payload:
                rmse[i, j] = payload[f"best/{workload}/rmse"]
                kind[i, j] = str(payload[f"best/{workload}/kind"])
    about = _attrs("counts", "rmse of the best Gaussian at this privacy; of ratios to first order")
    variable = xr.Variable(("point", "workload"), rmse, about)
    data["best_gaussian_rmse"] = variable
    data["best_gaussian_kind"] = (("point", "workload"), kind.astype(str))
    return variable


def _figure(held: Payload, name: str) -> float:
    """A figure of a point; the standard error of one that is exact is 0."""
    figure = held.get(f"point/{name}", np.nan)
    if name.endswith("_stderr") and f"point/{name}" not in held:
        known = np.isfinite(held.get(f"point/{name.removesuffix('_stderr')}", np.nan))
        return 0.0 if known else np.nan
    return float(figure)


def _attrs(unit: str, meaning: str) -> dict[str, str]:
    return {"unit": unit, "long_name": meaning}


def _texts(words: Any) -> np.ndarray:
    return np.array([str(word) for word in words], dtype=object).astype(str)
