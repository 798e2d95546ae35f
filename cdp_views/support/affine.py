"""The affine subspace {x : A x = total} as a NumPyro constraint, and its isometry."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpyro.distributions import constraints
from numpyro.distributions.transforms import Transform, biject_to

from cdp_views.invariants import Invariant
from cdp_views.support._totals import point_of


class AffineSubspace(constraints.Constraint):
    """{x ∈ Rⁿ : A x = total}, the support of noisy tables whose totals are exact.

    A point belongs if every row of |A(x − x₀)| is within 8·eps·|A|(|x| + |x₀|): rounding only,
    also for large totals in float32. `biject_to` maps Rᵈ by the isometry x₀ + K z (log|det| = 0),
    so a density in z is the density with respect to Hausdorff measure.

    Args:
        invariant: what must hold exactly, n cells.
        total: A x, (k,) or batched (…, k); `None` with no `origin` means 0 (pure noise).
        origin: a point x₀ (…, n) of the subspace, instead of `total`. For a table of millions in
            float32 use the released table: coordinates are then the noise, not the table.

    Raises:
        ValueError: if both are given, or shapes or redundant totals disagree.

    Example:
        >>> import cdp_views as cdp
        >>> space = cdp.AffineSubspace(cdp.totals(["a", "a", "b"]), total=[3.0, 5.0])
        >>> bool(space([1.0, 2.0, 5.0])), bool(space([1.0, 2.5, 5.0]))
        (True, False)

    Reference: docs/notation.md, "Reference measure".
    """

    event_dim = 1
    is_discrete = False

    def __init__(self, invariant: Invariant, total: Any = None, *, origin: Any = None) -> None:
        if total is not None and origin is not None:
            raise ValueError("`total` and `origin` both fix the subspace. Give only one of them.")
        if total is not None:
            origin = point_of(invariant, total)
        elif origin is None:
            origin = np.zeros(invariant.n)
        elif np.shape(origin)[-1:] != (invariant.n,):
            raise ValueError(
                f"`origin` must have {invariant.n} cells on its last axis; got shape "
                f"{np.shape(origin)}."
            )
        self.invariant = invariant
        self.origin = origin

    def __call__(self, x: Any) -> Array:
        """Whether each x (…, n) keeps the totals: (…)."""
        x = jnp.asarray(x)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            x = x.astype(jnp.result_type(float))
        return _keeps(self.invariant, x, jnp.asarray(self.origin, x.dtype))

    def feasible_like(self, prototype: Any) -> Array:
        dtype = jnp.result_type(prototype, float)
        return jnp.broadcast_to(jnp.asarray(self.origin, dtype), jnp.shape(prototype))

    def eq(self, other: object, static: bool = False) -> Any:
        if not isinstance(other, AffineSubspace):
            return False
        same = jnp.array_equiv(self.origin, other.origin) & self.invariant.equals(other.invariant)
        return bool(same) if static else same

    def tree_flatten(self) -> Any:
        return (self.invariant, self.origin), (("invariant", "origin"), {})

    def __repr__(self) -> str:
        return f"AffineSubspace(n={self.invariant.n}, rank={self.invariant.rank})"


@jax.jit
def _keeps(invariant: Invariant, x: Array, origin: Array) -> Array:
    # yes or no has no slope: nothing of this is kept for a backward pass
    x, origin = lax.stop_gradient((x, origin))
    slack, size = invariant.residual(x, origin)
    kept = slack <= 8 * jnp.finfo(x.dtype).eps * size
    # a sum of zeros, or NaN: three times as fast as all(isfinite(x))
    return jnp.all(kept, axis=-1) & jnp.isfinite(jnp.sum(x - x, axis=-1))


class AffineTransform(Transform):
    """z ↦ x₀ + K z, an isometry of Rᵈ onto the subspace."""

    domain = constraints.real_vector  # pyright: ignore[reportAssignmentType]

    def __init__(self, invariant: Invariant, origin: Any) -> None:
        self.invariant = invariant
        self.origin = origin

    @property
    def codomain(self) -> AffineSubspace:
        return AffineSubspace(self.invariant, origin=self.origin)

    def __call__(self, x: Any) -> Array:
        noise = self.invariant.embed(x)
        return jnp.asarray(self.origin, noise.dtype) + noise

    def _inverse(self, y: Any) -> Array:
        return self.invariant.coordinates(y - jnp.asarray(self.origin, jnp.result_type(y, float)))

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Array:
        return jnp.zeros(jnp.shape(x)[:-1], jnp.result_type(x, float))

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], self.invariant.n)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], self.invariant.dim)

    def eq(self, other: object, static: bool = False) -> Any:
        return isinstance(other, AffineTransform) and self.codomain.eq(other.codomain, static)

    def tree_flatten(self) -> Any:
        return (self.invariant, self.origin), (("invariant", "origin"), {})


@biject_to.register(AffineSubspace)
def _(constraint: AffineSubspace) -> AffineTransform:
    return AffineTransform(constraint.invariant, constraint.origin)
