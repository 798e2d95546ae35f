"""Promised variances turned into the smallest problem with the same answer."""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cdp_views._checks import UnsupportedError
from cdp_views.calibration.interior_point import Program, solve
from cdp_views.calibration.tightest import two_tightest
from cdp_views.loss import GaussianLoss
from cdp_views.neighbours import Neighbours, Relocations

_MOST_CELLS = 300
_MOST_DIFFERENCES = 200_000
_MOST_CUTS = 60
_CLOSE = 1e-7
_TIED = 1e-6


class Plan(NamedTuple):
    """ν (n,), and −∂log μ/∂log margin of every cell's promise (n,) and every sum's (q,)."""

    nu: np.ndarray
    price: np.ndarray
    sum_price: np.ndarray


class _Problem(NamedTuple):
    """Rows A, losses a_v, promised rows w with e and t: everything of `Program` but K."""

    invariants: np.ndarray
    losses: sparse.csr_array
    rows: sparse.csr_array
    extra: sparse.csr_array
    promised: np.ndarray


class _Answer(NamedTuple):
    """η (n,), and −∂log μ/∂log margin of every promised row (r,)."""

    eta: np.ndarray
    price: np.ndarray


def disjoint_totals(
    inv: Any,
    promised: np.ndarray,
    *,
    pairs: int = 1,
    sums: sparse.csr_array | None = None,
    sum_promised: np.ndarray | None = None,
) -> Plan:
    """Disjoint plain totals, one record that moves within a group (or `pairs` groups at once).

    Args:
      inv: with `plain_groups`.
      promised: variances (n,) > 0 of the cells.
      pairs: 2 if the loss is the sum of the worst pairs of two groups (exchanges).
      sums: (q, n) with promises of their own; for `pairs` 1.
      sum_promised: their variances (q,).
    """
    segments = inv.plain_groups
    labels, count = np.asarray(segments.labels, dtype=np.int64), segments.count
    if sums is None or sum_promised is None:
        nu, loss, price = two_tightest(promised, labels, count)
        worst = np.sort(loss)[::-1][:pairs]
        counts = loss >= worst[-1] * (1 - 1e-12)
        share = np.where(counts, loss, 0.0)
        return Plan(nu, price * (share / share.sum())[labels], np.zeros(0))
    return _by_kinds(promised, labels, count, sums, sum_promised)


def any_totals(
    inv: Any,
    neighbours: Neighbours,
    promised: np.ndarray,
    sums: sparse.csr_array,
    sum_promised: np.ndarray,
) -> Plan:
    """Any totals and neighbours, cell by cell: for small tables."""
    kept = np.flatnonzero(~inv.determined)
    rows = sparse.csr_array(sparse.vstack([sparse.eye_array(inv.n).tocsr()[kept], sums]))
    invariants = inv.matrix.toarray()[:, kept]
    t = np.concatenate([promised[kept], sum_promised])

    def answer(losses: sparse.csr_array) -> _Answer:
        problem = _Problem(
            invariants,
            sparse.csr_array(losses[:, kept]),
            sparse.csr_array(rows[:, kept]),
            sparse.csr_array((len(t), len(kept))),
            t,
        )
        return _in_parts(problem, kept)

    losses = _listed(neighbours)
    found = _cuts(neighbours, promised, kept, answer) if losses is None else answer(losses)
    nu, price = 1 / promised, np.zeros(inv.n)
    nu[kept], price[kept] = found.eta, found.price[: len(kept)]
    return Plan(nu, price, found.price[len(kept) :])


def _by_kinds(
    promised: np.ndarray,
    labels: np.ndarray,
    count: int,
    sums: sparse.csr_array,
    sum_promised: np.ndarray,
) -> Plan:
    """Cells of one group that all sums weigh alike differ by their promises only.

    Swapping two of them shows that at the optimum only the tightest of a kind can have a precision
    of its own; all others share one, and only their tightest promise binds. So each kind becomes
    one cell and one sum of c cells with precision η = ν/c, within which a single cell has variance
    Var(sum)/c² + (1 − 1/c)/ν.
    """
    columns = sparse.csc_array(sums)
    columns.sort_indices()
    seen: dict[tuple[int, bytes, bytes], int] = {}
    kind = np.empty(len(labels), dtype=np.int64)
    for i, label in enumerate(labels.tolist()):
        part = slice(columns.indptr[i], columns.indptr[i + 1])
        key = (label, columns.indices[part].tobytes(), columns.data[part].tobytes())
        kind[i] = seen.setdefault(key, len(seen))
    order = np.lexsort((promised, kind))
    start = np.append(True, np.diff(kind[order]) > 0)
    first = order[start]
    after = np.append(False, start[:-1]) & ~start
    merged = np.empty(len(labels), dtype=np.int64)
    merged[order] = np.where(start, kind[order], len(first) + kind[order])
    _, merged = np.unique(merged, return_inverse=True)
    leader = np.concatenate([first, order[after]])  # the tightest of each, in the order of merged
    size = np.bincount(merged).astype(float)
    group, K = labels[leader], len(leader)
    inside = np.flatnonzero(group < count)
    _, row = np.unique(group[inside], return_inverse=True)
    invariants = sparse.csr_array((np.ones(len(inside)), (row, inside)), shape=(row.max() + 1, K))
    problem = _Problem(
        invariants.toarray(),
        _pairs(group, size),
        sparse.csr_array(
            sparse.vstack([sparse.diags_array(1 / size), sparse.csc_array(sums)[:, leader]])
        ),
        sparse.csr_array(
            sparse.vstack(
                [sparse.diags_array((1 - 1 / size) / size), sparse.csr_array((sums.shape[0], K))]
            )
        ),
        np.concatenate([promised[leader], sum_promised]),
    )
    problem.extra.eliminate_zeros()
    found = _in_parts(problem, leader)
    price = np.zeros(len(labels))
    price[leader] = found.price[:K]
    return Plan((size * found.eta)[merged], price, found.price[K:])


def _pairs(group: np.ndarray, size: np.ndarray) -> sparse.csr_array:
    """c_i e_i + c_j e_j for every two of a group, and 2 c_i e_i where c_i cells are one: (m, K)."""
    order = np.argsort(group, kind="stable")
    _, counts = np.unique(group, return_counts=True)
    if np.sum(counts.astype(float) ** 2) > 2 * _MOST_DIFFERENCES:
        raise UnsupportedError(
            f"`workload` or the promises tell {int(counts.max())} cells of a group apart, too many "
            "pairs to try. Promise the same margin to alike cells, or fewer sums."
        )
    ends = np.cumsum(counts)
    both = [np.stack(np.triu_indices(c, 1)) + e - c for c, e in zip(counts, ends, strict=True)]
    first, second = order[np.concatenate(both, axis=1)]
    many = np.flatnonzero(size > 1)
    m = len(first)
    row = np.concatenate([np.arange(m), np.arange(m), m + np.arange(len(many))])
    column = np.concatenate([first, second, many])
    value = np.concatenate([size[first], size[second], 2 * size[many]])
    return sparse.csr_array((value, (row, column)), shape=(m + len(many), len(group)))


def _listed(neighbours: Neighbours) -> sparse.csr_array | None:
    """v² of all differences, where they can be listed."""
    if type(neighbours) is Relocations:
        pairs = _pairs(neighbours.labels, np.ones(len(neighbours.cells)))
        entries = sparse.coo_array(pairs)
        shape = (pairs.shape[0], neighbours.n)
        value = entries.data * float(neighbours.records) ** 2
        return sparse.csr_array((value, (entries.row, neighbours.cells[entries.col])), shape=shape)
    if not neighbours.ordered:
        return sparse.csr_array(neighbours.shortlist(np.ones(neighbours.n))).power(2)
    return None


def _cuts(neighbours: Neighbours, promised: np.ndarray, kept: np.ndarray, answer: Any) -> _Answer:
    """The worst differences found so far, until the worst at their optimum is among them."""
    nu = 1 / promised

    def law(differences: sparse.csr_array) -> GaussianLoss:
        return GaussianLoss(np.sqrt(differences.power(2) @ nu))

    # every kept cell must be touched from the start, else its noise would vanish
    first = [neighbours.shortlist(np.eye(1, len(nu), i)[0]) for i in kept]
    losses = sparse.csr_array(sparse.vstack(first)).power(2)
    for _ in range(_MOST_CUTS):
        found = answer(losses)
        nu[kept] = found.eta
        worst = sparse.csr_array(neighbours.worst(np.sqrt(nu), law)).power(2)
        if np.max(worst @ nu) <= np.max(losses @ nu) * (1 + _CLOSE):
            return found
        losses = sparse.csr_array(sparse.vstack([losses, worst]))
    raise UnsupportedError(
        f"`neighbours` still has worse differences after {_MOST_CUTS} rounds. "
        "State those that matter: differences(V)."
    )


def _in_parts(problem: _Problem, names: np.ndarray) -> _Answer:
    """Parts that share no total, difference or sum are solved by themselves: each its own best."""
    losses, rows = problem.losses, problem.rows
    touched = np.bincount(losses.indices[losses.data > 0], minlength=losses.shape[1]) > 0
    if not touched.all():
        raise ValueError(
            f"`neighbours` has no difference that changes cell {int(names[np.argmin(touched)])}, "
            "so that it needs no noise. Take it out of the table, or state differences(V)."
        )
    links = sparse.csr_array(sparse.vstack([sparse.csr_array(problem.invariants), losses, rows]))
    links.data[:] = 1.0
    links.eliminate_zeros()
    parts, label = connected_components(links.T @ links, directed=False)
    sizes = np.bincount(label)
    if sizes.max() > _MOST_CELLS:
        raise UnsupportedError(
            f"`margins` of {sizes.max()} cells (or kinds of cells) hang together by totals that "
            f"overlap, sums or differences; at most {_MOST_CELLS} can be designed together."
        )
    eta, multiplier = np.empty(len(label)), np.zeros(len(problem.promised))
    tau = np.empty(parts)
    members = [np.flatnonzero(label == part) for part in range(parts)]
    own_rows = [np.flatnonzero(abs(rows[:, cells]).sum(axis=1) > 0) for cells in members]
    for part, (cells, own) in enumerate(zip(members, own_rows, strict=True)):
        basis = scipy.linalg.null_space(problem.invariants[:, cells])
        weights = rows[own][:, cells].toarray()
        # a sum that the totals fix keeps its promise whatever the noise
        open_ = np.linalg.norm(weights @ basis, axis=1) > 1e-9 * np.linalg.norm(weights, axis=1)
        own = own[open_]
        mine = losses[:, cells]
        program = Program(
            basis,
            sparse.csr_array(mine[np.flatnonzero(mine.sum(axis=1) > 0)]),
            weights[open_],
            sparse.csr_array(problem.extra[own][:, cells]),
            problem.promised[own],
        )
        best = solve(program, np.ones(len(cells)))
        eta[cells], tau[part] = best.eta, best.loss
        multiplier[own] = best.multiplier * problem.promised[own] / best.loss
    worst = tau >= tau.max() * (1 - _TIED)
    for part in np.flatnonzero(~worst):
        multiplier[own_rows[part]] = 0.0
    return _Answer(eta, multiplier / multiplier.sum())
