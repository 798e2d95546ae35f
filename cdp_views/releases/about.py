"""One offline page beside a release: its totals, the margin of any sum, what is promised."""

import html
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from cdp_views._float64 import in_float64
from cdp_views.releases.digest import RELEASED
from cdp_views.releases.everyday import Margin, everyday
from cdp_views.releases.mechanism import law
from cdp_views.releases.wording import in_plain_words
from cdp_views.report.names import noise_name
from cdp_views.report.template import as_data, fill, listed

if TYPE_CHECKING:
    from cdp_views.releases.result import Release

_INSIDE = 5_000  # cells; a larger table is read from its files
_DRAWN = 200_000  # numbers, of draws for laws without a formula in the page
_TOLD = (
    "view", "noise", "scale", "cells", "invariants", "step", "digest", "structural_zeros",
)  # fmt: skip


def about_page(release: "Release", name: str) -> str:
    """The page of a release: HTML in one file, without outside requests, nothing confidential.

    It begins with an everyday margin. It holds what the two files of the release hold (the table up
    to 5,000 cells; a larger one is dropped in by the reader), adds up every total (`BigInt` where
    cells are whole steps), and gives the margin of any chosen sum w: z √(w Σ wᵀ) for Normal noise,
    by the characteristic function of w X for imaged Laplace noise, by sums on a lattice for noise
    given disjoint totals. What has no
    formula there is an estimate from draws, and said to be one; "exact" is said of nothing that
    `Release.margin` estimates.

    Args:
        release: whose metadata and table are published.
        name: of the file that the table is in, such as "released.csv".

    Returns:
        HTML, the same at every call.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a", "a", "b", "b"])
        >>> made = cdp.release([3, 5, 8, 1], inv, view="imaged", epsilon=1,
        ...                    neighbours=cdp.relocations(inv))
        >>> "https://" in about_page(made, "released.csv")
        False

    Reference: docs/releasing.md; `Release.margin`, whose numbers these are.
    """
    told, inside = release.metadata, release.metadata["cells"] <= _INSIDE
    data: dict[str, Any] = {"name": name, "metadata": None, "columns": None, "released": None}
    data |= {"groups": None, "precision": None, "draws": None}
    if inside:
        labels = release.table.drop(columns=RELEASED)
        data["metadata"] = {key: told[key] for key in _TOLD if key in told}
        data["columns"] = {str(c): labels[c].astype(str).tolist() for c in labels}
        data["released"] = release.released.tolist()
        data |= _law(release)
    made = None if data["draws"] is None else np.array(data["draws"]).T
    escaped = html.escape(name)
    verify = "To check the files: <code>cdp-views verify " + escaped + "</code>."
    csv = name.lower().endswith(".csv")
    parts = {
        "NAME": escaped,
        "EVERYDAY": _everyday(release, made),
        "WHAT": html.escape(_what(release)),
        "DROP": _drop(escaped, csv, inside),
        "ROUNDED": " The table was rounded to whole numbers afterwards, which adds less than 1 to "
        "the error of a cell and is not in the margins." * ("rounding" in told),
        "WORDS": listed(in_plain_words(_called(told), _names(release), name)),
        "FORMULA": _formula(release) + _ZEROS * ("structural_zeros" in told),
        "GUARANTEE": html.escape(told["guarantee"]),
        "CAVEAT": html.escape(told["caveat"]),
        "VERIFY": verify,
        "DATA": as_data(data),
    }
    return fill("about.html", parts)


def _what(release: "Release") -> str:
    told = release.metadata
    cells, count, zeros = told["cells"], release.totals_exact, len(told.get("structural_zeros", ()))
    noise = noise_name(told["noise"])
    of = f" of {told['counted']}" if "counted" in told else ""
    delta = f", δ = {told['delta']:.15g}" if told["delta"] else ""
    only = f" {zeros:,} more cells can only be 0, and are 0." if zeros else ""
    return (
        f"{cells - zeros:,} counts{of} were published with {noise} noise ({told['view']} view, "
        f"ε = {told['epsilon']:.15g}{delta}), and {count:,} total{'s' if count != 1 else ''} "
        f"exactly as counted.{only} This page opens without internet and sends nothing."
    )


def _called(told: dict[str, Any]) -> dict[str, Any]:
    """The metadata with the noise as it stands in a sentence."""
    return told | {"noise": noise_name(told["noise"])}


def _everyday(release: "Release", draws: np.ndarray | None) -> str:
    """The first sentence: how far a cell is off, and a sum of some."""
    found = everyday(release, draws)
    if found is None:
        return "<strong>How far off is a number?</strong> Choose cells below."
    told, what = release.metadata, _cell(release)
    each, total = found.cell, found.total
    unit = f" {told['counted']}" if told.get("counted") else ""
    apart = each.worst - each.typical > max(0.02 * each.typical, 3 * each.stderr)
    first = (
        f"In 9 of 10 cases {'a typical' if apart else 'each'} {what} lies within "
        f"±{_size(each.typical)}{unit} of what was counted"
    )
    if apart:
        first += f", the least certain one within ±{_size(each.worst)}"
    rest = "" if total is None else _of_sums(found.size, each, total)
    rest += _how_sure([each] if total is None else [each, total], told["noise"])
    return f"<strong>{html.escape(first)}.</strong>{html.escape(rest)}"


def _of_sums(size: int, each: Margin, total: Margin) -> str:
    less = " (errors partly cancel)" * (total.typical < 0.95 * size * each.typical)
    return (
        f" A sum of {size} of them, picked at random, typically lies within ±{_size(total.typical)}"
        f"{less}; below you find the margin of any sum."
    )


def _how_sure(margins: list[Margin], noise: str) -> str:
    estimates = [margin for margin in margins if margin.draws]
    if not estimates:
        return " Both margins are exact." if len(margins) > 1 else " This margin is exact."
    whole = noise.startswith("discrete")
    errors = " and ".join(
        "below 1" if whole and margin.stderr < 1 else f"{margin.stderr:.2g}" for margin in estimates
    )
    drawn = f"from {estimates[0].draws:,} random draws of the noise (standard error {errors})"
    if len(estimates) < len(margins):
        return f" The first margin is exact, the second an estimate {drawn}."
    one = " Both margins are estimates" if len(margins) > 1 else " This margin is an estimate"
    return f"{one} {drawn}."


def _size(margin: float) -> str:
    return f"{margin:,.0f}" if margin >= 1_000 else f"{margin:.3g}"


def _cell(release: "Release") -> str:
    """What a row is called: by the only column that tells rows apart, where that is a word."""
    labels = release.table.drop(columns=RELEASED)
    telling = [str(c) for c in labels if labels[c].is_unique]
    return telling[0] if len(telling) == 1 and telling[0].isalpha() else "cell"


def _names(release: "Release") -> list[str]:
    """Of the cells that the totals determine, those left out that can only be 0."""
    cells, told = release.coords["cell"], release.metadata
    zeros = set(told.get("structural_zeros", ()))
    return [cells[i] for i in told["determined_cells"] if i not in zeros]


def _drop(name: str, csv: bool, inside: bool) -> str:
    if not csv:
        return "A .parquet file is checked with <code>cdp-views verify</code>; as .csv, here:"
    if inside:
        return f"Have you got a copy of {name}? Drop it here to check that it is the one released:"
    return f"Drop {name} and {name}.json here:"


def _law(release: "Release") -> dict[str, Any]:
    """What the page can't work out from the metadata: groups, precisions, draws."""
    told, inv = release.metadata, release.invariant
    plain = inv.plain_groups
    found: dict[str, Any] = {}
    if plain is not None and told["invariants"]["kind"] != "totals":
        labels = np.asarray(plain.labels)
        found["groups"] = np.where(labels < plain.count, labels, -1).tolist()
    if told["view"] == "max-entropy" and (plain is None or release.scale.ndim):
        found["precision"] = _precision(release).tolist()
    if told["noise"] == "normal" or (told["view"], told["noise"]) == ("imaged", "laplace"):
        return found
    draws = min(2_000, _DRAWN // inv.n)
    if plain is None and draws >= 400:
        found["draws"] = _draws(release, draws).T.tolist()
    return found


@in_float64
def _precision(release: "Release") -> np.ndarray:
    made: Any = release.mechanism.law(np.zeros(release.invariant.n))
    nu = np.asarray(made.transforms[0].law.nu, dtype=np.float64)
    return np.array(np.broadcast_to(nu, (release.invariant.n,)))


def _draws(release: "Release", draws: int) -> np.ndarray:
    """Of the law around 0 (draws, n): they know of the table no more than the metadata do."""
    told, inv = release.metadata, release.invariant
    with jax.enable_x64(True):
        made: Any = law(told["view"], told["noise"], np.zeros(inv.n), release.scale, inv)
        x = np.asarray(made.sample_noise(jax.random.key(0), (draws,)), dtype=np.float64)
    return np.array([[float(f"{v:.5g}") for v in row] for row in x])


def _formula(release: "Release") -> str:
    """R and a spreadsheet, for sums in disjoint groups; else where to look."""
    told, inv = release.metadata, release.invariant
    groups = inv.plain_groups
    if groups is None or (told["view"] == "max-entropy" and release.scale.ndim):
        return "<p>" + html.escape(_NO_FORMULA) + "</p>"
    if release.scale.ndim:
        return _unequal(told) if told["noise"] == "normal" else f"<p>{_NO_FORMULA}</p>"
    if told["noise"] != "normal":
        return _FROM_VARIANCES
    scale, view = float(release.scale), told["view"]
    share = "k * (n - k) / (n - 1)" if view == "max-entropy" else "k * (1 - k / n)"
    cells = share.replace(" ", "").replace("k", "A2:A9").replace("n", "B2:B9")
    return (
        f"<p>{_KN}, and in Excel or LibreOffice with k in A2:A9 and n in B2:B9:</p>"
        f'<pre id="formula-r">qnorm(0.95) * {scale:.17g} * sqrt(sum({share}))</pre>'
        f'<pre id="formula-sheet">=NORM.S.INV(0.95)*{scale:.15g}*SQRT(SUMPRODUCT({cells}))</pre>'
        "<p>It is the 90 % margin, and exact. A whole group has k = n and no error.</p>"
    )


def _unequal(told: dict[str, Any]) -> str:
    if told["view"] == "conditioned":
        r = (
            "qnorm(0.95) * sqrt(sum(i * s^2) - "
            "sum(tapply(i * s^2, g, sum)^2 / tapply(s^2, g, sum)))"
        )
        sheet = "SUMPRODUCT(C2:C9*B2:B9^2)-SUMPRODUCT(C2:C9*B2:B9^2)^2/SUMSQ(B2:B9)"
    else:
        r = "qnorm(0.95) * sqrt(sum((i - ave(i, g))^2 * s^2))"
        sheet = "SUMPRODUCT((C2:C9-AVERAGE(C2:C9))^2*B2:B9^2)"
    return (
        "<p>Let s be the scale of each cell (scale in the .json file), i be 1 for the cells in the "
        "sum and 0 for all others, g the group. In R for any groups, and in Excel or LibreOffice "
        "for one group, its scales in B2:B9 and i in C2:C9 (for several groups, the root of the "
        "sum of the squared margins):</p>"
        f'<pre id="formula-r">{html.escape(r)}</pre>'
        f'<pre id="formula-sheet">=NORM.S.INV(0.95)*SQRT({sheet})</pre>'
        "<p>It is the 90 % margin, and exact.</p>"
    )


_KN = (
    "Let k be how many cells of each group are in the sum, and n how many the group has. In R, "
    "with one number of k and of n for each group"
)
_FROM_VARIANCES = (
    f"<p>{_KN} and v from the table below, and in Excel or LibreOffice with k in A2:A9, n in B2:B9 "
    "and v in C2:C9 (groups of two cells or more):</p>"
    '<pre id="formula-r">qnorm(0.95) * sqrt(sum(v * k * (n - k) / (n - 1)))</pre>'
    '<pre id="formula-sheet">=NORM.S.INV(0.95)*SQRT(SUMPRODUCT(C2:C9*A2:A9*(B2:B9-A2:A9)/'
    "(B2:B9-1)))</pre>"
    "<p>A whole group has k = n and no error. The standard deviation in it is right for any sum; "
    "1.645 of them are the 90 % margin of Normal noise, so that for sums of few cells this is an "
    "approximation: the list above does better.</p>"
    '<div id="variances"></div>'
)
_ZEROS = (
    "<p>Cells that can only be 0 have no noise: leave them out of k and of n, and of every group "
    "in these formulas.</p>"
)
_NO_FORMULA = (
    "No one-line formula exists for these totals or this noise: use the list above, or "
    'read_release(FILE).margin({"mine": [cells]}) in Python.'
)
