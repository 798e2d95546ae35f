"""One offline page in a released folder: its totals, the margin of any sum, what is promised."""

import html
import io
from typing import Any

import pandas as pd

from cdp_views.releases.parts.part import released_names
from cdp_views.releases.parts.released import ReleasedParts
from cdp_views.releases.wording import in_plain_words
from cdp_views.report.names import noise_name
from cdp_views.report.template import as_data, fill, listed

PAGE = "_about.html"
_INSIDE = 20_000  # totals; of a larger release the reader drops in those of a part
_TOLD = ("view", "noise", "scale")


def folder_page(made: ReleasedParts, name: str) -> str:
    """The page of a release in parts: HTML in one file, without outside requests.

    It holds the exact totals where they are few (20,000). The reader drops in rows as .csv, of a
    part or of some groups; the page adds them up (`BigInt`) and gives the margin of any chosen sum
    of them from the joint law of the noise. The margin of k of n cells of a group it gives at once.

    Args:
        made: the release.
        name: of its folder.

    Returns:
        HTML, the same at every call; nothing that the folder's other files do not hold.

    Example:
        >>> import cdp_views as cdp, pandas as pd, pathlib, tempfile
        >>> home = pathlib.Path(tempfile.mkdtemp()); (home / "in").mkdir()
        >>> table = pd.DataFrame({"state": ["a", "a"], "county": [1, 2], "persons": [3, 5]})
        >>> table.to_parquet(home / "in" / "part.parquet")
        >>> made = cdp.release_parts(home / "in", home / "out", counts="persons", within="state",
        ...                          names="county", view="imaged", epsilon=1.0)
        >>> page = folder_page(made, "out")

    Reference: docs/streaming.md; `about.about_page`, its like for a table in one file.
    """
    told, columns = made.metadata, made.columns
    inside = told["groups"] <= _INSIDE
    within = list(dict.fromkeys(columns.within))
    data: dict[str, Any] = {key: told[key] for key in _TOLD}
    data |= {"name": name, "within": within, "counts": released_names(columns.counts)}
    if columns.zeros is not None:
        data["zeros"] = columns.zeros
    data["totals"] = _totals(made, within) if inside else None
    noisy = told["cells"] - told.get("structural_zeros", 0)
    part = html.escape(made.names[0])
    escaped = html.escape(name)
    save = f"""import pandas as pd
pd.read_parquet("{escaped}/{part}").to_csv("part.csv", index=False)"""
    if not inside:
        save += f'\npd.read_parquet("{escaped}/_totals/{part}").to_csv("totals.csv", index=False)'
    return fill(
        "folder.html",
        {
            "NAME": escaped,
            "WHAT": html.escape(_what(told, len(made.names))),
            "LISTED": ""
            if inside
            else f" The release has {told['groups']:,} exact totals, too many to lie inside this "
            "page: drop those of the part too.",
            "PYTHON": save,
            "DROP": "Drop rows as .csv here:" if inside else "Drop rows and totals as .csv here:",
            "SIZE": str(max(2, round(noisy / max(told["groups"], 1)))),
            "WORDS": listed(_words(told, within, name)),
            "FORMULA": _FORMULA + (_ZEROS if noisy < told["cells"] else ""),
            "GUARANTEE": html.escape(told["guarantee"]),
            "CAVEAT": html.escape(told["caveat"]),
            "VERIFY": f"To check all parts: <code>cdp-views verify {escaped}</code>.",
            "DATA": as_data(data),
        },
    )


def _totals(made: ReleasedParts, within: list[str]) -> dict[str, Any]:
    """Labels of the groups as a .csv file has them, and the exact totals as text, by column."""
    labels: list[list[str]] = []
    values: dict[str, list[str]] = {name: [] for name in made.columns.counts}
    for name in made.names:
        own = made.totals(name)
        text = io.StringIO(own[within].to_csv(index=False))
        labels += pd.read_csv(text, dtype=str, keep_default_na=False).to_numpy().tolist()
        for column, found in values.items():
            found += [str(value) for value in own[column].tolist()]
    return {"labels": labels, "values": list(values.values())}


def _what(told: dict[str, Any], parts: int) -> str:
    of = f" of {told['counted']}" if "counted" in told else ""
    delta = f", δ = {told['delta']:.15g}" if told["delta"] else ""
    noise = noise_name(told["noise"])
    zeros = told.get("structural_zeros", 0)
    only = f" {zeros:,} more cells can only be 0, and are 0." if zeros else ""
    files = f"{parts:,} Parquet file{'s' if parts != 1 else ''}"
    return (
        f"{told['cells'] - zeros:,} counts{of} were published in {files} with {noise} noise "
        f"({told['view']} view, ε = {told['epsilon']:.15g}{delta}), and {told['groups']:,} "
        f"total{'s' if told['groups'] != 1 else ''} exactly as counted.{only} This page opens "
        "without internet and sends nothing."
    )


def _words(told: dict[str, Any], within: list[str], name: str) -> list[str]:
    alone = told.get("determined", 0)
    beside = ", but for cells that can only be 0" if "structural_zeros" in told else ""
    follow = f" So are {alone:,} cells that are alone in their group{beside}." if alone else ""
    exact = (
        f"Exactly as counted: the total of each group, by {' and '.join(within)}. They lie in the "
        f"folder _totals; no noise was added to them.{follow}"
    )
    called = told | {"noise": noise_name(told["noise"])}
    return [exact, *in_plain_words(called, [], name)[1:]]


_FORMULA = (
    "<p>Let k be how many cells of each group are in the sum, n how many the group has, and v the "
    "variance of one cell in a group of n, which this page states above for a sum of 1. In R, with "
    "one number of each for each group, and in Excel or LibreOffice with k in A2:A9, n in B2:B9 "
    "and v in C2:C9 (groups of two cells or more):</p>"
    '<pre id="formula-r">qnorm(0.95) * sqrt(sum(v * k * (n - k) / (n - 1)))</pre>'
    '<pre id="formula-sheet">=NORM.S.INV(0.95)*SQRT(SUMPRODUCT(C2:C9*A2:A9*(B2:B9-A2:A9)/'
    "(B2:B9-1)))</pre>"
    "<p>A whole group has k = n and no error. The standard deviation in it is right for any sum; "
    "1.645 of them are the 90 % margin of Normal noise, so that for sums of few cells this is an "
    "approximation: the margins above do better.</p>"
)

_ZEROS = (
    "<p>Cells that can only be 0 have no noise: leave them out of k and of n, here and in the "
    "margin of a sum above.</p>"
)
