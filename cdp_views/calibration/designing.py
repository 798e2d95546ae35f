"""The smallest worst loss that keeps promised margins of error."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpyro.distributions as dist
from scipy import sparse
from scipy.special import ndtri

from cdp_views import _checks
from cdp_views._checks import InfeasibleError, UnsupportedError
from cdp_views._float64 import in_float64
from cdp_views.calibration.promises import Plan, any_totals, disjoint_totals
from cdp_views.neighbours import Exchanges, Neighbours, Relocations, relocations
from cdp_views.privacy import PrivacyLoss, privacy_loss
from cdp_views.usefulness.workload import as_workload
from cdp_views.views import Conditioned


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """Scales whose worst loss is the smallest under promised margins, and what the promises cost.

    Args:
      scale: (n,) σ for `cdp.Conditioned(dist.Normal(counts, design.scale), inv)`.
      loss: what such a release gives away; `design.mu`, `design.epsilon(delta)` in short.
      margins: (n,) margins of error reached, at `level`; each is at most the promised one.
      price: (n,) −∂log μ/∂log margin of each cell's promise: 0.3 says that a margin 1 % wider
        lowers μ by 0.3 %. All prices, with those of the workload, add up to 1.
      workload_margins, workload_price: (q,) the same of the promised sums; empty without any.
      level: of the margins.
    """

    scale: np.ndarray
    loss: PrivacyLoss
    margins: np.ndarray
    price: np.ndarray
    workload_margins: np.ndarray
    workload_price: np.ndarray
    level: float

    @property
    def mu(self) -> float:
        """μ of Gaussian differential privacy of the worst difference."""
        return self.loss.mu

    def epsilon(self, delta: float) -> float:
        """ε at δ of the worst difference, rounded up."""
        return self.loss.epsilon(delta)

    def __str__(self) -> str:
        paid = np.argsort(-self.price, kind="stable")[:5]
        shown = [f"{100 * self.price[i]:.3g} % cell {i}" for i in paid if self.price[i] > 1e-4]
        sums = np.argsort(-self.workload_price, kind="stable")[:5]
        shown += [
            f"{100 * self.workload_price[i]:.3g} % sum {i}"
            for i in sums
            if self.workload_price[i] > 1e-4
        ]
        return "\n".join(
            [
                f"Design: mu {self.mu:.6g} is the smallest under the promised margins",
                f"  unit of privacy: {self.loss.neighbours}",
                f"  margins at {100 * self.level:g} %: {_range(self.margins)}",
                f"  least protected: {self.loss.worst}",
                f"  share of the loss that each promise costs: {', '.join(shown)}",
            ]
        )

    __repr__ = __str__


@in_float64
def design(
    inv: Any,
    *,
    margins: Any,
    neighbours: Neighbours | None = None,
    workload: Any = None,
    workload_margins: Any = None,
    noise: Literal["normal"] = "normal",
    level: float = 0.90,
) -> Design:
    """The scales of least privacy loss among those that keep promised margins of error.

    Within G(ν), the Gaussians on ker A with precisions ν > 0 of single cells:

      minimise max_v Σ ν_i v_i²  over ν  subject to  z² diag(W K(Kᵀ diag(ν) K)⁻¹KᵀWᵀ) ≤ margin²,

    z = Φ⁻¹((1 + level)/2), W the cells and the `workload`. Convex. On disjoint plain totals with
    promises to cells it has a closed form, O(n): only the two tightest promises of a group count,
    all cells of a group but one get one scale (see `two_tightest`). With a workload the cells that
    it weighs alike are taken together, exactly; what is left (up to 300 kinds of cells that share
    sums), and totals that overlap (up to 300 cells) go through an interior-point method, right to
    1e-7. Among all Gaussians the optimum can be lower by a few per cent still.

    Args:
      inv: what must hold exactly.
      margins: half-widths at `level` promised for each cell: a number or (n,), in counts.
      neighbours: the unit of privacy; default relocations(inv).
      workload: (q, n) sums of cells with promises of their own, or an invariant.
      workload_margins: a number or (q,).
      noise: "normal".
      level: probability with which an error stays within its margin.

    Returns:
      Design: scales, loss and the price of every promise.

    Raises:
      InfeasibleError: a promise of no error for what the totals leave open.
      ValueError: a promise that is no number, or a cell that no difference touches.
      UnsupportedError: other noise; too many cells for overlapping totals.

    Example:
      >>> import cdp_views as cdp, numpy as np
      >>> inv = cdp.totals(["a"] * 5)
      >>> plan = cdp.design(inv, margins=1.6449 * np.array([1, 2, 3, 4, 6]))
      >>> round(plan.mu**2, 3), (plan.margins / 1.6449).round(2).tolist()
      (1.143, [1.0, 2.0, 2.0, 2.0, 2.0])

    Reference: [L] §1 (accuracy and privacy under invariants); Boyd and Vandenberghe 2004,
    §3.1.7 (the convexity) and §5.6 (prices).
    """
    if noise != "normal":
        raise UnsupportedError(
            f'`noise` must be "normal"; got {noise!r}. Other noise has no G(ν): choose its scales '
            "by cdp.calibrate."
        )
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie strictly between 0 and 1; got {level}. Take 0.90.")
    neighbours = relocations(inv) if neighbours is None else neighbours
    _checks.instance(
        "neighbours", neighbours, Neighbours, "Pass relocations(inv), or differences(V) for rows V."
    )
    neighbours.require(inv)
    z = float(ndtri(0.5 + 0.5 * level))
    promised = (_positive("margins", margins, inv.n, inv.determined, "cell") / z) ** 2
    if (workload is None) != (workload_margins is None):
        raise ValueError("`workload` and `workload_margins` belong together; got one of them.")
    sums, sum_margins = sparse.csr_array((0, inv.n)), np.zeros(0)
    if workload is not None:
        sums, _ = as_workload(workload, inv.n)
        left = np.asarray(abs(inv.project_rows(sums)).sum(axis=1)).ravel()
        exact = left <= 1e-9 * np.asarray(abs(sums).sum(axis=1)).ravel()
        sum_margins = _positive("workload_margins", workload_margins, len(exact), exact, "sum")
    plan = _plan(inv, neighbours, promised, sums, (sum_margins / z) ** 2)
    scale = 1 / np.sqrt(plan.nu)
    view = Conditioned(dist.Normal(np.zeros(inv.n), scale), inv)
    reached = z * np.sqrt(np.maximum(np.asarray(view.variance, dtype=float), 0.0))
    deviation = np.zeros(0) if workload is None else np.asarray(_sd(view, sums))
    return Design(
        scale=scale,
        loss=privacy_loss(view, neighbours),
        margins=reached,
        price=plan.price,
        workload_margins=z * deviation,
        workload_price=plan.sum_price,
        level=level,
    )


def _plan(
    inv: Any,
    neighbours: Neighbours,
    promised: np.ndarray,
    sums: sparse.csr_array,
    sum_promised: np.ndarray,
) -> Plan:
    plain = inv.plain_groups is not None
    moves = type(neighbours) is Relocations and neighbours.all_of(inv)
    if plain and (moves or (isinstance(neighbours, Exchanges) and neighbours.all_of(inv))):
        if sums.shape[0] == 0:
            return disjoint_totals(inv, promised, pairs=1 if moves else 2)
        if moves:
            return disjoint_totals(inv, promised, sums=sums, sum_promised=sum_promised)
    return any_totals(inv, neighbours, promised, sums, sum_promised)


def _range(margins: np.ndarray) -> str:
    return f"{margins.min():.4g} to {margins.max():.4g}"


def _sd(view: Any, sums: sparse.csr_array) -> np.ndarray:
    return np.asarray(view.deviation(sums).sd, dtype=float)


def _positive(name: str, value: Any, size: int, exact: np.ndarray, what: str) -> np.ndarray:
    """Margins (size,), those of what the totals fix set to 1: they have no error anyway."""
    try:
        array = np.array(np.broadcast_to(np.asarray(value, dtype=float), (size,)))
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be a number or hold {size} of them, one per {what}; got shape "
            f"{getattr(value, 'shape', type(value).__name__)}."
        ) from None
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        raise ValueError(
            f"`{name}` must be finite and positive; got {array[bad][0]} for {what} "
            f"{int(np.argmax(bad))}. Promise a wide margin where accuracy does not matter."
        )
    impossible = (array == 0) & ~exact
    if impossible.any():
        raise InfeasibleError(
            f"`{name}` promises no error at all for {what} {int(np.argmax(impossible))}, which the "
            "totals do not fix: its loss would be infinite. Widen it, or make it an invariant."
        )
    return np.where(exact, 1.0, array)
