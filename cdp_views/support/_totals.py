"""A total that the invariant can have: shape and consistency of redundant rows."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant


def check_total(invariant: Invariant, total: Any) -> Any:
    """`total` (…, k) with k the invariant's number of rows; concrete totals must agree."""
    if isinstance(total, list | tuple | np.ndarray):
        total = np.asarray(total, dtype=np.float64)
    k = invariant.matrix.shape[0] if _checks.is_concrete(invariant) else np.shape(total)[-1]
    if np.ndim(total) == 0 or np.shape(total)[-1] != k:
        raise ValueError(
            f"`total` must have one number per total, {k} on its last axis; got shape "
            f"{np.shape(total)}."
        )
    _checks.finite("total", total, "Every total must be known.")
    if k > invariant.rank and _checks.is_concrete(total, invariant):
        _require_agreement(invariant, total)
    return total


def point_of(invariant: Invariant, total: Any) -> Any:
    """The shortest x with A x = total, in float64 on the host where the total is concrete."""
    total = check_total(invariant, total)
    if _checks.is_concrete(invariant, total):
        return _exact_point(invariant, total)
    return invariant.lift(total)


@in_float64
def _exact_point(invariant: Invariant, total: Any) -> np.ndarray:
    return np.asarray(invariant.lift(float64(total)))


@in_float64
def _require_agreement(invariant: Invariant, total: Any) -> None:
    x = invariant.lift(float64(total))
    slack = np.asarray(jnp.abs(invariant.evaluate(x) - float64(total)))
    allowed = 1e-6 if jnp.asarray(total).dtype == jnp.float32 else 1e-9
    bad = slack > allowed * (np.asarray(invariant.gross(jnp.abs(x))) + np.abs(total))
    if bad.any():
        row = int(np.argwhere(bad)[0][-1])
        raise ValueError(
            f"`total` contradicts itself: row {row} does not follow from the other rows that it "
            "depends on. Compute all totals from one table, invariant.evaluate(table)."
        )
