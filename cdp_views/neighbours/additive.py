"""Losses that are sums over cells, so that the worst difference is found cell by cell."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError

Law = Callable[[sparse.csr_array], Any]

_AGREE = 1e-10
_TRIED = 8
_MANY = 50_000  # nodes, beyond which half as many sums will do


def order_of(law: Law, rows: sparse.csr_array) -> Literal["sum", "profile", "unknown"]:
    """Whether losses have one order, by a sum over independent groups, and are known at all."""
    try:
        return "profile" if law(rows).additive() is None else "sum"
    except UnsupportedError:
        return "unknown"


def size_of(law: Law, rows: sparse.csr_array) -> np.ndarray | None:
    """(m,) the number of each difference that orders it and adds up over groups, if there is one.

    μ² of Normal noise, or the supremum where no more is known. A profile has none: which of two is
    the worse may depend on ε.
    """
    try:
        size = law(rows).additive()
    except UnsupportedError:
        return None
    if size is None:
        return None
    size = np.broadcast_to(np.asarray(size, dtype=float), (rows.shape[0],))
    return size if np.isfinite(size).all() else None


def by_exposure(exposure: np.ndarray, law: Law, probes: sparse.csr_array) -> np.ndarray | None:
    """(n,) h with loss(v) = Σ_{v_i ≠ 0} h_i for v of entries ±1: a power of the exposure, if so."""
    power = power_of(exposure, law, probes)
    return None if power is None else exposure.astype(float) ** power


def power_of(exposure: np.ndarray, law: Law, probes: sparse.csr_array) -> int | None:
    """p with loss(v) = Σ (|v_i| · exposure_i)^p, if it is so.

    μ² of conditioned Normal noise is Σ v_i²/σ_i², pure ε of conditioned Laplace noise Σ |v_i|/λ_i.
    That the law is such a sum is checked, on `probes`.

    Args:
      exposure: (n,) 1/scale of each cell.
      law: differences (m, n) ↦ `Loss` of each.
      probes: (m, n) differences that together touch all cells at random.
    """
    size = size_of(law, probes)
    if size is None or not np.isfinite(exposure).all():
        return None
    for power in (1, 2):
        want = abs(probes).power(power) @ exposure.astype(float) ** power
        if np.allclose(want, size, rtol=_AGREE, atol=0):
            return power
    return None


def is_sum(h: np.ndarray, law: Law, probes: sparse.csr_array) -> bool:
    """Whether loss(v) = Σ_{v_i ≠ 0} h_i for all probes, of entries 0, 1 and −1."""
    size = size_of(law, probes)
    return size is not None and np.allclose(abs(probes) @ h, size, rtol=_AGREE, atol=0)


def node_sizes(
    law: Law, block: np.ndarray, pairs: Callable[[np.ndarray, np.ndarray], sparse.csr_array]
) -> np.ndarray | None:
    """(N,) u with loss(pair of i and j) = u_i + u_j for any two of one block, if losses are so.

    u_i = ½[loss(i, a) + loss(i, b) − loss(a, b)] from three losses each; a block of two shares its
    one loss equally. That the law is such a sum is checked on sums of pairs of random signs.

    Args:
      law: differences (m, n) ↦ `Loss` of each.
      block: (N,) label 0, 1, … of each node, each of which occurs twice or more.
      pairs: positions (m,), (m,) ↦ differences (m, n); pairs without common nodes share no cell.
    """
    order = np.argsort(block, kind="stable")
    size = np.bincount(block)
    start = np.cumsum(size) - size
    head = np.stack([order[start], order[start + 1], order[start + np.minimum(size - 1, 2)]])[
        :, block
    ]
    node = np.arange(len(block))
    a = np.where(node == head[0], head[1], head[0])
    b = np.where((node == head[0]) | (node == head[1]), head[2], head[1])
    two = size[block] == 2
    b = np.where(two, a, b)
    one = size_of(law, pairs(node, a))
    if one is None:
        return None
    rest = np.flatnonzero(~two)
    u = 0.5 * one
    if rest.size:
        other, both = size_of(law, pairs(rest, b[rest])), size_of(law, pairs(a[rest], b[rest]))
        if other is None or both is None:
            return None
        u[rest] = 0.5 * (one[rest] + other - both)
    tried, ends = sums_of_pairs(block, pairs)
    size_all = size_of(law, tried)
    want = np.array([np.sum(u[i] + u[j]) for i, j in ends])
    agreed = size_all is not None and np.allclose(size_all, want, rtol=_AGREE, atol=0)
    return u if agreed else None


def sums_of_pairs(
    block: np.ndarray, pairs: Callable[[np.ndarray, np.ndarray], sparse.csr_array]
) -> tuple[sparse.csr_array, list[tuple[np.ndarray, np.ndarray]]]:
    """(m, n) sums of disjoint pairs of random signs, and the ends of the pairs in each.

    About a third of the pairs is left out each time, or all would have one sum of their parts.
    """
    mixed = np.random.default_rng(0).permutation(len(block))
    mixed = mixed[np.argsort(block[mixed], kind="stable")]
    size, found, ends = np.bincount(block), [], []
    place = np.arange(len(block)) - (np.cumsum(size) - size)[block[mixed]]
    left = size[block[mixed]] - place
    for seed in range(_TRIED if len(block) < _MANY else _TRIED // 2):
        rng = np.random.default_rng(seed)
        # every second one with the next; in turn from the first of a block, and from the second
        first = np.flatnonzero((place % 2 == seed % 2) & (left > 1))
        first = first if first.size else np.flatnonzero((place % 2 == 0) & (left > 1))
        kept = first[rng.random(len(first)) < 2 / 3]
        kept = kept if kept.size else first
        i, j = mixed[kept], mixed[kept + 1]
        rows = pairs(i, j)
        sign = np.repeat(rng.choice([-1.0, 1.0], len(i)), np.diff(rows.indptr))
        whole = (sign * rows.data, rows.indices, np.array([0, rows.nnz]))
        found.append(sparse.csr_array(whole, shape=(1, rows.shape[1])))
        ends.append((i, j))
    return sparse.csr_array(sparse.vstack(found)), ends
