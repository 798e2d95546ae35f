"""The closest-world map of Euclidean distance."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def closest(target: Iterable[Any], *, weights: Any = None) -> Callable[[Any], dict[Any, float]]:
    """world ↦ {closest world of `target`: share}, by Σ w_i (ω_i − ω′_i)².

    Imaging asks for one closest world; where several are equally close they share equally
    (Gärdenfors' general imaging), which for whole numbers is the usual case.

    Args:
        target: worlds, numbers or tuples of one length.
        weights: w, one positive number per entry of a world; None for equal ones.

    Returns:
        A function of one world: the closest worlds, each with its share; the shares sum to 1.

    Raises:
        ValueError: worlds that are no numbers or tuples of one length, or no world at all.

    Example:
        >>> from cdp_views.worlds import closest
        >>> closest([(0, 3), (1, 2), (2, 1), (3, 0)])((0, 0))
        {(1, 2): 0.5, (2, 1): 0.5}

    Reference: [TV] §2, "the closest world".
    """
    target = list(target)
    try:
        points = np.array([np.atleast_1d(np.asarray(world, float)) for world in target])
        assert points.ndim == 2 and len(points) > 0
    except (TypeError, ValueError, AssertionError):
        raise ValueError(
            "`target` must be worlds that are numbers, or tuples of numbers of one length. Pass "
            "nearest= to say which world is closest."
        ) from None
    w = np.ones(points.shape[1]) if weights is None else np.asarray(weights, float)
    if w.shape != points.shape[1:] or not np.all(w > 0):
        raise ValueError(f"`weights` must be {points.shape[1]} positive numbers.")

    def nearest(world: Any) -> dict[Any, float]:
        distance = np.sum(w * (points - np.atleast_1d(np.asarray(world, float))) ** 2, axis=1)
        tied = np.flatnonzero(distance <= distance.min() * (1 + 1e-12) + 1e-300)
        return {target[i]: 1 / len(tied) for i in tied}

    return nearest
