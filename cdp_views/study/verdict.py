"""Sentences about a comparison; each compares only rows that are equal in the notion it names."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from cdp_views.report import Row, grouped, noise_name, percent
from cdp_views.study.alike import alike, factors
from cdp_views.study.mechanisms import NOT_PROVED, UNCONSTRAINED
from cdp_views.study.request import EQUAL

_EXACT = 1e-9
_SHOWN = 0.05  # per cent: less would print as 0.0
_SURE = 3.0  # standard errors
_VIEWS = 3
_KINDS = {"exact": "exactly", "bound": "by an upper bound", "estimate": "by an estimate"}


def judge(
    rows: Sequence[Row], dataset: xr.Dataset, fingerprints: Sequence[np.ndarray], blocks: np.ndarray
) -> tuple[str, ...]:
    """The verdict: what is equal, where the views coincide, who errs least, what exactness costs.

    Args:
        rows: one record a mechanism.
        dataset: its cells, in the same order.
        fingerprints: (2, n) for each row; rows with the same law have equal ones.
        blocks: `blocks` of the invariants, (n,).
    """
    sentences: list[str] = []
    several = len({row["noise"] for row in rows}) > 1
    proved = [row for row in rows if row["guarantee"] != NOT_PROVED]
    notions = grouped(proved, "guarantee", "kind", "neighbours")
    for (guarantee, kind, unit), equal in notions:
        sentences.append(_notion(equal, len(rows), guarantee, kind, unit))
        for (noise, scales), group in grouped(equal, "noise", "scales"):
            views = [row for row in group if row["view"] != UNCONSTRAINED]
            if not views:
                continue
            where = f"With {scales} scales" + (f" and {noise_name(noise)} noise" if several else "")
            same, said = _sameness(views, fingerprints, blocks, where)
            sentences.extend(said)
            if not same:
                sentences.extend(_ranking(views, where))
                if scales != EQUAL:
                    sentences.extend(_kept(views, dataset))
            sentences.extend(_cost(group, views, where))
            sentences.extend(_guesses(group, where))
        sentences.extend(_patterns(equal, dataset))
    if len(notions) > 1:
        sentences.append(_different([equal for _, equal in notions]))
    return tuple(sentences)


def _different(notions: Sequence[Sequence[Row]]) -> str:
    """That one ε in two notions is not one privacy: what an attacker gains under each."""
    quoted = []
    for rows in notions:
        noises = _and(list(dict.fromkeys(noise_name(row["noise"]) for row in rows)))
        guarantee = rows[0]["guarantee"]
        known = [row for row in rows if np.isfinite(row["guess_rate"])]
        if not known:
            quoted.append(f"under {noises} noise at {guarantee} it is not estimated")
            continue
        worst = max(known, key=lambda row: row["guess_rate"])
        best = min(known, key=lambda row: row["guess_rate"])
        rate = percent(worst["guess_rate"], worst["guess_rate_stderr"])
        apart = worst["guess_rate"] - best["guess_rate"] > _SURE * _both(worst, best, "guess_rate")
        if apart:
            lowest = percent(best["guess_rate"], best["guess_rate_stderr"])
            rate = f"between {lowest} and {rate}"
        quoted.append(f"under {noises} noise at {guarantee} {rate}")
    return (
        "These are different notions of privacy, and equal ε misleads: the best chance of telling "
        f"two neighbouring tables apart is {'; '.join(quoted)} (50 % is blind). So errors are not "
        "compared across them."
    )


def _guesses(rows: Sequence[Row], where: str) -> list[str]:
    """That rows of one pure ε may still differ in what an attacker gains."""
    known = sorted(
        (row for row in rows if np.isfinite(row["guess_rate"])), key=lambda row: row["guess_rate"]
    )
    if len(known) < 2:
        return []
    gap = known[-1]["guess_rate"] - known[0]["guess_rate"]
    if gap <= _SURE * _both(known[0], known[-1], "guess_rate"):
        return []
    rates = [f"{r['view']} {percent(r['guess_rate'], r['guess_rate_stderr'])}" for r in known]
    sentence = (
        f"{where}, the same ε leaves different chances of telling two neighbouring tables apart: "
        f"{_and(rates)}. What one gains in accuracy it may have paid for here."
    )
    return [sentence]


def _both(one: Row, other: Row, name: str) -> float:
    """Standard error of a difference of two rows' figures; 0 where both are exact."""
    errors = [row.get(f"{name}_stderr", np.nan) for row in (one, other)]
    # A little for the rounding of exact figures.
    return float(np.sqrt(np.nansum(np.square(errors)))) + 1e-9 * abs(one[name])


def _apart(row: Row, other: Row) -> bool:
    """Whether their total errors differ by more than would print as 0, and than chance explains."""
    gap = abs(_error(row) - _error(other))
    shown = _SHOWN / 100 * _error(other)
    return gap >= max(shown, _SURE * _both(row, other, "total_absolute_error"))


def _error(row: Row) -> float:
    return row["total_absolute_error"]


def _notion(rows: list[Row], everything: int, guarantee: str, kind: str, unit: str) -> str:
    which = "All rows are" if len(rows) == everything else f"{_count(len(rows)).title()} rows are"
    sentence = (
        f"{which} {guarantee}, {_KINDS.get(kind, kind)}; unit of privacy: {unit}. In that sense, "
        "and only in that, they are equal, and errors are compared."
    )
    tables = rows[0]["tables"]
    if tables > 1:
        pure = rows[0]["delta"] == 0
        sentence += (
            f" {tables} tables share the budget: {'' if pure else 'mu, rho and '}the guess rate "
            f"{'is that' if pure else 'are those'} of all of them together, scales and errors "
            "those of each."
        )
        if pure:
            sentence += (
                f" Pure ε adds up, so each table gets ε = {rows[0]['epsilon'] / tables:g} and its "
                f"noise is {tables} times larger; that of Normal noise grows by √{tables} only."
            )
    return sentence


def _sameness(
    views: list[Row], fingerprints: Sequence[np.ndarray], blocks: np.ndarray, where: str
) -> tuple[bool, list[str]]:
    """Whether all views are one mechanism, and what to say if some of them are."""
    classes = alike(views, fingerprints)
    same = len(views) > 1 and len(classes) == 1
    shared = [members for members in classes if len(members) > 1]
    if not shared:
        return same, []
    members = shared[0]
    everything = same and len(members) == _VIEWS
    subject = "the three views" if everything else _and([r["view"] for r in members])
    sentence = (
        f"{where}, {subject} are the same mechanism here: one law, reached in different ways."
    )
    for other in [row for row in views if row not in members]:
        ratio = factors(fingerprints[other["index"]], fingerprints[members[0]["index"]], blocks)
        if ratio is not None:
            sentence += (
                f" {other['view'].capitalize()} is the same within each group, its noise at most "
                f"{100 * ratio:.2g} % larger or smaller, because groups differ in size and it "
                "gives every cell one standard deviation."
            )
    separate = "Unequal scales, unequal weights or noise that is not Gaussian would separate them."
    return same, [f"{sentence} {separate}"]


def _ranking(views: list[Row], where: str) -> list[str]:
    if len(views) < 2:
        return []
    ranked = sorted(views, key=_error)
    best = _error(ranked[0])
    first = [row["view"] for row in ranked if not _apart(row, ranked[0])]
    rest = [
        f"; {row['view']} {100 * (_error(row) / best - 1):,.1f} % more"
        for row in ranked
        if _apart(row, ranked[0])
    ]
    sums = f"the expected absolute errors of the cells sum to {best:,.0f}"
    if not rest:
        # Only of estimates is there anything left to tell.
        drawn = any(row.get("total_absolute_error_stderr", 0.0) > 0 for row in ranked)
        within = ", as far as can be told from draws" * drawn
        return [f"{where}, {_and(first)} are equally accurate in total{within}: {sums}."]
    sentence = f"{where}, the most accurate in total {'is' if len(first) == 1 else 'are'} "
    return [f"{sentence}{_and(first)}: {sums}{''.join(rest)}."]


def _kept(views: list[Row], dataset: xr.Dataset) -> list[str]:
    """Which views give each cell the relative standard deviation that was asked for."""
    keeping, missing = [], []
    free = dataset["determined"].values == 0
    for row in views:
        cells = dataset.isel(mechanism=row["index"])
        ratio = (cells["sd"] / cells["relative_scale"]).values[free]
        off = ratio.max() / ratio.min() - 1
        (keeping if off <= _EXACT else missing).append((row["view"], off))
    if not keeping or not missing:
        return []
    lost = " and ".join(f"{view} (off by up to {100 * off:.2g} %)" for view, off in missing)
    verb = "gives" if len(keeping) == 1 else "give"
    sentence = (
        f"Only {_and([view for view, _ in keeping])} {verb} each cell a standard deviation exactly "
        f"proportional to the scale asked for, not {lost}. That is what it keeps; it is no claim "
        "of accuracy."
    )
    return [sentence]


def _cost(group: list[Row], views: list[Row], where: str) -> list[str]:
    """What exact totals cost against independent noise of the same privacy."""
    bases = [row for row in group if row["view"] == UNCONSTRAINED]
    if not bases:
        return []
    base, best = bases[0], min(views, key=_error)
    first = [row["view"] for row in views if not _apart(row, best)]
    which = _together(first) if len(first) == len(views) > 1 else _and(first)
    change = 100 * (_error(best) / _error(base) - 1)
    if not _apart(best, base):
        within = max(_SHOWN, 100 * _SURE * _both(best, base, "total_absolute_error") / _error(base))
        errors = f"leave the cells' errors as they are (within {within:.2g} %)"
    else:
        errors = f"{'raise' if change > 0 else 'lower'} the cells' errors by {abs(change):.1f} %"
    sentence = (
        f"{where}, exact totals {errors}: {which} against unconstrained noise of the same "
        f"privacy, whose worst total would be off by up to {base['totals_margin90_worst']:,.0f} "
        "(90 % margin)."
    )
    return [sentence]


def _patterns(rows: list[Row], dataset: xr.Dataset) -> list[str]:
    """What unequal scales do with the error: whom they spare, and at what price."""
    sentences = []
    views = [row for row in rows if row["view"] != UNCONSTRAINED]
    for _, group in grouped(views, "noise"):
        best = {scales: min(some, key=_error) for (scales,), some in grouped(group, "scales")}
        equal = best.pop(EQUAL, None)
        if equal is None:
            continue
        for scales, row in best.items():
            sd = dataset["sd"].isel(mechanism=[row["index"], equal["index"]]).values
            spared = int((sd[0] < (1 - _EXACT) * sd[1]).sum())
            give = (
                "no cell less noise: the two smallest scales of a group set its privacy"
                if spared == 0
                else f"less noise to {spared:,} of {sd.shape[1]:,} cells"
            )
            one, other = (_least(group, of) for of in (scales, EQUAL))
            which = f"{one} in both" if one == other else f"{one} against {other}"
            sentences.append(
                f"At the same privacy {scales} scales make the expected errors sum to "
                f"{_error(row) / _error(equal):.2f} times those of equal scales ({which}) and give "
                f"{give}."
            )
    return sentences


def _least(rows: list[Row], scales: str) -> str:
    """The views that err least with these scales: all of them where they tie."""
    some = [row for row in rows if row["scales"] == scales]
    best = min(some, key=_error)
    return _and([row["view"] for row in some if not _apart(row, best)])


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _together(views: Sequence[str]) -> str:
    """All views that were compared, none of them first."""
    return f"all {_count(len(views))} views alike" if len(views) > 2 else f"{_and(views)} alike"


def _count(number: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four"}.get(number, str(number))
