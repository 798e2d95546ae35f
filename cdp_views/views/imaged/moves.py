"""Where imaging moves a noise: a linear map onto ker A, and the second moments that it leaves."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._segments import Segments
from cdp_views.invariants import Invariant, Precision, Totals

_TIE = 1e-12


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nearest:
    """Π = Cov_{G(w)} diag(w): to the closest point in Σ w_i (y_i − z_i)², any totals."""

    metric: Precision
    weight: Array

    @staticmethod
    def of(invariant: Invariant, weights: Array | None, dtype: Any) -> "Nearest":
        weight = jnp.ones((1,), dtype) if weights is None else jnp.asarray(weights, dtype)
        return Nearest(invariant.restrict(weight), weight)

    def apply(self, x: Array) -> Array:
        """Π x."""
        return self.metric.covariance_product(self.weight * x)

    def transpose(self, x: Array) -> Array:
        """Πᵀ x."""
        return self.weight * self.metric.covariance_product(x)

    def variance(self, spread: Array) -> Array:
        """diag(Π diag(spread) Πᵀ)."""
        return self.metric.projected_variance(spread)

    def direction(self, groups: Totals) -> Array:
        """The fibre u (…, n) along which each group's worlds move to one point."""
        return groups._weights_like(self.weight.dtype) / self.weight


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Along:
    """Π = I − u bᵀ/(b·u) in every group: its residual is taken along u, where u may have zeros."""

    segments: Segments
    b: Array
    u: Array

    @staticmethod
    def cheapest(invariant: Invariant, weights: Array | None, dtype: Any) -> "Along":
        """The closest point in Σ w_i |y_i − z_i|: the cells of largest |b_i|/w_i move, u_i = 1/b_i.

        Tied cells (to 12 digits) take equal shares of the residual, so they move by equal costs.
        """
        groups = plain_or_refuse(invariant)
        segments, b = groups.segments, groups._weights_like(dtype)
        worth = jnp.abs(b) / (1 if weights is None else jnp.asarray(weights, dtype))
        slack = _TIE if dtype == jnp.float64 else 1e-6
        top = segments.member & (worth >= (1 - slack) * segments.spread(segments.max(worth)))
        return Along(segments, b, jnp.where(top, 1 / jnp.where(top, b, 1), 0))

    def _share(self, a: Array, x: Array) -> Array:
        return self.segments.spread(self.segments.sum(a * x) / self.segments.sum(self.b * self.u))

    def apply(self, x: Array) -> Array:
        """Π x, twice: what rounding left of the first residual is relative to x, not to Π x."""
        x = x - self.u * self._share(self.b, x)
        return x - self.u * self._share(self.b, x)

    def transpose(self, x: Array) -> Array:
        """Πᵀ x."""
        return x - self.b * self._share(self.u, x)

    def variance(self, spread: Array) -> Array:
        """diag(Π diag(spread) Πᵀ), in squares: nothing cancels."""
        pull = self.u / jnp.where(
            self.segments.member, self.segments.spread(self.segments.sum(self.b * self.u)), 1
        )
        spread = jnp.broadcast_to(spread, jnp.broadcast_shapes(spread.shape, self.b.shape))
        others = self.segments.spread(self.segments.sum(self.b**2 * spread)) - self.b**2 * spread
        return spread * (1 - pull * self.b) ** 2 + pull**2 * jnp.maximum(others, 0)

    def direction(self, groups: Totals) -> Array:
        """The fibre u (…, n)."""
        del groups
        return self.u

    def rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        """W Π for sparse rows W, on the host."""
        labels = np.asarray(self.segments.labels)
        b, u = (np.broadcast_to(np.asarray(a, np.float64), labels.shape) for a in (self.b, self.u))
        inside = np.flatnonzero(labels < self.segments.count)
        shape = (self.segments.count, labels.size)
        size = np.bincount(labels[inside], (b * u)[inside], self.segments.count)
        total = sparse.csr_array((b[inside], (labels[inside], inside)), shape=shape)
        back = sparse.csr_array(
            ((u / np.append(size, 1)[labels])[inside], (labels[inside], inside)), shape=shape
        )
        return sparse.csr_array(queries - sparse.csr_array(queries @ back.T) @ total)


Move = Nearest | Along


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moved:
    """Noise scale·U moved by Π, with U independent of variance `second` (which may be inf)."""

    move: Move
    scale: Array
    second: Array

    def colour(self, u: Array) -> Array:
        """A draw, as a map of n independent variables of unit scale."""
        return self.move.apply(self.scale * u)

    @property
    def _spread(self) -> tuple[Array, Array]:
        finite = jnp.isfinite(self.second)
        shape = jnp.broadcast_shapes(self.scale.shape, finite.shape)
        spread = self.scale**2 * jnp.where(finite, self.second, 0)
        return jnp.broadcast_to(spread, shape), jnp.broadcast_to(1.0 * ~finite, shape)

    @property
    def variance(self) -> Array:
        """diag Σ: inf in every cell that some noise of infinite variance reaches."""
        spread, infinite = self._spread
        reached = self.move.variance(infinite.astype(spread.dtype))
        return jnp.where(reached > 1e-9, jnp.inf, self.move.variance(spread))

    def covariance_product(self, x: Array) -> Array:
        """Σ x; not a number where a variance in it is infinite."""
        spread, infinite = self._spread
        back = self.move.transpose(x)
        endless = jnp.any((infinite > 0) & (jnp.abs(back) > 1e-9), -1, keepdims=True)
        return jnp.where(endless, jnp.nan, self.move.apply(spread * back))


def plain_or_refuse(invariant: Invariant) -> Totals:
    """The groups, where `metric="l1"` has one closest point in closed form."""
    groups = invariant.disjoint_groups
    if groups is None:
        raise _checks.UnsupportedError(
            '`metric="l1"` of overlapping totals is a linear programme whose solution is not '
            'unique. Use metric="l2" with weights=, or disjoint or nested totals.'
        )
    return groups


def log_volume(groups: Totals, u: Array) -> Array:
    """log of b·u/|b|, what ds along u adds to the volume of V: (…, G)."""
    b = groups._weights_like(u.dtype)
    return jnp.log(groups.segments.sum(b * u)) - 0.5 * jnp.log(groups._norm2(b))
