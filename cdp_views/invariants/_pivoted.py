"""G(ν) on weighted totals, by eliminating one cell of every group: O(n), any sign of ν."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._segments import once
from cdp_views.invariants._precision import Precision

if TYPE_CHECKING:
    from cdp_views.invariants.totals import Totals


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["invariant", "nu", "pivot", "at", "s", "kappa", "logdet"],
    meta_fields=["indefinite"],
)
@dataclass(frozen=True)
class Pivoted(Precision):
    """G(ν) on disjoint totals with one pivot cell m per group, x_m = −Σ_r F_r x_r, F = b_r/b_m.

    On the remaining cells r the precision is diag(ν_r) + ν_m F Fᵀ, whose determinant ratio is
    κ = 1 + ν_m s with s = Σ F²/ν_r. Where ν_m is negative (maximum entropy with one dominant
    cell) κ cancels, so the solver's κ = 2u is carried along. κ ≤ 0 marks "no such law".
    """

    invariant: "Totals"
    nu: Array
    pivot: Array  # mask (…, n)
    at: Array  # the pivots' cells (…, G)
    s: Array
    kappa: Array
    logdet: Array
    indefinite: bool

    @staticmethod
    @jax.jit
    def of(invariant: "Totals", nu: Array, pivot: Array, kappa: Array | None) -> "Pivoted":
        """With κ from the solver, or computed where all precisions are positive (`None`)."""
        empty, indefinite = jnp.zeros(()), kappa is not None
        at = invariant.segments.place(pivot)
        law = Pivoted(invariant, nu, pivot, at, empty, empty, empty, indefinite)
        s = invariant.segments.sum(law._ratio**2 / law._nu_rest)
        direct = 1 + law._nu_pivot * s
        # u ≥ ½ means ν_m ≥ 0, and nothing cancels
        kappa = direct if kappa is None else jnp.where(kappa >= 1, direct, kappa)
        return replace(law, s=s, kappa=kappa, logdet=law._logdet(kappa))

    def _logdet(self, kappa: Array) -> Array:
        b = self.invariant._weights_like(self.nu.dtype)
        positive = kappa > 0
        log_rest = jnp.where(self.pivot, 0, jnp.log(jnp.where(self.pivot, 1, self.nu)))
        log_pivot = jnp.log(self._of_pivot(b) ** 2 / self.invariant._norm2(b))
        log_kappa = jnp.where(positive, jnp.log(jnp.where(positive, kappa, 1)), -jnp.inf)
        return jnp.sum(log_rest, -1) + jnp.sum(log_kappa + log_pivot, -1)

    def quadratic(self, x: Array) -> Array:
        """Σ ν_i x_i², as a sum of squares: Σ ν_r(x_r + x_m F_r/(ν_r s))² + κ x_m²/s."""
        x = jnp.asarray(x)
        if not self.indefinite:
            return super().quadratic(x)
        safe = jnp.where(self.s > 0, self.s, 1)  # s = 0: a cell alone in its group, whose x is 0
        x_m = self._of_pivot(x)
        rest = x + self.invariant.segments.spread(x_m / safe) * self._ratio / self._nu_rest
        rest = jnp.where(self.pivot, 0, self._nu_rest * rest * rest)
        return jnp.sum(rest, -1) + jnp.sum(jnp.where(self.s > 0, self.kappa * x_m**2 / safe, 0), -1)

    def colour(self, u: Array) -> Array:
        seg, f = self.invariant.segments, self._ratio
        free = once(jnp.where(self.pivot, 0, u * jax.lax.rsqrt(self._nu_rest)))
        root = jnp.sqrt(self.kappa)
        pull = self._nu_pivot / (root * (1 + root)) * seg.sum(self._weighed(free))
        return self._complete(free - seg.spread(pull) * f / self._nu_rest)

    def covariance_product(self, x: Array) -> Array:
        seg, f, x = self.invariant.segments, self._ratio, jnp.asarray(x)
        y = (x - f * seg.spread(self._of_pivot(x))) / self._nu_rest
        pull = self._nu_pivot / self.kappa * seg.sum(f * y)
        return self._complete(y - seg.spread(pull) * f / self._nu_rest)

    @property
    def variance(self) -> Array:
        seg, f = self.invariant.segments, self._ratio
        pull = seg.spread(self._nu_pivot / self.kappa)
        rest = (1 - pull * f * f / self._nu_rest) / self._nu_rest
        return jnp.where(self.pivot, seg.spread(self.s / self.kappa), rest)

    def squared_length(self, differences: sparse.csr_array) -> np.ndarray:
        if not self.indefinite:
            return super().squared_length(differences)
        at_pivot, rest = self._parted(differences)
        s, kappa = np.asarray(self.s), np.asarray(self.kappa)
        nu, safe = np.asarray(self._nu_rest), np.where(s > 0, s, 1)
        pattern = self._by_group(np.asarray(self._ratio) / nu, ~np.asarray(self.pivot))
        rest = sparse.csr_array(rest + (at_pivot / safe[None, :]) @ pattern)
        # ν is known to eps/κ near the balanced boundary: privacy numbers round up by that
        upward = 1 + 8 * np.finfo(np.float64).eps / np.minimum(kappa, 1)
        here = np.append(upward, 1.0)[np.asarray(self.invariant.segments.labels)]
        return rest.power(2) @ (nu * here) + at_pivot.power(2) @ (kappa / safe * upward)

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        f, nu = np.asarray(self._ratio), np.asarray(self._nu_rest)
        at_pivot, rest = self._parted(queries)
        reduced = sparse.csr_array(rest - at_pivot @ self._by_group(f, ~np.asarray(self.pivot)))
        pull = np.asarray(self._nu_pivot / self.kappa)
        group = self._by_group(f / nu, ~np.asarray(self.pivot))
        return reduced.power(2) @ (1 / nu) - sparse.csr_array(reduced @ group.T).power(2) @ pull

    def _by_group(self, value: np.ndarray, chosen: np.ndarray) -> sparse.csr_array:
        """The chosen cells' values as rows, one per group: (G, n)."""
        labels, count = np.asarray(self.invariant.segments.labels), self.invariant.rank
        cells = np.flatnonzero(chosen & (labels < count))
        shape = (count, self.invariant.n)
        return sparse.csr_array((value[cells], (labels[cells], cells)), shape=shape)

    def _parted(self, rows: sparse.csr_array) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Rows (q, n) as their entries at pivots, by group (q, G), and all the others (q, n)."""
        pivot = np.asarray(self.pivot)
        at_pivot = sparse.csr_array(rows @ self._by_group(np.ones(pivot.size), pivot).T)
        return at_pivot, sparse.csr_array(rows.multiply(~pivot[None, :]))

    def projected_variance(self, variance: Array) -> Array:
        seg, b = self.invariant.segments, self.invariant._weights_like(self.nu.dtype)
        share = b / self.nu / self._total_share(b)
        back = share * share * seg.spread(seg.sum(b * b * variance))
        return variance * (1 - 2 * share * b) + back

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        b = self.invariant._weights_like(self.nu.dtype)
        share = np.asarray(b / self.nu / self._total_share(b), dtype=np.float64)
        rows = self.invariant.matrix
        pattern = sparse.csr_array(
            (share[rows.indices], rows.indices, rows.indptr), shape=rows.shape
        )
        return sparse.csr_array(queries - sparse.csr_array(queries @ pattern.T) @ rows)

    def _total_share(self, b: Array) -> Array:
        """Σ b²/ν of each cell's group."""
        return self.invariant._outside(self.invariant.segments.sum(b * b / self.nu), 1)

    @property
    def _nu_rest(self) -> Array:
        return jnp.where(self.pivot, 1, self.nu)

    @property
    def _nu_pivot(self) -> Array:
        return self._of_pivot(self.nu)

    @property
    def _ratio(self) -> Array:
        """F at the remaining cells of every group, 0 at pivots and free cells."""
        b = self.invariant._weights_like(self.nu.dtype)
        if self.invariant.weights is None:
            return jnp.where(self.pivot, 0, b)
        whole = self.invariant.segments.spread(self._of_pivot(b))
        return jnp.where(
            self.pivot | ~self.invariant.segments.member, 0, b / jnp.where(whole != 0, whole, 1)
        )

    def _of_pivot(self, x: Array) -> Array:
        """x at each group's pivot: (…, n) → (…, G)."""
        if self.at.ndim == 1:
            return x.at[..., self.at].get(mode="promise_in_bounds", wrap_negative_indices=False)
        shape = jnp.broadcast_shapes(x.shape[:-1], self.at.shape[:-1])
        x, at = (jnp.broadcast_to(a, (*shape, a.shape[-1])) for a in (x, self.at))
        return jnp.take_along_axis(x, at, axis=-1)

    def _weighed(self, rest: Array) -> Array:
        """F_r x_r, where x is 0 at the pivots."""
        return rest if self.invariant.weights is None else self._ratio * rest

    def _complete(self, rest: Array) -> Array:
        """Fill each pivot with what keeps its total: x_m = −Σ F x_r, whatever the scales."""
        rest = jnp.where(self.pivot, 0, rest)
        own = -self.invariant.segments.sum(self._weighed(rest))
        return jnp.where(self.pivot, self.invariant.segments.spread(own), rest)
