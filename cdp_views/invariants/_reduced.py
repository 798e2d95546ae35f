"""G(ν) on overlapping totals for ν of any sign: one cell per total follows from the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from scipy import sparse

from cdp_views.invariants._precision import Precision
from cdp_views.precision.dual import Dual
from cdp_views.precision.dual_basis import Basis
from cdp_views.precision.dual_form import Form, factorised, hadamard, spread

if TYPE_CHECKING:
    from cdp_views.invariants.orthonormal import Orthonormal

_CHUNK = 2**24  # entries of a dense block of queries


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reduced(Precision):
    """G(ν) with x_J = −F x_r: k pivot cells J follow the d others, so A x = 0 at any scales.

    In y = x/σ the precision of Θ_r^½ y_r is I − UUᵀ + U M Uᵀ (`form`), M positive definite; the
    k × k generalisation of one pivot's κ. `place` (…, n) is each cell's position in (r, J).
    """

    invariant: "Orthonormal"
    nu: Array
    scale: Array
    at: Array  # the pivots (…, k)
    place: Array
    ratio: Array  # F (…, k, d)
    form: Form
    inverse: Array  # of the Cholesky factor of M
    logdet: Array

    @staticmethod
    @jax.jit
    def of(invariant: "Orthonormal", solution: Dual, scale: Array) -> "Reduced":
        """The solution's law; where it is not solved its log-determinant is −inf."""
        table = jnp.asarray(invariant.table, scale.dtype)
        # any law will do where there is none: that of independent cells with these scales
        theta = jnp.where(solution.solved[..., None], solution.theta, 1)
        start = jnp.where(solution.solved[..., None, None], solution.table, table)
        at = jnp.where(solution.solved[..., None], solution.at, jnp.asarray(invariant.pivots))
        place, ratio, form, inverse, logdet = _batched(_pieces, theta, scale, start, at)
        volume = 2 * jnp.linalg.slogdet(jnp.moveaxis(table[:, at], 0, -2))[1]
        logdet = logdet + volume - jnp.linalg.slogdet(table @ table.T)[1]
        logdet = jnp.where(solution.solved, logdet, -jnp.inf)
        nu = theta / scale**2
        return Reduced(invariant, nu, scale, at, place, ratio, form, inverse, logdet)

    def like(self, dtype: Any) -> "Reduced":
        """The same numbers in another precision."""

        def cast(leaf: Any) -> Array:
            kind = jnp.result_type(leaf)
            if jnp.issubdtype(kind, jnp.floating):
                return jnp.asarray(leaf, dtype)
            return jnp.asarray(leaf, bool if jnp.issubdtype(kind, jnp.bool_) else jnp.int32)

        parts = {k: v for k, v in vars(self).items() if k != "invariant"}
        return Reduced(self.invariant, **jax.tree.map(cast, parts))

    def quadratic(self, x: Array) -> Array:
        rest, along = self._whitened(jnp.asarray(x))
        along = _times(self.form.root.swapaxes(-1, -2), along)
        return jnp.sum(rest**2, -1) + jnp.sum(along**2, -1)

    def colour(self, u: Array) -> Array:
        z = _take(jnp.asarray(u), self.form.rest)
        return self._complete(self._shaped(z, self.inverse.swapaxes(-1, -2)))

    def covariance_product(self, x: Array) -> Array:
        x = jnp.asarray(x)
        w = _take(x, self.form.rest) - _times(self.ratio.swapaxes(-1, -2), _take(x, self.at))
        square = self.inverse.swapaxes(-1, -2) @ self.inverse
        return self._complete(self._shaped(self._spread * w, square))

    @property
    def variance(self) -> Array:
        below = _matmul(self.inverse, self.form.low.swapaxes(-1, -2))
        pivots = _take(self.scale, self.at) ** 2 * jnp.sum(below**2, -2)
        if self.form.u is None:
            rest = jnp.sum(self.inverse**2, -2)
        else:
            inner = jnp.sum(_matmul(self.inverse, self.form.u.swapaxes(-1, -2)) ** 2, -2)
            rest = 1 - jnp.sum(self.form.u**2, -1) + inner
        return self._assembled(self._spread**2 * rest, pivots)

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        parts = [self._query_variance(rows) for rows in _chunks(queries)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def projected_variance(self, variance: Array) -> Array:
        """Π = Σ diag(ν), so this is (Σ∘Σ) ν² variance."""
        variance = jnp.asarray(variance)
        shape = jnp.broadcast_shapes(self.nu.shape, variance.shape)
        apply: Callable[..., Array] = _squares
        batched = jnp.ndim(self.nu) > 1
        for _ in shape[:-1]:
            apply = jax.vmap(apply, (0, 0, 0, 0) if batched else (None, None, None, 0))
        return apply(self.form, self.at, self.scale, jnp.broadcast_to(self.nu**2 * variance, shape))

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        nu = np.asarray(self.nu, np.float64)
        blocks = [
            sparse.csr_array(np.asarray(self.covariance_product(jnp.asarray(rows))) * nu)
            for rows in _chunks(queries)
        ]
        return sparse.csr_array(sparse.vstack(blocks)) if blocks else queries

    def squared_length(self, differences: sparse.csr_array) -> np.ndarray:
        nu = np.asarray(self.nu, np.float64)
        if np.all(nu > 0):
            return super().squared_length(differences)
        # rows that meet a negative ν are summed as squares; the others have nothing to cancel
        root = np.asarray(self.form.root, np.float64)
        meets = np.asarray((abs(differences) @ (nu <= 0).astype(float)) > 0)
        length = differences.power(2) @ nu
        met = np.flatnonzero(meets)
        if met.size:
            rows = sparse.csr_array(differences[met])
            length[met] = np.concatenate(
                [np.asarray(self.quadratic(jnp.asarray(part))) for part in _chunks(rows)]
            )
        # ν is known to eps/λ_min(M) near the boundary: privacy numbers round up by that
        smallest = min(float(np.linalg.svd(root, compute_uv=False)[-1]) ** 2, 1.0)
        return length * (1 + 8 * np.finfo(np.float64).eps / smallest)

    def _query_variance(self, rows: np.ndarray) -> np.ndarray:
        at, rest = np.asarray(self.at), np.asarray(self.form.rest)
        h = (rows[:, rest] - rows[:, at] @ np.asarray(self.ratio)) * np.asarray(self._spread)
        if self.form.u is None:
            return np.sum((h @ np.asarray(self.inverse).T) ** 2, axis=1)
        u = np.asarray(self.form.u)
        along = h @ u
        across = h - along @ u.T
        return np.sum(across**2, 1) + np.sum((along @ np.asarray(self.inverse).T) ** 2, 1)

    @property
    def _spread(self) -> Array:
        """σ_r θ_r^−½ = ν_r^−½."""
        return _take(self.scale, self.form.rest) * self.form.t

    def _whitened(self, x: Array) -> tuple[Array, Array]:
        """Θ_r^½ y_r as its part off U and its coordinates along U."""
        v = _take(x, self.form.rest) / self._spread
        if self.form.u is None:
            return jnp.zeros((*v.shape[:-1], 0), v.dtype), v
        along = _times(self.form.u.swapaxes(-1, -2), v)
        return v - _times(self.form.u, along), along

    def _shaped(self, z: Array, inner: Array) -> Array:
        """ν_r^−½ (I − UUᵀ + U inner Uᵀ) z."""
        if self.form.u is None:
            return self._spread * _times(inner, z)
        along = _times(self.form.u.swapaxes(-1, -2), z)
        return self._spread * (z + _times(self.form.u, _times(inner, along) - along))

    def _complete(self, rest: Array) -> Array:
        return self._assembled(rest, -_times(self.ratio, rest))

    def _assembled(self, rest: Array, pivots: Array) -> Array:
        shape = jnp.broadcast_shapes(rest.shape[:-1], pivots.shape[:-1])
        both = [jnp.broadcast_to(a, (*shape, a.shape[-1])) for a in (rest, pivots)]
        return _take(jnp.concatenate(both, -1), self.place)


def _pieces(theta: Array, scale: Array, table: Array, at: Array) -> tuple[Any, ...]:
    k, n = table.shape
    form = factorised(Basis(table, at, jnp.zeros((), scale.dtype)), scale, theta)
    place = jnp.zeros(n, jnp.int32).at[form.rest].set(jnp.arange(n - k, dtype=jnp.int32))
    place = place.at[at].set(jnp.arange(n - k, n, dtype=jnp.int32))
    inverse = solve_triangular(
        form.root, jnp.eye(form.root.shape[0], dtype=theta.dtype), lower=True
    )
    nu_rest = (theta / scale**2)[form.rest]
    positive = jnp.log(jnp.where(nu_rest > 0, nu_rest, 1))
    logdet = jnp.sum(positive) + 2 * jnp.sum(jnp.log(jnp.diagonal(form.root)))
    return place, table[:, form.rest], form, inverse, logdet


def _squares(form: Form, at: Array, scale: Array, z: Array) -> Array:
    """(Σ∘Σ) z."""
    return scale**2 * hadamard(spread(form, at), scale**2 * z)


def _batched(function: Callable[..., Any], theta: Array, *others: Array) -> Any:
    """`function` of unbatched arrays over the leading axes of θ, which all arguments share."""
    batch = theta.shape[:-1]
    if not batch:
        return function(theta, *others)
    ends = (1, 1, 2, 1)
    flat = [
        jnp.broadcast_to(a, (*batch, *a.shape[a.ndim - end :])).reshape(
            (prod(batch), *a.shape[a.ndim - end :])
        )
        for a, end in zip((theta, *others), ends, strict=True)
    ]
    many = jax.vmap(function)(*flat)
    return jax.tree.map(lambda a: a.reshape((*batch, *a.shape[1:])), many)


def _take(x: Array, index: Array) -> Array:
    """x[…, index]; an index with leading axes of its own is matched to those of x."""
    if index.ndim == 1:
        return x[..., index]
    shape = jnp.broadcast_shapes(x.shape[:-1], index.shape[:-1])
    x, index = (jnp.broadcast_to(a, (*shape, a.shape[-1])) for a in (x, index))
    return jnp.take_along_axis(x, index, axis=-1)


def _times(matrix: Array, x: Array) -> Array:
    """matrix x for vectors on the last axis of x."""
    if matrix.ndim == 2:
        return x @ matrix.T
    return jnp.einsum("...ij,...j->...i", matrix, x)


def _matmul(left: Array, right: Array) -> Array:
    return jnp.einsum("...ij,...jk->...ik", left, right)


def _chunks(rows: sparse.csr_array) -> list[np.ndarray]:
    """Dense float64 blocks of the rows, each of bounded size."""
    shape: Any = rows.shape
    step = max(_CHUNK // max(shape[1], 1), 1)
    return [rows[i : i + step].toarray() for i in range(0, shape[0], step)]
