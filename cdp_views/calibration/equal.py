"""Scales at which several views give away the same: equal δ at one ε, not equal ε."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdp_views.calibration.calibrating import calibrate
from cdp_views.neighbours import Neighbours
from cdp_views.privacy import PrivacyLoss, privacy_loss


@dataclass(frozen=True)
class EqualProfile:
    """The scales of several views that share δ(ε) with a reference.

    Args:
      epsilon: ε at which they are equal.
      delta: δ(ε) of the reference.
      scales: the scale of each view.
      losses: the loss of each view at its scale: δ(ε) is at most `delta`, and as near as its law
        can be told; `kind` says whether it is exact or a bound.
    """

    epsilon: float
    delta: float
    scales: dict[str, float]
    losses: dict[str, PrivacyLoss]

    def __str__(self) -> str:
        lines = [f"delta {self.delta:.6g} at epsilon {self.epsilon:g} for all:"]
        for name, scale in self.scales.items():
            loss = self.losses[name]
            realised = loss.delta(self.epsilon)
            lines.append(f"  {name}: scale {scale:.6g} (delta {realised:.6g}, {loss.kind})")
        return "\n".join(lines)


def equal_profile(
    views: Mapping[str, Callable[[float], Any]],
    neighbours: Neighbours,
    *,
    epsilon: float,
    reference: PrivacyLoss | float,
    query: Any = None,
) -> EqualProfile:
    """The smallest scale of each view at which δ(ε) is at most that of a reference.

    Views compared at equal pure ε or equal (ε, δ) may differ in everything else; at ε = 0 they
    share the total variation, that is the guess rate.

    Args:
      views: name ↦ (scale ↦ view).
      neighbours: the unit of privacy.
      epsilon: ε ≥ 0 (nats).
      reference: the loss of a release, or δ itself. Where δ(ε) = 0, pure ε is shared.
      query: (r, n) if only these combinations of the cells are published.

    Returns:
      EqualProfile: scales and losses by name.

    Raises:
      ValueError: ε or δ out of range, no views, or a view that no scale makes keep δ.
      UnsupportedError: a view of which nothing is proved.

    Example:
      >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a"])
      >>> views = {v.__name__: lambda s, v=v: v(dist.Normal(np.zeros(3), s), inv)
      ...          for v in (cdp.Conditioned, cdp.MaxEntropy)}
      >>> equal = cdp.equal_profile(views, cdp.relocations(inv), epsilon=1.0, reference=1e-10)
      >>> {name: round(scale, 3) for name, scale in equal.scales.items()}
      {'Conditioned': 8.298, 'MaxEntropy': 6.776}

    Reference: Balle and Wang 2018, Theorem 5 (the profile determines the guarantee).
    """
    if not views:
        raise ValueError("`views` must name at least one view; got none.")
    if not (np.ndim(epsilon) == 0 and 0 <= epsilon < np.inf):
        raise ValueError(f"`epsilon` must be one finite number from 0 upwards; got {epsilon}.")
    delta = reference if isinstance(reference, float | int) else reference.delta(epsilon)
    if not 0 <= delta < 1:
        raise ValueError(
            f"`reference` must have a delta from 0 to below 1 at epsilon {epsilon:g}; got {delta}. "
            "Take another epsilon."
        )
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": float(delta)}
    if epsilon == 0:
        budget = {"total_variation": float(delta)}
    scales = {
        name: calibrate(view, neighbours, query=query, **budget) for name, view in views.items()
    }
    losses = {
        name: privacy_loss(views[name](scale), neighbours, query=query)
        for name, scale in scales.items()
    }
    return EqualProfile(float(epsilon), float(delta), scales, losses)
