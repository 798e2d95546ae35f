"""Laws of the loss of several kinds, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, override

import numpy as np

from cdp_views.loss import Loss
from cdp_views.loss.base import Kind


@dataclass(frozen=True, eq=False)
class JoinedLoss(Loss):
    """The laws of all `parts`, one after another; a bound wherever one of them is.

    Args:
      parts: laws of m₁, m₂, … differences.

    Example:
      >>> from cdp_views.loss import BoundedLoss, GaussianLoss
      >>> JoinedLoss([GaussianLoss([1.0]), BoundedLoss([0.5])]).guess_rate.round(4).tolist()
      [0.6915, 0.6225]
    """

    parts: Sequence[Loss]

    @property
    def kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Bound if any part is one."""
        kinds = {part.kind for part in self.parts}
        if "estimate" in kinds:
            return "estimate"
        return "bound" if "bound" in kinds else "exact"

    @property
    def sup(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) the largest possible losses."""
        return np.concatenate([np.atleast_1d(part.sup) for part in self.parts])

    @property
    def sup_kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the largest of them."""
        largest = [float(np.max(part.sup)) for part in self.parts]
        return self.parts[int(np.argmax(largest))].sup_kind

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return np.concatenate([part.delta(e) for part, e in self._shares(epsilon)], axis=-1)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        return np.concatenate([part.epsilon(d) for part, d in self._shares(delta)], axis=-1)

    @override
    def take(self, indices: np.ndarray) -> Self:
        indices = np.asarray(indices)
        starts = np.cumsum([0, *(np.size(part.sup) for part in self.parts)])
        of = np.searchsorted(starts, indices, side="right") - 1
        taken = []
        for run in np.split(np.arange(indices.size), np.flatnonzero(np.diff(of)) + 1):
            part = int(of[run[0]])
            taken.append(self.parts[part].take(indices[run] - starts[part]))
        return type(self)(taken)

    def _shares(self, value: float | np.ndarray) -> list[tuple[Loss, np.ndarray]]:
        """Each part with its share of an argument that broadcasts against (m,)."""
        value = np.asarray(value, dtype=float)
        sizes = [np.size(part.sup) for part in self.parts]
        if value.ndim == 0 or value.shape[-1] == 1:
            return [(part, value) for part in self.parts]
        ends = np.cumsum(sizes)
        return [
            (part, value[..., end - size : end])
            for part, size, end in zip(self.parts, sizes, ends, strict=True)
        ]
