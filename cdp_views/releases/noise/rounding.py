"""Whole numbers from a real table: unbiased, with every total as it was; and without negatives."""

import numpy as np

from cdp_views._checks import UnsupportedError
from cdp_views._segments import Segments
from cdp_views.invariants import Invariant
from cdp_views.precision.words import uniform
from cdp_views.releases.noise.cells import group_ids
from cdp_views.releases.noise.closing import totals_of
from cdp_views.releases.noise.crossed import families, nearest_nonnegative, round_crossed
from cdp_views.releases.noise.secret import Secret

# Purposes of the bits, no other room has them; each takes the next one too, for cells in no group.
WHOLE, PRINTED = 64, 66
_NOT_WHOLE = (
    "A table is rounded to whole numbers where its totals are whole. Release it as it was drawn."
)
_NO_NETWORK = (
    "Whole numbers are rounded for plain totals that are disjoint, nested or in two families, such "
    "as rows and columns: with three margins or weights there may be no whole table near. Keep two "
    "margins, or release real numbers; where few totals overlap also whole noise "
    '(view="conditioned").'
)
_NEAR = 1e-9  # of a whole number, which a cell then is
_SLACK = 1e-6  # of a group's fractions, whose sum must be whole


def require_roundable(totals: np.ndarray, invariant: Invariant) -> None:
    """Refuse what `round_whole` would refuse, before anything is spent; `totals` (k,) are exact."""
    if invariant.plain_groups is None and families(invariant) is None:
        raise UnsupportedError(_NO_NETWORK)
    if np.any(totals != np.rint(totals)):
        raise UnsupportedError(_NOT_WHOLE)


def round_whole(
    secret: Secret,
    ids: np.ndarray,
    table: np.ndarray,
    invariant: Invariant,
    purpose: int = WHOLE,
) -> np.ndarray:
    """Every cell to one of its two nearest whole numbers, such that its mean is the cell.

    Systematic sampling in each group: the fractions f_i are laid end to end, and the cells on which
    a point of {1 − u, 2 − u, …} falls are rounded up, u uniform in (0, 1). P(up) = f_i, and as Σf
    is whole, exactly Σf cells are. Nested totals are totals of the disjoint parts that they leave.
    Two margins, or two families of disjoint totals, are rounded along cycles: `crossed`.

    Args:
        secret: of the release: a second try rounds alike.
        ids: (2, n), of the cells.
        table: (n,), with whole totals.
        invariant: disjoint or nested plain totals, or two families of them.
        purpose: of the bits.

    Returns:
        (n,) whole numbers with the same totals.

    Raises:
        UnsupportedError: weighted totals, more than two families, or totals that are not whole.

    Reference: Madow 1949 (systematic sampling); Cox 1987 (controlled rounding without bias).
    """
    groups = invariant.plain_groups
    if groups is None:
        return _round_crossed(secret, ids, table, invariant, purpose)
    labels, count = np.asarray(groups.labels), groups.count
    rounded = np.floor(table)
    f = table - rounded
    order = np.argsort(labels, kind="stable")
    inside = order[labels[order] < count]
    of = labels[inside]
    whole = np.bincount(of, f[inside], count)
    if np.any(np.abs(whole - np.rint(whole)) > _SLACK):
        raise UnsupportedError(_NOT_WHOLE)
    starts = np.searchsorted(of, np.arange(count))
    reach = np.cumsum(f[inside])
    reach -= (reach[starts] - f[inside][starts])[of]
    reach[np.append(starts[1:], of.size)[:count] - 1] = np.rint(whole)  # to the last bit
    before = np.concatenate([[0.0], reach[:-1]])
    before[starts] = 0.0
    u = uniform(secret.words(group_ids(ids, labels, count), purpose)[0])[of]
    rounded[inside] += np.floor(reach + u) - np.floor(before + u)
    free = np.flatnonzero(labels == count)
    rounded[free] += uniform(secret.words(ids[:, free], purpose + 1)[0]) < f[free]
    return rounded


def for_print(
    secret: Secret, ids: np.ndarray, table: np.ndarray, invariant: Invariant
) -> np.ndarray:
    """The closest table without negative cells and with the same totals, rounded to whole numbers.

    argmin Σ(z_i − y_i)² over z ≥ 0, A z = A q, then `round_whole`. Cutting at 0 makes small cells
    too large on average: this table is to be printed, not to be analysed. With two families of
    totals, argmin Σ|z_i − y_i|, a linear program.

    Args:
        secret: of the release.
        ids: (2, n), of the cells.
        table: the release (n,), whose totals are exact.
        invariant: disjoint or nested plain totals, or two families of them.
    """
    groups = invariant.plain_groups
    if groups is None:
        whole = np.rint(totals_of(invariant, table))
        near = nearest_nonnegative(table, invariant, whole)
        return _round_crossed(secret, ids, near, invariant, PRINTED)
    labels = np.asarray(groups.labels)
    totals = np.bincount(labels, table, groups.count + 1)[: groups.count]
    closest = _closest(table, totals, groups)
    return round_whole(secret, ids, closest, invariant, PRINTED)


def _closest(table: np.ndarray, totals: np.ndarray, groups: Segments) -> np.ndarray:
    """z = max(y − τ_g, 0): cells that a larger τ turns negative stay at 0 (Michelot 1986).

    On the host: finitely many rounds over the cells, and nothing to compile.
    """
    labels, count = np.asarray(groups.labels), groups.count
    goal = np.append(totals, 0.0)
    active = labels < count
    while True:
        size = np.bincount(labels, active, count + 1)
        tau = (np.bincount(labels, np.where(active, table, 0), count + 1) - goal) / np.maximum(
            size, 1
        )
        kept = active & (table - tau[labels] > 0)
        if np.array_equal(kept, active):
            break
        active = kept
    inside = np.where(active, np.maximum(table - tau[labels], 0), 0)
    return np.where(labels < count, inside, np.maximum(table, 0))


def _round_crossed(
    secret: Secret, ids: np.ndarray, table: np.ndarray, invariant: Invariant, purpose: int
) -> np.ndarray:
    two = families(invariant)
    if two is None:
        raise UnsupportedError(_NO_NETWORK)
    totals = totals_of(invariant, table)
    # what is whole to rounding is whole: floor would take 1 from 4.999999999999
    near = np.where(np.abs(table - np.rint(table)) < _NEAR, np.rint(table), table)
    rounded = np.floor(near)
    # one chain of bits for the whole table: a cycle belongs to no cell
    whole = np.repeat(group_ids(ids, np.zeros(table.size, dtype=np.int64), 1), table.size, axis=1)
    u = uniform(secret.words(whole, purpose, np.arange(table.size))[0])
    rounded += round_crossed(near - rounded, two, u.tolist())
    if not np.array_equal(totals_of(invariant, rounded), np.rint(totals)):
        raise UnsupportedError(_NOT_WHOLE)
    return rounded + 0.0
