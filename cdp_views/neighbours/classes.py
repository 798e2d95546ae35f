"""Differences that lose alike, and one of each kind."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.neighbours.groups import group_of, rows_of


@dataclass(frozen=True, eq=False)
class Classes:
    """One difference v of every class of equal law of the privacy loss, or of the most exposed.

    Attributes:
      differences: (m, n) the representatives.
      complete: whether every difference of the relation is represented. Otherwise none of the rest
        has a larger exposure Σ |v_i|·exposure_i than any of these: for Laplace noise of scale
        1/exposure that bounds its loss.
    """

    differences: sparse.csr_array = field(repr=False)
    complete: bool

    @staticmethod
    def of(
        differences: sparse.csr_array, exposure: np.ndarray, *, most: int, beyond: float = -np.inf
    ) -> "Classes":
        """The most exposed of `differences`; others, not listed, have exposures up to `beyond`."""
        size = abs(differences) @ exposure
        order = np.argsort(-size, kind="stable")
        left = size[order[most]] if len(order) > most else -np.inf
        kept = order[:most]
        beyond = max(beyond, float(left))
        kept = kept[size[kept] >= beyond * (1 - 1e-12)] if beyond > 0 else kept
        rows = differences if len(kept) == len(order) else differences[kept]
        return Classes(sparse.csr_array(rows), beyond == -np.inf)


def alike(exposure: np.ndarray, inv: Any, apart: np.ndarray | None = None) -> np.ndarray:
    """(n,) label of each cell: if equal, one can stand for the other in every view of `inv`.

    Two cells are alike if they have the same exposure and weight and lie in groups that hold the
    same exposures and weights. Under totals that overlap each cell is taken to be unlike the rest.

    Args:
      apart: (n,) labels; cells of different ones are not alike, whatever else they share.
    """
    A = sparse.csc_array(rows_of(inv))
    totals, group, weight = np.diff(A.indptr), group_of(inv), np.zeros(inv.n)
    once = totals == 1
    weight[once] = np.abs(A.data[A.indptr[:-1][once]])
    label = alike_in(group, weight, exposure, apart)
    if totals.max(initial=0) <= 1:
        return label
    crossed = np.isin(group, group[totals > 1])
    return np.where(crossed, label.max(initial=0) + 1 + np.arange(inv.n), label)


def alike_in(
    group: np.ndarray, weight: np.ndarray, exposure: np.ndarray, apart: np.ndarray | None = None
) -> np.ndarray:
    """(n,) as `alike`, for groups given by label; cells of a negative one are in no group."""
    n = len(group)
    kind = codes(codes(exposure) * n + codes(weight))
    kind = kind if apart is None else codes(kind * n + codes(apart))
    # what a group holds: the sum, modulo 2⁶⁴, of a random number for each of its cells' kinds
    random = np.random.default_rng(0).integers(0, 2**64, kind.max() + 1, dtype=np.uint64)
    holds = np.zeros(group.max() + 2, dtype=np.uint64)
    np.add.at(holds, group, random[kind])
    holds[-1] = 0  # where a label of −1 was added: these cells are independent of each other
    return codes(codes(holds)[group] * n + kind)


def pairs_of_kinds(
    block: np.ndarray, kind: np.ndarray, rank: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Two elements for every two kinds in every block, blocks of the same kinds once.

    Args:
      block: (c,) label of each element, 0, 1, … without gaps; a pair lies within one.
      kind: (c,) label of each element; blocks of like groups hold the same kinds.
      rank: (c,) equal within a kind; pairs of largest sum are wanted.
      most: about how many pairs to give at most.

    Returns:
      first and second element (m,), and the largest sum of a kind left out, −∞ if none is.
    """
    order = np.lexsort((kind, -rank, block))
    block, kind, rank = block[order], kind[order], rank[order]
    new = (np.diff(block, prepend=-1) != 0) | (np.diff(kind, prepend=-1) != 0)
    at = np.flatnonzero(new)  # one run of like elements after another, block by block
    size = np.diff(np.append(at, len(block)))
    begin = np.unique(block[at], return_index=True)[1]
    stop = np.append(begin[1:], len(at))
    top = np.minimum(begin + 1, len(at) - 1)
    top = rank[at[begin]] + np.where(size[begin] > 1, rank[at[begin]], rank[at[top]])
    kept = np.unique(np.minimum.reduceat(kind[at], begin), return_index=True)[1]
    kept = kept[(size[begin[kept]] > 1) | (stop[kept] - begin[kept] > 1)]
    kept = kept[np.argsort(-top[kept], kind="stable")]
    beyond = float(top[kept[most]]) if len(kept) > most else -np.inf
    kept = kept[:most]
    deep = int(np.ceil(np.sqrt(2 * most / max(len(kept), 1)))) + 1
    first, second = [], []
    for start, end in zip(begin[kept].tolist(), stop[kept].tolist(), strict=True):
        runs = np.arange(start, min(end, start + deep))
        if len(runs) < end - start:
            beyond = max(beyond, float(rank[at[start]] + rank[at[start + deep]]))
        i, j = np.triu_indices(len(runs))
        able = (i != j) | (size[runs[i]] > 1)
        i, j = runs[i[able]], runs[j[able]]
        first.append(at[i])
        second.append(np.where(i == j, at[i] + 1, at[j]))
    return order[np.concatenate(first)], order[np.concatenate(second)], beyond


def codes(values: np.ndarray) -> np.ndarray:
    """Equal numbers for equal values: 0, 1, … in order."""
    if np.all(values == values[0]):
        return np.zeros(values.size, dtype=np.int64)
    return np.unique(values, return_inverse=True)[1].ravel()
