"""Mechanisms that an audit can run: distributions, and functions that draw."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views._float64 import in_float64
from cdp_views.privacy.trials import Source

_SLACK = 64.0  # roundings of a total, in units of eps · |A| (|y| + |loc|)


def source_of(
    mechanism: Any, n: int, loc: Any, invariant: Any, query: sparse.csr_array | None
) -> Source:
    """The mechanism at its own true answers, at `loc`, or at zeros."""
    drawn = callable(getattr(mechanism, "sample", None))
    if not (drawn or callable(mechanism)):
        raise TypeError(
            f"`mechanism` is of type {type(mechanism).__name__}. Pass a view, a distribution, or a "
            "function sampler(key, loc, draws) that returns releases (draws, n)."
        )
    own: Any = getattr(mechanism, "loc", None) if drawn else None
    if own is not None and loc is not None:
        raise ValueError(
            "`loc` is for a sampler; a distribution has its own. Build it at these true answers."
        )
    answers: Any = own if own is not None else loc
    try:
        where = np.broadcast_to(np.asarray(0.0 if answers is None else answers, float), (n,))
    except (TypeError, ValueError):
        raise ValueError(
            f"`loc` must hold {n} numbers, one per cell of `neighbours`; got shape "
            f"{getattr(answers, 'shape', type(answers).__name__)}."
        ) from None
    kept = invariant if invariant is not None else getattr(mechanism, "invariant", None)
    if kept is not None and kept.n != n:
        raise ValueError(f"`invariant` must cover the {n} cells of `neighbours`; got {kept.n}.")
    matrix = None if kept is None else sparse.csr_array(kept.matrix)
    if drawn:
        return _of_distribution(mechanism, where, matrix, query)
    return _of_sampler(mechanism, where, matrix, query)


def _of_sampler(
    sampler: Callable[..., Any],
    loc: np.ndarray,
    matrix: sparse.csr_array | None,
    query: sparse.csr_array | None,
) -> Source:
    """A function `sampler(key, loc, draws)`, run in the precision that it has."""

    def draw(key: Any, moved: np.ndarray, size: int) -> tuple[np.ndarray, int]:
        raw = np.asarray(sampler(key, loc + moved, size))
        y = _shaped(raw, size, len(loc))
        stays = matrix is not None and not np.any(matrix @ moved)
        return y, _broken(y, y - loc, matrix, _eps(raw)) if stays else 0

    return Source(draw, loc, None, query)


def _of_distribution(
    view: Any,
    loc: np.ndarray,
    matrix: sparse.csr_array | None,
    query: sparse.csr_array | None,
) -> Source:
    """A distribution whose law moves with its `loc`: the neighbour's releases are moved draws."""

    @in_float64
    def draw(key: Any, moved: np.ndarray, size: int) -> tuple[np.ndarray, int]:
        raw = np.asarray(view.sample(key, (size,)))
        y = _shaped(raw, size, len(loc))
        if matrix is None:
            broken = 0
        elif hasattr(view, "invariant"):  # its totals may be others than loc's (`total=`)
            broken = int(np.sum(~np.asarray(view.support(raw))))
        else:
            broken = _broken(y, y - loc, matrix, _eps(raw))
        return y + moved, broken

    density = None if query is not None else _density(view, loc)
    if density is None:
        return Source(draw, loc, None, query)

    @in_float64
    def ratio(y: np.ndarray, moved: np.ndarray) -> np.ndarray:
        here, there = density(y), density(y - moved)
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(there - here, nan=0.0, posinf=np.inf, neginf=-np.inf)

    return Source(draw, loc, ratio, query)


@in_float64
def _density(view: Any, loc: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """y (r, n) ↦ log-density (r,), −inf outside the support; None where it has none."""
    if not callable(getattr(view, "log_prob", None)):
        return None
    try:
        shape = np.shape(view.log_prob(loc[None]))
    except NotImplementedError:
        return None
    if shape != (1,):
        raise ValueError(
            f"`mechanism` must give one log-density a draw; got shape {shape} for one draw. "
            "Turn its last axis into the event: distribution.to_event(1)."
        )

    def density(y: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            # A neighbour's value outside the support is meant: its density is zero there.
            warnings.filterwarnings("ignore", "Out-of-support values")
            value = np.asarray(view.log_prob(y), dtype=np.float64)
        if not hasattr(view, "support"):
            return value
        inside = np.asarray(view.support(y)).reshape(len(y), -1).all(axis=1)
        return np.where(inside, value, -np.inf)

    return density


def _shaped(raw: np.ndarray, size: int, n: int) -> np.ndarray:
    if raw.shape != (size, n):
        raise ValueError(
            f"`mechanism` must return releases of shape ({size}, {n}), one row per draw; got "
            f"{raw.shape}."
        )
    y = raw.astype(np.float64)
    if not np.isfinite(y).all():
        raise ValueError("`mechanism` must return finite numbers; got others among its releases.")
    return y


def _eps(raw: np.ndarray) -> float:
    return float(np.finfo(raw.dtype if np.issubdtype(raw.dtype, np.floating) else float).eps)


def _broken(y: np.ndarray, noise: np.ndarray, matrix: sparse.csr_array | None, eps: float) -> int:
    """How many releases have a total that is off by more than rounding."""
    if matrix is None:
        return 0
    # the sd: noise made to fit its totals is rounded at the size it had before
    size = abs(matrix) @ (np.abs(y) + np.abs(y - noise) + noise.std(axis=0)).T
    return int(np.any(np.abs(matrix @ noise.T) > _SLACK * eps * size, axis=0).sum())
