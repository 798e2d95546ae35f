"""Counts plus noise on the host in float64, with every total as it was counted.

**Whole counts under plain totals.** The noise is rounded to multiples of a step h = 2ᵏ, small
against the noise and large enough that every sum of the table is exact in float64, in any order.
What rounding leaves of a total is given back in steps of h to the first cells of its group. So the
totals hold with `==`, not up to rounding. The counts are multiples of h, hence

    round(q + X) = q + round(X),

and the giving back looks only at the rounded table and the published totals: the release is
post-processing of the mechanism whose privacy is stated. The step depends on the published scale
and totals alone.

**All else** (weights, overlapping totals, counts that are not whole): what rounding leaves of A y
is moved back by the shortest vector, a few times; totals then hold to rounding of |A||y|.
"""

import math
from itertools import pairwise

import numpy as np
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant

_FINEST = -20  # the step against the smallest scale, in powers of two …
_COARSEST = -4  # … and what it may be raised to, where totals are large
_REACH = 64  # times the scale, which the noise of no cell exceeds on average
TOLERANCE = 8 * np.finfo(float).eps


def totals_of(invariant: Invariant, x: np.ndarray) -> np.ndarray:
    """A x (k,), each total rounded once, whatever the number and order of its cells."""
    rows = sparse.csr_array(invariant.matrix)
    terms, ends = (rows.data * x[rows.indices]).tolist(), rows.indptr.tolist()
    return np.array([math.fsum(terms[a:b]) for a, b in pairwise(ends)])


def slack_of(invariant: Invariant, x: np.ndarray) -> np.ndarray:
    """What rounding may leave of each total (k,): 8 eps |A||x|."""
    return TOLERANCE * (abs(sparse.csr_array(invariant.matrix)) @ np.abs(x))


def add_noise(
    counts: np.ndarray, noise: np.ndarray, invariant: Invariant, scale: np.ndarray
) -> tuple[np.ndarray, float | None]:
    """The released table (n,), and the step that it is on, if any.

    Args:
        counts: true counts (n,), float64.
        noise: X (n,) with A X = 0 to rounding, float64.
        invariant: what must hold exactly.
        scale: the base's scale, () or (n,).
    """
    fixed = np.asarray(invariant.determined, dtype=bool)
    noise = np.where(fixed, 0.0, noise)
    step = step_of(counts, invariant, scale)
    if step is None:
        return _close(counts, noise, invariant, fixed), None
    return counts + _on_grid(noise, invariant, step) + 0.0, step


def step_of(counts: np.ndarray, invariant: Invariant, scale: np.ndarray) -> float | None:
    """The step that a release of this scale () or (n,) is on, if any; refused if noise is lost."""
    scale = np.broadcast_to(scale, counts.shape)
    segments = invariant.plain_groups
    if segments is None or not np.array_equal(counts, np.rint(counts)):
        return None
    labels = np.asarray(segments.labels)
    published = counts[labels < segments.count].sum()
    largest = 4 * (published + _REACH * float(scale.sum()))
    size = math.floor(math.log2(scale.min()))
    exponent = max(min(size + _FINEST, 0), math.ceil(math.log2(largest)) - 53)
    if exponent > min(size + _COARSEST, 0):
        raise ValueError(
            "`epsilon` is so large that the noise is lost in float64 beside the totals. Release "
            "with a smaller epsilon, or split the table."
        )
    return 2.0**exponent


def _on_grid(noise: np.ndarray, invariant: Invariant, step: float) -> np.ndarray:
    """The noise in whole steps, summing to exactly 0 in each group."""
    segments = invariant.plain_groups
    assert segments is not None
    steps = np.rint(noise / step)
    labels, count = np.asarray(segments.labels), segments.count
    over = np.bincount(labels, weights=steps, minlength=count + 1)
    over[count] = 0  # cells in no group
    sizes = np.maximum(np.bincount(labels, minlength=count + 1), 1)
    each, first = np.divmod(over, sizes)
    # rank of each cell within its group
    order = np.argsort(labels, kind="stable")
    rank = np.empty(labels.size, dtype=np.int64)
    rank[order] = np.arange(labels.size) - (np.cumsum(sizes) - sizes)[labels[order]]
    steps -= each[labels] + (rank < first[labels])
    return steps * step


@in_float64
def _close(
    counts: np.ndarray, noise: np.ndarray, invariant: Invariant, fixed: np.ndarray
) -> np.ndarray:
    total, released = totals_of(invariant, counts), counts + noise
    for _ in range(3):
        rest = float64(total - totals_of(invariant, released))
        released = np.where(fixed, counts, released + np.asarray(invariant.lift(rest)))
    return released + 0.0  # no −0 in a published file
