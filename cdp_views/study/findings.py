"""What a study found, in sentences that compare only what is equal in the notion they name."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from cdp_views.report import figure, noise_name, percent
from cdp_views.study.mechanisms import NOT_PROVED, UNCONSTRAINED

_SURE = 3.0  # standard errors of a difference
_SHOWN = 5e-4  # less is no difference
_MOST = 40  # sentences
_KEYS = ("table", "invariant", "scales", "noise", "notion")


def findings(tree: xr.DataTree) -> list[str]:
    """Which view answers each question best, among those of one noise, notion and budget.

    Args:
        tree: as `Study.run` gives it.

    Example:
        >>> import cdp_views as cdp
        >>> tables = {"blocks": {"source": "lafferty_blocks", "count": "count"}}
        >>> found = cdp.Study(tables, {"state": "state"}, epsilon=[1], delta=1e-6).run()
        >>> findings(found)[1].split(":")[0]
        'cells, Normal noise, state exact'
    """
    points, workloads = tree["points"].to_dataset(), tree["workloads"].to_dataset()
    sentences = [_extent(tree, points, workloads), *_guesses(points)]
    said = [
        _of_one(points, workloads, names, rows, j)
        for names, rows in _groups(points)
        for j in range(workloads.sizes["workload"])
    ]
    said = [sentence for sentence in said if sentence]
    sentences += said[:_MOST]
    if len(said) > _MOST:
        sentences.append(f"And {len(said) - _MOST:,} more such comparisons: choose them below.")
    return sentences


def _extent(tree: xr.DataTree, points: xr.Dataset, workloads: xr.Dataset) -> str:
    kinds = workloads["error_kind"].values
    skipped = tree["skipped"].sizes.get("combination", 0)
    return (
        f"{points.sizes['point']:,} mechanisms × {workloads.sizes['workload']} questions were "
        f"measured: {int((kinds == 'exact').sum()):,} with exact errors, "
        f"{int((kinds == 'estimate').sum()):,} estimated from draws, with standard errors; "
        f"{skipped:,} combinations could not be had."
    )


def _groups(points: xr.Dataset) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    """Points that differ by view and budget only."""
    held = list(zip(*(points[name].values.astype(str) for name in _KEYS), strict=True))
    for names in dict.fromkeys(held):
        yield names, np.array([i for i, one in enumerate(held) if one == names])


def _of_one(
    points: xr.Dataset, workloads: xr.Dataset, names: tuple[str, ...], rows: np.ndarray, j: int
) -> str:
    """The ranking by mean absolute error, and where it turns."""
    proved = points["guarantee"].values[rows] != NOT_PROVED
    rows = rows[proved]
    mae, error = (_over(workloads, name, rows, j) for name in ("mae", "mae_stderr"))
    rows, mae, error = (x[np.isfinite(mae)] for x in (rows, mae, error))
    budgets, view = points["budget"].values[rows], points["view"].values[rows].astype(str)
    keeps = view != UNCONSTRAINED
    if len(set(view[keeps])) < 2:
        return ""
    first: dict[float, tuple[str, ...]] = {}
    for budget in np.unique(budgets):
        here = np.flatnonzero((budgets == budget) & keeps)
        if here.size:
            best = int(here[np.argmin(mae[here])])
            alike = [i for i in here if not _apart(mae, error, int(i), best)]
            first[float(budget)] = tuple(sorted(set(view[alike])))
    table, invariant, scales, noise, notion = names
    told = [f"{noise_name(noise)} noise", f"{invariant} exact"]
    # What is the same everywhere goes without saying.
    told += [
        text
        for name, text in (
            ("table", f"table {table}"),
            ("scales", f"{scales} scales"),
            ("notion", notion),
        )
        if len(set(points[name].values)) > 1
    ]
    where = f"{workloads['workload'].values[j]}, {', '.join(told)}"
    winners = list(dict.fromkeys(first.values()))
    middle = sorted(first)[(len(first) - 1) // 2]
    here = np.flatnonzero(budgets == middle)
    guarantee = str(points["guarantee"].values[rows[here[0]]])
    low = min(mae[i] for i in here if keeps[i])
    rest = [
        f"{view[i]} {100 * (mae[i] / low - 1):+.3g} %"
        for i in sorted(here, key=lambda i: mae[i])
        if low > 0 and view[i] not in first[middle]
    ]
    others = f" ({'; '.join(rest)})" if rest else ""
    best = _words(first[middle])
    everyone = len(first[middle]) == len(set(view[keeps]))
    if len(winners) == 1 and everyone:
        # Only of estimates is there anything left to tell.
        told = ", as far as can be told from draws" * bool((error[keeps] > 0).any())
        verb = f"{best} have the same mean absolute error at every budget{told}"
    elif len(winners) == 1:
        verb = f"{best} {_has(first[middle])} the smallest mean absolute error at every budget"
    else:
        turns = "; ".join(
            f"{_words(who)} at {_range([b for b, w in first.items() if w == who], list(first))}"
            for who in winners
        )
        verb = f"which view has the smallest mean absolute error depends on the budget: {turns}"
    against = _against_best(workloads, rows[here], j)
    return f"{where}: {verb}. At {guarantee} it is {figure(low)}{others}.{against}"


def _against_best(workloads: xr.Dataset, rows: np.ndarray, j: int) -> str:
    """How near the views are to what any Gaussian could do."""
    best = workloads["best_gaussian_rmse"].values[rows, j]
    rmse = _over(workloads, "rmse", rows, j)
    known = np.isfinite(best) & np.isfinite(rmse) & (best > 0)
    keeps = workloads["view"].values[rows] != UNCONSTRAINED
    if not (known & keeps).any():
        return ""
    over = float((rmse[known & keeps] / best[known & keeps]).min()) - 1
    if over < 1e-3:
        return " No Gaussian noise does better in squared error (to 0.1 %)."
    times = f"{over + 1:.3g} times" if over > 1 else f"{100 * over:.2g} % above"
    return (
        f" Noise made for this question alone could do better: rmse is {times} the best Gaussian's."
    )


def _guesses(points: xr.Dataset) -> list[str]:
    """That points of one pure ε may still differ in what an attacker gains."""
    guess, noise = points["guess_rate"].values, points["noise"].values.astype(str)
    budget, proved = points["budget"].values, np.isfinite(points["guess_rate"].values)
    spread = 0.0
    worst: Any = None
    for name in ("pure", "native"):
        for n in dict.fromkeys(noise):
            for b in np.unique(budget):
                some = proved & (noise == n) & (budget == b) & (points["notion"].values == name)
                gap = float(np.ptp(guess[some])) if some.any() else 0.0
                if gap > max(spread, 0.01):
                    spread, worst = gap, (n, b, guess[some].min(), guess[some].max())
    if worst is None:
        return []
    low, high = (percent(rate, np.nan) for rate in worst[2:])
    sentence = (
        f"The same ε is not the same privacy: at ε = {worst[1]:g} {noise_name(worst[0])} noise "
        f"leaves the best attacker right between {low} and {high} of the time, by view and by what "
        "stays exact. Compare across the best guess, below, before you choose."
    )
    return [sentence]


def _over(workloads: xr.Dataset, name: str, rows: np.ndarray, j: int) -> np.ndarray:
    """Mean over repetitions; of standard errors, that of the mean."""
    held = workloads[name].values[rows, j]
    if name.endswith("_stderr"):
        return np.sqrt(np.square(held).sum(axis=1)) / held.shape[1]
    return held.mean(axis=1)


def _apart(value: np.ndarray, error: np.ndarray, i: int, best: int) -> bool:
    """Whether i is above the best by more than would print as 0, and than chance explains."""
    sure = _SURE * float(np.hypot(error[i], error[best]))
    return bool(value[i] - value[best] > max(_SHOWN * value[best], sure))


def _words(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _range(some: Sequence[float], every: Sequence[float]) -> str:
    """Budgets one by one, or from to where none between is left out."""
    between = [budget for budget in every if min(some) <= budget <= max(some)]
    if len(some) < 3 or len(between) > len(some):
        return ", ".join(f"{budget:g}" for budget in some)
    return f"{min(some):g} to {max(some):g}"
