"""One budget in one notion of privacy, as a study sweeps over them."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import ndtri

NOTIONS = ("native", "approximate", "pure")


@final
@dataclass(frozen=True)
class Level:
    """A value of ε, ρ, μ or the guess rate, and what it means.

    Args:
        notion: "native", "approximate" or "pure" (values of ε); "rho", "mu" or "guess-rate".
        value: the budget.
        delta: δ that goes with ε; of no use to other notions.
    """

    notion: str
    value: float
    delta: float

    def meant(self, pure: bool) -> "Level":
        """What "native" means for a noise whose loss is bounded (`pure`), or is not."""
        notion = self.notion
        if notion == "native":
            notion = "pure" if pure else "approximate"
        return Level(notion, self.value, self.delta if notion == "approximate" else 0.0)

    @property
    def refused(self) -> str:
        """Why a noise of unbounded loss cannot keep it; empty where it can."""
        if self.notion == "pure":
            return "Normal noise has no pure epsilon: its loss is unbounded."
        if self.notion == "approximate" and self.delta == 0:
            return "Normal noise needs a delta above 0; the study gives 0."
        return ""

    @property
    def budget(self) -> dict[str, Any]:
        """Arguments of `calibrate`."""
        if self.notion in ("approximate", "pure"):
            return {"epsilon": self.value, "delta": self.delta if self.notion != "pure" else 0.0}
        return {self.notion.replace("-", "_"): self.value}

    @property
    def mu(self) -> float:
        """μ that Normal noise may have under this budget; NaN where it cannot keep it."""
        from cdp_views.loss import analytic_gaussian_mu

        if self.notion == "approximate" and self.delta > 0:
            return float(analytic_gaussian_mu(self.value, self.delta))
        if self.notion == "rho":
            return float(np.sqrt(2 * self.value))
        if self.notion == "mu":
            return float(self.value)
        if self.notion == "guess-rate":
            return 2 * float(ndtri(self.value))
        return float("nan")

    def __str__(self) -> str:
        if self.notion == "approximate":
            return f"({self.value:.12g}, {self.delta:g})-DP"
        if self.notion == "pure":
            return f"ε = {self.value:.12g} (pure)"
        return f"{self.notion} {self.value:.12g}"
