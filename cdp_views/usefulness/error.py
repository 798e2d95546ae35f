"""One question to a view: what is the release still good for?"""

from typing import TYPE_CHECKING, Any

import numpy as np

from cdp_views._float64 import in_float64
from cdp_views.deviation import Deviation, SampledDeviation
from cdp_views.invariants import Invariant
from cdp_views.usefulness.law import error_law, exact_moments
from cdp_views.usefulness.pooled import PooledDeviation
from cdp_views.usefulness.size import mark, relative_by_size
from cdp_views.usefulness.workload import as_workload

if TYPE_CHECKING:
    import xarray as xr

# Figures named once: what each is, for whoever opens the file.
_MEANING = {
    "bias": "mean error",
    "sd": "standard deviation of the error",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "margin90": "half-width of the interval around the truth that holds the release 9 times in 10",
}


def utility(
    view: Any, workload: Any = None, *, key: Any = None, draws: int = 4000, public: bool = False
) -> "xr.Dataset":
    """How far a release drawn from `view` lies from the truth, per query and in total.

    E = W (Y - loc): bias = E[E], sd, mae = E|E|, rmse, margin90 with P(|E| ≤ margin90) = 0.90.

    Args:
        view: a view with batch shape (); a distribution with only `sample`, `log_prob` and `loc`
            works when a key is given.
        workload: sums of cells, dense or sparse (q, n), or an `Invariant` (its totals); None for
            the n cells themselves.
        key: JAX key; giving one asks for an estimate where nothing exact exists.
        draws: number of draws of that estimate.
        public: the true counts are public, so that nothing is marked confidential.

    Returns:
        A dataset over `query` (all in counts), with `total_absolute_error` = Σ mae,
        `rmse_overall` = √(mean rmse²), `entropy` (nats, of the whole release; NaN where unknown),
        relative errors by size class of the true answer, and `<figure>_stderr` where estimated;
        bias, sd and rmse of cells are exact wherever the view knows its mean and variance.
        Variables that depend on the counts have the attribute `confidential` = 1.

    Raises:
        TypeError: `view` is no distribution.
        UnsupportedError: no exact law of the errors, and no key.
        ValueError: a batch of views, or a workload that does not fit.

    Example:
        >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
        >>> inv, counts = cdp.totals(["a", "a", "b", "b"]), np.array([3.0, 5.0, 8.0, 13.0])
        >>> cells = cdp.utility(cdp.Conditioned(dist.Normal(counts, 2.0), inv))
        >>> [round(float(sd), 4) for sd in cells.sd]  # 2 √(1 − 1/2)
        [1.4142, 1.4142, 1.4142, 1.4142]

    Reference: Leone, Nelson and Nottingham 1961, "The folded normal distribution" (mae of a Normal
    error); [L] §5.1 (errors of sums).
    """
    if isinstance(view, Invariant):
        raise TypeError(
            f"`view` is of type {type(view).__name__}, which is no distribution. Build it first: "
            "cdp.Conditioned(base, inv), for example."
        )
    if tuple(getattr(view, "batch_shape", ())) != ():
        raise ValueError(
            f"`view` must be one release; got batch shape {view.batch_shape}. "
            "Ask for one at a time."
        )
    truth = np.asarray(view.loc, dtype=np.float64)
    matrix, names = (None, None)
    if workload is not None:
        matrix, names = as_workload(workload, truth.shape[-1])
        truth = matrix @ truth
    law = error_law(view, matrix, key, draws)
    exact = exact_moments(view) if matrix is None and law.kind == "estimate" else {}
    result = _figures(law, exact)
    result = result.merge(
        relative_by_size(
            truth,
            {"mae": result["mae"].values, "margin90": result["margin90"].values},
            public=public,
        )
    )
    unsure = 5 * result["bias_stderr"].values if "bias_stderr" in result else 0.0
    if (np.abs(result["bias"].values) > unsure).any():
        # A bias comes from totals that are not the table's own, and tells them.
        for name in ("bias", "mae", "rmse", "margin90", "total_absolute_error", "rmse_overall"):
            mark(result[name], public)
    result["entropy"] = ((), _entropy(view), {"long_name": "entropy of the release", "unit": "nat"})
    result = result.assign_coords(query=list(names) if names else np.arange(truth.size))
    result.attrs["error_kind"] = law.kind
    if any(v.attrs.get("confidential") for v in result.data_vars.values()):
        result.attrs["note"] = "CONFIDENTIAL: variables marked so depend on the true counts"
    return result


def _figures(law: Deviation, exact: dict[str, np.ndarray]) -> "xr.Dataset":
    """All figures of the law, those in `exact` in place of its estimates."""
    figures = {
        "bias": law.bias,
        "sd": law.sd,
        "mae": law.mae,
        "rmse": law.rmse,
        "margin90": law.margin(0.90),
    } | exact
    errors = {name: error for name, error in (law.stderr or {}).items() if name not in exact}
    margin_stderr = law.margin_stderr(0.90)
    if margin_stderr is not None:
        errors["margin90"] = margin_stderr
    data: dict[str, Any] = {}
    for name, value in figures.items():
        kind = "exact" if name in exact else law.kind
        attrs = {"long_name": _MEANING[name], "unit": "counts", "kind": kind}
        data[name] = ("query", np.asarray(value), attrs)
    for name, value in errors.items():
        data[f"{name}_stderr"] = ("query", np.asarray(value), {"unit": "counts"})
    total = {"unit": "counts", "kind": law.kind}
    data["total_absolute_error"] = ((), float(figures["mae"].sum()), total)
    if isinstance(law, SampledDeviation | PooledDeviation):
        # Errors of one draw depend on each other: the draws are the sample, not the cells.
        sums = np.abs(law.draws).sum(axis=1)
        error = float(sums.std(ddof=1) / np.sqrt(sums.size))
        data["total_absolute_error_stderr"] = ((), error, {"unit": "counts"})
    overall = total | {"kind": "exact" if "rmse" in exact else law.kind}
    data["rmse_overall"] = ((), float(np.sqrt(np.mean(figures["rmse"] ** 2))), overall)
    import xarray as xr  # here: releases do without it

    return xr.Dataset(data)


@in_float64
def _entropy(view: Any) -> float:
    """Entropy in nats, NaN where the view has none in closed form."""
    try:
        return float(view.entropy())
    except (AttributeError, NotImplementedError):
        return float("nan")
