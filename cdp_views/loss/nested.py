"""A privacy loss whose densities are themselves estimated: bracketed, then banded."""

from dataclasses import dataclass, replace
from typing import Self, override

import numpy as np
from scipy.special import ndtri

from cdp_views.loss._arguments import confidence, nonnegative, probability
from cdp_views.loss.base import Kind, Loss
from cdp_views.loss.sampled import invert
from cdp_views.loss.sampled_curve import curve_above, curve_of_draws, uniform

_TRIED = 33  # values of ε in the upper end of a band of curves


@dataclass(frozen=True, eq=False)
class NestedLoss(Loss):
    """Estimates from draws y of a release of which p(y − v)/p(y) is known without bias only.

    With ρ such an estimate, (1 − e^ε ρ)₊ is convex in ρ, so that its mean lies *above* δ(ε) for any
    precision of ρ; and a test that decides by another, independent estimate ρ′ gains at most δ(ε):

        E 1{ρ′ < e^{−ε}}(1 − e^ε ρ″)  ≤  δ(ε)  ≤  E (1 − e^ε ρ)₊.

    `delta` is the right-hand mean; what lies between the two is added to its standard error, and
    the band reaches from the lower end of the one to the upper end of the other.

    Args:
      ratios: (m, r, a) estimates ρ ≥ 0 at r independent draws; the a of one draw (v and −v of a
        symmetric noise, say) are averaged.
      test: (m, r, a) ρ′.
      rest: (m, r, a) ρ″, without bias and independent of ρ′ given the draw.

    Raises:
      ValueError: fewer than two draws, other shapes, or a ratio that is negative or no number.

    Example:
      >>> known = np.exp(-np.array([[[1.0]] * 300 + [[-1.0]] * 100]))  # randomised response
      >>> law = NestedLoss(known, known, known)
      >>> law.guess_rate.round(3).tolist(), law.stderr.round(3).tolist()
      ([0.737], [0.007])

    Reference: Balle and Wang 2018, Theorem 5; Maurer and Pontil 2009, Theorem 4 (upper end).
    """

    ratios: np.ndarray
    test: np.ndarray
    rest: np.ndarray
    kind: Kind = "estimate"
    sup_kind: Kind = "bound"

    def __post_init__(self) -> None:
        for name in ("ratios", "test", "rest"):
            value = np.asarray(getattr(self, name), dtype=float)
            if value.ndim != 3 or value.shape[1] < 2 or value.shape != np.shape(self.ratios):
                raise ValueError(
                    f"`{name}` must have one shape (m, r, a), r at least 2; got {value.shape}."
                )
            if not (value >= 0).all():
                raise ValueError(f"`{name}` must not be negative or nan. Check the densities.")
            object.__setattr__(self, name, value)

    @property
    def sup(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) infinite: nothing is proved of the largest loss."""
        return np.full(self.ratios.shape[0], np.inf)

    @property
    def stderr(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) standard error of `guess_rate`, half that of δ(0)."""
        return 0.5 * self.delta_stderr(0.0)

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return self._above(epsilon).mean(axis=-1)

    def delta_below(self, epsilon: float | np.ndarray) -> np.ndarray:
        """(m,) an estimate that lies below δ(ε) as `delta` lies above: the truth is between."""
        return np.maximum(self._below(epsilon).mean(axis=-1), 0.0)

    @override
    def delta_stderr(self, epsilon: float | np.ndarray) -> np.ndarray:
        """(m,) of `delta`: sampling, never below one more draw, and the width of the bracket."""
        above, r = self._above(epsilon), self.ratios.shape[1]
        error = np.maximum(above.std(axis=-1, ddof=1) / np.sqrt(r), 1 / r)
        return np.hypot(error, above.mean(axis=-1) - self._below(epsilon).mean(axis=-1))

    def delta_band(
        self, epsilon: float | np.ndarray, *, level: float = 0.99
    ) -> tuple[np.ndarray, np.ndarray]:
        """(m,) ends that hold δ(ε) with probability `level`, the errors of ρ included.

        The upper end holds for any number of draws and any precision of ρ (empirical Bernstein);
        the lower by the central limit theorem. At each ε by itself.
        """
        above, below = self._above(epsilon), self._below(epsilon)
        r, t = self.ratios.shape[1], np.log(4 / (1 - confidence(level)))
        high = np.sqrt(2 * above.var(axis=-1, ddof=1) * t / r) + 7 * t / (3 * (r - 1))
        low = -ndtri((1 - level) / 2) * below.std(axis=-1, ddof=1) / np.sqrt(r)
        return (
            np.clip(below.mean(axis=-1) - low, 0.0, 1.0),
            np.minimum(above.mean(axis=-1) + high, 1.0),
        )

    @override
    def tradeoff(self, type_one: float | np.ndarray) -> np.ndarray:
        """(m,) f(a) of the profile δ̂: convex, and as δ̂ lies above, f lies below."""
        return self._curves(type_one, 0.0)

    def tradeoff_band(
        self, type_one: float | np.ndarray, *, level: float = 0.99
    ) -> tuple[np.ndarray, np.ndarray]:
        """(m,) lower and upper curves that hold f(a) at *all* a with probability `level`.

        The lower one holds for any number of draws and any precision of ρ; the upper one by the
        central limit theorem, from lower ends of δ at 33 values of ε.
        """
        _, r, several = self.ratios.shape
        miss = 1 - confidence(level)
        low = self._curves(type_one, uniform(r, 1 - 0.5 * miss, several))
        a = probability("type_one", type_one)
        a = np.moveaxis(np.broadcast_to(a, low.shape), -1, 0)
        with np.errstate(divide="ignore"):
            losses = -np.log(self.ratios)
        far = -ndtri(0.5 * miss / _TRIED) / np.sqrt(r)
        high = []
        for j, row in enumerate(a):
            own = losses[j][(losses[j] > 0) & (losses[j] < np.inf)]
            places = np.linspace(0, 1, _TRIED - 1)
            grid = np.append(0.0, np.quantile(own, places) if own.size else places)
            below = self.take(np.array([j]))._below(grid[:, None])[:, 0]
            delta = below.mean(axis=-1) - far * below.std(axis=-1, ddof=1)
            high.append(curve_above(grid, np.maximum(delta, 0.0), row))
        return low, np.stack(high, axis=-1)

    def _curves(self, type_one: float | np.ndarray, more: float) -> np.ndarray:
        m = self.ratios.shape[0]
        a = probability("type_one", type_one)
        a = np.moveaxis(np.broadcast_to(a, np.broadcast_shapes(a.shape, (m,))), -1, 0)
        with np.errstate(divide="ignore"):
            losses = -np.log(self.ratios).reshape(m, -1)
        one = np.ones(losses.shape[1])
        return np.stack(
            [curve_of_draws(x, one, row, more=more) for x, row in zip(losses, a, strict=True)],
            axis=-1,
        )

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        """(m,) smallest ε with δ̂(ε) ≤ δ; infinite below 1/r, which r draws can't see."""
        m, r, _ = self.ratios.shape
        delta = np.broadcast_to(
            probability("delta", delta), np.broadcast_shapes(np.shape(delta), (m,))
        )
        found = np.empty(delta.shape)
        with np.errstate(divide="ignore"):
            losses = -np.log(self.ratios).reshape(m, -1)
        for row, draws in enumerate(losses):
            found[..., row] = invert(draws, np.ones_like(draws), delta[..., row])
        return np.where(delta >= 1, 0.0, np.where(delta < 1 / r, np.inf, found))

    @override
    def epsilon_stderr(self, delta: float | np.ndarray) -> np.ndarray:
        """(m,) standard error of ε(δ): that of δ over the slope."""
        epsilon = self.epsilon(delta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scaled = np.exp(epsilon)[..., None, None] * self.ratios
            slope = np.where(scaled < 1, scaled, 0.0).mean(axis=(-2, -1))
            error = self.delta_stderr(np.where(np.isinf(epsilon), 0.0, epsilon)) / slope
        return np.where(np.isinf(epsilon), np.inf, error)

    @override
    def take(self, indices: np.ndarray) -> Self:
        return replace(
            self, ratios=self.ratios[indices], test=self.test[indices], rest=self.rest[indices]
        )

    def repeated(self, times: int) -> "NestedLoss":
        """The losses of `times` independent releases together, from r // times draws of them."""
        m, r, a = self.ratios.shape
        use = r // times
        if use < 2:
            raise ValueError(f"`times` must be at most half the {r} draws; got {times}.")
        ratio, test, rest = (
            x[:, : use * times].reshape(m, use, times, a).prod(axis=2)
            for x in (self.ratios, self.test, self.rest)
        )
        return NestedLoss(ratio, test, rest)

    def _above(self, epsilon: float | np.ndarray) -> np.ndarray:
        factor = np.exp(np.asarray(nonnegative("epsilon", epsilon)))[..., None, None]
        return np.maximum(1 - factor * self.ratios, 0.0).mean(axis=-1)

    def _below(self, epsilon: float | np.ndarray) -> np.ndarray:
        factor = np.exp(np.asarray(nonnegative("epsilon", epsilon)))[..., None, None]
        return np.where(factor * self.test < 1, 1 - factor * self.rest, 0.0).mean(axis=-1)
