"""G(ν) on weighted totals, by eliminating one cell of every group: O(n), any sign of ν."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero
from scipy import sparse

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
        return _sum_of_squares(self, x) if self.indefinite else super().quadratic(x)

    def colour(self, u: Array) -> Array:
        seg, root = self.invariant.segments, jnp.sqrt(self.kappa)
        cells, whole, free, rest = (self.pivot, self.nu, u), (), _free, _rest
        if self.invariant.weights is not None:
            b = self.invariant._weights_like(self.nu.dtype)
            whole = (self._of_pivot(jnp.broadcast_to(b, self.nu.shape)),)
            cells, free, rest = (*cells, b), _free_weighed, _rest_weighed
        pull = self._nu_pivot / (root * (1 + root)) * seg.accumulate(free, cells, whole)
        # x_m = −Σ F x_r once more over the cells: κ knows it only to the rounding of its own sums,
        # many times that of x where a group is large
        own = -seg.accumulate(rest, cells, (pull, *whole))
        x = _rest(self.pivot, self.nu, u, seg.spread(pull), self._ratio)
        return jnp.where(self.pivot, seg.spread(own), x)

    def settle(self, x: Array) -> Array:
        rest = jnp.where(self.pivot, 0, x)
        own = -self.invariant.segments.sum(self._weighed(rest))
        return jnp.where(self.pivot, self.invariant.segments.spread(own), rest)

    def covariance_product(self, x: Array) -> Array:
        seg, x = self.invariant.segments, jnp.asarray(x)
        own = self._of_pivot(x)
        if self.invariant.weights is None:
            total = seg.accumulate(_reduced_plain, (self.pivot, self.nu, x), (own,))
        else:
            b = self.invariant._weights_like(self.nu.dtype)
            whole = self._of_pivot(jnp.broadcast_to(b, self.nu.shape))
            total = seg.accumulate(_reduced, (self.pivot, self.nu, x, b), (own, whole))
        f, pull = self._ratio, self._nu_pivot / self.kappa * total
        if self.indefinite:
            rest = (x - f * seg.spread(own + pull)) / self._nu_rest
            return jnp.where(self.pivot, seg.spread(-total / self.kappa), rest)
        # ν_m > 0: at the pivot, where F = 1 and x − x_m = 0, the same formula is −total/κ
        f = jnp.where(self.pivot, 1, f)
        return ((x - f * seg.spread(own)) - f * seg.spread(pull)) / self.nu

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
        return jnp.where(self.pivot | ~self.invariant.segments.member, 0, _over(b, whole))

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


def _free(pivot: Array, nu: Array, u: Array) -> Array:
    """u_r/√ν_r."""
    return jnp.where(pivot, 0, u * jax.lax.rsqrt(jnp.where(pivot, 1, nu)))


def _free_weighed(pivot: Array, nu: Array, u: Array, b: Array, whole: Array) -> Array:
    return _over(b, whole) * _free(pivot, nu, u)


def _rest(pivot: Array, nu: Array, u: Array, pull: Array, f: Array | float = 1.0) -> Array:
    """x_r = u_r/√ν_r − pull F_r/ν_r."""
    return jnp.where(pivot, 0, _free(pivot, nu, u) - pull * f / jnp.where(pivot, 1, nu))


def _rest_weighed(pivot: Array, nu: Array, u: Array, b: Array, pull: Array, whole: Array) -> Array:
    f = _over(b, whole)
    return f * _rest(pivot, nu, u, pull, f)


def _over(b: Array, whole: Array) -> Array:
    """F_r = b_r/b_m."""
    return b / jnp.where(whole != 0, whole, 1)


def _reduced_plain(pivot: Array, nu: Array, x: Array, own: Array) -> Array:
    """(x_r − x_m)/ν_r."""
    return jnp.where(pivot, 0, (x - own) / jnp.where(pivot, 1, nu))


def _reduced(pivot: Array, nu: Array, x: Array, b: Array, own: Array, whole: Array) -> Array:
    """F_r (x_r − F_r x_m)/ν_r."""
    f = _over(b, whole)
    return jnp.where(pivot, 0, f * (x - f * own) / jnp.where(pivot, 1, nu))


@jax.custom_jvp
def _sum_of_squares(law: Pivoted, x: Array) -> Array:
    at_pivot, rest = _residues(law, x)
    squares = jnp.sum(jnp.where(law.pivot, 0, law._nu_rest * rest * rest), -1)
    safe = jnp.where(law.s > 0, law.s, 1)  # s = 0: a cell alone in its group, whose x is 0
    return squares + jnp.sum(jnp.where(law.s > 0, law.kappa * at_pivot**2 / safe, 0), -1)


def _residues(law: Pivoted, x: Array) -> tuple[Array, Array]:
    """x_m of every group, and x_r + x_m F_r/(ν_r s) of every other cell."""
    at_pivot = law._of_pivot(x)
    share = at_pivot / jnp.where(law.s > 0, law.s, 1)
    return at_pivot, x + law.invariant.segments.spread(share) * law._ratio / law._nu_rest


def _sum_of_squares_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """On V Σ F_r (x_r + x_m F_r/(ν_r s)) = 0, so the slope is cellwise: no sum over groups."""
    (law, x), (dlaw, dx) = primals, tangents
    value = _sum_of_squares(law, x)
    slope = jnp.zeros_like(value)
    if not isinstance(dx, SymbolicZero):
        at_pivot, rest = _residues(law, x)
        own = jnp.where(law.s > 0, law.kappa * at_pivot / jnp.where(law.s > 0, law.s, 1), 0)
        cell = jnp.where(law.pivot, law.invariant.segments.spread(own), law._nu_rest * rest)
        slope = slope + jnp.sum(2 * cell * dx, -1)
    if not all(isinstance(t, SymbolicZero) for t in jax.tree.leaves(dlaw)):
        dlaw = jax.tree.map(_filled, dlaw)
        slope = slope + jax.jvp(lambda law: _sum_of_squares.fun(law, x), (law,), (dlaw,))[1]
    return value, slope


_sum_of_squares.defjvp(_sum_of_squares_jvp, symbolic_zeros=True)


def _filled(tangent: Any) -> Any:
    return _zeros(tangent) if isinstance(tangent, SymbolicZero) else tangent


def _zeros(like: Any) -> Any:
    zeros = np.zeros if like.dtype == jax.dtypes.float0 else jnp.zeros
    return zeros(like.shape, like.dtype)
