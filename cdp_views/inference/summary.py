"""Posterior draws as a table, one row a quantity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from cdp_views import _checks
from cdp_views.inference._constant import constant
from cdp_views.inference.diagnosis import _FEWEST, INTERVAL, _measures, labels_of


def summarise(
    tree: xr.DataTree, sites: Sequence[str] | None = None, *, threshold: Any = None
) -> pd.DataFrame:
    """Means, 90 % intervals and diagnostics of every quantity, and the chance to exceed a line.

    Intervals have equal tails: the 0.05 and 0.95 quantiles of the draws. The Monte-Carlo standard
    error (`mcse`) is that of the draws, not of the analysis.

    Args:
        tree: from `to_datatree`.
        sites: these only; `None` for all.
        threshold: a number, or one per cell (n,), counts: adds P(q_i > threshold) for the sites
            that hold cells (`to_datatree(cells=)`).

    Returns:
        Index `q[Cook]`. Columns `site`, the labels of the cells, `mean`, `mean_mcse`, `sd`,
        `eti90_lower`, `eti90_upper`, `ess_bulk`, `ess_tail`, `r_hat` (NaN where a quantity does not
        vary), and with a threshold `threshold`, `probability_above`, `probability_above_mcse`.
        `.attrs["about"]` says from how many draws, and what the columns are.
        Where every draw lies on one side, the latter is that of (k + 1)/(S + 2) with S the
        effective draws: not 0, as S draws cannot tell a small chance from none.

    Raises:
        ValueError: an unknown site, or a threshold of another length than the cells.

    Example:
        >>> import numpy as np
        >>> from cdp_views.inference import to_datatree
        >>> draws = np.random.default_rng(0).normal(5, 1, (4, 100, 2))
        >>> table = summarise(to_datatree({"q": draws}, {"cell": ["a", "b"]}), threshold=5.0)
        >>> table.loc["q[a]", ["eti90_lower", "probability_above"]].astype(float).round(1).tolist()
        [3.5, 0.5]

    Reference: Vehtari et al. 2021, §4.1 (mcse).
    """
    posterior = tree["posterior"].to_dataset()
    chosen = [str(name) for name in posterior] if sites is None else list(sites)
    missing = [site for site in chosen if site not in posterior]
    if missing:
        raise ValueError(
            f"`sites` has no {', '.join(missing)} in the posterior; it has "
            f"{', '.join(map(str, posterior.data_vars))} (constant sites are left out)."
        )
    line = None if threshold is None else np.asarray(threshold, dtype=np.float64)
    if line is not None:
        _checks.finite("threshold", line, "Give a count.")
    held = [name.strip() for name in str(tree.attrs.get("cells", "")).split(",")]
    frames = [
        _rows(
            posterior[name].transpose("chain", "draw", ...),
            None if line is None or name not in held else line,
        )
        for name in chosen
    ]
    # Labels first, then numbers, whatever the first site has.
    table = pd.concat(frames)
    labels = [c for c in table if c not in _NUMBERS and c != "site"]
    numbers = [c for c in _NUMBERS if c in table]
    table = table[["site", *labels, *numbers]]
    chains, draws = (posterior.sizes[name] for name in ("chain", "draw"))
    table.attrs["about"] = (
        f"Posterior from {chains} chains of {draws:,} draws; eti90: 90 % interval, equal tails; "
        "cells in counts; mcse: what the number of draws leaves open"
    )
    return table


_NUMBERS = (
    "mean", "mean_mcse", "sd", "eti90_lower", "eti90_upper", "ess_bulk", "ess_tail", "r_hat",
    "threshold", "probability_above", "probability_above_mcse",
)  # fmt: skip


def _rows(site: xr.DataArray, line: np.ndarray | None) -> pd.DataFrame:
    x = site.values.reshape(*site.shape[:2], -1).astype(np.float64)
    varies = ~constant(site.values.reshape(x.shape), (0, 1)) & np.isfinite(x).all(axis=(0, 1))
    rhat, bulk, tail = (np.full(x.shape[-1], np.nan) for _ in range(3))
    if varies.any() and x.shape[1] >= _FEWEST:
        rhat[varies], bulk[varies], tail[varies] = _measures(x[..., varies])
    low, high = np.quantile(x, INTERVAL, axis=(0, 1))
    sd = x.std(axis=(0, 1), ddof=1)
    columns: dict[str, Any] = {"site": str(site.name)} | _labels(site)
    columns |= {"mean": x.mean(axis=(0, 1)), "mean_mcse": sd / np.sqrt(bulk), "sd": sd}
    columns |= {"eti90_lower": low, "eti90_upper": high}
    columns |= {"ess_bulk": bulk, "ess_tail": tail, "r_hat": rhat}
    if line is not None:
        if line.ndim and line.shape != site.shape[2:]:
            raise ValueError(
                f"`threshold` must be one number or one per cell {site.shape[2:]}; got shape "
                f"{line.shape}."
            )
        flat = np.broadcast_to(line, site.shape[2:]).ravel()
        chance, error = _exceeding(x > flat, bulk)
        columns |= {"threshold": flat, "probability_above": chance, "probability_above_mcse": error}
    return pd.DataFrame(columns, index=labels_of(site))


def _exceeding(above: np.ndarray, effective: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of draws above (quantity,) and its Monte-Carlo standard error."""
    chance = above.mean(axis=(0, 1))
    mixed = (chance > 0) & (chance < 1)
    size = np.where(np.isfinite(effective), effective, above.shape[0] * above.shape[1])
    error = np.sqrt((k := chance * size + 1) * (size + 2 - k) / (size + 2) ** 3)
    error = np.where(np.isnan(effective), 0.0, error)  # a quantity that does not vary is known
    if mixed.any() and above.shape[1] >= _FEWEST:
        # The indicator mixes at its own pace, not at that of the quantity.
        own = _measures(above[..., mixed].astype(np.float64))[1]
        error[mixed] = np.sqrt(chance[mixed] * (1 - chance[mixed]) / own)
    return chance, error


def _labels(site: xr.DataArray) -> dict[str, np.ndarray]:
    """Every coordinate of a site, spread over its scalars."""
    like = site.isel(chain=0, draw=0, drop=True)
    return {
        str(name): coordinate.broadcast_like(like).transpose(*like.dims).values.ravel()
        for name, coordinate in like.coords.items()
        if like.ndim and not set(coordinate.dims) - set(like.dims) and coordinate.ndim
    }
