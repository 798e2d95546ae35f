"""What someone can come to believe from a release: prior to posterior, in numbers and in words."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from cdp_views._checks import UnsupportedError
from cdp_views.loss import Loss, at_worst
from cdp_views.privacy.result import PrivacyLoss

_GRID = 257
_FAR = 1e-9  # of the exceptional chance: beyond, another ε hardly helps


@dataclass(frozen=True)
class PriorToPosterior:
    """How far one belief about two neighbouring tables can move, given the published totals.

    Args:
      prior: belief in one of the two, before the release.
      odds_factor: the most by which the release can multiply or divide the odds, e^ε of pure ε;
        infinite for Normal noise.
      lowest: the least belief it can lead to, whatever is published.
      highest: the greatest.
      except_with: chance with which `usual_factor` may be exceeded.
      usual_factor: the most by which the odds for the truth grow but for that chance.
      success: the best chance of a right decision between the two, max(p, 1 − p) without a release.
      kind: "exact", "bound" (the truth is at most it) or "estimate", of `success`.
      unit: what the two tables differ by, in words.
      scope: for which tables it holds, where not for all, and how it was estimated, in words.
    """

    prior: float
    odds_factor: float
    lowest: float
    highest: float
    except_with: float
    usual_factor: float
    success: float
    kind: str
    unit: str
    _law: Loss = field(repr=False)
    scope: str = ""

    def after(self, type_one: float) -> float:
        """The greatest belief after a test that raises a false alarm with chance `type_one`.

        p(1 − f(a)) / (p(1 − f(a)) + (1 − p)a) with the trade-off curve f; rarer alarms convince
        more, up to `highest`.
        """
        if not (_is_number(type_one) and 0 < type_one <= 1):
            raise ValueError(
                f"`type_one` must be above 0 and at most 1; got {type_one!r}. At 0 see `highest`."
            )
        power = 1 - float(np.min(self._law.tradeoff(type_one)))
        hit, miss = self.prior * power, (1 - self.prior) * type_one
        return min(hit / (hit + miss), self.highest)

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """All of it in plain words."""
        p = self.prior
        told = "can" if self.kind != "estimate" else "could, by an estimate,"
        known = (
            "Suppose someone knows the published totals and everything else about the data, and "
            f"has to tell two tables apart ({self.unit}), with a belief of {p:.4g} in one of them."
        )
        if np.isfinite(self.odds_factor):
            moved = (
                f"Whatever the release shows, it changes the odds at most {self.odds_factor:.4g} "
                f"times, so the belief ends between {self.lowest:.4g} and {self.highest:.4g}."
            )
        elif np.isfinite(self.usual_factor):
            moved = (
                f"But for a chance of {self.except_with:.1g}, the odds for the truth grow at most "
                f"{self.usual_factor:.4g} times: a belief of {p:.4g} in it to "
                f"{_moved(p, self.usual_factor):.4g}."
            )
        else:
            moved = "Nothing proves how far the release can move that belief."
        decide = (
            f"Deciding between the two {told} succeed with a chance of "
            f"{'at most ' if self.kind == 'bound' else ''}{self.success:.4g}, against "
            f"{max(p, 1 - p):.4g} without the release."
        )
        totals = "What the totals alone give away is not protected: it counts as known before."
        scope = [f"Scope: {self.scope}."] if self.scope else []
        return " ".join([known, moved, decide, totals, *scope])


def prior_to_posterior(
    loss: PrivacyLoss, *, prior: float = 0.5, except_with: float = 1e-6
) -> PriorToPosterior:
    """What a belief between two neighbouring tables can become through a release.

    Posterior odds = prior odds × e^{L}. Pure ε: times e^{±ε} at most. Otherwise P(L > x) ≤
    δ(ε)/(1 − e^{ε−x}) for every ε < x, solved for x; and the best decision from prior p ≤ ½ is
    right with chance 1 − p + p δ(log((1 − p)/p)), the guess rate at p = ½.

    The statement is relative to the invariants: both tables have the published totals.

    Args:
      loss: what `privacy_loss` or `compose` found.
      prior: belief p in one of the two tables, 0 < p < 1.
      except_with: the chance η, 0 < η < 1, of `usual_factor`.

    Returns:
      PriorToPosterior: the numbers, and `sentence`, which says them in plain words.

    Raises:
      ValueError: a probability out of its range.

    Example:
      >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a"])
      >>> view = cdp.Conditioned(dist.Laplace(np.zeros(3), 2.0), inv)
      >>> told = cdp.prior_to_posterior(cdp.privacy_loss(view, cdp.relocations(inv)), prior=0.1)
      >>> round(told.odds_factor, 4), round(told.highest, 4)
      (2.7183, 0.232)

    Reference: Kifer et al. 2022, "Bayesian and frequentist semantics for common variations of
    differential privacy: applications to the 2020 Census"; Wasserman and Zhou 2010, Theorem 2.4;
    Kasiviswanathan and Smith 2014.
    """
    for name, value, remedy in (
        ("prior", prior, "No release moves a certain belief: give an open one, such as 0.5."),
        ("except_with", except_with, "Give a chance that can be neglected, such as 1e-6."),
    ):
        if not (_is_number(value) and 0 < value < 1):
            raise ValueError(f"`{name}` must lie strictly between 0 and 1; got {value!r}. {remedy}")
    law = at_worst(loss.law)
    pure = loss.pure_epsilon
    small = min(prior, 1 - prior)
    gain = loss.delta(float(np.log1p(-small) - np.log(small)))
    usual = min(_usual_loss(law, except_with), pure)
    with np.errstate(over="ignore"):
        factor, usual_factor = float(np.exp(pure)), float(np.exp(usual))
    return PriorToPosterior(
        prior=float(prior),
        odds_factor=factor,
        lowest=_moved(prior, 1 / factor) if np.isfinite(factor) else 0.0,
        highest=_moved(prior, factor),
        except_with=float(except_with),
        usual_factor=usual_factor,
        success=min(1 - small + small * gain, 1.0),
        kind=loss.kind,
        unit=loss.neighbours,
        _law=loss.law,
        scope=loss.scope,
    )


def _is_number(value: Any) -> bool:
    """Whether it is one real number, also of NumPy or JAX."""
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu"


def _moved(prior: float, factor: float) -> float:
    """The belief whose odds are `factor` times those of `prior`."""
    if np.isinf(factor):
        return 1.0
    return float(1 / (1 + (1 - prior) / prior / factor)) if factor > 0 else 0.0


def _usual_loss(law: Loss, chance: float) -> float:
    """An x with P(L > x) ≤ chance: x = min over ε of ε − log(1 − δ(ε)/chance)."""
    if law.kind == "estimate":
        return np.inf  # an estimate proves nothing about rare losses
    if hasattr(law, "mu"):
        mu = float(law.gdp[0])
        return max(0.5 * mu**2 - mu * float(ndtri(chance)), 0.0) if np.isfinite(mu) else np.inf
    try:
        low, high = (float(law.epsilon(chance * part)[0]) for part in (0.999, _FAR))
    except UnsupportedError:  # composed, without the extra that δ needs
        return np.inf
    if np.isinf(low):
        return np.inf
    high = high if np.isfinite(high) else 10 * low + 10
    epsilon = np.linspace(low, high, _GRID)
    left = np.minimum(law.delta(epsilon[:, None])[:, 0] / chance, 1.0)
    with np.errstate(divide="ignore"):
        return float(np.min(epsilon - np.log1p(-left)))
