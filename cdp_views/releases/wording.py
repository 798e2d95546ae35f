"""What a release promises, in words that a reader of the file can hold it to."""

from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.invariants import Invariant
from cdp_views.neighbours import Differences, Neighbours, Relocations
from cdp_views.releases.budget.reservation import Reservation
from cdp_views.releases.noise import aes

FOR_PRINT = (
    "Analyse this release, whose noise has mean 0 and the law stated here. The table for print, "
    "FILE.print beside it, was made from it alone: nonnegative, whole, with the same totals. Its "
    "small cells are too large on average, as negative ones were raised to 0."
)
_LONGEST = 200  # letters of what was counted


def unit_of_count(counted: Any, counts: Any = None) -> str | None:
    """What was counted, in words: as it is given, or the name of a series of counts, if it has one.

    Raises:
        ValueError: no text, or more than a line.
    """
    if counted is None:
        name = getattr(counts, "name", None)
        return name if isinstance(name, str) and _is_line(name) else None
    if not isinstance(counted, str) or not _is_line(counted):
        raise ValueError(
            f"`counted` must be a few words on one line, at most {_LONGEST} letters, such as "
            f'"persons"; got {str(counted)[:60]!r}.'
        )
    return counted


def _is_line(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and len(text) <= _LONGEST


def guarantee(
    invariant: Invariant, neighbours: Neighbours, *, epsilon: float, delta: float, zeros: int = 0
) -> str:
    """The guarantee, what it is relative to, and of which cells it does not speak.

    `zeros` of the cells that the invariant determines are structural zeros.
    """
    budget = f"epsilon = {epsilon:.15g}"
    promise = f"epsilon-differential privacy with {budget} (pure: delta = 0)"
    most = f"e^{epsilon:.15g} times the probability under the other"
    if delta > 0:
        promise = f"(epsilon, delta)-differential privacy with {budget}, delta = {delta:.15g}"
        most += f", plus {delta:.15g}"
    fixed = int(np.count_nonzero(invariant.determined)) - zeros
    so = f", and so is every cell that they determine ({fixed} of {invariant.n})" if fixed else ""
    text = (
        f"{promise}, relative to the exact totals. "
        f"Unit of privacy: {neighbours.describe()}. "
        "For any two tables of true counts that differ by one such unit and have the same totals, "
        f"the probability of any set of released tables under one of them is at most {most}. "
        f"The totals listed as invariants are published exactly as counted{so}: this is not "
        "protected, and what it gives away is not part of epsilon."
    )
    if zeros:
        text += " " + only_zero(zeros, invariant.n)
    count = int(np.count_nonzero(untouched(invariant, neighbours)))
    if count:
        text += (
            f" No such unit changes {count} of the cells that have noise, as no record can "
            "move to or from them without changing a total: the guarantee does not speak of them."
        )
    return text


def only_zero(zeros: int, cells: int) -> str:
    """Of structural zeros, one sentence."""
    if zeros == 1:
        return (
            f"1 of the {cells} cells can only be 0, whatever the data: it is 0, without noise, and "
            "no record moves there."
        )
    return (
        f"{zeros} of the {cells} cells can only be 0, whatever the data: they are 0, without "
        "noise, and no record moves there."
    )


def with_others(reservation: Reservation) -> str:
    """What this release and those before it promise together."""
    if reservation.number == 1:
        return ""
    spent, added = reservation.spent, reservation.added_totals
    text = (
        f" This is release {reservation.number} of the table: together they keep epsilon = "
        f"{spent.epsilon:.15g}, delta = {spent.delta:.15g}, relative to all totals that they "
        "publish."
    )
    if added:
        text += (
            f" This one adds {added} exact total{'s' if added != 1 else ''} to those before, which "
            "the guarantee of all is relative to: what the earlier releases protect may be less."
        )
    if reservation.corrected:
        one = reservation.corrected == 1
        number, day = reservation.supersedes or (0, "")
        which = f"release {number} (of {day})" if number else "one of them"
        text += (
            f" Since then {reservation.corrected} exact total{'' if one else 's'} of {which} "
            f"{'was' if one else 'were'} changed: by how much is public to the last unit, and no "
            "noise covers it. This release supersedes that one."
        )
    return text


def caveat(step: float | None, *, whole: bool, generator: str, rounded: bool = False) -> str:
    """What float64 and the generator leave open."""
    if rounded:
        sums = (
            "The noisy table was rounded to whole numbers, each to one of its two nearest with the "
            "chances that leave its mean, and every total as it was; the law stated is that before "
            "rounding. This is post-processing and costs no privacy. "
        )
    elif whole:
        sums = "The noise is whole, so sums are exact; its probabilities are float64 arithmetic. "
    elif step is None:
        sums = "Sums are float64; low digits may in principle tell more than the guarantee says. "
    else:
        sums = (
            f"The noise was rounded to multiples of {step!r}, on which every sum of the table is "
            "exact; as the counts are whole this is post-processing and costs no privacy. "
        )
    is_it = "a" if generator == aes.NAME else "not a"
    return (
        f"The noise was drawn in float64 with {generator}, from a secret of 256 bits that the "
        f"operating system made and that was not kept; it is {is_it} cryptographic generator. "
        f"{sums}Each further release of the same counts costs its own epsilon and delta on top."
    )


_VIEWS = {
    "conditioned": "independent noise, given that it adds up to 0 in every total",
    "imaged": "independent noise, moved to the nearest noise that adds up to 0 in every total",
    "max-entropy": "noise that has in each cell the law that was asked for, adds up to 0 in every "
    "total, and is otherwise as random as can be",
}


def in_plain_words(metadata: dict[str, Any], determined: list[str], name: str) -> list[str]:
    """What a journalist should know before using the numbers; from the metadata alone.

    Args:
        metadata: of the release.
        determined: what the cells are called that the totals determine.
        name: of the file.
    """
    scale = np.asarray(metadata["scale"], dtype=np.float64)
    size = f"{scale:,.4g}" if scale.ndim == 0 else f"{scale.min():,.4g} to {scale.max():,.4g}"
    follow = f" So are the cells that follow from them: {_some(determined)}." if determined else ""
    but = ", but for those that can only be 0," if "structural_zeros" in metadata else ""
    told = [
        f"Exactly as counted: the totals listed above. No noise was added to them.{follow}",
        (
            f"Noisy: every other cell{but} is its count plus chance. The noise is "
            f"{_VIEWS[metadata['view']]}; its base is {metadata['noise']} noise of scale {size} "
            "counts. It is 0 on average."
        ),
        (
            f"Protected: {metadata['neighbours']['unit']}. Whoever sees the table can hardly tell "
            "whether such a change was made; ε says how hardly, and smaller is stronger."
        ),
        (
            "Not protected: the totals themselves, what follows from them, and larger changes than "
            "the one named; nor what other publications say about the same people. Each further "
            "release of the same counts weakens the promise."
        ),
        (
            "Negative numbers are no mistake: where a count is near 0, chance may bring it below. "
            "Do not set them to 0 before adding up or averaging, as the noise would no longer "
            "cancel."
        ),
    ]
    if "structural_zeros" in metadata:
        told.append("Cells that can only be 0, whatever the data, were left at 0 without noise.")
    if "publishable" in metadata:
        told.append(
            f"Two tables: analyse {name}. The one with .print in its name is for print: whole, "
            "without negative numbers, with the same totals, but its small cells are too large "
            "on average."
        )
    else:
        told.append(f"Analyse {name} as it is.")
    return told


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more


def stated(neighbours: Neighbours) -> dict[str, Any]:
    """The unit of privacy, in words and, where it is known, in numbers."""
    unit: dict[str, Any] = {"unit": neighbours.describe()}
    if isinstance(neighbours, Relocations):
        return {"kind": "relocations", "records": neighbours.records} | unit
    if isinstance(neighbours, Differences):
        entries = sparse.coo_array(neighbours.matrix)
        row, column = (a.tolist() for a in (entries.row, entries.col))
        listed = {"row": row, "cell": column, "change": entries.data.tolist()}
        return {"kind": "differences"} | unit | {"differences": listed}
    return {"kind": type(neighbours).__name__} | unit


def untouched(invariant: Invariant, neighbours: Neighbours) -> np.ndarray:
    """Which cells have noise and are changed by no unit of privacy: nothing is promised of them."""
    touched = np.asarray(invariant.determined, dtype=bool).copy()
    if isinstance(neighbours, Relocations):
        touched[neighbours.cells] = True
    elif isinstance(neighbours, Differences):
        touched[neighbours.matrix.indices] = True
    else:
        touched[:] = True
    return ~touched
