"""Numbers estimated from draws with their standard errors, and the entropy of a view by them."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from cdp_views._float64 import in_float64

_NUMBERS = 2**20  # of the draws made at once


class Estimate(NamedTuple):
    """Numbers estimated from draws, with their standard errors."""

    value: np.ndarray
    standard_error: np.ndarray


@in_float64
def entropy_of_draws(view: Any, key: Array, draws: int) -> Estimate:
    """The mean of −log p over a view's own draws: (…).

    Where a control of mean 0 comes with them, what it explains of −log p is taken off.

    Args:
        view: gives `_heights(key, count)`, −log p at draws and its control (or None), and
            `_density_error`, the standard error of log p itself.
        key: a JAX key.
        draws: at least 100.
    """
    if draws < 100:
        raise ValueError(f"`draws` must be at least 100; got {draws}. The default is 4000.")
    size = view.invariant.n * max(math.prod(view.batch_shape), 1)
    chunk = int(np.clip(_NUMBERS // max(size, 1), 1, draws))
    run = jax.jit(lambda key: view._heights(key, chunk))
    found = [run(jax.random.fold_in(key, start)) for start in range(0, draws, chunk)]
    y = np.concatenate([np.asarray(height) for height, _ in found])
    if found[0][1] is not None:
        c = np.concatenate([np.asarray(control) for _, control in found])
        spread = np.sum(c * c, 0)
        y = y - c * np.sum(c * (y - y.mean(0)), 0) / np.where(spread > 0, spread, 1)
    error = y.std(0, ddof=1) / math.sqrt(len(y))
    return Estimate(y.mean(0), np.hypot(error, np.asarray(view._density_error)))
