"""Tables of whole numbers with exact totals."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.distributions import constraints

from cdp_views.invariants import Invariant


class WholeTotals(constraints.Constraint):
    """{x ∈ Zⁿ : A x = A origin, x ≥ lower}, with `==`: differences of whole numbers are exact.

    Args:
        invariant: totals whose weights are whole numbers.
        origin: whole numbers (…, n), a point of it.
        lower: (n,), or None for no bound.

    Example:
        >>> import cdp_views as cdp
        >>> from cdp_views.support import WholeTotals
        >>> space = WholeTotals(cdp.totals(["a", "a"]), [1, 2])
        >>> bool(space([3, 0])), bool(space([3, 1])), bool(space([1.5, 1.5]))
        (True, False, False)

    Reference: Ghosh, Roughgarden and Sundararajan 2012 (noise on whole numbers).
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, invariant: Invariant, origin: Any, lower: Any = None) -> None:
        self.invariant = invariant
        self.origin = origin
        self.lower = lower

    def __call__(self, x: Any) -> Array:
        """Whether each x (…, n) is whole and keeps the totals: (…)."""
        step = difference(x, self.origin)
        kept = jnp.all(self.invariant.evaluate(step) == 0, -1)
        kept = kept & jnp.all(step == jnp.round(step), -1)
        if self.lower is None:
            return kept
        return kept & jnp.all(step >= difference(np.ceil(self.lower), self.origin), -1)

    def feasible_like(self, prototype: Any) -> Array:
        dtype = jnp.result_type(prototype)
        return jnp.broadcast_to(jnp.asarray(self.origin, dtype), jnp.shape(prototype))

    def eq(self, other: object, static: bool = False) -> Any:
        if not isinstance(other, WholeTotals):
            return False
        if (self.lower is None) != (other.lower is None):
            return False
        same = jnp.array_equiv(self.origin, other.origin) & self.invariant.equals(other.invariant)
        if self.lower is not None:
            same = same & jnp.array_equiv(self.lower, other.lower)
        return bool(same) if static else same

    def tree_flatten(self) -> Any:
        names = ("invariant", "origin", "lower")
        return tuple(getattr(self, name) for name in names), (names, {})

    def __repr__(self) -> str:
        return f"WholeTotals(n={self.invariant.n}, rank={self.invariant.rank})"


def difference(x: Any, origin: Any) -> Array:
    """x − origin as floating numbers, subtracted as integers first where both are."""
    x = jnp.asarray(x)
    floating = jnp.result_type(float)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return (x - jnp.asarray(origin, x.dtype)).astype(floating)
    if isinstance(origin, np.ndarray):
        origin = origin.astype(np.float64)
    return x - jnp.asarray(origin, x.dtype)
