"""What a curator should look at before going on; no message shows a count."""

from collections.abc import Sequence

import numpy as np

_TOTALS = ("total", "totals", "subtotal", "grand total", "sum", "all", "overall")


def doubts(
    counts: np.ndarray,
    groups: Sequence[str],
    labels: Sequence[Sequence[str]] | None = None,
    columns: int = 1,
) -> list[str]:
    """Sentences on what may be meant, so that it is only told.

    Args:
        counts: (n,).
        groups: (n,) whose totals stay exact.
        labels: columns of n labels that name the cells; left out, the groups alone.
        columns: of counts, whose cells take turns.
    """
    from cdp_views.releases.labels import nearly_alike

    told = nearly_alike(groups)
    fractional = int(np.sum(counts != np.rint(counts)))
    if fractional:
        told.append(
            f"--count: {fractional} of {len(counts)} entries are not whole numbers. A record is "
            "taken to change a cell by 1, which is wrong for percentages, rates and means."
        )
    shares = like_shares(counts, groups)
    if shares is not None:
        told.append(
            f"--count: are these percentages or rates? {shares}. The guarantee is for counts, "
            "which one record changes by 1."
        )
    rows = rows_of_totals(counts, groups, [groups] if labels is None else labels, columns)
    if rows:
        told.append(
            f"Is data row {rows[0] // columns + 1} a row of totals ({len(rows)} such)? Leave it "
            "out: it would count every record twice, and the guarantee would not hold."
        )
    return told


def like_shares(counts: np.ndarray, groups: Sequence[str]) -> str | None:
    """Why the counts look like percentages or rates; None where they do not."""
    whole = np.array_equal(counts, np.rint(counts))
    if not whole and counts.max() <= 1:
        return "All lie between 0 and 1"
    _, group = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    sums = np.bincount(group, counts)
    # whole percentages are rounded; one group of whole counts may add up to 100 by chance
    if np.all(np.abs(sums - 100) <= 1) and (sums.size > 1 or not whole):
        return "The rows of each group add up to 100"
    if not whole and np.all(np.abs(sums - 1) <= 0.01):
        return "The rows of each group add up to 1"
    return None


def rows_of_totals(
    counts: np.ndarray, groups: Sequence[str], labels: Sequence[Sequence[str]], columns: int = 1
) -> list[int]:
    """Cells that are called like a total, or alone in their group and the sum of all others.

    Args:
        counts: (n,).
        groups: (n,).
        labels: columns of n labels.
        columns: of counts, whose cells take turns.
    """
    called = np.zeros(len(counts), dtype=bool)
    for column in labels:
        called |= np.array([label.strip().casefold() in _TOTALS for label in column])
    _, group, sizes = np.unique(
        np.asarray(groups, dtype=object).astype(str), return_inverse=True, return_counts=True
    )
    alone = sizes[group] == 1
    whole = np.tile(counts.reshape(-1, columns).sum(axis=0), len(counts) // columns)
    return np.flatnonzero(called | (alone & (counts > 0) & (2 * counts == whole))).tolist()
