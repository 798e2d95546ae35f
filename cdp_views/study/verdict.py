"""Sentences about a comparison; each compares only rows that are equal in the notion it names."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from cdp_views.study.alike import alike, factors
from cdp_views.study.mechanisms import UNCONSTRAINED
from cdp_views.study.request import EQUAL

_EXACT = 1e-9
_KINDS = {"exact": "exactly", "bound": "by an upper bound", "estimate": "by an estimate"}


def judge(
    table: pd.DataFrame, dataset: xr.Dataset, fingerprints: Sequence[np.ndarray], blocks: np.ndarray
) -> tuple[str, ...]:
    """The verdict: what is equal, where the views coincide, who errs least, what exactness costs.

    Args:
        table: one row a mechanism.
        dataset: its cells, in the same order.
        fingerprints: (2, n) for each row; rows with the same law have equal ones.
        blocks: `blocks` of the invariants, (n,).
    """
    sentences: list[str] = []
    for notion, rows in table.groupby(["guarantee", "kind", "neighbours"], sort=False):
        sentences.append(_notion(rows, len(table), *map(str, notion)))
        for (noise, scales), group in rows.groupby(["noise", "scales"], sort=False):
            views = group[group["view"] != UNCONSTRAINED]
            if views.empty:
                continue
            where = f"With {scales} scales" + (
                "" if table["noise"].nunique() == 1 else f", {noise}"
            )
            same, said = _sameness(views, fingerprints, blocks, where)
            sentences.extend(said)
            if not same:
                sentences.extend(_ranking(views, where))
                if scales != EQUAL:
                    sentences.extend(_kept(views, dataset))
            sentences.extend(_cost(group, views, where))
        sentences.extend(_patterns(rows, dataset))
    return tuple(sentences)


def _notion(rows: pd.DataFrame, everything: int, guarantee: str, kind: str, unit: str) -> str:
    which = "All rows are" if len(rows) == everything else f"{_count(len(rows)).title()} rows are"
    first = rows.iloc[0]
    sentence = (
        f"{which} {guarantee}, {_KINDS.get(kind, kind)}; unit of privacy: {unit}. In that sense, "
        "and only in that, they are equal, and errors are compared."
    )
    if first["tables"] > 1:
        sentence += (
            f" {first['tables']} tables share the budget: mu, rho and the guess rate are those of "
            "all of them together, scales and errors those of each."
        )
    return sentence


def _sameness(
    views: pd.DataFrame, fingerprints: Sequence[np.ndarray], blocks: np.ndarray, where: str
) -> tuple[bool, list[str]]:
    """Whether all views are one mechanism, and what to say if some of them are."""
    classes = alike(views, fingerprints)
    same = len(views) > 1 and len(classes) == 1
    shared = [members for members in classes if len(members) > 1]
    if not shared:
        return same, []
    members = shared[0]
    subject = (
        f"the {_count(len(members))} views are" if same else f"{_and(views['view'][members])} are"
    )
    sentence = f"{where}, {subject} the same mechanism here: one law, reached in different ways."
    for other in views.index.difference(members):
        ratio = factors(fingerprints[other], fingerprints[members[0]], blocks)
        if ratio is not None:
            sentence += (
                f" {views['view'][other].capitalize()} is the same within each group, its noise at "
                f"most {100 * ratio:.2g} % larger or smaller, because groups differ in size and it "
                "gives every cell one standard deviation."
            )
    separate = " Unequal scales, unequal weights or noise that is not Gaussian would separate them."
    return same, [sentence + separate]


def _ranking(views: pd.DataFrame, where: str) -> list[str]:
    if len(views) < 2:
        return []
    ranked = views.sort_values("total_absolute_error", kind="stable")
    best = ranked.iloc[0]["total_absolute_error"]
    extra = 100 * (ranked["total_absolute_error"] / best - 1)
    first = ranked["view"][extra < 0.05]
    rest = [
        f"{view} {more:,.1f} % more"
        for view, more in zip(ranked["view"], extra, strict=True)
        if more >= 0.05
    ]
    sentence = (
        f"{where}, the most accurate in total {'is' if len(first) == 1 else 'are'} {_and(first)}: "
        f"the expected absolute errors of the cells sum to {best:,.0f}"
    )
    return [sentence + "".join(f"; {item}" for item in rest) + "."]


def _kept(views: pd.DataFrame, dataset: xr.Dataset) -> list[str]:
    """Which views give each cell the relative standard deviation that was asked for."""
    keeping, missing = [], []
    free = dataset["determined"].values == 0
    for i, view in zip(views.index, views["view"], strict=True):
        row = dataset.isel(mechanism=int(i))
        ratio = (row["sd"] / row["relative_scale"]).values[free]
        off = ratio.max() / ratio.min() - 1
        (keeping if off <= _EXACT else missing).append((view, off))
    if not keeping or not missing:
        return []
    lost = " and ".join(f"{view} (off by up to {100 * off:.2g} %)" for view, off in missing)
    kept = _and([view for view, _ in keeping])
    verb = "gives" if len(keeping) == 1 else "give"
    sentence = (
        f"Only {kept} {verb} each cell a standard deviation exactly proportional to the scale "
        f"asked for, not {lost}. That is what it keeps; it is no claim of accuracy."
    )
    return [sentence]


def _cost(group: pd.DataFrame, views: pd.DataFrame, where: str) -> list[str]:
    """What exact totals cost against independent noise of the same privacy."""
    bases = group[group["view"] == UNCONSTRAINED]
    if bases.empty:
        return []
    base = bases.iloc[0]
    best = views.sort_values("total_absolute_error", kind="stable").iloc[0]
    change = 100 * (best["total_absolute_error"] / base["total_absolute_error"] - 1)
    if abs(change) < 0.05:
        errors = "leave the errors of the cells as they are (within 0.05 %)"
    else:
        errors = f"{'raise' if change > 0 else 'lower'} the cells' errors by {abs(change):.1f} %"
    sentence = (
        f"{where}, exact totals {errors}: {best['view']} against unconstrained noise of the same "
        f"privacy, whose worst total would be off by up to {base['totals_margin90_worst']:,.0f} "
        "(90 % margin)."
    )
    return [sentence]


def _patterns(rows: pd.DataFrame, dataset: xr.Dataset) -> list[str]:
    """What unequal scales do with the error: whom they spare, and at what price."""
    sentences = []
    rows = rows[rows["view"] != UNCONSTRAINED]
    for noise, group in rows.groupby("noise", sort=False):
        best = group.loc[group.groupby("scales", sort=False)["total_absolute_error"].idxmin()]
        best = best.set_index("scales", drop=False)
        if EQUAL not in best.index or len(best) < 2:
            continue
        labels = dict(zip(rows["scales"] + rows["view"] + rows["noise"], rows.index, strict=True))

        def sd(row: pd.Series, labels: dict = labels, noise: object = noise) -> np.ndarray:
            place = labels[row["scales"] + row["view"] + str(noise)]
            return dataset["sd"].isel(mechanism=int(place)).values

        equal = best.loc[EQUAL]
        for name, row in best.drop(EQUAL).iterrows():
            spared = int((sd(row) < (1 - _EXACT) * sd(equal)).sum())
            times = row["total_absolute_error"] / equal["total_absolute_error"]
            sentences.append(
                f"At the same privacy {name} scales make the expected errors sum to {times:.2f} "
                f"times those of equal scales ({row['view']} against {equal['view']}) and give "
                + (
                    "no cell less noise: the two smallest scales of a group set its privacy."
                    if spared == 0
                    else f"less noise to {spared:,} of {dataset.sizes['cell']:,} cells."
                )
            )
    return sentences


def _and(words: Sequence[str] | pd.Series) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _count(number: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four"}.get(number, str(number))
