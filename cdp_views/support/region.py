"""Tables with exact totals and bounds."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from numpyro.distributions import constraints

from cdp_views.invariants import Region
from cdp_views.support.affine import AffineSubspace


class WithinRegion(constraints.Constraint):
    """{x : A x = A origin, B x ≥ lower}: a closed polyhedron, faces included.

    Bounds hold up to rounding, 1e-12 (1e-5 in float32) of the row's size.

    Args:
        region: totals and bounds over n cells.
        origin: a point (…, n) that has the totals, in counts.

    Example:
        >>> import cdp_views as cdp
        >>> from cdp_views.support import WithinRegion
        >>> space = WithinRegion(cdp.totals(["a", "a"]) & cdp.nonnegative(2), [1.0, 2.0])
        >>> bool(space([3.0, 0.0])), bool(space([4.0, -1.0]))
        (True, False)

    Reference: [TV] Definition 3.1 (the constraint set); docs/notation.md, "projection".
    """

    is_discrete = False
    event_dim = 1

    def __init__(self, region: Region, origin: Any) -> None:
        self.region = region
        self.origin = origin

    def __call__(self, x: Any) -> Array:
        """Whether each x (…, n) keeps totals and bounds: (…)."""
        x = jnp.asarray(x)
        x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))
        rows = self.region.bounds
        B = jnp.asarray(rows.matrix.toarray(), x.dtype) if not rows.cellwise else None
        value = x if B is None else x @ B.T
        size = jnp.abs(x) if B is None else jnp.abs(x) @ jnp.abs(B).T
        # a cell on its bound carries the rounding of the largest one, with which it was solved
        size = size + jnp.max(jnp.abs(x), -1, keepdims=True)
        lower = jnp.asarray(rows.lower, x.dtype)
        slack = (1e-12 if x.dtype == jnp.float64 else 1e-5) * (size + jnp.abs(lower))
        within = jnp.all(value >= lower - slack, -1)
        return within & AffineSubspace(self.region.equalities, origin=self.origin)(x)

    def feasible_like(self, prototype: Any) -> Array:
        return jnp.broadcast_to(
            jnp.asarray(self.origin, jnp.result_type(prototype, float)), jnp.shape(prototype)
        )

    def eq(self, other: object, static: bool = False) -> Any:
        return isinstance(other, WithinRegion) and self.region is other.region

    def tree_flatten(self) -> Any:
        return (self.origin,), (("origin",), {"region": self.region})
