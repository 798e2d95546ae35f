"""One budget in one notion of privacy, and how far a loss is from it."""

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from cdp_views._checks import UnsupportedError, choice
from cdp_views.loss import analytic_gaussian_mu, tail_bound_mu
from cdp_views.privacy import PrivacyLoss

_NOTIONS = ("epsilon", "rho", "mu", "kl", "renyi", "total_variation", "guess_rate")


@dataclass(frozen=True)
class Budget:
    """At most this much, in exactly one notion.

    Args:
      epsilon: ε > 0 in nats; with `delta` = 0 pure differential privacy, else (ε, δ).
      delta: 0 ≤ δ < 1, well below 1 over the number of records.
      rho: ρ > 0 of zero-concentrated DP.
      mu: μ > 0 of Gaussian DP.
      kl: Kullback–Leibler divergence between neighbours, above 0, in nats.
      renyi: (α, D_α): a Rényi divergence of one order.
      total_variation: 0 < TV < 1.
      guess_rate: best chance of telling two equally likely neighbours apart, between ½ and 1.
      bound: "analytic", exact; or "tail", [L] Theorem 1, for (ε, δ) and Normal noise only.

    Raises:
      ValueError: none or more than one notion, or a number out of its range.

    Example:
      >>> Budget(epsilon=1.0, delta=1e-10)
      Budget(epsilon=1.0, delta=1e-10)
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    mu: float | None = None
    kl: float | None = None
    renyi: tuple[float, float] | None = None
    total_variation: float | None = None
    guess_rate: float | None = None
    bound: Literal["analytic", "tail"] = "analytic"

    def __post_init__(self) -> None:
        choice("bound", self.bound, ("analytic", "tail"))
        given = [name for name in _NOTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"`budget` must be in exactly one notion; got {', '.join(given) or 'none'}. "
                "Give epsilon (with delta), rho, mu, kl, renyi, total_variation or guess_rate."
            )
        if self.epsilon is None and (self.delta != 0 or self.bound != "analytic"):
            raise ValueError(
                f"`delta` and `bound` must go with epsilon; got them with {given[0]}. "
                "Leave them out."
            )
        _check(self)

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"Budget({', '.join(shown)})"

    @property
    def notion(self) -> tuple[Any, ...]:
        """What is limited: one number; (ε, δ) limits δ at one ε, a Rényi budget one order."""
        if self.delta > 0:
            return "delta", self.epsilon, self.bound
        if self.renyi is not None:
            return "renyi", self.renyi[0]
        return (next(name for name in _NOTIONS if getattr(self, name) is not None),)

    def spent(self, loss: PrivacyLoss) -> tuple[float, bool]:
        """How many times over the budget a loss is, in units of 1/scale, and whether it is kept.

        Raises:
          ValueError: pure ε of a loss without a largest value.
          UnsupportedError: a notion that is not proved of this loss.
        """
        if self.epsilon is not None:
            return self._pure(loss) if self.delta == 0 else self._approximate(loss)
        if self.mu is not None:
            return loss.mu / self.mu, loss.mu <= self.mu
        if self.rho is not None:
            return float(np.sqrt(loss.rho / self.rho)), loss.rho <= self.rho
        if self.kl is not None:
            return float(np.sqrt(loss.kl / self.kl)), loss.kl <= self.kl
        if self.renyi is not None:
            value = loss.renyi(self.renyi[0])
            return float(np.sqrt(value / self.renyi[1])), value <= self.renyi[1]
        if self.total_variation is not None:
            return _guess(loss.total_variation, self.total_variation)
        assert self.guess_rate is not None
        rate = loss.guess_rate
        ratio, _ = _guess(2 * rate - 1, 2 * self.guess_rate - 1)
        return ratio, rate <= self.guess_rate

    def _pure(self, loss: PrivacyLoss) -> tuple[float, bool]:
        assert self.epsilon is not None
        pure = loss.pure_epsilon
        if not np.isfinite(pure):
            raise ValueError(
                "`delta` must be above 0 for a loss without a largest value, as of Normal noise; "
                "got 0. Give delta, 1e-10 for example, or use Laplace noise."
            )
        if self.bound == "tail":
            raise _tail_of_normal_only()
        return pure / self.epsilon, bool(pure <= self.epsilon)

    def _approximate(self, loss: PrivacyLoss) -> tuple[float, bool]:
        assert self.epsilon is not None
        goal_of = analytic_gaussian_mu if self.bound == "analytic" else tail_bound_mu
        goal = goal_of(self.epsilon, self.delta)
        delta = loss.delta(self.epsilon)
        if hasattr(loss.law, "mu"):
            return loss.mu / goal, bool(loss.mu <= goal and delta <= self.delta)
        if self.bound == "tail":
            raise _tail_of_normal_only()
        # δ(ε) decides. How far away it is, ε(δ) says well where the supremum is near and an
        # equivalent μ where it is not; both pass 1 where δ(ε) = δ.
        ratio = max(
            _equivalent_mu(delta, self.epsilon) / goal, loss.epsilon(self.delta) / self.epsilon
        )
        kept = bool(delta <= self.delta)
        return (min(ratio, 1.0) if kept else max(ratio, 1.0)), kept


def _equivalent_mu(delta: float, epsilon: float) -> float:
    """The μ of the normal loss that has the same δ at this ε."""
    if delta <= 0:
        return 0.0
    return np.inf if delta >= 1 else analytic_gaussian_mu(epsilon, delta)


def _guess(spent: float, allowed: float) -> tuple[float, bool]:
    # The μ of the normal loss that has this total variation: proportional to 1/scale.
    ratio = float(ndtri(0.5 + 0.5 * min(spent, 1.0)) / ndtri(0.5 + 0.5 * allowed))
    return ratio, spent <= allowed


def _tail_of_normal_only() -> UnsupportedError:
    return UnsupportedError(
        '`bound` "tail" is defined for a normal privacy loss only. Use "analytic".'
    )


def _check(budget: Budget) -> None:
    for name in ("epsilon", "rho", "mu", "kl"):
        value: Any = getattr(budget, name)
        if value is not None and not (_one(value) and np.isfinite(value) and value > 0):
            raise ValueError(f"`{name}` must be positive; got {value}. Give one finite number.")
    if not (_one(budget.delta) and 0 <= budget.delta < 1):
        raise ValueError(
            f"`delta` must be at least 0 and below 1; got {budget.delta}. "
            "Take it well below 1 over the number of records."
        )
    for name, least in (("total_variation", 0.0), ("guess_rate", 0.5)):
        value = getattr(budget, name)
        if value is not None and not (_one(value) and least < value < 1):
            raise ValueError(
                f"`{name}` must lie strictly between {least:g} and 1; got {value}. At {least:g} "
                "nothing may be published, at 1 everything."
            )
    if budget.renyi is not None:
        pair = budget.renyi
        if not (
            np.shape(pair) == (2,) and pair[0] >= 1 and np.isfinite(pair).all() and pair[1] > 0
        ):
            raise ValueError(
                f"`renyi` must be (alpha, divergence), alpha from 1 upwards; got {pair!r}."
            )


def _one(value: Any) -> bool:
    return np.ndim(value) == 0 and not isinstance(value, bool | str)
