"""What sums of independent Laplace variables have at 0, for many sums at once.

f(0) = (1/π) ∫₀^∞ Π (1 + c_i²t²)⁻¹ dt, by the trapezoid rule in log t, which converges
geometrically (numerics.md §5): 4e-11 at a step of ¼.
"""

import numpy as np

_STEP = 0.25
_LOG_T = np.arange(-28, 28 + _STEP, _STEP)
_AT_ONCE = 2**15


def shares_of_free_cells(
    groups: list[np.ndarray], group: np.ndarray, pairs: np.ndarray
) -> np.ndarray:
    """f_rest(0)/f(0), f the density of all cells' sum: the shape of `group`.

    The sum of the cells other than t and u has a density f_rest that is largest at 0, so what is
    seen of two cells t and u given that all add up to 0 has a density at most this many times that
    of independent cells, and so has its profile.

    Args:
      groups: the scales c of all cells of each group, three or more.
      group: (k,) which group.
      pairs: (k, 2) the scales of cells t and u in it.

    Example:
      >>> one = shares_of_free_cells([np.ones(3)], np.array([0]), np.ones((1, 2)))
      >>> one.round(6).tolist()  # (1/2)/(3/16)
      [2.666667]
    """
    sizes = np.array([own.size for own in groups])
    ends = np.cumsum(sizes)
    cells = np.concatenate(groups)
    unit = np.array([own.max() for own in groups])
    share = np.zeros(group.size)
    order = np.argsort(group, kind="stable")
    start = 0
    while start < order.size:
        # so many laws that their groups have some cells
        stop = start + 1
        while stop < order.size and ends[group[order[stop]]] - ends[group[order[start]]] < _AT_ONCE:
            stop += 1
        own = order[start:stop]
        first, last = group[own[0]], group[own[-1]]
        part = cells[ends[first] - sizes[first] : ends[last]]
        scale = np.repeat(unit[first : last + 1], sizes[first : last + 1])
        t = np.exp(_LOG_T)
        heads = ends[first : last + 1] - sizes[first : last + 1] - (ends[first] - sizes[first])
        log_phi = -np.add.reduceat(np.log1p(np.square((part / scale)[:, None] * t)), heads, axis=0)
        here = group[own] - first
        r = pairs[own] / unit[group[own], None]
        without = np.log1p(np.square(r[..., None] * t)).sum(axis=1)
        whole = np.exp(log_phi + _LOG_T).sum(axis=1)
        rest = np.exp(log_phi[here] + without + _LOG_T).sum(axis=1)
        share[own] = rest / whole[here]
        start = stop
    return share
