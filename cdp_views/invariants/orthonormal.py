"""Any subspace, by orthonormal rows: operations in O(n·rank), nothing n × n."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants._base import Invariant
from cdp_views.invariants._eliminated import Eliminated
from cdp_views.invariants._precision import Precision, Scaled
from cdp_views.invariants._reduced import Reduced
from cdp_views.invariants._refusal import refuse
from cdp_views.precision.dual import balance_rows
from cdp_views.precision.dual_basis import echelon


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["reflectors", "triangle", "leverages", "table", "pivots"],
    meta_fields=["cells", "order"],
)
@dataclass(frozen=True, eq=False, repr=False)
class Orthonormal(Invariant):
    """V as the complement of `rank` orthonormal columns Q, kept as Householder reflectors.

    H = I − U T Uᵀ with `reflectors` U (n, rank) and `triangle` T; the first columns of H are Q,
    the others are K: so embedding costs O(n·rank) and the complement is never formed. `table`
    (rank, n) are the same rows in reduced echelon form, with `pivots` (rank,): exact for integer
    rows, so that cells of very different scales can be eliminated.
    """

    reflectors: Any
    triangle: Any
    leverages: Any
    table: Any
    pivots: Any
    cells: int
    order: int

    @staticmethod
    def of(rows: np.ndarray) -> "Orthonormal":
        """The kernel of dense rows (k, n), their rank judged relative to their own sizes."""
        k, n = rows.shape
        size = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled = (rows / np.where(size > 0, size, 1))[size[:, 0] > 0]
        if scaled.size == 0:
            none = np.zeros((n, 0))
            empty = np.zeros(0, dtype=np.int64)
            return Orthonormal(none, np.zeros((0, 0)), np.zeros(n), none.T, empty, n, 0)
        factors: Any = scipy.linalg.qr(scaled.T, mode="raw", pivoting=True)
        (packed, tau), upper, order = factors
        diagonal = np.abs(np.diag(upper))
        rank = int(np.sum(diagonal > max(k, n) * np.finfo(float).eps * diagonal[0]))
        u = np.tril(packed[:, :rank], -1)
        u[np.arange(rank), np.arange(rank)] = 1.0
        triangle = np.zeros((rank, rank))
        for j in range(rank):
            triangle[:j, j] = -tau[j] * (triangle[:j, :j] @ (u[:, :j].T @ u[:, j]))
            triangle[j, j] = tau[j]
        basis = np.eye(n, rank) - u @ (triangle @ u[:rank].T)
        leverage = _exact_ends(np.minimum(np.sum(basis * basis, axis=1), 1), basis)
        table, pivots = echelon(rows[size[:, 0] > 0][order[:rank]])
        return Orthonormal(u, triangle, leverage, table, pivots, n, rank)

    @property
    def n(self) -> int:
        return self.cells

    @property
    def rank(self) -> int:
        return self.order

    @property
    def leverage(self) -> Array:
        return jnp.asarray(self.leverages, jnp.result_type(float))

    @property
    def determined(self) -> np.ndarray:
        return np.asarray(self.leverages) >= 1

    @property
    def matrix(self) -> sparse.csr_array:
        return sparse.csr_array(np.asarray(self._host_basis()).T)

    def evaluate(self, x: Any) -> Array:
        x = self._shaped("x", x)
        return self._reflect(x, transpose=True)[..., : self.rank]

    def gross(self, x: Any) -> Array:
        x = self._shaped("x", x)
        return x @ jnp.abs(self._basis(x.dtype))

    def lift(self, total: Any) -> Array:
        t = jnp.asarray(total)
        return self._reflect(
            jnp.concatenate([t, jnp.zeros((*t.shape[:-1], self.dim), t.dtype)], -1)
        )

    def project(self, x: Any) -> Array:
        x = self._shaped("x", x)
        for _ in range(2):  # twice is enough: the second pass removes the first one's rounding
            x = x - self.lift(self.evaluate(x))
        return self._undetermined(x)

    def projected_variance(self, variance: Any) -> Array:
        variance = jnp.broadcast_to(variance, (*jnp.shape(variance)[:-1], self.n))
        basis = self._basis(variance.dtype)
        inner = jnp.einsum("nk,...n,nl->...kl", basis, variance, basis)
        back = jnp.einsum("nk,...kl,nl->...n", basis, inner, basis)
        return self._undetermined(variance * (1 - 2 * self.leverage) + back)

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        basis = self._host_basis()
        return sparse.csr_array(queries.toarray() - (queries @ basis) @ basis.T)

    def embed(self, z: Any) -> Array:
        z = jnp.asarray(z)
        x = self._reflect(jnp.concatenate([jnp.zeros((*z.shape[:-1], self.rank), z.dtype), z], -1))
        return self._undetermined(x)

    def coordinates(self, x: Any) -> Array:
        x = self._shaped("x", x)
        return self._reflect(x, transpose=True)[..., self.rank :]

    def restrict(self, nu: Any) -> Precision:
        nu = self._shaped("nu", nu)
        _checks.positive("nu", nu, "A zero or negative precision comes only from `equalize`.")
        if nu.shape[-1] == 1 or self.rank == 0:
            return Scaled(self, nu)
        q, r = jnp.linalg.qr(self._basis(nu.dtype) / jnp.sqrt(nu)[..., None])
        return Eliminated(self, nu, q, r)

    def equalize(self, variance: Any) -> Precision:
        variance = self._shaped("variance", variance)
        if self.rank == 0:
            return Scaled(self, 1 / variance)
        kept = 1 - np.asarray(self.leverages)
        if variance.shape[-1] == 1 and np.ptp(kept) < 1e-12 and kept[0] > 0:
            return Scaled(self, kept[0] / variance)  # constant leverage: R = (n/d) P
        variance = jnp.broadcast_to(variance, (*variance.shape[:-1], self.n))
        if _checks.is_concrete(self, variance):
            return _exactly(self, variance).like(variance.dtype)
        scale = jnp.sqrt(variance)
        return Reduced.of(self, balance_rows(self.table, self.pivots, scale), scale)

    def _reflect(self, x: Array, *, transpose: bool = False) -> Array:
        """H x, or Hᵀ x, for points on the last axis."""
        u = jnp.asarray(self.reflectors, x.dtype)
        t = jnp.asarray(self.triangle, x.dtype)
        return x - ((x @ u) @ (t if transpose else t.T)) @ u.T

    def _basis(self, dtype: Any) -> Array:
        u, t = jnp.asarray(self.reflectors, dtype), jnp.asarray(self.triangle, dtype)
        return jnp.eye(self.n, self.rank, dtype=dtype) - u @ (t @ u[: self.rank].T)

    def _host_basis(self) -> np.ndarray:
        u, t = np.asarray(self.reflectors), np.asarray(self.triangle)
        return np.eye(self.n, self.rank) - u @ (t @ u[: self.rank].T)

    def _undetermined(self, x: Array) -> Array:
        """Exact zeros at the cells that the totals alone determine."""
        return jnp.where(jnp.asarray(self.leverages) >= 1, 0, x)


@in_float64
def _exactly(invariant: Orthonormal, variance: Any) -> Reduced:
    """Concrete variances are solved in float64; infeasible ones raise with a proof."""
    scale = jnp.sqrt(float64(variance))
    solution = balance_rows(invariant.table, invariant.pivots, scale)
    if not bool(jnp.all(solution.solved)):
        refuse(invariant, np.asarray(scale), solution)
    return Reduced.of(invariant, solution, scale)


def _exact_ends(leverage: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Leverages with exact zeros and ones: 1 only where nothing of the cell lies in V.

    1 − leverage = |P e_i|², so a cell whose noise is 10⁻⁷ of the others' already looks
    determined to rounding: the projection itself, taken twice, decides.
    """
    leverage = np.where(leverage < 1e-30, 0.0, leverage)
    for i in np.flatnonzero(leverage > 1 - 1e-6):
        rest = -basis @ basis[i]
        rest[i] += 1
        rest -= basis @ (basis.T @ rest)
        length = np.linalg.norm(rest)
        leverage[i] = 1.0 if length < 1e-14 else min(1 - length**2, np.nextafter(1, 0))
    return leverage
