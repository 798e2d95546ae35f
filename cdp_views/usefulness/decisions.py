"""Decisions that turn on a threshold: how often a release falls on its wrong side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdp_views.deviation import Deviation


def wrong_side(
    law: Deviation, truth: np.ndarray, thresholds: Sequence[float], *, kept: Any = slice(None)
) -> dict[str, np.ndarray]:
    """Chances that whoever pays, or counts, by a threshold decides otherwise than on the truth.

    A query is above where it is at least T. Wrong: truth ≥ T > release, or release ≥ T > truth.

    Args:
        law: law of the errors of all q queries.
        truth: true answers of the kept ones, in counts.
        thresholds: T, in counts.
        kept: mask or slice of the queries that count.

    Returns:
        Over thresholds, each with `_stderr` (0 where exact): `wrong_side`, the expected share of
        queries decided wrongly, and `misallocated`, the expected sum of true counts of queries
        decided wrongly, relative to the sum of all: of funds paid per person, what goes missing or
        is paid in vain.

    Example:
        >>> from cdp_views.deviation import NormalDeviation
        >>> law = NormalDeviation([0.0, 0.0], [1.0, 1.0])
        >>> wrong_side(law, np.array([9.0, 99.0]), [10.0])["wrong_side"].round(4)  # Φ(−1)/2
        array([0.0793])

    Reference: Abowd and Schmutte 2019, "An economic analysis of privacy protection and statistical
    accuracy as social choices" (allocations by counts that are noisy).
    """
    every = np.abs(truth).sum()
    weight = np.stack([np.full(truth.size, 1 / max(truth.size, 1)), np.abs(truth) / (every or 1.0)])
    means, errors = [], []
    for threshold in thresholds:
        mean, error = _wrong(law, truth, float(threshold), kept, weight)
        means.append(mean)
        errors.append(error)
    mean, error = np.stack(means, axis=1), np.stack(errors, axis=1)
    return {
        "wrong_side": mean[0],
        "wrong_side_stderr": error[0],
        "misallocated": mean[1],
        "misallocated_stderr": error[1],
    }


def _wrong(
    law: Deviation, truth: np.ndarray, threshold: float, kept: Any, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted sums (2,) of the chances, and their standard errors."""
    above = truth >= threshold
    gap = threshold - truth
    draws = getattr(law, "draws", None)
    if draws is None:
        at = np.zeros_like(law.bias)
        at[kept] = gap
        chance = law.chance_below(at)
        if chance is None:
            return np.full(2, np.nan), np.full(2, np.nan)
        below = chance[kept]
        return weight @ np.where(above, below, 1 - below), np.zeros(2)
    wrong = (np.asarray(draws)[:, kept] < gap) == above
    each = wrong @ weight.T
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each))
    # Never below what one more draw could change: what was not seen may be rare and not impossible.
    return each.mean(axis=0), np.maximum(error, weight.max(axis=1, initial=0.0) / len(each))
