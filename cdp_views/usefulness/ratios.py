"""Errors of ratios: exact where the denominators are, else first order and draws."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cdp_views.deviation import SampledDeviation
from cdp_views.usefulness.law import drawn_errors

_EXACT = 1e-9
_AS_WRONG_AS_CAN_BE = 1e75  # its square is finite


class Ratios(NamedTuple):
    """R = (N x)_i / (D x)_i of the true counts x, for the queries whose denominator is not 0.

    Args:
        above, below: N and D (q, n).
        truth: R (q,).
        counts, total: N x and D x (q,).
        linear: (q, n) W with W e = (N e − R D e)/(D x): the error to first order in the noise e.
        exact: (q,) whether D e = 0, so that W e is the error itself.
        kept: (all,) which of all queries these are.
    """

    above: sparse.csr_array
    below: sparse.csr_array
    truth: np.ndarray
    counts: np.ndarray
    total: np.ndarray
    linear: sparse.csr_array
    exact: np.ndarray
    kept: np.ndarray


def ratios(
    above: sparse.csr_array, below: sparse.csr_array, counts: np.ndarray, inv: Any
) -> Ratios:
    """What ratios are under totals that stay exact.

    Args:
        above, below: numerators and denominators, (q, n).
        counts: true counts x (n,).
        inv: what the noise keeps exact; None for noise that keeps nothing.

    Example:
        >>> import cdp_views as cdp
        >>> N, D = sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 1.0]])
        >>> found = ratios(N, D, np.array([1.0, 3.0]), cdp.totals(["a", "a"]))
        >>> found.truth.tolist(), found.exact.tolist(), found.linear.toarray().tolist()
        ([0.25], [True], [[0.25, 0.0]])

    Reference: Cochran 1977, §6 (the error of a ratio to first order).
    """
    kept = np.asarray(below @ counts) != 0
    above, below = sparse.csr_array(above[kept]), sparse.csr_array(below[kept])
    top, bottom = above @ counts, below @ counts
    truth = top / bottom
    if inv is None:
        exact = np.zeros(len(truth), dtype=bool)
    else:
        left = np.asarray(abs(inv.project_rows(below)).sum(axis=1)).ravel()
        exact = left <= _EXACT * np.asarray(abs(below).sum(axis=1)).ravel()
    noisy = sparse.diags_array(np.where(exact, 0.0, truth)) @ below
    linear = sparse.csr_array(sparse.diags_array(1 / bottom) @ (above - noisy))
    linear.eliminate_zeros()
    return Ratios(above, below, truth, top, bottom, linear, exact, kept)


def drawn_ratios(view: Any, ratio: Ratios, key: Any, draws: int) -> SampledDeviation:
    """The errors of all ratios in draws of the noise, (N x + N e)/(D x + D e) − R.

    Where a denominator is noisy it comes near 0 now and then, and the error has no mean and no
    variance: take its margins, which are quantiles, and chances.
    """
    q = len(ratio.truth)
    both = sparse.csr_array(sparse.vstack([ratio.above, ratio.below]))
    error = drawn_errors(view, both, key, draws)
    above, below = ratio.counts + error[:, :q], ratio.total + error[:, q:]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.divide(above, below, out=above) - ratio.truth
    # Whole or clipped numbers may hit 0, whatever is above.
    return SampledDeviation(np.where(np.isfinite(found), found, _AS_WRONG_AS_CAN_BE))
