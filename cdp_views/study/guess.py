"""The best chance of telling two neighbours apart, from all tables together."""

from typing import Any

import numpy as np
from scipy.special import ndtr

_BATCHES = 20


def guess_rate(loss: Any, tables: int) -> tuple[float, float]:
    """(1 + δ(0))/2 of `tables` independent releases, and its standard error (NaN where exact).

    Losses of independent releases add: μ grows by √M for Normal noise, and where the profile is
    known it is convolved, a bound from above (see `kind_together`). Elsewhere draws of the loss are
    added, M different ones at a time; (NaN, NaN) where there are too few of them for that.

    Args:
        loss: a `PrivacyLoss` of one table.
        tables: M.

    Reference: Dong, Roth & Su (2022), Corollary 3.3, for Normal noise.
    """
    if hasattr(loss.law, "mu"):
        return float(ndtr(loss.mu * np.sqrt(tables) / 2)), np.nan
    if tables == 1:
        return loss.guess_rate, np.nan if loss.stderr is None else loss.stderr
    if hasattr(loss.law, "repeated"):  # a profile: losses convolved, rounded up
        try:
            law = loss.law.repeated(tables)
        except ValueError:  # more tables than half the draws of an estimate
            return np.nan, np.nan
        worst = int(np.argmax(law.guess_rate))
        return float(law.guess_rate[worst]), np.nan if law.stderr is None else law.stderr[worst]
    if not hasattr(loss.law, "draws"):
        return np.nan, np.nan
    draws = loss.law.draws
    size = draws.shape[1] // _BATCHES
    if size < tables:
        return np.nan, np.nan
    batches = draws[:, : size * _BATCHES].reshape(len(draws), _BATCHES, size)
    # Around a ring of draws, each sum takes M neighbours, all of them different.
    ring = np.concatenate([batches, batches[..., : tables - 1]], axis=-1)
    run = np.cumsum(np.concatenate([np.zeros((*ring.shape[:2], 1)), ring], axis=-1), axis=-1)
    total = run[..., tables:] - run[..., :-tables]
    told = -np.expm1(np.minimum(-total, 0.0)).mean(axis=-1)
    rates = (1 + told.mean(axis=-1)) / 2
    worst = int(np.argmax(rates))
    return float(rates[worst]), float(told[worst].std(ddof=1) / np.sqrt(_BATCHES) / 2)


def kind_together(loss: Any, tables: int) -> str:
    """Whether `guess_rate` of all tables is "exact", a "bound" or an "estimate"."""
    convolved = tables > 1 and loss.kind == "exact" and hasattr(loss.law, "repeated")
    return "bound" if convolved else loss.kind
