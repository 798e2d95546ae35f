"""The loss of several releases together: a sum of losses, composed pessimistically.

By dp-accounting; `precision.laplace_profile_sum` says why the parts of one release are not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self, override

import numpy as np

from cdp_views._checks import UnsupportedError
from cdp_views.loss._arguments import nonnegative, probability
from cdp_views.loss._inverse import smallest_epsilon
from cdp_views.loss.base import Kind, Loss
from cdp_views.loss.conversions import delta_of_rho
from cdp_views.loss.gaussian import GaussianLoss
from cdp_views.loss.gaussian_dp import delta_of_mu

_POINTS = 2048
_MOST_CELLS = 2**17
_TRUNCATED = 1e-16
# Rounding of the Fourier transforms, as a share of all mass, over the root of the number of parts:
# at most a thirtieth of this where measured (2 to 10⁴ normal losses against the closed form).
_FOURIER = 2e-14


def compose_losses(losses: Sequence[Loss], times: Sequence[int] | None = None) -> Loss:
    """The law of L₁ + L₂ + … for each of m differences, each part `times` over.

    Normal losses compose in closed form, μ = √Σμ², and suprema add. Other parts enter a discrete
    loss distribution of dp-accounting by connecting the dots of δ(ε), which errs upwards only, so
    δ(ε) is a bound. Right for releases chosen one after the other in view of the earlier ones.

    Args:
      losses: laws of the same m differences (or of one that stands for all).
      times: how often each is released, 1 or more; once if left out.

    Returns:
      GaussianLoss if all parts are normal, else ComposedLoss, which needs the extra `accounting`
      for `delta` and `epsilon` only.

    Raises:
      ValueError: no losses, laws of different numbers of differences, or a bad `times`.
      UnsupportedError: a part is an estimate.

    Example:
      >>> compose_losses([GaussianLoss([1.0]), GaussianLoss([0.5])], [1, 4]).mu.round(6).tolist()
      [1.414214]

    Reference: Dong, Roth and Su 2022, Corollary 3.3 (normal); Doroshenko, Ghazi, Kamath, Kumar and
    Manurangsi 2022, "Connect the dots" (dp-accounting); Zhu, Dong and Wang 2022 (domination).
    """
    losses = list(losses)
    times = [1] * len(losses) if times is None else [_whole(n) for n in times]
    if not losses or len(times) != len(losses):
        raise ValueError(
            f"`losses` must be at least one, with one `times` each; got {len(losses)} and "
            f"{len(times)}."
        )
    sizes = sorted({np.size(law.sup) for law in losses})
    if len(sizes) > 2 or (len(sizes) == 2 and sizes[0] != 1):
        raise ValueError(f"`losses` must be of the same differences; got {sizes} of them.")
    if any(law.kind == "estimate" for law in losses):
        raise UnsupportedError(
            "`losses` holds an estimate, and a sum of estimates proves nothing. Leave out key= "
            "and compose what is proved."
        )
    normal = [(law, n) for law, n in zip(losses, times, strict=True) if hasattr(law, "mu")]
    rest = [(law, n) for law, n in zip(losses, times, strict=True) if not hasattr(law, "mu")]
    together: list[tuple[Loss, int]] = list(rest)
    if len(losses) == 1 and times == [1]:
        return losses[0]
    if normal:
        mu: Any = 0.0
        for law, n in normal:
            mu = np.hypot(mu, np.sqrt(n) * law.gdp)
        kind: Kind = "exact" if all(law.kind == "exact" for law, _ in normal) else "bound"
        together.append((GaussianLoss(mu * _up(len(normal) + sum(times)), kind), 1))
    if not rest:
        return together[0][0]
    return ComposedLoss(tuple(law for law, _ in together), tuple(n for _, n in together))


def at_worst(law: Loss) -> Loss:
    """One law that dominates all m of `law`: their largest δ at each ε."""
    if np.size(law.sup) == 1:
        return law
    if hasattr(law, "mu"):
        return law.take(law.frontier())
    law = law.take(law.frontier())
    if np.size(law.sup) == 1:
        return law
    return WorstLoss(law)


@dataclass(frozen=True, eq=False)
class WorstLoss(Loss):
    """The largest of m laws in each number asked for: one law that dominates them all.

    Args:
      law: of m differences.

    Example:
      >>> from cdp_views.loss import BoundedLoss
      >>> WorstLoss(BoundedLoss([1.0, 2.0])).sup.tolist()
      [2.0]
    """

    law: Loss

    @property
    def kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the m laws."""
        return self.law.kind

    @property
    def sup(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(1,) the largest."""
        return np.max(self.law.sup, keepdims=True)

    @property
    def sup_kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the m laws."""
        return self.law.sup_kind

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        return self.law.delta(epsilon).max(axis=-1, keepdims=True)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        return self.law.epsilon(delta).max(axis=-1, keepdims=True)

    @override
    def renyi(self, alpha: float) -> np.ndarray:
        return self.law.renyi(alpha).max(keepdims=True)

    @property
    @override
    def zcdp(self) -> np.ndarray:
        return self.law.zcdp.max(keepdims=True)

    @property
    @override
    def gdp(self) -> np.ndarray:
        return self.law.gdp.max(keepdims=True)

    @override
    def tradeoff(self, type_one: float | np.ndarray) -> np.ndarray:
        return self.law.tradeoff(type_one).min(axis=-1, keepdims=True)

    @override
    def take(self, indices: np.ndarray) -> Self:
        return self


@dataclass(frozen=True, eq=False)
class ComposedLoss(Loss):
    """L = Σ_k (times_k copies of L_k), independent given what was released before.

    `sup`, `renyi`, `zcdp` and `gdp` add up as they should; `delta` is the smallest of what the
    discrete loss distribution, μ and ρ prove.

    Args:
      parts: laws of m differences each, or of one that stands for all.
      times: how often each is released.

    Example:
      >>> from cdp_views.loss import BoundedLoss
      >>> ComposedLoss((BoundedLoss([0.5]), BoundedLoss([1.0])), (2, 1)).sup.round(6).tolist()
      [2.0]
    """

    parts: tuple[Loss, ...]
    times: tuple[int, ...]
    kind: Kind = field(default="bound", init=False)
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def sup(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(m,) Σ times · sup, rounded up: pure ε adds."""
        terms = [n * np.asarray(law.sup, dtype=float) for law, n in self._each()]
        return sum(terms, np.zeros(1)) * (1.0 if len(terms) == 1 else _up(len(terms)))

    @property
    def sup_kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Exact if each part's is."""
        return "exact" if all(law.sup_kind == "exact" for law in self.parts) else "bound"

    @override
    def renyi(self, alpha: float) -> np.ndarray:
        return sum((n * law.renyi(alpha) for law, n in self._each()), np.zeros(1)) * _up(4)

    @property
    @override
    def zcdp(self) -> np.ndarray:
        return sum((n * law.zcdp for law, n in self._each()), np.zeros(1)) * _up(4)

    @property
    @override
    def gdp(self) -> np.ndarray:
        return np.sqrt(sum((n * law.gdp**2 for law, n in self._each()), np.zeros(1))) * _up(4)

    @override
    def delta(self, epsilon: float | np.ndarray) -> np.ndarray:
        epsilon, sup = np.broadcast_arrays(nonnegative("epsilon", epsilon), self.sup)
        mu, rho = self._proved()
        value = np.minimum(delta_of_mu(epsilon, mu), delta_of_rho(rho, epsilon))
        for row in range(sup.shape[-1]):
            flat, found = epsilon[..., row].ravel(), value[..., row].ravel()
            table = self._distribution(row)
            known = [table(e) if e < np.inf else 1.0 for e in flat]
            value[..., row] = np.minimum(found, known).reshape(epsilon.shape[:-1])
        return np.where(epsilon < sup, np.minimum(value, 1.0), 0.0)

    @override
    def epsilon(self, delta: float | np.ndarray) -> np.ndarray:
        delta, sup = np.broadcast_arrays(probability("delta", delta), self.sup)
        return np.where(delta > 0, smallest_epsilon(self.delta, delta, sup), sup)

    @override
    def take(self, indices: np.ndarray) -> Self:
        parts = [law if np.size(law.sup) == 1 else law.take(indices) for law in self.parts]
        return type(self)(tuple(parts), self.times)

    def _each(self) -> list[tuple[Loss, int]]:
        return list(zip(self.parts, self.times, strict=True))

    def _proved(self) -> tuple[np.ndarray, np.ndarray]:
        if "proved" not in self._known:
            self._known["proved"] = (self.gdp, self.zcdp)
        return self._known["proved"]

    def _distribution(self, row: int) -> Callable[[float], float]:
        if row not in self._known:
            at = np.array([row])
            laws = [law if np.size(law.sup) == 1 else law.take(at) for law in self.parts]
            self._known[row] = _table(laws, self.times)
        return self._known[row]


def _table(laws: Sequence[Loss], times: Sequence[int]) -> Callable[[float], float]:
    """ε ↦ a bound on δ(ε) of the sum, by dp-accounting."""
    accounting = _accounting()
    kept = [(law, n, _end(law)) for law, n in zip(laws, times, strict=True)]
    kept = [(law, n, end) for law, n, end in kept if end > 0]
    certain = float(any(np.isinf(end) for _, _, end in kept))
    if certain or not kept:
        return lambda _: certain
    whole = sum(n * end for _, n, end in kept)
    step = max(min(end for _, _, end in kept) / _POINTS, whole / _MOST_CELLS)
    total = None
    for law, n, end in kept:
        one = accounting.privacy_loss_distribution.PrivacyLossDistribution(
            _dots(accounting.pld_pmf, law, end, step)
        )
        part = one.self_compose(n) if n > 1 else one
        total = part if total is None else total.compose(part)
    assert total is not None
    slack = _FOURIER * float(np.sqrt(sum(times))) if sum(times) > 1 else 0.0

    @cache
    def delta(epsilon: float) -> float:
        return float(total.get_delta_for_epsilon(float(epsilon))) * (1 + 1e-12) + slack

    return delta


def _dots(pld_pmf: Any, law: Loss, end: float, step: float) -> Any:
    """The loss on multiples of `step` whose δ(ε), joined by chords in e^ε, lies above the law's.

    δ at −ε is 1 − e^{−ε}(1 − δ(ε)): the profile bounds both (p, p′) and (p′, p).
    """
    last = int(np.ceil(end / step * (1 + 1e-12)))
    right = np.unique(np.round(np.linspace(0, last, min(last, _POINTS) + 1)).astype(int))
    epsilon = right * step
    delta = np.minimum(law.delta(epsilon[:, None])[:, 0], 1.0)
    delta = np.maximum.accumulate(delta[::-1])[::-1]  # rounding may let it rise
    left = 1 - np.exp(-epsilon[1:]) * (1 - delta[1:])
    return pld_pmf.create_pmf_pessimistic_connect_dots(
        step, np.concatenate([-right[:0:-1], right]), np.concatenate([left[::-1], delta])
    )


def _end(law: Loss) -> float:
    """An ε beyond which a share below 1e-16 is left; it counts as told apart."""
    sup = float(np.max(law.sup))
    return sup if np.isfinite(sup) else float(np.max(law.epsilon(_TRUNCATED)))


def _accounting() -> Any:
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError:
        raise UnsupportedError(
            "`delta` and `epsilon` of composed losses that are not all normal need dp-accounting. "
            "Install cdp-views[accounting], or use pure_epsilon, rho or mu, which add up."
        ) from None
    return _Modules(pld_pmf, privacy_loss_distribution)


@dataclass(frozen=True)
class _Modules:
    pld_pmf: Any
    privacy_loss_distribution: Any


def _whole(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"`times` must be whole numbers from 1 upwards; got {n!r}.")
    return int(n)


def _up(terms: int) -> float:
    return 1 + 2 * terms * float(np.finfo(float).eps)
