"""All mechanisms at equal privacy: calibrate, then ask the two questions."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd
import xarray as xr

from cdp_views._checks import InfeasibleError, UnsupportedError
from cdp_views._counts import as_counts
from cdp_views.calibration import calibrate
from cdp_views.neighbours import relocations
from cdp_views.privacy import privacy_loss
from cdp_views.privacy.estimate import DRAWS
from cdp_views.report import records
from cdp_views.study.alike import fingerprint_probes
from cdp_views.study.comparison import Comparison
from cdp_views.study.guess import guess_rate, kind_together
from cdp_views.study.mechanisms import NOT_PROVED, Mechanism, mechanisms
from cdp_views.study.request import EQUAL, check_budget, check_kinds, scale_patterns
from cdp_views.study.verdict import judge
from cdp_views.usefulness import relative_by_size, utility

# Numbers of noise in one comparison: 2 GiB of float64.
LARGEST_NOISE = 2**28
LARGEST_ESTIMATE = 2**25
_UNPROVED_DRAWS = 1_000  # each costs dozens of estimated densities; their bracket is wider

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
    """The unconstrained base and its three views, each calibrated to the same budget.

    Normal noise keeps (ε, δ), Laplace noise pure ε: two notions, and only rows of one notion are
    equal. Max-entropy Laplace has no proved guarantee: it takes conditioned's scale.

    With `tables` M, M tables of this kind share the budget. Gaussian guarantees compose to
    μ = √M μ₁, exactly, so that each table's noise is √M larger; pure ε adds up, so that each table
    gets ε/M and its noise is M times larger.

    Args:
        counts: true counts, (n,).
        inv: what must hold exactly.
        epsilon: privacy budget of all tables together, above 0.
        delta: its δ, between 0 and 1; Laplace noise leaves it unused, and alone allows 0.
        noises: base noises, "normal" and "laplace".
        scales: relative scales (n,) to compare beside equal ones, or several by name; published,
            hence never a function of the counts.
        neighbours: the differences that must stay hidden; `relocations(inv)` if None.
        tables: number of tables that share the budget.
        public: the counts are public, so that nothing is marked confidential.
        key: JAX key for draws of the noise, and for what of Laplace noise is estimated (guess rates
            and most errors, with standard errors); None stores no draws and is for Normal noise.
        draws: draws of the noise that are kept per mechanism, of one table, never with the counts
            added; 0 keeps none.
        names: names of the cells, for lists and files.
        progress: called with (done, all, what) before each mechanism.

    Returns:
        The comparison: `.table`, `.dataset`, `.verdict`, `.plot()`.

    Raises:
        TypeError: `inv` or `neighbours` of another kind.
        ValueError: counts, budget or scales that make no sense; Laplace noise without a key.
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
    check_kinds(inv, neighbours)
    counts = as_counts(counts, inv.n)
    patterns = scale_patterns(scales, counts)
    rows = mechanisms(counts, inv, tuple(noises), patterns)
    check_budget(epsilon, delta, tables, pure=all(row.pure for row in rows))
    names = _names(names, inv.n)
    if key is None and any(row.pure for row in rows):
        raise ValueError(
            "`key` must be given with Laplace noise: its guess rates and errors are estimated from "
            "draws. Pass key=jax.random.key(0)."
        )
    if key is not None and not 0 <= draws * len(rows) * inv.n <= LARGEST_NOISE:
        raise ValueError(
            f"`draws` must be at least 0 and fit in memory; got {draws} for {len(rows)} mechanisms "
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
    results: list[tuple[dict[str, Any], xr.Dataset, Any]] = []
    keys = [None] * len(rows) if key is None else list(jax.random.split(key, len(rows)))
    # Inside this block JAX keeps float64, so that noise and privacy numbers have full precision.
    # It is the context of every float64 function of the library: nothing is compiled twice.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
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
    table = pd.DataFrame([row for row, _, _ in results])
    dataset = _stack(table, [cells for _, cells, _ in results], names, ~free)
    fingerprints = [cells["fingerprint"].values for _, cells, _ in results]
    notes.extend(_unmoved(inv, free))
    notes.extend(_estimated(table, inv.n))
    return Comparison(
        table=table,
        dataset=dataset,
        verdict=judge(records(table), dataset, fingerprints, np.asarray(inv.blocks)),
        determined=tuple(names[i] for i in np.flatnonzero(~free)),
        notes=tuple(notes),
        public=public,
        losses={
            (row["noise"], row["view"]): loss
            for row, _, loss in results
            if row["scales"] == EQUAL and loss is not None
        },
    )


def _measure(
    mechanism: Mechanism,
    neighbours: Any,
    budget: tuple[float, float, int],
    free: np.ndarray,
    key: Any,
    draws: int,
    public: bool,
) -> tuple[dict[str, Any], xr.Dataset, Any]:
    """One row of the table, the figures of its cells, and what one table gives away."""
    # One key for each use, so that guess rates, errors and stored draws are independent.
    for_guess, for_errors, for_draws = (
        (None, None, None) if key is None else jax.random.split(key, 3)
    )
    view, scale, privacy, loss = _calibrated(mechanism, neighbours, budget, for_guess)
    estimate: dict[str, Any] = {"public": public}
    if key is not None:
        estimate |= {"key": for_errors, "draws": _estimate_draws(free.size)}
    cells = utility(view, **estimate)
    totals = utility(view, mechanism.invariant, **estimate)
    mae, margin, sd = (cells[v].values[free] for v in ("mae", "margin90", "sd"))
    # Cells that the totals determine would count as without error.
    sizes = relative_by_size(
        mechanism.counts[free], {"mae": mae, "margin90": margin}, public=public
    )
    total_stderr = float(cells.get("total_absolute_error_stderr", np.nan))
    unsure = cells["margin90_stderr"].values[free] if "margin90_stderr" in cells else None
    worst = int(np.argmax(margin))
    row = {
        "noise": mechanism.noise,
        "scales": mechanism.scales,
        "view": mechanism.view,
        **privacy,
        "scale": scale,
        "error_kind": cells.attrs["error_kind"],
        "mean_sd": sd.mean(),
        "mean_absolute_error": mae.mean(),
        "mean_absolute_error_stderr": total_stderr / mae.size,
        "margin90_typical": np.median(margin),
        # Not less than it is: the median of many cells is surer than each.
        "margin90_typical_stderr": np.nan if unsure is None else np.median(unsure),
        "margin90_worst": margin[worst],
        "margin90_worst_stderr": np.nan if unsure is None else unsure[worst],
        "total_absolute_error": mae.sum(),
        "total_absolute_error_stderr": total_stderr,
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
    for name in ("mae_stderr", "margin90_stderr"):
        kept[name] = cells[name] if name in cells else xr.full_like(cells["sd"], np.nan)
        kept[name].attrs = {"unit": "counts", "long_name": "standard error; none where exact"}
    kept = kept.assign(
        relative_scale=("query", mechanism.pattern),
        fingerprint=(("probe", "query"), _fingerprint(view, mechanism.noise)),
    )
    if for_draws is not None and draws > 0:
        kept["noise"] = (("draw", "query"), np.asarray(view.sample_noise(for_draws, (draws,))))
        kept["noise"].attrs = {
            "long_name": "draws of the noise of one table, never added to counts",
            "unit": "counts",
        }
    return row, kept, loss


def _calibrated(
    mechanism: Mechanism, neighbours: Any, budget: tuple[float, float, int], key: Any
) -> tuple[Any, float, dict[str, Any], Any]:
    """The view that keeps the budget, its scale, what it gives away, and the law of that."""
    epsilon, delta, tables = budget
    if mechanism.pure:
        scale = calibrate(mechanism.calibrated, neighbours, epsilon=epsilon / tables)
    else:
        scale = calibrate(mechanism, neighbours, epsilon=epsilon, delta=delta) * np.sqrt(tables)
    view = mechanism(scale)
    privacy: dict[str, Any] = {
        "guarantee": mechanism.guarantee(epsilon, delta, tables),
        "neighbours": neighbours.describe(),
        "kind": "none",
        "epsilon": epsilon if mechanism.proved else np.nan,
        "delta": (0.0 if mechanism.pure else delta) if mechanism.proved else np.nan,
        "tables": tables,
        "mu": np.nan,
        "rho": np.nan,
        "guess_rate": np.nan,
        "guess_rate_stderr": np.nan,
        "guess_rate_kind": "none",
        "one_cell_epsilon": np.nan,
    }
    if mechanism.proved:
        loss = privacy_loss(view, neighbours, key=key if mechanism.pure else None)
        privacy["kind"] = loss.pure_kind if mechanism.pure else loss.kind
    else:
        try:
            loss = privacy_loss(view, neighbours, key=key, draws=_UNPROVED_DRAWS)
            privacy["one_cell_epsilon"] = tables * _of_one_cell(view, neighbours)
        except UnsupportedError:  # totals that overlap: neither proved nor estimated
            return view, scale, privacy, None
        privacy["kind"] = loss.kind
    privacy["guess_rate"], privacy["guess_rate_stderr"] = guess_rate(loss, tables)
    if np.isfinite(privacy["guess_rate"]):
        privacy["guess_rate_kind"] = kind_together(loss, tables)
    if hasattr(loss.law, "mu"):
        privacy["mu"] = loss.mu * np.sqrt(tables)
        privacy["rho"] = privacy["mu"] ** 2 / 2
    return view, scale, privacy, loss


def _of_one_cell(view: Any, neighbours: Any) -> float:
    """Pure ε of whoever sees one cell alone, the most exposed: its law is exactly the base's."""
    scale = np.broadcast_to(np.asarray(view.scale, dtype=float), (neighbours.n,))
    moves = np.asarray(view.groups.determined, dtype=bool)
    cell = int(np.argmin(np.where(moves, np.inf, scale)))
    query = np.zeros((1, neighbours.n))
    query[0, cell] = 1.0
    return privacy_loss(view, neighbours, query=query).pure_epsilon


def _estimate_draws(n: int) -> int:
    """Draws for estimates of errors: at most 4,000, and about 256 MiB of them."""
    return int(np.clip(LARGEST_ESTIMATE // n, 20, 4_000))


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
        for name in ("noise", "scales", "view", "guarantee", "kind", "error_kind")
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


def _estimated(table: pd.DataFrame, n: int) -> list[str]:
    """What is not exact, and from how much it was found."""
    notes = []
    if (table["error_kind"] == "estimate").any():
        notes.append(
            "Laplace noise: margins and absolute errors of conditioned and imaged are estimated "
            f"from {_estimate_draws(n):,} draws of the noise; the columns that end in _stderr hold "
            "their standard errors. Scales, guarantees and standard deviations are exact."
        )
    if (table["guess_rate_kind"] == "estimate").any():
        notes.append(
            f"Guess rates with a standard error are estimated from {DRAWS:,} draws of the loss; "
            "the others are exact or, of several tables of Laplace noise, bounds from above."
        )
    if (table["guarantee"] == NOT_PROVED).any():
        notes.append(
            "Max-entropy Laplace: no guarantee of the whole release is proved. It has the scale of "
            "conditioned, and no place in the verdict. Its guess rate is an estimate, from "
            "likelihood ratios that are estimated too: its standard error includes theirs."
            + _proved_of(table)
        )
    return notes


def _proved_of(table: pd.DataFrame) -> str:
    """What is proved nevertheless: of one cell alone."""
    known = table["one_cell_epsilon"].dropna()
    if known.empty:
        return ""
    return (
        f" Proved is this: who sees any one cell alone is kept to pure ε = {known.max():g}, as the "
        "law of each cell is exactly that of the base."
    )


def _unmoved(inv: Any, free: np.ndarray) -> list[str]:
    """Cells with noise that no single record can enter or leave alone."""
    blocks = np.asarray(inv.blocks)
    sizes = np.bincount(blocks[blocks >= 0], minlength=1)
    alone = free & ((blocks < 0) | (sizes[np.maximum(blocks, 0)] < 2))
    if not alone.any():
        return []
    number = int(alone.sum())
    who, them = ("1 cell shares", "it") if number == 1 else (f"{number:,} cells share", "them")
    sentence = (
        f"{who} no total at equal weight with another cell: no record can move to or from {them} "
        f"without changing a total, so the guarantee does not speak of {them}."
    )
    return [sentence]
