"""Are N ranks uniform? The exact simultaneous band of their empirical distribution function."""

from functools import lru_cache

import numpy as np
from scipy import stats

_FEWEST = 10  # ranks expected in a bin


def bins_for(count: int, draws: int) -> int:
    """The largest number of bins, at most 20, that divides the ranks 0…draws evenly.

    Raises:
        ValueError: fewer than 2 bins of 10 ranks each.
    """
    most = min(20, count // _FEWEST)
    fitting = [b for b in range(2, most + 1) if (draws + 1) % b == 0]
    if not fitting:
        raise ValueError(
            f"{count} simulations with {draws} draws give no two equal bins of {_FEWEST} ranks. "
            "Take 200 simulations and 99 draws."
        )
    return fitting[-1]


def ranks_below(ranks: np.ndarray, draws: int, bins: int) -> np.ndarray:
    """How many of N ranks (N,) in 0…draws lie below k (draws + 1)/bins, k = 1…bins−1: (bins−1,)."""
    edges = np.arange(1, bins) * ((draws + 1) // bins)
    return np.sum(ranks[:, None] < edges, axis=0)


def ecdf_p_value(below: np.ndarray, count: int) -> float:
    """Chance that N uniform ranks leave their pointwise bands as far as these, or farther.

    γ = min_k 2 min(P(C_k ≤ c_k), P(C_k ≥ c_k)), C_k ~ Binomial(N, k/bins); the p-value is
    P(γ of uniform ranks ≤ γ), exact by a recursion over k: C_{k+1} − C_k given C_k is binomial.

    Args:
        below: c_k (bins − 1,), from `ranks_below`.
        count: N.

    Returns:
        The p-value, to about 1e-12.

    Example:
        >>> round(ecdf_p_value(np.array([5]), 10), 3), round(ecdf_p_value(np.array([1]), 10), 3)
        (1.0, 0.021)

    Reference: Säilynoja, Bürkner and Vehtari 2022, §2.
    """
    tails = _tails(count, below.size + 1)
    gamma = tails[np.arange(below.size), below].min()
    # Counts that are no farther out than these, beyond rounding of equal tails.
    return float(np.clip(1 - _stay(tails > gamma * (1 + 1e-9), count), 0, 1))


def ecdf_band(count: int, bins: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts between which all C_k of N uniform ranks lie with chance ≥ level: (bins − 1,) each."""
    tails = _tails(count, bins)
    steps = np.unique(tails[tails < 1 - level + 1e-9])
    low, high = 0, steps.size  # the widest band leaves nothing out; narrow it while it holds
    while low < high:
        middle = (low + high + 1) // 2
        if _stay(tails > steps[middle - 1] * (1 + 1e-9), count) >= level:
            low = middle
        else:
            high = middle - 1
    inside = tails > (steps[low - 1] * (1 + 1e-9) if low else -1.0)
    return inside.argmax(axis=1), count - inside[:, ::-1].argmax(axis=1)


def chi_square_p_value(ranks: np.ndarray, draws: int, bins: int) -> float:
    """The χ² test of equal bins of N ranks (N,) in 0…draws."""
    counts = np.bincount(ranks * bins // (draws + 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)


@lru_cache(maxsize=8)
def _tails(count: int, bins: int) -> np.ndarray:
    """2 min(P(C_k ≤ c), P(C_k ≥ c)), at most 1: (bins − 1, N + 1)."""
    c = np.arange(count + 1)
    law = stats.binom(count, (np.arange(1, bins) / bins)[:, None])
    return np.minimum(1.0, 2 * np.minimum(law.cdf(c), law.sf(c - 1)))


@lru_cache(maxsize=2)  # 8 MB a bin at 1,000 ranks
def _steps(count: int, bins: int) -> np.ndarray:
    """P(C_{k+1} = j | C_k = i), k = 0…bins−2: (bins − 1, N + 1, N + 1)."""
    i, j = np.arange(count + 1)[:, None], np.arange(count + 1)
    chance = 1 / (bins - np.arange(bins - 1))[:, None, None]
    return stats.binom.pmf(j - i, count - i, chance)


def _stay(inside: np.ndarray, count: int) -> float:
    """P(inside[k, C_k] for all k)."""
    chance = np.zeros(count + 1)
    chance[0] = 1.0
    for step, allowed in zip(_steps(count, inside.shape[0] + 1), inside, strict=True):
        chance = np.where(allowed, chance @ step, 0.0)
    return float(chance.sum())
