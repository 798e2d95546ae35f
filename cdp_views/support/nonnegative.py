"""Tables that are nonnegative and have exact totals: shares of each total."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.distributions import constraints
from numpyro.distributions.transforms import Transform, biject_to

from cdp_views import _checks
from cdp_views._segments import Segments
from cdp_views.invariants import Invariant
from cdp_views.support._totals import point_of
from cdp_views.support.affine import AffineSubspace


class NonnegativeTotals(constraints.Constraint):
    """{x ≥ 0 : A x = total} for plain totals of disjoint groups, the support of a true table.

    `biject_to` maps coordinates z by x = c_g · softmax_g(log x₀ + D K z), group by group, where
    D = diag(`spread`/x₀): z = 0 is the table x₀ = `near`, and a step of 1 in z moves a cell by
    about its spread. So a sampler that starts near 0 with steps of order 1 starts near x₀ with
    steps of the noise. The volume factor with respect to Hausdorff measure is
    Σ_g[(m_g − 1) log c_g + Σ log D_i + log Σ 1/D_i] + Σ log shares, with m_g the size and c_g the
    total of group g. A cell in no group is x₀ exp(D z). A cell that is alone under a total of 0,
    such as a structural zero, is 0.

    Args:
        invariant: plain (unweighted) totals, disjoint or nested.
        total: the totals in counts, (k,) or batched (…, k): positive, or 0 of one cell alone.
        near: x₀ (n,), positive counts, raked to the totals; `None` for equal shares (a cell in no
            group: 1).
        spread: counts, positive, () or (n,); `None` for x₀ itself (D = 1).

    Raises:
        UnsupportedError: for weighted or overlapping totals.
        ValueError: if a total of several cells is not positive (they are all 0: make them
            structural zeros), or `near` or `spread` is not positive or of another shape.

    Example:
        >>> import cdp_views as cdp
        >>> space = cdp.NonnegativeTotals(cdp.totals(["a", "a", "b"]), [3.0, 5.0])
        >>> bool(space([0.5, 2.5, 5.0])), bool(space([-1.0, 4.0, 5.0]))
        (True, False)

    Reference: Aitchison 1986, The Statistical Analysis of Compositional Data, §4 (centred log
    ratios); Egozcue et al. 2003 (their orthonormal coordinates).
    """

    event_dim = 1
    is_discrete = False

    def __init__(
        self, invariant: Invariant, total: Any, *, near: Any = None, spread: Any = None
    ) -> None:
        segments = invariant.plain_groups
        if segments is None:
            raise _checks.UnsupportedError(
                "cdp.NonnegativeTotals needs unweighted totals of disjoint or nested groups. Use "
                "cdp.AffineSubspace and put nonnegativity into the prior's density."
            )
        self.invariant = invariant
        self.origin = point_of(invariant, total)
        group_total = segments.sum(self.origin)
        fine = (group_total > 0) | ((group_total == 0) & (segments.sizes == 1))
        if _checks.is_concrete(fine) and not bool(jnp.all(fine)):
            raise ValueError(
                "`total` must leave every group of several cells something to share; after "
                f"subtracting nested totals group {int(jnp.argmin(jnp.atleast_2d(fine).all(0)))} "
                "has none. Its cells are all 0: make them cdp.structural_zeros, or leave them out."
            )
        for name, given in (("near", near), ("spread", spread)):
            if given is None:
                continue
            if np.shape(given) not in ((), (invariant.n,)):
                raise ValueError(
                    f"`{name}` must have shape ({invariant.n},), one per cell; got "
                    f"{np.shape(given)}."
                )
            _checks.positive(name, given, "It sets the scale of the coordinates.")
        self.near, self.spread = near, spread

    @property
    def segments(self) -> Segments:
        """The disjoint groups."""
        segments = self.invariant.plain_groups
        assert segments is not None
        return segments

    @property
    def empty(self) -> Array:
        """Cells (…, n) that share a total of 0, and so are 0."""
        segments = self.segments
        none = segments.sum(jnp.asarray(self.origin)) == 0
        return segments.member & (segments.spread(none.astype(jnp.int32)) == 1)

    def __call__(self, x: Any) -> Array:
        """Whether each x (…, n) is nonnegative and keeps the totals: (…)."""
        inside = AffineSubspace(self.invariant, origin=self.origin)(x)
        return inside & jnp.all(jnp.asarray(x) >= 0, axis=-1)

    def feasible_like(self, prototype: Any) -> Array:
        free = ~self.segments.member  # `lift` gives equal shares, and 0 to cells in no group
        value = jnp.where(free, 1.0, jnp.asarray(self.origin, jnp.result_type(prototype, float)))
        return jnp.broadcast_to(value, jnp.shape(prototype))

    def eq(self, other: object, static: bool = False) -> Any:
        if not isinstance(other, NonnegativeTotals):
            return False
        same = jnp.array_equiv(self.origin, other.origin) & self.invariant.equals(other.invariant)
        for mine, others in ((self.near, other.near), (self.spread, other.spread)):
            if mine is None or others is None:
                same = same & (mine is others)
            else:
                same = same & jnp.array_equiv(mine, others)
        return bool(same) if static else same

    def tree_flatten(self) -> Any:
        names = ("invariant", "origin", "near", "spread")
        return tuple(getattr(self, name) for name in names), (names, {})

    def __repr__(self) -> str:
        return f"NonnegativeTotals(n={self.invariant.n}, rank={self.invariant.rank})"


class SharesTransform(Transform):
    """z ↦ c_g · softmax_g(log x₀ + D K z), and its inverse, the scaled log shares."""

    domain = constraints.real_vector  # pyright: ignore[reportAssignmentType]

    def __init__(self, space: NonnegativeTotals) -> None:
        self.space = space

    @property
    def codomain(self) -> NonnegativeTotals:
        return self.space

    def _centre(self, dtype: Any) -> tuple[Array, Array]:
        """log x₀ up to a constant of each group, and D, (n,) each."""
        one = jnp.ones((self.space.invariant.n,), dtype)
        if self.space.near is None and self.space.spread is None:
            return 0 * one, one
        near = one * jnp.asarray(self._raked(dtype))
        step = one if self.space.spread is None else jnp.asarray(self.space.spread, dtype) / near
        return jnp.log(near), step

    def _raked(self, dtype: Any) -> Array:
        """x₀ (n,), scaled to the totals."""
        segments, total = self.space.segments, self._group_total(dtype)
        near = self.space.near
        near = jnp.ones((), dtype) if near is None else jnp.asarray(near, dtype)
        near = jnp.broadcast_to(near, (self.space.invariant.n,))
        raked = near * segments.spread(total / segments.sum(near))
        return jnp.where(segments.member & ~self.space.empty, raked, near)

    def _log_shares(self, z: Any) -> Array:
        """log softmax of each group, and log x itself for cells in no group."""
        segments = self.space.segments
        z = self.space.invariant.embed(z)
        centre, step = self._centre(z.dtype)
        logit = centre + step * z
        logit = logit - segments.spread(segments.max(logit))
        return logit - segments.spread(jnp.log(segments.sum(jnp.exp(logit))))

    def _group_total(self, dtype: Any) -> Array:
        return self.space.segments.sum(jnp.asarray(self.space.origin, dtype))

    def __call__(self, x: Any) -> Array:
        shares, segments = jnp.exp(self._log_shares(x)), self.space.segments
        whole = segments.spread(self._group_total(shares.dtype))
        return jnp.where(segments.member, whole * shares, shares)

    def _inverse(self, y: Any) -> Array:
        # D K z = log y − log x₀ up to a constant of each group, and K z sums to 0 in each group
        segments, y = self.space.segments, jnp.where(self.space.empty, 1, jnp.asarray(y))
        centre, step = self._centre(jnp.result_type(y, float))
        log_y = (jnp.log(y) - centre) / step
        level = segments.spread(segments.sum(log_y) / segments.sum(1 / step))
        return self.space.invariant.coordinates(log_y - jnp.where(segments.member, level / step, 0))

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Array:
        log_shares, segments = self._log_shares(x), self.space.segments
        _, step = self._centre(log_shares.dtype)
        sizes = segments.sizes.astype(log_shares.dtype)
        total = jnp.where(sizes == 1, 1, self._group_total(log_shares.dtype))
        per_group = (sizes - 1) * jnp.log(total)
        per_group += jnp.log(segments.sum(1 / step))
        return jnp.sum(log_shares + jnp.log(step), -1) + jnp.sum(per_group, -1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], self.space.invariant.n)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], self.space.invariant.dim)

    def eq(self, other: object, static: bool = False) -> Any:
        return isinstance(other, SharesTransform) and self.space.eq(other.space, static)

    def tree_flatten(self) -> Any:
        return (self.space,), (("space",), {})


@biject_to.register(NonnegativeTotals)
def _(constraint: NonnegativeTotals) -> SharesTransform:
    return SharesTransform(constraint)
