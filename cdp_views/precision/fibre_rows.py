"""Integrals along the fibres of many groups, on the host: groups of about equal size are a matrix.

NumPy sorts the rows of a matrix ten times as fast as XLA sorts one long array by two keys, and a
matrix of some ten thousand cells stays in the processor's cache. Of a large group only the cells
near the lowest point of F(s) = Σ w_i |s − t_i| are sorted: beyond, exp(−F) is below rounding.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

_BLOCK = 2**16  # cells of one matrix, or a few times as many for
_COLUMNS = 2**8  # so many groups of it, if it can be
_LARGE = 2**12  # a group of more cells is not sorted whole
_SAMPLE = 2**11  # so many of its cells say where its lowest point is
_WANTED, _ENOUGH = 80.0, 45.0  # F − min F at the ends of what is sorted: e^−45 is 3e-20
_KEPT = 2  # partitions whose matrices are remembered


class Rows(NamedTuple):
    """Groups of about equal size: their numbers (R,), cells (R, W), n where none, and sizes."""

    groups: np.ndarray
    cells: np.ndarray
    size: np.ndarray


class Large(NamedTuple):
    """One large group and its cells, (m,) or a slice."""

    groups: int
    cells: Any


class Found(NamedTuple):
    """Log-integrals of these groups, and slopes at these cells."""

    value: Any
    cells: Any
    slope: np.ndarray


def fibre_integrals(
    place: np.ndarray, weight: np.ndarray, labels: np.ndarray, count: int, *, slopes: bool
) -> tuple[np.ndarray, np.ndarray]:
    """log ∫ exp(−Σ w_i |s − t_i|) ds of every group, and its slope in every breakpoint.

    The slope in t_i is w_i E sign(s − t_i), for s with density ∝ exp(−F).

    Args:
        place, weight: breakpoints t (n,) and their weights w > 0, (n,) or (1,).
        labels: each cell's group (n,), `count` for a cell in none, whose slope is 0.
        count: how many groups there are, none empty.
        slopes: whether slopes are wanted; else none (0,) are returned.

    Returns:
        (count,) in float64, and (n,) in the precision of `place`.
    """
    n = place.size
    value = np.empty(count)
    slope = np.zeros(n + 1 if slopes else 0, place.dtype)  # the last of what fills rows up

    def solve(part: Rows | Large) -> None:
        with np.errstate(all="ignore"):  # NaN in, NaN out
            if isinstance(part, Rows):
                found = _of_rows(part, place, weight)
            else:
                found = _of_large(part, place, weight)
        value[part.groups] = found.value
        if slopes:
            slope[found.cells] = found.slope

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(solve, _partition(labels, count)):
            pass
    return value, slope[:n]


def _of_rows(rows: Rows, place: np.ndarray, weight: np.ndarray) -> Found:
    t, shortest = np.take(place, rows.cells, mode="clip"), rows.size[0]
    column = np.arange(t.shape[1])[:, None]
    filled = column[shortest:] >= rows.size
    t.T[shortest:][filled] = np.inf
    # turned once sorted, so that all that follows runs along whole rows
    rank = np.ascontiguousarray(_ranks(t).T)
    t, cells = np.take(t, rank).astype(np.float64), np.take(rows.cells, rank)
    each = np.arange(t.shape[1])
    np.minimum(t, t[rows.size - 1, each], out=t)  # what fills up has no width
    if weight.size == 1:
        w = np.float64(weight[0])
        whole = w * rows.size
        slope = (2 * w) * (column + 1) - whole
        bottom = (rows.size - 1) // 2
    else:
        w = np.take(weight, cells, mode="clip").astype(np.float64)
        w[shortest:][filled] = 0
        slope = _running(w.copy())
        whole = slope[-1].copy()
        slope *= 2
        slope -= whole
        bottom = np.argmax(slope >= 0, axis=0)
    away = np.abs(t - t[bottom, each])
    away[shortest:][filled] = 0
    away *= w
    total, left = _integrate(*_heights(t, slope), whole, whole)
    left *= -2 / total
    left += 1
    left *= w
    return Found(np.log(total) - away.sum(0), cells, left.astype(place.dtype))


def _of_large(large: Large, place: np.ndarray, weight: np.ndarray) -> Found:
    t = place[large.cells]
    w = weight if weight.size == 1 else weight[large.cells]
    whole = _sum(w, t)
    for low, high in (_window(t, w, whole), (-np.inf, np.inf)):
        below, above = t < low, t > high
        near = np.flatnonzero(~(below | above))
        near = near[np.argsort(t[near])]
        before = 2 * _sum(w if w.size == 1 else w[below], t[below]) - whole
        here = np.broadcast_to(w if w.size == 1 else w[near], near.shape).astype(np.float64)
        s, slope = t[near].astype(np.float64)[:, None], before + 2 * np.cumsum(here)[:, None]
        gap, rise, height = _heights(s, slope)
        if min(height[0, 0], height[-1, 0]) >= _ENOUGH:
            break
    away = np.abs(t - s[np.argmax(slope >= 0), 0].astype(t.dtype))
    away *= w
    total, left = _integrate(gap, rise, height, -before, slope[-1])
    pull = np.where(above, -w, w)
    pull[near] = here * (1 - 2 * (left / total)[:, 0])
    return Found(np.log(total[0]) - away.sum(dtype=np.float64), large.cells, pull)


def _window(t: np.ndarray, w: np.ndarray, whole: float) -> tuple[float, float]:
    """Where F − min F surely is below what is `_WANTED`, by a sample's F and its errors."""
    step = t.size // _SAMPLE
    rank = np.argsort(t[::step])
    s = t[::step][rank].astype(np.float64)[:, None]
    v = np.broadcast_to(w if w.size == 1 else w[::step][rank], rank.shape).astype(np.float64)
    v *= whole / v.sum()
    slope, error = 2 * np.cumsum(v)[:, None] - whole, 5 * np.sqrt(np.sum(v * v))
    down, up = (_heights(s, slope + sign * error)[2][:, 0] for sign in (1, -1))
    # the lowest point lies between those of the two
    low, high = np.flatnonzero(down >= _WANTED), np.flatnonzero(up >= _WANTED)
    low, high = low[low < np.argmin(down)], high[high > np.argmin(up)]
    return s[low[-1], 0] if low.size else -np.inf, s[high[0], 0] if high.size else np.inf


def _sum(w: np.ndarray, t: np.ndarray) -> float:
    """Σ w over the cells of t."""
    return float(w[0]) * t.size if w.size == 1 else float(w.sum(dtype=np.float64))


def _ranks(t: np.ndarray) -> np.ndarray:
    """Positions in the flat matrix that put every row of it in order."""
    if t.dtype != np.float32:
        return np.argsort(t, axis=1) + np.arange(0, t.size, t.shape[1])[:, None]
    # half the time of argsort: integers in the order of the numbers, each with its position
    bits = t.view(np.int32)
    key = (bits ^ (bits >> 31 & np.int32(2**31 - 1))).astype(np.int64)
    key <<= 32
    key |= np.arange(t.size).reshape(t.shape)
    key.sort(axis=1)
    key &= 2**32 - 1
    return key


def _heights(t: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Widths of the pieces (W − 1, R), how F rises over each, and F − min F (W, R)."""
    gap = t[1:] - t[:-1]
    rise = slope[:-1] * gap
    height = np.zeros_like(t)
    height[1:] = rise
    _running(height)
    height -= height.min(axis=0)
    return gap, rise, height


def _integrate(
    gap: np.ndarray, rise: np.ndarray, height: np.ndarray, fall: Any, end: Any
) -> tuple[np.ndarray, np.ndarray]:
    """∫ exp(min F − F) of every column (R,), and that part of it left of every breakpoint (W, R).

    F falls by `fall` before the first breakpoint, and rises by `end` after the last.
    """
    np.exp(np.negative(height, out=height), out=height)
    # from the lower end of a piece: gap · e^{−F} (1 − e^{−|rise|})/|rise|
    size = np.abs(rise, out=rise)
    size += 1e-200
    left = np.empty_like(height)
    left[0] = height[0] / fall
    piece = np.maximum(height[:-1], height[1:], out=left[1:])
    piece *= gap
    piece *= np.expm1(np.negative(size, out=gap), out=gap)
    piece /= np.negative(size, out=size)
    _running(left)
    return left[-1] + height[-1] / end, left


def _running(x: np.ndarray) -> np.ndarray:
    """Running sums down the columns, in place: a row at once; NumPy goes by columns."""
    if x.shape[1] < _COLUMNS // 2:
        return np.cumsum(x, 0, out=x)
    before = x[0]
    for here in x[1:]:
        before = np.add(before, here, out=here)
    return x


_kept: list[tuple[np.ndarray, int, list[Rows | Large]]] = []


def _partition(labels: np.ndarray, count: int) -> list[Rows | Large]:
    """The groups as matrices and large ones: remembered, for they are the same at every call."""
    global _kept
    for known, groups, parts in _kept:
        if groups == count and np.array_equal(known, labels):
            return parts
    parts = _parts(labels, count)
    _kept = [(labels.copy(), count, parts), *_kept[: _KEPT - 1]]
    return parts


def _parts(labels: np.ndarray, count: int) -> list[Rows | Large]:
    n = labels.size
    order = np.sort(labels.astype(np.int64) << 32 | np.arange(n)).astype(np.int32)
    sizes = np.bincount(labels, minlength=count)[:count]
    start = np.append(0, np.cumsum(sizes))
    ranked = np.argsort(sizes, kind="stable")
    parts: list[Rows | Large] = []
    at, large = 0, int(np.searchsorted(sizes[ranked], _LARGE, side="right"))
    while at < large:
        rows = _rows(sizes[ranked[at]])
        groups = ranked[at : min(at + _rows(sizes[ranked[min(at + rows, large) - 1]]), large)]
        at += groups.size
        size = sizes[groups]
        column = np.arange(size[-1])
        cells = order[np.minimum(start[groups][:, None] + column, n - 1)]
        parts.append(Rows(groups, np.where(column < size[:, None], cells, np.int32(n)), size))
    for group in ranked[large:]:
        cells = order[start[group] : start[group + 1]]
        first, last = int(cells[0]), int(cells[-1]) + 1
        parts.append(Large(int(group), slice(first, last) if last - first == cells.size else cells))
    return parts


def _rows(width: Any) -> int:
    """How many rows a matrix of this width should have."""
    return max(_BLOCK // int(width), min(_COLUMNS, 4 * _BLOCK // int(width)))
