"""The least noise that keeps a privacy budget, or several at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy import sparse

from cdp_views.calibration._smallest import smallest
from cdp_views.calibration.budget import Budget
from cdp_views.neighbours import Neighbours
from cdp_views.privacy import privacy_loss
from cdp_views.privacy.composition import repeated

Level = tuple[Any, Neighbours | None, Budget | Mapping[str, Any]]
"""(query or None, neighbours or None, budget)."""

_CLOSE_EXACT = 1e-13
_CLOSE = 1e-7  # of laws by quadrature and composition, whose last digits may jump


def calibrate(
    view_of_scale: Callable[[float], Any],
    neighbours: Neighbours,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mu: float | None = None,
    kl: float | None = None,
    renyi: tuple[float, float] | None = None,
    total_variation: float | None = None,
    guess_rate: float | None = None,
    query: Any = None,
    levels: Sequence[Level] = (),
    tables: int = 1,
    bound: Literal["analytic", "tail"] = "analytic",
) -> float:
    """The smallest scale at which the worst difference keeps the budget, in any one notion.

    (ε, δ): δ(ε) ≤ δ; ε alone: sup ≤ ε, pure differential privacy; otherwise ρ, μ, KL, D_α, TV or
    the guess rate is at most what is given. What is only bounded is calibrated by its bound.

    Args:
      view_of_scale: scale ↦ view; more scale must mean more privacy.
      neighbours: the unit of privacy, relocations(inv) for example.
      epsilon: ε > 0 (nats).
      delta: 0 ≤ δ < 1, well below 1 over the number of records; 0, the default, asks for pure
        differential privacy, which Normal noise can't give.
      rho: ρ of zero-concentrated DP.
      mu: μ of Gaussian DP.
      kl: Kullback–Leibler divergence, nats.
      renyi: (α, D_α), nats.
      total_variation: TV between neighbours.
      guess_rate: best chance of telling two equally likely neighbours apart, ½ to 1.
      query: (r, n) if only these combinations of the cells are published.
      levels: further budgets to keep at once, each (query or None, neighbours or None for those
        above, a `Budget` or a dict of the arguments above, {"rho": 0.1} for example).
      tables: how many such tables share the budget, each with its own draw of the noise: Normal
        noise and pure ε in closed form, otherwise by composition (extra `accounting`).
      bound: "analytic", exact; or "tail", [L] Theorem 1: simpler and larger, Normal noise only.

    Returns:
      The scale, rounded up: at it the budget was evaluated and found kept, not inferred.

    Raises:
      TypeError: a view in place of a function that makes one.
      ValueError: the budget is out of range or in no or two notions, two levels contradict each
        other, δ = 0 for an unbounded loss, or no scale keeps it.
      UnsupportedError: "tail" for a loss that is not normal, or a notion not proved of this noise.

    Example:
      >>> import cdp_views as cdp, jax.numpy as jnp, numpyro.distributions as dist
      >>> inv = cdp.totals(["a", "a", "a"])
      >>> view = lambda s: cdp.Conditioned(dist.Normal(jnp.zeros(3), s), inv)
      >>> round(cdp.calibrate(view, cdp.relocations(inv), epsilon=1.0, delta=1e-10), 4)
      8.2983

    Reference: Balle and Wang 2018, Theorem 8 ("analytic"); [L] Theorem 1 ("tail").
    """
    if not callable(view_of_scale) or hasattr(view_of_scale, "log_prob"):
        raise TypeError(
            f"`view_of_scale` must be a function of the scale; got {type(view_of_scale).__name__}. "
            "Write lambda scale: cdp.Conditioned(dist.Normal(loc, scale), inv)."
        )
    if isinstance(tables, bool) or not isinstance(tables, int | np.integer) or tables < 1:
        raise ValueError(f"`tables` must be a whole number from 1 upwards; got {tables!r}.")
    asked = {
        "epsilon": epsilon,
        "rho": rho,
        "mu": mu,
        "kl": kl,
        "renyi": renyi,
        "total_variation": total_variation,
        "guess_rate": guess_rate,
    }
    goals = _levels(levels, neighbours)
    if not levels or any(value is not None for value in asked.values()):
        goals.insert(0, (query, neighbours, Budget(delta=delta, bound=bound, **asked)))
    _check_agreement(goals)
    exact = silent = True

    def attempt(scale: float) -> tuple[float, bool]:
        nonlocal exact, silent
        view = view_of_scale(scale)
        worst, kept = 0.0, True
        for asked_query, unit, budget in goals:
            loss = repeated(privacy_loss(view, unit, query=asked_query), int(tables))
            silent = silent and loss.pure_epsilon == 0
            exact = exact and (loss.kind == "exact" or budget.delta == 0)
            ratio, held = budget.spent(loss)
            worst, kept = max(worst, ratio), kept and held
        return worst, kept

    first = attempt(1.0)  # where the search begins, and says how closely these laws can be told
    if silent and any(asked_query is not None for asked_query, _, _ in goals):
        raise ValueError(
            "`query` must see something that the neighbours change; got none that does, so every "
            "scale keeps the budget. Publish it as it is, or state other neighbours."
        )
    return smallest(
        lambda scale: first if scale == 1.0 else attempt(scale),
        close=_CLOSE_EXACT if exact else _CLOSE,
    )


def _levels(
    levels: Sequence[Level], neighbours: Neighbours
) -> list[tuple[Any, Neighbours, Budget]]:
    goals = []
    for k, level in enumerate(levels):
        if not (isinstance(level, tuple | list) and len(level) == 3):
            raise ValueError(
                f"`levels` must hold (query, neighbours, budget); got another form at {k}. "
                'For example (None, relocations(inv), {"rho": 0.1}).'
            )
        query, unit, budget = level
        if not isinstance(budget, Budget):
            if not isinstance(budget, Mapping):
                raise ValueError(
                    f"`levels` {k} must end in a budget; got {type(budget).__name__}. "
                    'Write {"epsilon": 1.0, "delta": 1e-10}, or a Budget.'
                )
            try:
                budget = Budget(**budget)
            except TypeError as reason:
                raise ValueError(f"`levels` {k} must state its budget: {reason}.") from None
        goals.append((query, neighbours if unit is None else unit, budget))
    return goals


def _check_agreement(goals: list[tuple[Any, Neighbours, Budget]]) -> None:
    """Raise where one question has two answers: the same query, unit and notion (δ at one ε)."""
    for j, (query, unit, budget) in enumerate(goals):
        for i, (other, unit_i, budget_i) in enumerate(goals[:j]):
            same = unit is unit_i and budget.notion == budget_i.notion and _same(query, other)
            if same and budget != budget_i:
                raise ValueError(
                    f"`levels` must not contradict each other; got {budget_i!r} and {budget!r} for "
                    f"the same query and neighbours (entries {i} and {j}). Keep the stricter one."
                )


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    left, right = (sparse.csr_array(np.atleast_2d(_dense(x))) for x in (a, b))
    return left.shape == right.shape and abs(left - right).sum() == 0


def _dense(x: Any) -> Any:
    return x.toarray() if sparse.issparse(x) else np.asarray(x, dtype=float)
