"""The answer to "does it keep what is claimed of it?"."""

from dataclasses import dataclass
from typing import Literal

from cdp_views.privacy.error_rates import ErrorRates
from cdp_views.privacy.worst import WorstDifference

Verdict = Literal["inconsistent with the claim", "no contradiction", "nothing claimed"]


@dataclass(frozen=True, repr=False, eq=False)
class Audit:
    """What an audit found: lower bounds from draws beside what was claimed.

    A verdict of "no contradiction" proves nothing: it says that these tests, on these draws, for
    this difference, found none. Each lower bound holds with chance `level`.

    Args:
      verdict: of the claim, at `level`: an honest mechanism is accused with chance 1 − level.
      findings: what speaks against the claim, one sentence each.
      epsilon, mu: lower bounds for one record, ε at `delta`.
      claimed: the claim in words; claimed_epsilon, claimed_mu: its numbers, where it has them.
      p_value: of the claim on the privacy loss: chance of errors so few if it is true.
      statistic: what told the tables apart best.
      rates: its errors on fresh draws.
      broken_totals: releases, of 2·draws, whose published totals are not exact.
      marginal_p_value: of the stated marginals, None if none were stated.
      worst: the difference, for one record; `steps` records apart were the tables tested.
    """

    verdict: Verdict
    findings: tuple[str, ...]
    epsilon: float
    delta: float
    mu: float
    claimed: str
    claimed_epsilon: float | None
    claimed_mu: float | None
    p_value: float | None
    statistic: str
    rates: ErrorRates
    broken_totals: int
    marginal_p_value: float | None
    worst: WorstDifference
    steps: int
    draws: int
    level: float
    neighbours: str = ""

    def __str__(self) -> str:
        level = f"{100 * self.level:g} %"
        claimed_epsilon = _claimed(self.claimed_epsilon)
        claimed_mu = _claimed(self.claimed_mu)
        alpha, beta = self.rates.false_positives, self.rates.false_negatives
        lines = [
            f"Audit: {self.verdict}",
            f"  claim: {self.claimed}",
            *(f"  {finding}" for finding in self.findings),
            f"  unit of privacy: {self.neighbours}",
            f"  epsilon at delta {self.delta:g} is at least {self.epsilon:.4g}{claimed_epsilon}",
            f"  mu is at least {self.mu:.4g}{claimed_mu}",
            f"  each bound holds with {level} confidence",
            f"  {self.draws:,} draws of each table, half of them to choose the test",
            f"  tables {self.steps:,} record{'s' * (self.steps > 1)} apart along {self.worst}",
            f"  told apart by: {self.statistic}",
            f"  wrong {alpha:,} and {beta:,} times of {self.rates.draws:,}",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _claimed(number: float | None) -> str:
    return "" if number is None else f" (claimed: {number:.6g})"
