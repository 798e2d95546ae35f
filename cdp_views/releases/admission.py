"""What a release takes, refused before anything is spent where it makes no sense."""

from typing import Any

import numpy as np

from cdp_views import _checks
from cdp_views._counts import tells_counts
from cdp_views.invariants import Invariant
from cdp_views.releases.mechanism import NOISES, NoiseName
from cdp_views.releases.zeros import as_mask

_SHOWN = 20
_WEAK, _LARGEST = 10.0, 700.0  # ε from which it is said what it is worth; where e^ε ends


def checked_budget(epsilon: float, delta: float, noise: str) -> tuple[float, float]:
    """Both as numbers, refused where they make no sense for this noise."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(value, bool | str) or np.ndim(value) != 0:
            raise ValueError(f"`{name}` must be one number; got {type(value).__name__}.")
    _checks.positive("epsilon", epsilon)
    if NOISES[noise].pure:
        if delta != 0:
            raise ValueError(
                f"`delta` must be 0 with {noise} noise, whose guarantee is pure; got {delta}."
            )
    elif not 0 < delta < 1:
        raise ValueError(
            f"`delta` must lie strictly between 0 and 1; got {delta}. "
            "Take it well below 1 over the number of records."
        )
    return float(epsilon), float(delta)


def doubts_of_budget(epsilon: float, delta: float, records: float) -> list[str]:
    """What to think over before this budget is spent on so many records, a sentence each.

    Of two tables one unit of privacy apart and as likely beforehand, a guess from the release is
    wrong with probability (1 − δ) / (1 + e^ε) at least (Kairouz, Oh and Viswanath 2015).
    """
    told = []
    if epsilon >= _WEAK:
        wrong = (1 - delta) / (1 + np.exp(min(epsilon, _LARGEST)))
        told.append(
            f"epsilon = {epsilon:g} promises little: of two tables one unit of privacy apart, the "
            "best guess which of them was released may be right with probability up to "
            f"1 - {wrong:.2g}. Choose a smaller epsilon."
        )
    if delta * records > 1:
        told.append(
            f"delta = {delta:g} is above 1 / (sum of the counts): a mechanism that publishes one "
            "record outright would satisfy it. Choose a smaller delta."
        )
    return told


def pattern_of(scales: Any, counts: np.ndarray) -> np.ndarray:
    """Relative scales of mean 1, (n,), or () where all are equal."""
    if scales is None:
        return np.asarray(1.0)
    try:
        pattern = np.asarray(scales, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("`scales` must be numbers; got an entry that is not.") from None
    if pattern.shape != counts.shape:
        raise ValueError(
            f"`scales` must have shape {counts.shape}, one for each cell; got {pattern.shape}."
        )
    _checks.positive("scales", pattern, "A scale of 0 would publish that cell.")
    if tells_counts(pattern, counts):
        raise ValueError(
            "`scales` must not be taken from the counts: the scales of a release are published, "
            "and so would the counts be. Use a published column, such as last year's totals."
        )
    return pattern / pattern.mean()


def by_default(counts: np.ndarray, delta: Any) -> NoiseName:
    """Whole noise for whole counts."""
    if not np.array_equal(counts, np.rint(counts)):
        raise ValueError(
            "`noise` must be chosen, as the counts are not whole: are they percentages or rates? "
            'Release counts. If one record changes a cell by 1 at most: noise="normal" or '
            '"laplace".'
        )
    return "discrete-laplace" if np.ndim(delta) == 0 and delta == 0 else "discrete-normal"


def structural_zeros_of(zeros: Any, counts: np.ndarray, invariant: Invariant) -> np.ndarray:
    """Which cells are structural zeros (n,), refused unless the invariant says so, and they are."""
    known = as_mask(zeros, invariant.n)
    if np.any(known & ~np.asarray(invariant.determined, dtype=bool)):
        raise ValueError(
            "`zeros` must be among what the invariant keeps exact. Build it, and the unit of "
            "privacy from it: inv = cdp.structural_zeros(inv, zeros)."
        )
    wrong = np.flatnonzero(known & (counts != 0))
    if wrong.size:
        raise ValueError(
            f"`zeros` are cells that are 0 whatever the data; {wrong.size} of them are not, first "
            f"at index {wrong[0]}. Correct the list or the table."
        )
    return known


def refuse_determined(exact: np.ndarray, labels: dict[str, list[str]]) -> None:
    """Stop where totals alone determine cells, (n,) booleans."""
    if exact.any():
        raise ValueError(
            f"The totals alone determine {np.count_nonzero(exact)} of {exact.size} cells, which "
            f"would be published exactly: {_named(exact, labels)}. Use coarser groups, or accept "
            "it (accept_exact=True)."
        )


def refuse_unprotected(alone: np.ndarray, labels: dict[str, list[str]]) -> None:
    """Stop where no unit of privacy changes cells that have noise, (n,) booleans."""
    if alone.any():
        raise ValueError(
            f"The unit of privacy changes {np.count_nonzero(alone)} of {alone.size} cells in no "
            f"case, so that they get noise and no guarantee: {_named(alone, labels)}. Give them a "
            "weight that another cell of their group has, state differences(V) that change them, "
            "or accept it (accept_exact=True)."
        )


def _named(chosen: np.ndarray, labels: dict[str, list[str]]) -> str:
    at, columns = np.flatnonzero(chosen), list(labels.values())
    shown = [" / ".join(column[i] for column in columns) or str(i) for i in at[:_SHOWN]]
    return ", ".join(shown) + (f" and {at.size - _SHOWN} more" if at.size > _SHOWN else "")
