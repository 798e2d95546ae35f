"""Laws of the loss of several kinds, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, override

import numpy as np

from cdp_views.loss import Loss
from cdp_views.loss.base import Kind


@dataclass(frozen=True, eq=False)
class JoinedLoss(Loss):
    """The laws of all `parts`, one after another; a bound wherever one of them is.

    Every number is asked of the part whose it is: what one part knows beyond its profile (μ of a
    normal loss, ρ of a concentrated one) is kept, and each is rounded to its own safe side.

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
        """Of the largest of them: exact where one that comes near it is."""
        top = max(float(np.max(part.sup)) for part in self.parts)
        kinds = {part.sup_kind for part in self.parts if np.max(part.sup) == top}
        if "exact" in kinds:
            return "exact"
        return "estimate" if "estimate" in kinds else "bound"

    @property
    def gdp_kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Exact if each part's is."""
        return "exact" if all(part.gdp_kind == "exact" for part in self.parts) else "bound"

    @property
    def stderr(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) standard error of `guess_rate`, 0 where it is proved; None if all are."""
        return self._errors([part.stderr for part in self.parts])

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return np.concatenate([part.delta(e) for part, e in self._shares(epsilon)], axis=-1)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        return np.concatenate([part.epsilon(d) for part, d in self._shares(delta)], axis=-1)

    @override
    def delta_stderr(self, epsilon: float | np.ndarray) -> np.ndarray | None:
        return self._errors([part.delta_stderr(e) for part, e in self._shares(epsilon)])

    @override
    def epsilon_stderr(self, delta: float | np.ndarray) -> np.ndarray | None:
        return self._errors([part.epsilon_stderr(d) for part, d in self._shares(delta)])

    @override
    def renyi(self, alpha: float) -> np.ndarray:
        return self._each(lambda part: part.renyi(alpha))

    @property
    @override
    def guess_rate(self) -> np.ndarray:
        return self._each(lambda part: part.guess_rate)

    @property
    @override
    def total_variation(self) -> np.ndarray:
        return self._each(lambda part: part.total_variation)

    @property
    @override
    def kl(self) -> np.ndarray:
        return self._each(lambda part: part.kl)

    @property
    @override
    def zcdp(self) -> np.ndarray:
        return self._each(lambda part: part.zcdp)

    @property
    @override
    def gdp(self) -> np.ndarray:
        return self._each(lambda part: part.gdp)

    @override
    def tradeoff(self, type_one: float | np.ndarray) -> np.ndarray:
        return np.concatenate([part.tradeoff(a) for part, a in self._shares(type_one)], axis=-1)

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

    def _each(self, number: Callable[[Loss], np.ndarray]) -> np.ndarray:
        return np.concatenate([np.atleast_1d(number(part)) for part in self.parts])

    def _errors(self, errors: Sequence[np.ndarray | None]) -> np.ndarray | None:
        if all(error is None for error in errors):
            return None
        shape = next(error.shape[:-1] for error in errors if error is not None)
        filled = [
            np.zeros((*shape, np.size(part.sup))) if error is None else error
            for part, error in zip(self.parts, errors, strict=True)
        ]
        return np.concatenate(filled, axis=-1)

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
