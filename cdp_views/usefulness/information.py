"""How far noise with exact totals is from independent noise: entropy, divergence, correlation."""

from typing import Any

import jax
import numpy as np

from cdp_views._float64 import in_float64

_NAN = float("nan")


@in_float64
def against_independent(view: Any, base: Any) -> dict[str, float]:
    """Entropy of a view, its divergence from independent noise, and its total correlation.

    `kl` = KL(view ‖ base given the totals) is how far it is from the independent base of the same
    scale, restricted to the tables that keep the totals (elsewhere no such noise lives): for
    Normal noise ½ [Σ Var_i/σ_i² − d] + h(base) − h(view).

    `total_correlation` = Σ_i h(X_i) − h(X) over all but one cell of every group (the others
    determine it; averaged over which one is left out): 0 if those cells are independent.

    Args:
        view: the mechanism, or a baseline without a density.
        base: the independent noise given the totals, at the same scale; None where the view is
            independent noise itself.

    Returns:
        `entropy`, `kl`, `total_correlation`, in nats; NaN where no closed form is known.

    Example:
        >>> import cdp_views as cdp, numpyro.distributions as dist
        >>> inv = cdp.totals(["a"] * 3)
        >>> view = cdp.Conditioned(dist.Normal(np.zeros(3), 1.0), inv)
        >>> found = against_independent(view, view)
        >>> found["kl"], round(found["total_correlation"], 4)  # −½ log(1 − ¼)
        (0.0, 0.1438)

    Reference: Watanabe 1960 (total correlation); [L] §3 (as close to independent as possible).
    """
    found = {"entropy": _entropy(view), "kl": _NAN, "total_correlation": _NAN}
    if not hasattr(view, "invariant"):
        return found
    if base is None:
        return found | {"kl": 0.0, "total_correlation": 0.0}
    if getattr(view, "noise_name", "") != "normal":
        same = view.kind == base.kind
        return found | ({"kl": 0.0} if same else {})
    inv = view.invariant
    variance = np.broadcast_to(np.asarray(view.variance, dtype=np.float64), (inv.n,))
    scale = np.broadcast_to(np.asarray(view.scale, dtype=np.float64), (inv.n,))
    gap = 0.5 * (float(np.sum(variance / scale**2)) - inv.dim) + _entropy(base) - found["entropy"]
    # Rounding of what is never below 0; the same law has exactly 0.
    found["kl"] = max(gap, 0.0) if abs(gap) > 1e-10 * max(1.0, inv.dim) else 0.0
    groups = inv.plain_groups
    if groups is None:
        return found
    labels = np.asarray(groups.labels)
    free = labels >= groups.count
    sizes = np.append(np.bincount(labels, minlength=groups.count + 1)[: groups.count], 0)
    # A cell of a group of m is left out once in m times.
    chance = np.where(free, 1.0, 1 - 1 / np.maximum(sizes[labels], 1))
    cells = np.where(variance > 0, 0.5 * np.log(2 * np.pi * np.e * np.maximum(variance, 1e-300)), 0)
    volume = 0.5 * np.log(np.maximum(sizes[: groups.count], 1)).sum()
    found["total_correlation"] = float(np.sum(chance * cells) - found["entropy"] + volume)
    return found


def _entropy(view: Any) -> float:
    try:
        return float(jax.numpy.reshape(view.entropy(), ()))
    except (AttributeError, NotImplementedError):
        return _NAN
