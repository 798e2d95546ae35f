"""Errors known through draws, pooled over cells that have one and the same law."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final, override

import numpy as np

from cdp_views._float64 import in_float64
from cdp_views.deviation import Deviation
from cdp_views.deviation.sampled import ratio_or_zero

_SAME = 1e-9
_MOST_CLASSES = 1_000


@final
@dataclass(frozen=True)
class PooledDeviation(Deviation):
    """Monte Carlo estimates from draws of the errors, one estimate for each class of cells.

    Pooling keeps the largest of many equal margins from being the luckiest of many estimates.

    Args:
        draws: draws of the q errors, (d, q), in counts, d ≥ 2.
        classes: (q,) label of the law of each error; equal labels, equal laws.

    Example:
        >>> law = PooledDeviation(np.array([[-1.0, 2.0], [1.0, -4.0]]), np.array([0, 0]))
        >>> law.mae
        array([2., 2.])

    Reference: ratio of cluster means, a draw being a cluster: its cells are dependent.
    """

    draws: np.ndarray
    classes: np.ndarray
    kind: Literal["estimate"] = "estimate"

    @property
    def bias(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._mean(lambda x: x)[0]

    @property
    def sd(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        d = self.draws.shape[0]
        return np.sqrt(self._mean(_centred)[0] * d / (d - 1))

    @property
    def mae(self) -> np.ndarray:
        return self._mean(np.abs)[0]

    @property
    @override
    def rmse(self) -> np.ndarray:
        return np.sqrt(self._mean(np.square)[0])

    @property
    def stderr(self) -> Mapping[str, np.ndarray]:
        return {
            "bias": self._mean(lambda x: x)[1],
            "sd": ratio_or_zero(self._mean(_centred)[1], 2 * self.sd),
            "mae": self._mean(np.abs)[1],
            "rmse": ratio_or_zero(self._mean(np.square)[1], 2 * self.rmse),
        }

    def margin(self, level: float) -> np.ndarray:
        return self._spread(lambda x: np.quantile(np.abs(x), level))

    def margin_stderr(self, level: float) -> np.ndarray:
        """Half the distance between the quantiles one standard error above and below the level."""

        def half(x: np.ndarray) -> float:
            x = np.abs(x)
            inside = (x <= np.quantile(x, level)).mean(axis=1)
            # Never below what one more draw could change.
            step = max(inside.std(ddof=1) / np.sqrt(len(x)), 1 / x.size)
            low, high = np.quantile(x, np.clip([level - step, level + step], 0, 1))
            return (high - low) / 2

        return self._spread(half)

    def _mean(self, of: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean of `of(errors)` in each class, and its standard error: (q,), (q,)."""
        mean, error = np.empty(self.classes.size), np.empty(self.classes.size)
        for cells in self._classes():
            each = of(self.draws[:, cells]).mean(axis=1)
            mean[cells] = each.mean()
            error[cells] = each.std(ddof=1) / np.sqrt(each.size)
        return mean, error

    def _spread(self, of: Callable[[np.ndarray], float]) -> np.ndarray:
        out = np.empty(self.classes.size)
        for cells in self._classes():
            out[cells] = of(self.draws[:, cells])
        return out

    def _classes(self) -> list[np.ndarray]:
        order = np.argsort(self.classes, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.classes[order])) + 1)


@in_float64
def laws(view: Any) -> np.ndarray | None:
    """(n,) labels, equal for cells that may be exchanged; None where the view does not tell.

    None too where there are more than 1,000 classes: pooling would gain little and cost much.

    Cells with equal columns of A and equal scales may, and cells under no total with equal scales.
    Equal variances are asked for as well, which unequal costs of moving a cell would tell apart.
    """
    try:
        inv, scale, variance = view.invariant, view.scale, np.asarray(view.variance, dtype=float)
        blocks, alone = np.asarray(inv.blocks), np.arange(inv.n)
    except (AttributeError, NotImplementedError):
        return None
    under_none = np.asarray(abs(inv.matrix).sum(axis=0)).ravel() == 0
    place = np.where(blocks >= 0, blocks, np.where(under_none, -1, -2 - alone))
    largest = variance.max(initial=0.0) or 1.0
    key = [place, np.broadcast_to(np.asarray(scale, dtype=float), place.shape)]
    key.append(np.round(variance / (_SAME * largest)))
    labels = np.unique(np.stack(key), axis=1, return_inverse=True)[1].reshape(-1)
    return labels if labels.max(initial=0) < _MOST_CLASSES else None


def _centred(errors: np.ndarray) -> np.ndarray:
    return np.square(errors - errors.mean())
