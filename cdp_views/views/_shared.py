"""What the three factories do first: take the base apart and choose the class by its family."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from cdp_views import _checks
from cdp_views._checks import is_concrete
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant
from cdp_views.noise import Parts, parts
from cdp_views.support._totals import check_total


def choose(base: Any, invariant: Invariant, table: dict[str, Any], name: str) -> tuple[Any, Parts]:
    """The final class for this base, and the base's parts."""
    if not isinstance(invariant, Invariant):
        raise TypeError(
            f"`invariant` must come from cdp.totals or cdp.linear; got {type(invariant).__name__}."
        )
    pieces = parts(base, invariant.n)
    if pieces.family not in table:
        raise _checks.UnsupportedError(
            f"cdp.{name} of {pieces.family} noise is not built. Use real noise (dist.Normal, "
            "dist.Laplace, …), or cdp.Conditioned or cdp.Imaged."
        )
    return table[pieces.family], pieces


def shift_to(invariant: Invariant, loc: Any, total: Any) -> Any:
    """The shortest step from loc to {A y = total}; `None` where loc's own totals are kept."""
    if total is None:
        return None
    total = check_total(invariant, total)
    if is_concrete(invariant, loc, total):
        return _exact_shift(invariant, loc, total)
    return invariant.lift(jnp.asarray(total) - invariant.evaluate(loc))


@in_float64
def _exact_shift(invariant: Invariant, loc: Any, total: Any) -> np.ndarray:
    """In float64 on the host: a total of millions against its own small change."""
    return np.asarray(invariant.lift(float64(total) - invariant.evaluate(float64(loc))))
