"""Differences that lose alike, and one of each kind."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.neighbours.groups import group_of, rows_of


@dataclass(frozen=True, eq=False)
class Classes:
    """One difference v of every class of equal law of the privacy loss.

    Attributes:
      differences: (m, n) the representatives, the most exposed first.
      count: (m,) how many differences each stands for, v and −v counted once.
      complete: whether every difference of the relation is represented. Otherwise the rest is less
        exposed in sum, which orders pure ε within a group and no more than that.
    """

    differences: sparse.csr_array = field(repr=False)
    count: np.ndarray
    complete: bool

    @staticmethod
    def of(differences: sparse.csr_array, *, complete: bool) -> "Classes":
        """Each difference in a class of its own."""
        return Classes(differences, np.ones(differences.shape[0], dtype=np.int64), complete)


def alike(exposure: np.ndarray, inv: Any) -> np.ndarray:
    """(n,) label of each cell: if equal, one can stand for the other in every view of `inv`.

    Two cells are alike if they have the same exposure and weight and lie in groups that hold the
    same exposures and weights. Under totals that overlap each cell is taken to be unlike the rest.
    """
    A = sparse.csc_array(rows_of(inv))
    n, totals, group = inv.n, np.diff(A.indptr), group_of(inv)
    weight = np.zeros(n)
    weight[totals == 1] = np.abs(A.data[A.indptr[:-1][totals == 1]])
    crossed = np.isin(group, group[totals > 1])
    label = alike_in(group, weight, exposure)
    return np.where(crossed, label.max(initial=0) + 1 + np.arange(n), label)


def alike_in(group: np.ndarray, weight: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """(n,) as `alike`, for groups given by label; cells of a negative one are in no group."""
    n = len(group)
    order = np.lexsort((exposure, weight, group))
    content = np.ascontiguousarray(np.stack([weight[order], exposure[order]], axis=1))
    starts = np.flatnonzero(np.diff(group[order], prepend=-2)).tolist()
    seen: dict[bytes, int] = {}
    kind = np.empty(n, dtype=np.int64)
    for start, end in zip(starts, [*starts[1:], n], strict=True):
        free = group[order[start]] < 0
        key = b"free" if free else content[start:end].tobytes()
        kind[order[start:end]] = seen.setdefault(key, len(seen))
    place = np.lexsort((exposure, weight, kind))
    table = np.stack([kind[place], weight[place], exposure[place]])
    label = np.empty(n, dtype=np.int64)
    label[place] = np.cumsum(np.any(np.diff(table, prepend=table[:, :1]) != 0, axis=0))
    return label


def pairs_of_kinds(
    block: np.ndarray, kind: np.ndarray, rank: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Two elements for every two kinds in every block, blocks of the same kinds once.

    Args:
      block: (c,) label of each element, 0, 1, … without gaps; a pair lies within one.
      kind: (c,) label of each element; blocks of like groups hold the same kinds.
      rank: (c,) equal within a kind; pairs of largest sum come first.
      most: how many pairs to give at most.

    Returns:
      first and second element (m,), how many pairs they stand for (m,), whether these are all.
    """
    order = np.lexsort((kind, -rank, block))
    block, kind, rank = block[order], kind[order], rank[order]
    new = (np.diff(block, prepend=-1) != 0) | (np.diff(kind, prepend=-1) != 0)
    at = np.flatnonzero(new)  # one run of like elements after another, block by block
    size = np.diff(np.append(at, len(block)))
    begin = np.unique(block[at], return_index=True)[1]
    stop = np.append(begin[1:], len(at))
    one = size[begin] > 1
    top = 2 * rank[at[begin]]
    other = np.minimum(begin + 1, len(at) - 1)
    top = np.where(one, top, rank[at[begin]] + rank[at[other]])
    movable = one | (stop - begin > 1)
    smallest = np.minimum.reduceat(kind[at], begin)
    _, kept, times = np.unique(smallest, return_index=True, return_counts=True)
    times, kept = times[movable[kept]], kept[movable[kept]]
    by_top = np.argsort(-top[kept], kind="stable")[:most]
    complete = len(by_top) == len(kept)
    share = max(most // max(len(by_top), 1), 1)
    deep = int(np.ceil(np.sqrt(2 * share))) + 1
    first, second, count = [], [], []
    for b, repeat in zip(kept[by_top].tolist(), times[by_top].tolist(), strict=True):
        runs = np.arange(int(begin[b]), min(int(stop[b]), int(begin[b]) + deep))
        complete &= len(runs) == stop[b] - begin[b]
        i, j = np.triu_indices(len(runs))
        i, j = runs[i], runs[j]
        able = (i != j) | (size[i] > 1)
        i, j = i[able], j[able]
        first.append(at[i])
        second.append(np.where(i == j, at[i] + 1, at[j]))
        count.append(repeat * np.where(i == j, size[i] * (size[i] - 1) // 2, size[i] * size[j]))
    a, b, c = (np.concatenate(x) for x in (first, second, count))
    best = np.argsort(-(rank[a] + rank[b]), kind="stable")
    complete &= len(best) <= most
    best = best[:most]
    return order[a[best]], order[b[best]], c[best], bool(complete)
