"""The smallest worst loss on disjoint plain totals, where only two promises of a group count."""

from typing import NamedTuple

import numpy as np


class Allotment(NamedTuple):
    """ν (n,), the loss μ² of each group's worst pair (G + 1,), −∂log μ²/∂log t of each cell (n,).

    The last entry is that of the cells in no group.
    """

    nu: np.ndarray
    loss: np.ndarray
    price: np.ndarray


def two_tightest(variance: np.ndarray, labels: np.ndarray, count: int) -> Allotment:
    """Within each group the ν of smallest ν_i + ν_j that keep promised variances: O(n).

    More precision anywhere lowers every variance, so under ν_i + ν_j ≤ μ² one cell has a precision
    ν_k and all others x = μ² − ν_k. Variances are then V_k = 1/(ν_k + x/(m − 1)) and
    V = 1/(x + xν_k/((m − 2)ν_k + x)) in a group of m cells. With the two tightest promises,
    r = 1/t_k and q = 1/t, both bind:

      x = q(m − 2)r / ((m − 1)r − q/(m − 1)),   ν_k = r − x/(m − 1).

    Groups of two have one variance, so only r counts: x = ν_k = r/2. Cells in no group: x = q,
    ν_k = r. A cell alone in its group has no noise; its ν is r.

    Args:
      variance: promised (n,) > 0.
      labels: group (n,), `count` for a cell in no group.
      count: number of groups G.
    """
    rate = 1 / variance
    order = np.lexsort((-rate, labels))
    starts = np.searchsorted(labels[order], np.arange(count + 2))
    sizes = np.diff(starts)
    filled = sizes > 0
    first = order[np.minimum(starts[:-1], len(order) - 1)]
    second = order[np.minimum(starts[:-1] + 1, len(order) - 1)]
    r = np.where(filled, rate[first], 1.0)
    q = np.where(sizes > 1, rate[second], 0.0)
    m = sizes.astype(float)
    m[-1] = np.inf  # nothing holds free cells together
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1 / (m - 1)
        bottom = r - q * share**2
        x = np.where(np.isinf(m), q, q * (m - 2) * share * r / bottom)
        x = np.where(m == 2, 0.5 * r, x)
        lead = np.where(m == 2, 0.5 * r, r - x * share)
        # by the chain rule on μ² = r + x (m − 2)/(m − 1); the two add up to one
        dx_dq = np.where(np.isinf(m), 1.0, (m - 2) * share * (r / bottom) ** 2)
        second_price = np.where(m == 2, 0.0, q * dx_dq * (1 - share))
    alone = sizes < 2
    loss = np.where(alone, 0.0, lead + x)
    nu = np.where(alone, rate[first], x)[labels]
    nu[first[filled]] = np.where(alone, r, lead)[filled]
    with np.errstate(invalid="ignore", divide="ignore"):
        second_price = np.where(alone, 0.0, second_price / loss)
    price = np.zeros(len(variance))
    # equal promises share their price
    top = rate >= (r * (1 - 1e-12))[labels]
    runner = (rate >= (q * (1 - 1e-12))[labels]) & ~top
    none = np.bincount(labels[runner], minlength=count + 1) == 0
    for who, amount in (
        (top, np.where(none, 1.0, 1 - second_price)),
        (runner, np.where(none, 0.0, second_price)),
    ):
        many = np.maximum(np.bincount(labels[who], minlength=count + 1), 1)
        price[who] = (np.where(alone, 0.0, amount) / many)[labels[who]]
    return Allotment(nu, loss, price)
