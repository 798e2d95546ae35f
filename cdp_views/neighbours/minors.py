"""The 2 × 2 minor of a table whose four corners have the largest sum, exactly."""

import numpy as np

_ROUNDING = 1e-13


def best_minor(h: np.ndarray) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """The slice s, rows i, k and columns j, l with the largest h_ij + h_il + h_kj + h_kl.

    For two rows the best columns are those of the two largest sums h_ij + h_kj, so O(r²c) finds the
    maximum, r the shorter side. No pair of rows reaches more than t_i + t_k, t the sum of a row's
    two largest entries: rows are taken by decreasing t until that is not more than what was found.
    Among equal numbers the first pair already ends the search.

    Args:
      h: (S, r, c) numbers of any sign, r, c ≥ 2.
    """
    if h.shape[1] > h.shape[2]:
        s, columns, rows = best_minor(np.swapaxes(h, 1, 2))
        return s, rows, columns
    t = np.partition(h, -2, axis=2)[:, :, -2:].sum(axis=2)
    order = np.argsort(-t, axis=1, kind="stable")
    sorted_t = np.take_along_axis(t, order, axis=1)
    bound = sorted_t[:, 0] + sorted_t[:, 1]
    slack = _ROUNDING * float(np.abs(h).max(initial=0.0))
    best, where = -np.inf, (0, 0, 1)
    for s in np.argsort(-bound, kind="stable").tolist():
        if bound[s] <= best + slack:
            break
        value, i, k = _in_slice(h[s], order[s], sorted_t[s], best, slack)
        if value > best:
            best, where = value, (s, i, k)
    s, i, k = where
    sums = h[s, i] + h[s, k]
    j = int(np.argmax(sums))
    l = int(np.argmax(np.where(np.arange(len(sums)) == j, -np.inf, sums)))  # noqa: E741
    return s, (i, k), (j, l)


def _in_slice(
    h: np.ndarray, order: np.ndarray, t: np.ndarray, best: float, slack: float
) -> tuple[float, int, int]:
    """The best value in one table and its rows, if it is above `best`; `t` decreases."""
    found = (-np.inf, 0, 1)
    r, c = h.shape
    for a in range(r - 1):
        if t[a] + t[a + 1] <= best + slack:
            break
        start, step = a + 1, 8
        while start < r and t[a] + t[start] > best + slack:
            rows = order[start : start + step]
            pair = np.partition(h[order[a]] + h[rows], c - 2, axis=1)[:, c - 2 :].sum(axis=1)
            top = int(np.argmax(pair))
            if pair[top] > best:
                best = float(pair[top])
                found = (best, int(order[a]), int(rows[top]))
            start, step = start + step, min(4 * step, 512)
    return found
