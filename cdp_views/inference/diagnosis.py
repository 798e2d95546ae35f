"""What the draws are good for, read out in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, final

import numpy as np
import xarray as xr
from arviz_stats.base.array import array_stats

from cdp_views.inference._constant import constant

INTERVAL = (0.05, 0.95)  # ends of the 90 % interval
_USUAL, _MOST = 1.01, 1.02  # R-hat: at most 1 % of quantities above the first, none above the other
_SHARE = 0.01
_FEWEST = 8  # draws per chain: two in each half of a half
_LONGER = "Run longer; if it stays, the posterior has parts that the sampler does not reach."
# what `observe_max_entropy` calls its latents
_NECK = (
    "Where {} are scales of max-entropy noise, chains stand still beside a small one, and more "
    "draws are no sure cure: see docs/analysing.md."
)
_PER_CHAIN = 100  # effective draws that R-hat and ESS need to be believed (Vehtari et al. 2021)


@final
@dataclass(frozen=True)
class Diagnosis:
    """Whether a posterior sample may be used, and what to do if not.

    Attributes:
        chains: number of chains.
        draws: draws in each chain.
        quantities: scalars judged (every cell counts); constant ones are not.
        constant: scalars left out because they do not vary, such as exact totals.
        not_finite: scalars with a draw that is NaN or infinite.
        rhat_worst: largest R-hat, and `rhat_worst_at` where.
        rhat_above_1_01: share of quantities with R-hat above 1.01.
        ess_bulk_least: smallest effective sample size for means, `ess_bulk_least_at` where.
        ess_tail_least: smallest effective sample size for the ends of 90 % intervals, and where.
        divergences: divergent draws; None where the sampler's statistics are not in the tree.
        more_draws: further draws per chain that the diagnostics themselves need, estimated.
        problems: one sentence each; empty if all is well.
        notes: what the reader should know all the same.
    """

    chains: int
    draws: int
    quantities: int
    constant: int
    not_finite: int
    rhat_worst: float
    rhat_worst_at: str
    rhat_above_1_01: float
    ess_bulk_least: float
    ess_bulk_least_at: str
    ess_tail_least: float
    ess_tail_least_at: str
    divergences: int | None
    more_draws: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    @property
    def text(self) -> str:
        """The diagnosis in plain words, one sentence a line."""
        head = (
            f"{self.chains} {'chain' if self.chains == 1 else 'chains'} of {self.draws} draws, "
            f"{self.quantities} quantities judged."
        )
        if np.isfinite(self.rhat_worst):
            head += (
                f" Worst R-hat {self.rhat_worst:.3f} ({self.rhat_worst_at}); least effective draws "
                f"{self.ess_bulk_least:.0f} for means ({self.ess_bulk_least_at}), "
                f"{self.ess_tail_least:.0f} for 90% intervals ({self.ess_tail_least_at})."
            )
        verdict = "The draws may be used." if self.ok else "Do not use these draws yet."
        return "\n".join([head, *self.problems, *self.notes, verdict])

    def __str__(self) -> str:
        return self.text


def diagnose(tree: xr.DataTree, sites: Sequence[str] | None = None) -> Diagnosis:
    """R-hat, effective sample sizes and divergences of a posterior, judged.

    Fit to use: R-hat above 1.01 in at most 1 % of quantities and above 1.02 in none; at least 100
    effective draws per chain for means and for the ends of 90 % intervals (0.05 and 0.95
    quantiles); no divergence; every draw finite.

    Args:
        tree: from `to_datatree`, or any ArviZ tree with a group `posterior`.
        sites: judge these only; `None` for all.

    Returns:
        A `Diagnosis`: `.ok`, `.text`, and the numbers behind them.

    Raises:
        ValueError: no such site, or no quantity that varies.

    Example:
        >>> import numpy as np
        >>> from cdp_views.inference import to_datatree
        >>> draws = np.random.default_rng(1).normal(size=(4, 500, 3))
        >>> diagnose(to_datatree({"q": draws})).ok
        True

    Reference: Vehtari, Gelman, Simpson, Carpenter and Bürkner 2021, §4.
    """
    posterior = tree["posterior"].to_dataset()
    if sites is not None:
        missing = [site for site in sites if site not in posterior]
        if missing:
            raise ValueError(
                f"`sites` has no {', '.join(missing)} in the posterior; it has "
                f"{', '.join(map(str, posterior.data_vars))} (constant sites are left out)."
            )
        posterior = posterior[list(sites)]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    names, columns, still, broken = _columns(posterior)
    if not names and not broken:
        raise ValueError("No quantity of the posterior varies, so there is nothing to diagnose.")
    diverging = _divergences(tree)
    problems, notes = [], []
    if broken:
        problems.append(f"{broken} quantities have draws that are not finite.")
    enough = _PER_CHAIN * chains
    rhat, bulk, tail = np.array([np.nan]), np.array([np.nan]), np.array([np.nan])
    if draws < _FEWEST:
        more = _PER_CHAIN - draws
        problems.append(
            f"{draws} draws per chain are too few for R-hat at all; draw {more} more per chain."
        )
    elif names:
        rhat, bulk, tail = _measures(columns)
        more = _more(min(bulk.min(), tail.min()), enough, draws)
        scales = [
            name for name in map(str, tree["posterior"].data_vars) if name.endswith("_scales")
        ]
        advice = _NECK.format(scales[0]) if scales else ""
        problems += _mixing(rhat, names, advice)
        if more:
            few = (
                f"Too few effective draws for the diagnostics to be believed: "
                f"{min(bulk.min(), tail.min()):.0f}, where {enough} are needed."
            )
            cure = f"About {more} more draws per chain should do."
            problems.append(f"{few} {advice or cure}")
    else:
        more = 0
    if diverging:
        problems.append(
            f"{diverging} of {chains * draws} draws diverged: parts of the posterior were not "
            "reached. Raise target_accept_prob, or reparametrise; do not just drop them."
        )
    if diverging is None:
        notes.append("Divergences unknown: the tree has no sampler statistics.")
    if chains == 1:
        notes.append("One chain: R-hat compares its parts, and cannot see that chains disagree.")
    if still:
        notes.append(f"{still} quantities do not vary (the totals determine them): not judged.")
    at = names or ["none"]
    return Diagnosis(
        chains=chains,
        draws=draws,
        quantities=len(names) + broken,
        constant=still,
        not_finite=broken,
        rhat_worst=float(rhat.max()),
        rhat_worst_at=at[int(rhat.argmax())],
        rhat_above_1_01=float(np.mean(rhat > _USUAL)),
        ess_bulk_least=float(bulk.min()),
        ess_bulk_least_at=at[int(bulk.argmin())],
        ess_tail_least=float(tail.min()),
        ess_tail_least_at=at[int(tail.argmin())],
        divergences=diverging,
        more_draws=more,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def labels_of(site: xr.DataArray) -> list[str]:
    """One name for each scalar of a site (chain, draw, …): `q[Cook]`, or `mu`."""
    dims = site.dims[2:]
    if not dims:
        return [str(site.name)]
    values = [np.asarray(site[d]) for d in dims]
    grid = np.ndindex(*(v.size for v in values))
    return [
        f"{site.name}[{', '.join(str(v[i]) for v, i in zip(values, at, strict=True))}]"
        for at in grid
    ]


def _columns(posterior: xr.Dataset) -> tuple[list[str], np.ndarray, int, int]:
    """Names and draws (chain, draw, quantity) of what varies; how many do not, or are not finite.

    R-hat and effective draws of many scalars are taken in one array; constants give 0/0 there.
    """
    names: list[str] = []
    kept: list[np.ndarray] = []
    still = broken = 0
    for name in posterior:
        site = posterior[name].transpose("chain", "draw", ...)
        flat = site.values.reshape(*site.shape[:2], -1)
        finite = np.isfinite(flat).all(axis=(0, 1))
        fixed = finite & constant(flat, (0, 1))
        use = finite & ~fixed
        still, broken = still + int(fixed.sum()), broken + int((~finite).sum())
        names += [label for label, wanted in zip(labels_of(site), use, strict=True) if wanted]
        kept.append(flat[..., use].astype(np.float64))
    return names, np.concatenate(kept, axis=-1), still, broken


def _measures(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R-hat and effective draws of means and of 90 % interval ends, (quantity,) each."""
    array: Any = array_stats
    if columns.shape[0] == 1:  # ArviZ gives no R-hat for one chain: its halves are two
        half = columns.shape[1] // 2
        halves = columns[0, : 2 * half].reshape(2, half, -1)
    else:
        halves = columns
    with np.errstate(invalid="ignore", divide="ignore"):  # a chain that stands still: R-hat = inf
        rhat = array.rhat(halves, chain_axis=0, draw_axis=1)
        bulk = array.ess(columns, chain_axis=0, draw_axis=1, method="bulk")
        tail = array.ess(columns, chain_axis=0, draw_axis=1, method="tail", prob=INTERVAL)
    return np.nan_to_num(np.atleast_1d(rhat), nan=np.inf), np.atleast_1d(bulk), np.atleast_1d(tail)


def _mixing(rhat: np.ndarray, names: list[str], advice: str) -> list[str]:
    above = int(np.sum(rhat > _USUAL))
    worst = int(rhat.argmax())
    if rhat[worst] > _MOST:
        text = (
            f"The chains do not agree: R-hat of {names[worst]} is {rhat[worst]:.3f}, above {_MOST}."
            f" {advice or _LONGER}"
        )
        return [text]
    if above > _SHARE * rhat.size:
        share = f"{above} of {rhat.size} quantities have R-hat above {_USUAL}, more than 1 %."
        return [f"{share} {advice or 'Run longer.'}"]
    return []


def _more(least: float, enough: int, draws: int) -> int:
    """Effective draws grow in proportion to draws."""
    if least >= enough:
        return 0
    return ceil(draws * (enough / max(least, 1.0) - 1))


def _divergences(tree: xr.DataTree) -> int | None:
    stats = tree.children.get("sample_stats")
    if stats is None or "diverging" not in stats:
        return None
    return int(stats.to_dataset()["diverging"].sum())
