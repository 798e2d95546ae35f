"""What is claimed of a privacy loss, for tables several records apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.loss import GaussianLoss, Loss
from cdp_views.loss._arguments import finite_epsilon, nonnegative
from cdp_views.privacy.error_rates import Lines, budget_curve, loss_curve

_TOLD_APART = 0.8  # the total variation that k records are to reach: tests tell most there
_MOST_STEPS = 2**30


@dataclass(frozen=True)
class Claim:
    """What is claimed of one record, and with it of k records.

    Args:
      words: for people.
      curve: (k, draws) ↦ the trade-off curve, as fine as `draws` can tell.
      apart: k ↦ the largest total variation, δ(0).
      epsilon: ε claimed at the audit's δ, if any.
      mu: μ claimed, if any.
    """

    words: str
    curve: Callable[[int, int], Lines]
    apart: Callable[[int], float]
    epsilon: float | None = None
    mu: float | None = None

    def steps(self) -> int:
        """The least k, or nearly, at which the claim allows a total variation of 0.8."""
        high = 1
        while self.apart(high) < _TOLD_APART:
            if high >= _MOST_STEPS:
                return 1
            high *= 2
        low = high // 2
        while high - low > max(1, low // 16):
            middle = (low + high) // 2
            low, high = (low, middle) if self.apart(middle) >= _TOLD_APART else (middle, high)
        return high


def claim_of(
    view: Any,
    v: np.ndarray,
    query: sparse.csr_array | None,
    *,
    epsilon: float | None,
    delta: float,
    mu: float | None,
) -> Claim | None:
    """The stated claim, or else what the view proves of its own loss, or None.

    Group privacy: μ-Gaussian DP is kμ for k records; (ε, δ) is (kε, δ(e^{kε} − 1)/(e^ε − 1)). Of a
    view the law of k·v itself is taken.

    Reference: Dong, Roth and Su 2022, Theorem 2.14; Dwork and Roth 2014, Theorem 2.2.
    """
    if mu is not None:
        size = float(nonnegative("mu", mu))
        return _of_law(f"mu {size:.6g}", lambda k: GaussianLoss(np.array([k * size])), mu=size)
    if epsilon is not None:
        budget = finite_epsilon(epsilon)
        words = f"epsilon {budget:.6g} at delta {delta:g}"

        def apart(k: int) -> float:
            # the largest of 1 − α − f(α) lies at α = f(α), where α (1 + e^ε) = 1 − δ
            lines = budget_curve(budget, delta, k)
            return float(1 - 2 * lines.offset[0] / (1 + lines.slope[0]))

        return Claim(words, lambda k, _draws: budget_curve(budget, delta, k), apart, epsilon=budget)
    try:
        law: Loss = view.loss(sparse.csr_array(v[None]), query=query)
    except (AttributeError, UnsupportedError):
        return None
    of_normal: Any = getattr(law, "mu", None)
    return _of_law(
        f"the law of its loss as the view states it ({law.kind})",
        lambda k: view.loss(sparse.csr_array(k * v[None]), query=query),
        float(np.max(law.epsilon(delta))),
        None if of_normal is None else float(np.max(of_normal)),
    )


def _of_law(
    words: str, law: Callable[[int], Loss], epsilon: float | None = None, mu: float | None = None
) -> Claim:
    def curve(k: int, draws: int) -> Lines:
        return loss_curve(law(k), draws)

    return Claim(words, curve, lambda k: float(np.max(law(k).delta(0.0))), epsilon, mu)
