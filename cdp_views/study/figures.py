"""What one workload says of one point: sums or ratios, exact where they can be."""

from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.study.inputs import Inputs
from cdp_views.study.mechanisms import UNCONSTRAINED
from cdp_views.study.points import Point
from cdp_views.usefulness.decisions import wrong_side
from cdp_views.usefulness.law import error_law, exact_moments
from cdp_views.usefulness.ratios import Ratios, drawn_ratios, ratios
from cdp_views.usefulness.summary import summary

_AT_ONCE = 2**22  # numbers of a workload that are written out: 32 MiB
_ALTOGETHER = 2**30  # beyond it moments come from draws
# Quantiles: what a ratio over a noisy total has; its moments are those of its first order.
_OF_DRAWS = ("margin90_typical", "margin90_worst", "relative_margin90")


def figures(
    inputs: Inputs, point: Point, workload: str, view: Any, key: Any, draws: int
) -> dict[str, Any]:
    """All figures of one workload, from the law of its errors."""
    matrix = inputs.workload(point.table, workload)
    inv = inputs.invariant(point.table, point.invariant)
    counts = inputs.counts(point.table)
    queries = inputs.study.workloads[workload]
    # Cells that the totals determine are published as counted: no question is left.
    kept: Any = ~np.asarray(inv.determined, dtype=bool) if queries.cells else slice(None)
    ratio = _ratio(inputs, point, workload)
    if ratio is None:
        truth = (counts if matrix is None else matrix @ counts)[kept]
        law = error_law(view, matrix, key, draws)
        known = _moments(view, matrix) if law.kind == "estimate" else {}
        found = summary(law, truth, known=known, kept=kept)
    else:
        kept = kept[ratio.kept] if queries.cells else kept
        truth = ratio.truth[kept]
        law = error_law(view, ratio.linear, key, draws)
        known = _moments(view, ratio.linear) if law.kind == "estimate" else {}
        found = summary(law, truth, known=known, kept=kept, sizes=ratio.counts[kept])
        if not ratio.exact.all():
            law = drawn_ratios(view, ratio, key, draws)
            drawn = summary(law, truth, kept=kept, sizes=ratio.counts[kept])
            for name in _OF_DRAWS:
                found[name] = drawn[name]
                found[f"{name}_stderr"] = drawn[f"{name}_stderr"]
            found["bias_by_size"] = np.full_like(found["bias_by_size"], np.nan)
            found["bias_by_size_stderr"] = np.full_like(found["bias_by_size"], np.nan)
            found["estimated"] = 1.0
            found["first_order"] = 1.0
    if queries.thresholds:
        found |= wrong_side(law, truth, queries.thresholds, kept=kept)
    return found


def best_possible(inputs: Inputs, point: Point, workload: str) -> tuple[float, str]:
    """Root mean square error of the best Gaussian at this budget, and what it rests on."""
    mu = point.level.mu
    if not np.isfinite(mu):
        return float("nan"), "none: Normal noise cannot keep this budget"
    rmse, kind = inputs.best(point.table, point.invariant, workload)
    return rmse / mu, kind


def _ratio(inputs: Inputs, point: Point, workload: str) -> Ratios | None:
    below, above = inputs.ratio(point.table, workload), inputs.workload(point.table, workload)
    if below is None or above is None:
        return None
    inv = inputs.invariant(point.table, point.invariant)
    # Noise that keeps nothing publishes noisy totals, too.
    holds = None if point.view == UNCONSTRAINED else inv
    return ratios(above, below, inputs.counts(point.table), holds)


def _moments(view: Any, matrix: sparse.csr_array | None) -> dict[str, np.ndarray]:
    """Exact bias, sd and rmse of the queries, where the view knows its covariance."""
    if matrix is None:
        return exact_moments(view)
    q, n = int(matrix.shape[0]), int(matrix.shape[1])
    if not hasattr(view, "covariance_product"):
        return {}
    # Answers about one cell need its variance only: of shares there are as many as cells.
    alone = np.diff(matrix.indptr) == 1
    sums = np.flatnonzero(~alone)
    if len(sums) * n > _ALTOGETHER:
        return {}
    variance = np.empty(q)
    size = max(1, _AT_ONCE // n)
    try:
        cells = np.broadcast_to(np.asarray(view.variance, dtype=float), (n,))
        own = sparse.csr_array(matrix[np.flatnonzero(alone)])
        variance[alone] = own.data**2 * cells[own.indices]
        for start in range(0, len(sums), size):
            part = sums[start : start + size]
            rows = matrix[part].toarray()
            found = np.sum(rows * np.asarray(view.covariance_product(rows)), axis=1)
            # A sum that is exact is left with the rounding of its cells.
            noise = np.sum(rows**2 * cells, axis=1)
            variance[part] = np.where(found > 1e-13 * noise, found, 0.0)
    except NotImplementedError:
        return {}
    sd = np.sqrt(variance)
    return {"bias": np.zeros_like(sd), "sd": sd, "rmse": sd}
