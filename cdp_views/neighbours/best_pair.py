"""The best two elements of one group, where their value is at most a sum of two numbers."""

from collections.abc import Callable

import numpy as np

from cdp_views.neighbours.largest import two_largest

_ROUNDING = 1e-13


def best_pair(
    x: np.ndarray, group: np.ndarray, value: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[int, int]:
    """Positions i, j of one group with the largest value(i, j) ≤ x_i + x_j, exactly.

    The two largest x of every group give a first answer. Only elements that reach more together
    with the largest of their group are looked at again, by decreasing x, until none can: few,
    unless values stay far below their bounds. Ties end the search at once.

    Args:
      x: (N,) half of the bound.
      group: (N,) label 0, 1, … without gaps; some group has two elements.
      value: positions (m,), (m,) ↦ (m,).
    """
    first, second = two_largest(group, x)
    found = value(first, second)
    top = int(np.argmax(found))
    best, pair = float(found[top]), (int(first[top]), int(second[top]))
    slack = _ROUNDING * float(np.abs(x).max())
    largest = np.full(group.max() + 1, -np.inf)
    largest[group[first]] = x[first]
    alive = np.flatnonzero(x + largest[group] > best + slack)
    alive = alive[np.lexsort((-x[alive], group[alive]))]
    starts = np.flatnonzero(np.diff(group[alive], prepend=-1))
    for start, end in zip(starts, np.append(starts, len(alive))[1:], strict=True):
        cells = alive[start:end]
        for a in range(len(cells) - 1):
            if x[cells[a]] + x[cells[a + 1]] <= best + slack:
                break
            reach = x[cells[a]] + x[cells[a + 1 :]] > best + slack
            others = cells[a + 1 :][reach]
            values = value(np.full(len(others), cells[a]), others)
            at = int(np.argmax(values))
            if values[at] > best:
                best, pair = float(values[at]), (int(cells[a]), int(others[at]))
    return pair
