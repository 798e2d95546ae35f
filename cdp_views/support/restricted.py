"""The prior for a true table whose totals are data: a base density on {A x = total}."""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

from cdp_views import _checks
from cdp_views._bases import over_cells, without
from cdp_views.invariants import Invariant
from cdp_views.support.affine import AffineSubspace
from cdp_views.support.nonnegative import NonnegativeTotals


class Restricted(dist.Distribution):
    """The base's own density on {A x = total}, **not** renormalised: log p(x) = Σ log base(x_i).

    Exact totals are data about the base's parameters. `cdp.Conditioned` as a prior divides by
    the density of the total and so throws that evidence away; `Restricted` keeps it. Use it for
    the true table in a model; its total mass is the density of the total under the base (with
    respect to Hausdorff measure, up to the constant √det AAᵀ).

    Args:
        base: any continuous NumPyro distribution over the cells (…, n), real or nonnegative; a
            scalar one is repeated over the cells.
        invariant: what holds exactly.
        total: the known totals (k,) or (…, k), in counts. Under a base on [0, ∞) a cell alone with
            a total of 0, such as a structural zero, is 0, and the density leaves it out.

    `sample` gives a starting point on the support (a base draw moved onto it), not a draw of a
    normalised law, which is what `init_to_uniform` and tracing need.

    Raises:
        ValueError: if shapes or redundant totals disagree.
        UnsupportedError: for a discrete base, one bounded otherwise than below by 0, or one whose
            cells depend on each other where some can only be 0.

    Example:
        >>> import cdp_views as cdp, numpyro.distributions as dist
        >>> prior = cdp.Restricted(dist.Normal(10.0, 3.0), cdp.totals(["a", "a"]), [25.0])
        >>> prior.event_shape
        (2,)

    Reference: the conditional density with respect to Hausdorff measure by the coarea formula,
    Diaconis, Holmes and Shahshahani 2013, §2; docs/notation.md, "Reference measure".
    """

    pytree_data_fields = ("base_dist", "_support_constraint")

    def __init__(
        self, base: Any, invariant: Invariant, total: Any, *, validate_args: bool | None = None
    ) -> None:
        self.base_dist = over_cells(base, invariant.n)
        self._support_constraint = at = _support(self.base_dist, invariant, total)
        if isinstance(at, NonnegativeTotals):
            empty = at.empty
            if not _checks.is_concrete(empty) or bool(jnp.any(empty)):
                self.base_dist = without(self.base_dist, empty)
        batch = jnp.broadcast_shapes(
            self.base_dist.batch_shape, jnp.shape(self._support_constraint.origin)[:-1]
        )
        super().__init__(batch, (invariant.n,), validate_args=validate_args)

    @property
    def invariant(self) -> Invariant:
        """What holds exactly."""
        return self._support_constraint.invariant

    @property
    def support(self) -> AffineSubspace | NonnegativeTotals:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._support_constraint

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        inside = self.support(value)
        safe = jnp.where(inside[..., None], value, self.support.feasible_like(value))
        return jnp.where(inside, self.base_dist.log_prob(safe), -jnp.inf)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        draw = jnp.asarray(self.base_dist.expand(self.batch_shape).sample(key, sample_shape))
        origin = jnp.asarray(self.support.origin, draw.dtype)
        if isinstance(self.support, AffineSubspace):
            return origin + self.invariant.project(draw - origin)
        segments = self.support.segments
        raked = draw * segments.spread(segments.sum(origin) / segments.sum(draw))
        return jnp.where(segments.member, raked, draw)

    @classmethod
    def infer_shapes(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def _support(
    base: dist.Distribution, invariant: Invariant, total: Any
) -> AffineSubspace | NonnegativeTotals:
    kind = base.support
    while isinstance(kind, constraints._IndependentConstraint):
        kind = kind.base_constraint
    if kind in (constraints.real, constraints.real_vector):
        return AffineSubspace(invariant, total)
    if kind in (constraints.positive, constraints.nonnegative):
        return NonnegativeTotals(invariant, total)
    raise _checks.UnsupportedError(
        f"cdp.Restricted needs a base on the real line or on [0, ∞); got support {kind}. For "
        "whole-number tables use a continuous base with the same mean and variance."
    )
