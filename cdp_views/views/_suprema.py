"""The largest privacy loss of one cell's noise, and what a shift of a whole group costs."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import InverseChi, Rayleigh
from cdp_views.noise.numerical import DoubledKolmogorov

_MOST = 4_000_000  # numbers to look at
_ROUNDING = 1e-12


@singledispatch
def cell_supremum(_mixing: Mixing, _a: np.ndarray, _cell: Any = ...) -> np.ndarray | None:
    """sup_x log p(x)/p(x + a) for noise of scale 1; None where it is not known.

    Arguments: the law of the noise's scales; differences a in units of the scale, any shape; of
    which cells they are, where the law is not the same for all.
    """
    return None


@cell_supremum.register(Rayleigh)
@cell_supremum.register(DoubledKolmogorov)
def _(_mixing: Any, a: np.ndarray, _cell: Any = ...) -> np.ndarray:
    # Laplace and logistic: −log p has slope ±1 in the tails, and nowhere more
    return np.abs(a)


@cell_supremum.register
def _(mixing: InverseChi, a: np.ndarray, cell: Any = ...) -> np.ndarray:
    df = np.asarray(mixing.df, np.float64)
    return student_supremum(df[cell] if df.size > 1 else df.reshape(-1)[0], a)


def student_supremum(df: Any, a: np.ndarray) -> np.ndarray:
    """(ν + 1) asinh(|a|/2√ν): the largest log p(x)/p(x + a) of Student-t noise.

    ½(ν + 1) log (ν + (x + a)²)/(ν + x²) is largest at x = (√(a² + 4ν) − a)/2, where the ratio is
    1 + a/x = e^{2θ} for a = 2√ν sinh θ.
    """
    return (df + 1) * np.arcsinh(np.abs(a) / (2 * np.sqrt(df)))


@singledispatch
def cell_exposure(_mixing: Mixing, rate: np.ndarray) -> np.ndarray:
    """(n,) numbers that order the cells by what they give away, from 1/scale (n,)."""
    return rate


@cell_exposure.register
def _(mixing: InverseChi, rate: np.ndarray) -> np.ndarray:
    return student_exposure(mixing.df, rate)


def student_exposure(df: Any, rate: np.ndarray) -> np.ndarray:
    """(n,) 1/scale where all cells have one ν, else S(1), if that orders them at every change.

    S(v) = (ν + 1) asinh(v/2λ√ν) has the slope 1/√(1/a² + v²/(ν + 1)²), a = (ν + 1)/2λ√ν. So of two
    cells one has the larger S, and the larger S(w) − S(v), w > v, for all v if it has the larger a
    and ν, and only then. Where all cells are ordered so, whatever is proved of the most exposed
    cells from S growing with 1/λ holds for S(1), which increases in a and in ν.

    Raises:
      UnsupportedError: a and ν order two cells otherwise: then it depends on v which is worse.
    """
    df = np.broadcast_to(np.ravel(np.asarray(df, np.float64)), rate.shape)
    if np.all(df == df[0]):
        return rate
    a = (df + 1) * rate / (2 * np.sqrt(df))
    order = np.lexsort((a, df))
    if np.any(np.maximum.accumulate(a[order]) > a[order] * (1 + _ROUNDING)):
        raise UnsupportedError(
            "`df` and `scale` of Student-t noise differ so that no order of the cells tells which "
            "are protected least. Name the differences(V) to try, or use one df."
        )
    return student_supremum(df, rate)


def along_fibre(
    differences: sparse.csr_array,
    u: np.ndarray,
    labels: np.ndarray,
    count: int,
    supremum: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Σ_g min_w Σ_{i∈g} S_i(v_i + w u_i) for each row v (m,), S_i concave on either side of 0.

    Between two of the places w = −v_i/u_i and w = 0 the sum is concave, so the least is at one of
    them. Where there are too many to try, w = 0 alone: more than the least, so a bound as well.

    Args:
      differences: (m, n).
      u: (n,) the fibre.
      labels: (n,) group of each cell; `count` for those in none.
      count: number of groups.
      supremum: S(a, cells), elementwise.
    """
    rows = np.repeat(np.arange(len(differences.indptr) - 1), np.diff(differences.indptr))
    cells = differences.indices
    plain = by_row(differences, supremum(differences.data, cells))
    group = labels[cells]
    inside = np.flatnonzero((group < count) & (u[cells] != 0))
    sizes = np.bincount(labels, minlength=count + 1)
    if sizes[group[inside]].sum() > _MOST:
        return plain
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    order = inside[np.lexsort((group[inside], rows[inside]))]
    new = np.diff(rows[order] * (count + 1) + group[order], prepend=-1) != 0
    for part in np.split(order, np.flatnonzero(new)[1:]) if order.size else []:
        whole = members[group[part[0]]]
        v = np.zeros(whole.size)
        v[np.searchsorted(whole, cells[part])] = differences.data[part]
        w = -differences.data[part] / u[cells[part]]
        tried = np.sum(supremum(v + w[:, None] * u[whole], whole), axis=1)
        plain[rows[part[0]]] += min(0.0, tried.min() - np.sum(supremum(v, whole)))
    return np.maximum(plain, 0.0)


def by_row(differences: sparse.csr_array, value: np.ndarray) -> np.ndarray:
    """The sum of one number for each stored entry over every row: (m,)."""
    rows = np.repeat(np.arange(len(differences.indptr) - 1), np.diff(differences.indptr))
    return np.bincount(rows, value, len(differences.indptr) - 1)
