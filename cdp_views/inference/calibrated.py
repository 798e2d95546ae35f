"""Simulation-based calibration: is the truth just another draw from its posterior?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
import pandas as pd
import xarray as xr
from jax import Array
from numpyro.infer import NUTS
from scipy import stats

from cdp_views.inference._constant import constant
from cdp_views.inference.many import Model, run_many
from cdp_views.inference.uniformity import (
    bins_for,
    chi_square_p_value,
    ecdf_p_value,
    ranks_below,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Simulate = Callable[[Array], tuple[dict[str, Array], Any]]
_CREDIBLE = 1e-3  # a smaller p-value is no accident


@final
@dataclass(frozen=True, eq=False, repr=False)
class Ranks:
    """Ranks of the truth among posterior draws, uniform if the analysis is calibrated.

    Attributes:
        ranks: one variable a site, (simulation, …), whole numbers 0…draws.
        draws: number of draws ranked against.
        table: one row a scalar: `quantity`, `ecdf_p` (exact, simultaneous over the curve),
            `chi_square_p`.
        pooled: one row a site, over its cells, standard errors from simulation to simulation:
            `bias_z` (mean rank; positive: the truth lies high), `spread_z` (positive: intervals too
            narrow; negative: too wide), `coverage90` and `coverage90_se`.
        divergences: divergent draws, of simulations × draws.
        autocorrelation: of consecutive kept draws, worst site; above 0.1 thin more, as ranks of
            dependent draws are not uniform even if all is right.
        r_hat: of the two halves of each chain, their disagreement averaged over simulations; worst
            quantity. (One short chain's own R-hat says little.)
    """

    ranks: xr.Dataset
    draws: int
    table: pd.DataFrame
    pooled: pd.DataFrame
    divergences: int
    autocorrelation: float
    r_hat: float

    @property
    def p_value(self) -> float:
        """That all ranks are uniform: the smallest p-value times their number (Bonferroni)."""
        z = np.abs(self.pooled[["bias_z", "spread_z"]].to_numpy()).ravel()
        each = np.concatenate([self.table["ecdf_p"].to_numpy(), 2 * stats.norm.sf(z)])
        return float(min(1.0, each.size * each.min()))

    @property
    def ok(self) -> bool:
        """Whether uniform ranks are credible, p ≥ 0.001."""
        return self.p_value >= _CREDIBLE

    @property
    def text(self) -> str:
        """The finding in plain words."""
        worst = self.pooled.iloc[int(np.abs(self.pooled["spread_z"].to_numpy()).argmax())]
        if self.ok:
            verdict = "Ranks are uniform as far as these simulations tell"
        elif abs(worst["spread_z"]) > 4:
            how = "narrow" if worst["spread_z"] > 0 else "wide"
            verdict = f"Not calibrated: posteriors of {worst['site']} are too {how}"
        else:
            verdict = "Not calibrated: ranks are not uniform"
        coverage = "; ".join(
            f"{row.site} {row.coverage90:.1%} ± {row.coverage90_se:.1%}"
            for row in self.pooled.itertuples()
        )
        return (
            f"{verdict} (p = {self.p_value:.2g}). 90% intervals hold the truth: {coverage}. "
            f"{self.divergences} draws diverged; autocorrelation {self.autocorrelation:.2f}, "
            f"R-hat {self.r_hat:.3f}."
        )

    def figure(self) -> "Figure":
        """Curves of the ranks with the band for uniform ones; see `rank_figure`."""
        from cdp_views.inference.figures import rank_figure

        return rank_figure(self)

    def __repr__(self) -> str:
        return f"Ranks({self.text})"


def simulation_based_calibration(
    key: Array,
    simulate: Simulate,
    model: Model,
    *,
    sites: Sequence[str],
    simulations: int = 200,
    draws: int = 99,
    warmup: int = 500,
    thin: int = 5,
    kernel: Callable[[Model], Any] = NUTS,
    lanes: int = 1,
) -> Ranks:
    """Rank the truth among posterior draws, over many simulated data sets.

    If truth θ ~ prior, data ~ p(y | θ) and θ₁…θ_L ~ p(θ | y), the rank #{θ_l < θ} is uniform on
    0…L, for every function of θ. Too wide posteriors heap ranks in the middle, too narrow ones at
    the ends. Equal values share their ranks at random.

    Args:
        key: a typed JAX key.
        simulate: `simulate(key)` → (truth by site, data), traceable; it must draw from the model's
            own prior.
        model: `model(data)`, data as `simulate` gives it.
        sites: what to rank, latent or deterministic; in both the truth and the model.
        simulations: number of data sets.
        draws: L, kept draws of one chain each.
        warmup: steps of adaptation of each chain.
        thin: steps between kept draws.
        kernel: see `run_many`, and `lanes`.

    Returns:
        `Ranks`: `.p_value`, `.ok`, `.text`, `.figure()`.

    Raises:
        ValueError: a site that the truth or the model lacks, a truth of another shape than the
            draws, or too few simulations for two bins.

    Example:
        >>> import jax, numpyro, numpyro.distributions as dist
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        ...     numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        >>> def simulate(key):
        ...     mu, noise = jax.random.normal(key, (2,))
        ...     return {"mu": mu}, mu + noise
        >>> simulation_based_calibration(jax.random.key(0), simulate, model, sites=["mu"],
        ...                              simulations=40, draws=19, warmup=100).ok
        True

    Reference: Talts et al. 2018, Theorem 1; Modrák et al. 2023.
    """
    bins_for(simulations, draws)
    to_simulate, to_fit, to_tie = jax.random.split(key, 3)
    truth, data = simulated(to_simulate, simulate, sites, simulations)
    found, diverging = run_many(
        to_fit, model, data,
        draws=draws, warmup=warmup, thin=thin, sites=sites, kernel=kernel, lanes=lanes,
    )  # fmt: skip
    found = {site: found[site] for site in sites}
    return ranked(truth, found, diverging, seed=int(jax.random.bits(to_tie, dtype="uint32")))


def ranked(
    truth: dict[str, np.ndarray], found: dict[str, Any], diverging: Any, *, seed: int
) -> Ranks:
    """Ranks of truths by site (R, …) among draws (R, S, …), of which `diverging` (R, S) went wrong.

    Raises:
        ValueError: as `simulation_based_calibration`.
    """
    simulations, draws = np.shape(diverging)
    bins = bins_for(simulations, draws)
    ranks: dict[str, xr.DataArray] = {}
    rows, pooled, dependence, halves = [], [], [], []
    for site in found:
        x, true = np.asarray(found[site]), truth[site]
        check_shapes(site, x, true)
        x, true = x.reshape(simulations, draws, -1), true.reshape(simulations, -1)
        varies = ~constant(x, (1,)).all(axis=0)
        if not varies.any():
            raise ValueError(f"Site {site} does not vary within a posterior: drop it from `sites`.")
        x, true = x[..., varies], true[:, varies]
        rank = _ranks(x, true, np.random.default_rng(seed))
        where = np.flatnonzero(varies)
        ranks[site] = xr.DataArray(
            rank, dims=("simulation", f"{site}_index"), coords={f"{site}_index": where}
        )
        scalar = found[site].ndim == 2
        rows += [
            {
                "quantity": site if scalar else f"{site}[{i}]",
                "ecdf_p": ecdf_p_value(ranks_below(r, draws, bins), simulations),
                "chi_square_p": chi_square_p_value(r, draws, bins),
            }
            for i, r in zip(where, rank.T, strict=True)
        ]
        pooled.append({"site": site} | _pooled(rank, draws))
        dependence.append(_autocorrelation(x))
        halves.append(_split_r_hat(x))
    return Ranks(
        xr.Dataset(ranks),
        draws,
        pd.DataFrame(rows),
        pd.DataFrame(pooled),
        int(np.sum(np.asarray(diverging))),
        float(max(dependence)),
        float(max(halves)),
    )


def simulated(
    key: Array, simulate: Simulate, sites: Sequence[str], count: int
) -> tuple[dict[str, np.ndarray], Any]:
    """Truth by site (count, …) on the host, and data with a leading axis."""
    truth, data = _simulator(simulate)(jax.random.split(key, count))
    missing = [site for site in sites if site not in truth]
    if missing:
        raise ValueError(
            f"`simulate` gives no truth for {', '.join(missing)}; it gives {', '.join(truth)}."
        )
    return {site: np.asarray(truth[site]) for site in sites}, data


@lru_cache(maxsize=16)
def _simulator(simulate: Simulate) -> Callable[[Array], tuple[dict[str, Array], Any]]:
    return jax.jit(jax.vmap(simulate))


def check_shapes(site: str, draws: np.ndarray, truth: np.ndarray) -> None:
    """Raise unless draws (R, S, …) and truth (R, …) are of the same quantities."""
    if draws.shape[2:] != truth.shape[1:]:
        raise ValueError(
            f"`simulate` gives {site} of shape {truth.shape[1:]}, the model of shape "
            f"{draws.shape[2:]}: they must be the same quantities."
        )


def _ranks(x: np.ndarray, true: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """#{x_l < true} (simulation, quantity), ties split at random."""
    less = np.sum(x < true[:, None], axis=1)
    ties = np.sum(x == true[:, None], axis=1)
    return less + random.integers(0, ties + 1)


def _pooled(rank: np.ndarray, draws: int) -> dict[str, float]:
    """Tests over a site's cells; cells of one simulation depend on each other, simulations don't.

    The mean and the variance of a uniform rank on 0…L are L/2 and ((L + 1)² − 1)/12.
    """
    off = rank - draws / 2
    bias = off.mean(axis=1)
    spread = (off**2).mean(axis=1) - ((draws + 1) ** 2 - 1) / 12
    count = rank.shape[0]
    # The share of ranks in the middle; exactly 0.90 of them where 20 divides L + 1.
    u = (rank + 0.5) / (draws + 1)
    inside = np.mean((u > 0.05) & (u < 0.95), axis=1)
    return {
        "bias_z": float(bias.mean() / _standard_error(bias)),
        "spread_z": float(spread.mean() / _standard_error(spread)),
        "coverage90": float(inside.mean()),
        "coverage90_se": float(inside.std(ddof=1) / np.sqrt(count)),
    }


def _standard_error(x: np.ndarray) -> float:
    return max(float(x.std(ddof=1)), np.finfo(float).tiny) / np.sqrt(x.size)


def _split_r_hat(x: np.ndarray) -> float:
    """√((m − 1)/m + mean of B/W) of halves of m draws (simulation, draw, quantity), the worst.

    For independent draws the mean of B/W is 1/m: every quantity has 1 on average.
    """
    m = x.shape[1] // 2
    two = x[:, : 2 * m].astype(np.float64).reshape(x.shape[0], 2, m, -1)
    within = two.var(axis=2, ddof=1).mean(axis=1)
    between = two.mean(axis=2).var(axis=1, ddof=1)
    ratio = np.divide(between, within, out=np.zeros_like(within), where=within > 0)
    return float(np.sqrt((m - 1) / m + ratio.mean(axis=0)).max())


def _autocorrelation(x: np.ndarray) -> float:
    """Of consecutive draws (simulation, draw, quantity), pooled over simulations; worst quantity.

    Each chain's own mean takes away 1/L on average, which is given back.
    """
    x = x.astype(np.float64)
    off = x - x.mean(axis=1, keepdims=True)
    scale = off.std(axis=1, keepdims=True)
    off = np.divide(off, scale, out=np.zeros_like(off), where=scale > 0)
    lag = np.mean(off[:, 1:] * off[:, :-1], axis=(0, 1)) + 1 / x.shape[1]
    return float(lag.max())
