"""Errors that are whole numbers: every figure by summing over their masses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np

from cdp_views.deviation._base import Deviation, Figures, check_level


@final
@dataclass(frozen=True)
class WholeDeviation(Deviation):
    """Errors with P(E_i = low + k) = p[k], the same law for several cells.

    Args:
        laws: (cells, low, p) of every law: which of the q errors have it, and its masses (w,).
        q: number of errors.

    Example:
        >>> law = WholeDeviation([(np.array([0]), -1, np.array([0.25, 0.5, 0.25]))], 1)
        >>> law.mae.tolist(), law.margin(0.90).tolist()
        ([0.5], [1.0])
    """

    laws: Sequence[tuple[np.ndarray, int, np.ndarray]] = field(repr=False)
    q: int
    kind: Literal["exact"] = "exact"
    stderr: None = None

    @property
    def bias(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._figure(lambda x, p: x @ p)

    @property
    def sd(self) -> Figures:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.sqrt(self._figure(lambda x, p: (x - x @ p) ** 2 @ p))

    @property
    def mae(self) -> Figures:
        return self._figure(lambda x, p: np.abs(x) @ p)

    def margin(self, level: float) -> Figures:
        """The smallest whole m with P(|E| ≤ m) ≥ level, (q,)."""
        check_level(level)

        def smallest(x: np.ndarray, p: np.ndarray) -> float:
            order = np.argsort(np.abs(x), kind="stable")
            size, chance = np.abs(x)[order], np.cumsum(p[order])
            # both signs of one size belong together
            last = np.append(np.flatnonzero(np.diff(size)), size.size - 1)
            return float(size[last][np.argmax(chance[last] >= level * (1 - 1e-12))])

        return self._figure(smallest)

    def margin_stderr(self, level: float) -> None:
        return None

    def _figure(self, of: Callable[[Figures, Figures], Any]) -> Figures:
        found = np.zeros(self.q)
        for cells, low, p in self.laws:
            found[cells] = of(low + np.arange(p.size, dtype=float), p)
        return found
