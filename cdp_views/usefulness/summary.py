"""The errors of one workload in a few figures, each with its standard error."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cdp_views.deviation import Deviation
from cdp_views.usefulness.size import SIZE_CLASSES, size_class

_LEVEL = 0.90


def summary(
    law: Deviation,
    truth: np.ndarray,
    *,
    known: Mapping[str, np.ndarray] | None = None,
    kept: Any = slice(None),
    sizes: np.ndarray | None = None,
) -> dict[str, Any]:
    """Errors of a workload: relative ones by size of the true answer first, then overall.

    Means over queries come from the draws themselves, whose cells depend on each other, so that
    their standard errors are right. The standard error of a median of margins is the median of
    theirs: not less than it is, as the median of many is surer than each.

    Args:
        law: law of the errors of all q queries.
        truth: true answers of the kept ones, in counts.
        known: exact `bias`, `sd` and `rmse` in place of estimates.
        kept: mask or slice of the queries that count.
        sizes: what the size classes go by, the true answers if None: of ratios, the counts above.

    Returns:
        `<figure>` and `<figure>_stderr` (0 where exact): `relative_margin90`, `relative_mae`
        (medians in each size class) and `bias_by_size` (mean, counts), each over `SIZE_CLASSES`
        with `queries`; `mae`, `rmse`, `sd` (means; rmse √mean square), `margin90_typical`
        (median), `margin90_worst`, and `estimated`, 1 where errors come from draws.

    Example:
        >>> from cdp_views.deviation import NormalDeviation
        >>> found = summary(NormalDeviation([0.0, 0.0], [1.0, 1.0]), np.array([5.0, 50.0]))
        >>> found["relative_margin90"].round(3).tolist()[1:3]  # 1.645/5 and 1.645/50
        [0.329, 0.033]

    Reference: ratio and cluster estimators, Cochran 1977, §9A (a draw is a cluster of cells).
    """
    known = known or {}
    mae, margin = law.mae[kept], law.margin(_LEVEL)[kept]
    # The law is asked only where nothing exact is known: it looks through all draws each time.
    bias, sd, rmse = (
        (known[name] if name in known else getattr(law, name))[kept]
        for name in ("bias", "sd", "rmse")
    )
    draws = None if law.kind != "estimate" else np.asarray(law.draws)[:, kept]  # pyright: ignore[reportAttributeAccessIssue]
    error = _errors(law, kept)
    figures: dict[str, Any] = {
        "mae": mae.mean(),
        "rmse": float(np.sqrt(np.mean(rmse**2))),
        "sd": sd.mean(),
        "margin90_typical": np.median(margin),
        "margin90_worst": margin.max(),
        "estimated": float(draws is not None),
    }
    worst = int(np.argmax(margin))
    square, square_error = _of_draws(draws, lambda x: np.mean(x * x, axis=1))
    figures |= {
        "mae_stderr": _of_draws(draws, lambda x: np.abs(x).mean(axis=1))[1],
        "rmse_stderr": 0.0 if "rmse" in known or square == 0 else square_error / (2 * square**0.5),
        "sd_stderr": 0.0 if "sd" in known else float(np.mean(error("sd"))),
        "margin90_typical_stderr": float(np.median(error("margin"))),
        "margin90_worst_stderr": float(error("margin")[worst]),
    }
    classes = size_class(truth if sizes is None else sizes)
    number = len(SIZE_CLASSES)
    figures["queries"] = np.bincount(classes, minlength=number).astype(float)
    by_size = ("relative_margin90", "relative_mae", "bias_by_size")
    for name in (*by_size, *(f"{one}_stderr" for one in by_size)):
        figures[name] = np.full(number, np.nan)
    for c in np.unique(classes):
        cells = classes == c
        bias_error = 0.0
        if "bias" not in known and draws is not None:
            bias_error = _of_draws(draws[:, cells], lambda x: x.mean(axis=1))[1]
        figures["bias_by_size"][c] = bias[cells].mean()
        figures["bias_by_size_stderr"][c] = bias_error
        if c == 0:
            continue  # nothing is relative to a true answer of 0
        size = np.abs(truth[cells])
        for name, value, which in (
            ("relative_margin90", margin, "margin"),
            ("relative_mae", mae, "mae"),
        ):
            figures[name][c] = np.median(value[cells] / size)
            figures[f"{name}_stderr"][c] = np.median(error(which)[cells] / size)
    return figures


def _of_draws(draws: np.ndarray | None, of: Callable[[np.ndarray], Any]) -> tuple[float, float]:
    """Mean over draws of a figure of each draw, and its standard error; (0, 0) without draws."""
    if draws is None:
        return 0.0, 0.0
    each = np.asarray(of(draws))
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(each.size))


def _errors(law: Deviation, kept: Any) -> Callable[[str], np.ndarray]:
    """Standard errors of the queries' figures by name, 0 where they are exact."""
    errors = dict(law.stderr or {})
    margin = law.margin_stderr(_LEVEL)
    if margin is not None:
        errors["margin"] = margin
    none = np.zeros_like(law.mae)

    def error(name: str) -> np.ndarray:
        return np.asarray(errors.get(name, none))[kept]

    return error
