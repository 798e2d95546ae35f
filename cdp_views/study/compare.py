"""All mechanisms at equal privacy: calibrate, then ask the two questions."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from cdp_views._checks import InfeasibleError, UnsupportedError
from cdp_views.calibration import calibrate
from cdp_views.neighbours import relocations
from cdp_views.privacy import privacy_loss
from cdp_views.report import records
from cdp_views.study.alike import fingerprint_probes
from cdp_views.study.comparison import Comparison
from cdp_views.study.mechanisms import Mechanism, mechanisms
from cdp_views.study.request import as_counts, check_budget, scale_patterns
from cdp_views.study.verdict import judge
from cdp_views.usefulness import relative_by_size, utility

# Numbers of noise in one comparison: 2 GiB of float64.
LARGEST_NOISE = 2**28

Progress = Callable[[int, int, str], None]


def compare(
    counts: Any,
    inv: Any,
    *,
    epsilon: float,
    delta: float,
    noises: Sequence[str] = ("normal",),
    scales: Any = None,
    neighbours: Any = None,
    tables: int = 1,
    public: bool = False,
    key: Any = None,
    draws: int = 1000,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """The unconstrained base and its three views, each calibrated to the same (ε, δ).

    With `tables` M, M tables of this kind share the budget: the Gaussian guarantees of one table
    compose to μ = √M μ₁, exactly, so each table's noise is √M larger.

    Args:
        counts: true counts, (n,).
        inv: what must hold exactly.
        epsilon: privacy budget of all tables together, above 0.
        delta: its δ, between 0 and 1.
        noises: base noises; "normal".
        scales: relative scales (n,) to compare beside equal ones, or several by name; published,
            hence never a function of the counts.
        neighbours: the differences that must stay hidden; `relocations(inv)` if None.
        tables: number of tables that share the budget.
        public: the counts are public, so that nothing is marked confidential.
        key: JAX key for draws of the noise; None stores none.
        draws: draws of the noise per mechanism, of one table, never with the counts added.
        names: names of the cells, for lists and files.
        progress: called with (done, all, what) before each mechanism.

    Raises:
        ValueError: counts, budget or scales that make no sense.
        UnsupportedError: a noise that is not built.

    Warns:
        UserWarning: δ above 1/Σ counts, which would allow publishing a whole record.

    Example:
        >>> import cdp_views as cdp
        >>> found = cdp.compare([3, 5, 8], cdp.totals(["a"] * 3), epsilon=1, delta=1e-6)
        >>> list(found.table["view"])
        ['unconstrained', 'max-entropy', 'conditioned', 'imaged']

    Reference: Dong, Roth & Su (2022), "Gaussian differential privacy", Corollary 3.3.
    """
    counts = as_counts(counts, inv.n)
    check_budget(epsilon, delta, tables)
    patterns = scale_patterns(scales, counts)
    rows = mechanisms(counts, inv, tuple(noises), patterns)
    names = _names(names, inv.n)
    if key is not None and not 1 <= draws * len(rows) * inv.n <= LARGEST_NOISE:
        raise ValueError(
            f"`draws` must be at least 1 and fit in memory; got {draws} for {len(rows)} mechanisms "
            f"of {inv.n:,} cells. At most {LARGEST_NOISE // (len(rows) * inv.n)} fit."
        )
    neighbours = relocations(inv) if neighbours is None else neighbours
    if delta * counts.sum() > 1:
        warnings.warn(
            f"delta = {delta:g} is above 1 / (sum of the counts): a mechanism that publishes one "
            "record outright would satisfy it. Choose a smaller delta.",
            UserWarning,
            stacklevel=2,
        )
    free = ~np.asarray(inv.determined, dtype=bool)
    budget = (float(epsilon), float(delta), int(tables))
    notes: list[str] = []
    results: list[tuple[dict[str, Any], xr.Dataset]] = []
    keys = [None] * len(rows) if key is None else list(jax.random.split(key, len(rows)))
    # Inside this block JAX keeps float64, so that noise and privacy numbers have full precision.
    with jax.enable_x64(True):
        for index, (mechanism, row_key) in enumerate(zip(rows, keys, strict=True)):
            if progress is not None:
                progress(index, len(rows), mechanism.label)
            try:
                results.append(
                    _measure(mechanism, neighbours, budget, free, row_key, draws, public)
                )
            except (InfeasibleError, UnsupportedError) as reason:
                notes.append(f"{mechanism.label}: not in the table. {reason}")
    if not results:
        raise UnsupportedError("No mechanism can be compared. " + " ".join(notes))
    if progress is not None:
        progress(len(rows), len(rows), "verdict")
    table = pd.DataFrame([row for row, _ in results])
    dataset = _stack(table, [cells for _, cells in results], names, ~free)
    fingerprints = [cells["fingerprint"].values for _, cells in results]
    notes.extend(_unmoved(inv, free))
    return Comparison(
        table=table,
        dataset=dataset,
        verdict=judge(records(table), dataset, fingerprints, np.asarray(inv.blocks)),
        determined=tuple(names[i] for i in np.flatnonzero(~free)),
        notes=tuple(notes),
        public=public,
    )


def _measure(
    mechanism: Mechanism,
    neighbours: Any,
    budget: tuple[float, float, int],
    free: np.ndarray,
    key: Any,
    draws: int,
    public: bool,
) -> tuple[dict[str, Any], xr.Dataset]:
    """One row of the table and the figures of its cells."""
    epsilon, delta, tables = budget
    scale = calibrate(mechanism, neighbours, epsilon=epsilon, delta=delta) * np.sqrt(tables)
    view = mechanism(scale)
    loss = privacy_loss(view, neighbours)
    mu = loss.mu * np.sqrt(tables)
    cells = utility(view, public=public)
    totals = utility(view, mechanism.invariant, public=public)
    mae, margin, sd = (cells[v].values[free] for v in ("mae", "margin90", "sd"))
    # Cells that the totals determine would count as without error.
    sizes = relative_by_size(
        mechanism.counts[free], {"mae": mae, "margin90": margin}, public=public
    )
    shared = "" if tables == 1 else f" over {tables} tables"
    row = {
        "noise": mechanism.noise,
        "scales": mechanism.scales,
        "view": mechanism.view,
        "guarantee": f"({epsilon:g}, {delta:g})-DP{shared}",
        "neighbours": str(loss.neighbours),
        "kind": loss.kind,
        "epsilon": epsilon,
        "delta": delta,
        "tables": tables,
        "mu": mu,
        "rho": mu**2 / 2,
        "guess_rate": float(ndtr(mu / 2)),
        "scale": scale,
        "mean_sd": sd.mean(),
        "mean_absolute_error": mae.mean(),
        "margin90_typical": np.median(margin),
        "margin90_worst": margin.max(),
        "total_absolute_error": mae.sum(),
        "totals_margin90_worst": _tidy(totals["margin90"].values, cells["sd"].values),
        "entropy": float(cells["entropy"]),
    }
    mark = "" if public else "CONFIDENTIAL_"
    for size, value in zip(
        sizes["size"].values, sizes["relative_margin90_median"].values, strict=True
    ):
        row[f"{mark}median_relative_margin90_of_{size}"] = value
    kept = cells[["sd", "mae", "margin90"]].merge(
        sizes[["queries", "relative_margin90_median", "relative_mae_median"]]
    )
    kept = kept.assign(
        relative_scale=("query", mechanism.pattern),
        fingerprint=(("probe", "query"), _fingerprint(view, mechanism.noise)),
    )
    if key is not None:
        kept["noise"] = (("draw", "query"), np.asarray(view.sample_noise(key, (draws,))))
        kept["noise"].attrs = {
            "long_name": "draws of the noise of one table, never added to counts",
            "unit": "counts",
        }
    return row, kept


def _tidy(margins: np.ndarray, sd: np.ndarray) -> float:
    """The worst margin of the totals; rounding errors of an exact 0 are 0."""
    worst = float(margins.max(initial=0.0))
    return 0.0 if worst <= 1e-6 * sd.max(initial=0.0) else worst


def _fingerprint(view: Any, noise: str) -> np.ndarray:
    """Products with the covariance, (2, n): they tell normal laws apart.

    A noise that its covariance does not determine has no fingerprint (NaN equals nothing).
    """
    probes = fingerprint_probes(view.loc.shape[-1])
    if noise != "normal":
        return np.full_like(probes, np.nan)
    return np.asarray(view.covariance_product(probes), dtype=np.float64)


def _stack(
    table: pd.DataFrame, cells: list[xr.Dataset], names: Sequence[str], determined: np.ndarray
) -> xr.Dataset:
    """All mechanisms in one dataset over mechanism × cell."""
    stacked = xr.concat(
        [c.drop_vars("fingerprint") for c in cells],
        dim="mechanism",
        data_vars="all",
        coords="minimal",
        combine_attrs="drop_conflicts",
        join="exact",
    ).rename(query="cell")
    stacked["queries"] = stacked["queries"].isel(mechanism=0, drop=True)
    by_row: dict[str, Any] = {
        f"mechanism_{name}": ("mechanism", table[name].to_numpy(dtype=object).astype(str))
        for name in ("noise", "scales", "view", "guarantee", "kind")
    }
    labels = (table["noise"] + ", " + table["scales"] + " scales, " + table["view"]).to_numpy(
        dtype=object
    )
    stacked = stacked.assign_coords(
        mechanism=labels.astype(str), cell=np.asarray(names, dtype=object).astype(str), **by_row
    )
    stacked["determined"] = ("cell", determined.astype(np.int8))
    stacked.attrs = {"unit": "counts"}
    return stacked


def _names(names: Sequence[str] | None, n: int) -> list[str]:
    if names is None:
        return [f"cell {i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"`names` must have {n} entries, one for each cell; got {len(names)}.")
    return [str(name) for name in names]


def _unmoved(inv: Any, free: np.ndarray) -> list[str]:
    """Cells with noise that no single record can enter or leave alone."""
    blocks = np.asarray(inv.blocks)
    sizes = np.bincount(blocks[blocks >= 0], minlength=1)
    alone = free & ((blocks < 0) | (sizes[np.maximum(blocks, 0)] < 2))
    if not alone.any():
        return []
    sentence = (
        f"{int(alone.sum())} cells share no total at equal weight with another cell: no record can "
        "move to or from them without changing a total, so the guarantee does not speak of them."
    )
    return [sentence]
