"""Losses that are sums over cells, so that the worst difference is found cell by cell."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError

_AGREE = 1e-10


def size_of(law: Callable[[sparse.csr_array], Any], rows: sparse.csr_array) -> np.ndarray | None:
    """(m,) the number of each difference that adds up over independent groups, if there is one.

    μ² of Normal noise, or else the supremum where it is finite.
    """
    try:
        loss = law(rows)
    except UnsupportedError:
        return None
    size = loss.additive()
    size = loss.sup if size is None else size
    size = np.broadcast_to(np.asarray(size, dtype=float), (rows.shape[0],))
    return size if np.isfinite(size).all() else None


def by_exposure(
    exposure: np.ndarray, law: Callable[[sparse.csr_array], Any], probes: sparse.csr_array
) -> np.ndarray | None:
    """(n,) h with loss(v) = Σ_{v_i ≠ 0} h_i for v of entries ±1: a power of the exposure, if so.

    μ² of conditioned Normal noise is Σ v_i²/σ_i², pure ε of conditioned Laplace noise Σ |v_i|/λ_i.
    That the law is such a sum is checked, on `probes`.

    Args:
      exposure: (n,) 1/scale of each cell.
      law: differences (m, n) ↦ `Loss` of each.
      probes: (m, n) differences of entries 0, 1 and −1 that together touch all cells at random.
    """
    size = size_of(law, probes)
    if size is None or not np.isfinite(exposure).all():
        return None
    for power in (1, 2):
        h = exposure.astype(float) ** power
        if np.allclose(abs(probes) @ h, size, rtol=_AGREE, atol=0):
            return h
    return None


def is_sum(h: np.ndarray, law: Callable[[sparse.csr_array], Any], probes: sparse.csr_array) -> bool:
    """Whether loss(v) = Σ_{v_i ≠ 0} h_i for all probes, of entries 0, 1 and −1."""
    size = size_of(law, probes)
    return size is not None and np.allclose(abs(probes) @ h, size, rtol=_AGREE, atol=0)
