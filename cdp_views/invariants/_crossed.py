"""G(ν) on margins too large for a dense factor: only a rank × rank matrix is formed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, cholesky
from scipy import sparse

from cdp_views.invariants import _kronecker as kronecker
from cdp_views.invariants._precision import Precision

if TYPE_CHECKING:
    from cdp_views.invariants.margins import Margins


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Crossed(Precision):
    """Σ = N⁻¹ − N⁻¹BᵀM⁻¹BN⁻¹ with M = BN⁻¹Bᵀ and B the margins' linearly independent rows.

    A row of B is "cells with these indices, all above 0, on the axes of an interaction"; so each
    cell lies in at most one row per interaction (`rows`, rank where in none), and B is applied by
    adding and taking. `factor` is the Cholesky factor of M with unit diagonal, `unit` = diag M^½.
    """

    invariant: "Margins"
    nu: Array
    rows: Array  # (interactions, n)
    factor: Array
    unit: Array
    logdet: Array

    @staticmethod
    def of(invariant: "Margins", nu: Array) -> "Crossed":
        """For positive ν (…, n)."""
        rows = jnp.asarray(independent_rows(invariant.sizes, invariant.keep), dtype=jnp.int32)
        m = _gram(rows, 1 / nu, invariant.rank)
        unit = jnp.sqrt(_diagonal(m))
        factor = cholesky(m / _outer(unit), lower=True)
        log_m = 2 * jnp.sum(jnp.log(_diagonal(factor)) + jnp.log(unit), -1)
        plain = log_det_of_rows(invariant.sizes, invariant.keep)
        logdet = jnp.sum(jnp.log(nu), -1) + log_m - plain
        return Crossed(invariant, nu, rows, factor, unit, logdet)

    def colour(self, u: Array) -> Array:
        x = self._drop(u / jnp.sqrt(self.nu))
        return self._drop(x)  # the residual of the first pass is rounding, and removed

    def covariance_product(self, x: Array) -> Array:
        return self._drop(self._drop(x / self.nu))

    @property
    def variance(self) -> Array:
        return (1 - _between(self.rows, self._inverse) / self.nu) / self.nu

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        dense = jnp.asarray(queries.toarray(), self.nu.dtype)
        return np.sum(np.asarray(self.covariance_product(dense)) * queries.toarray(), axis=1)

    def projected_variance(self, variance: Array) -> Array:
        inverse = self._inverse
        back = inverse @ _gram(self.rows, variance, self.invariant.rank) @ inverse
        share = _between(self.rows, inverse) / self.nu
        return variance * (1 - 2 * share) + _between(self.rows, back) / self.nu**2

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        dense = jnp.asarray(queries.toarray(), self.nu.dtype)
        return sparse.csr_array(np.asarray(self.covariance_product(dense) * self.nu))

    @property
    def _inverse(self) -> Array:
        eye = jnp.eye(self.invariant.rank, dtype=self.nu.dtype)
        eye = jnp.broadcast_to(eye, self.factor.shape)
        return cho_solve((self.factor, True), eye) / _outer(self.unit)

    def _drop(self, x: Array) -> Array:
        """x − N⁻¹BᵀM⁻¹B x, the projection onto V closest in diag(ν)."""
        x = jnp.broadcast_to(x, jnp.broadcast_shapes(x.shape, self.nu.shape))
        total = jnp.zeros((*x.shape[:-1], self.invariant.rank), x.dtype)
        for row in self.rows:
            total = total.at[..., row].add(x, mode="drop")
        factor = jnp.broadcast_to(self.factor, (*x.shape[:-1], *self.factor.shape[-2:]))
        pull = cho_solve((factor, True), (total / self.unit)[..., None])[..., 0] / self.unit
        back = jnp.zeros_like(x)
        for row in self.rows:
            back = back + pull.at[..., row].get(mode="fill", fill_value=0)
        return x - back / self.nu


def _gram(rows: Array, weight: Array, k: int) -> Array:
    """B diag(weight) Bᵀ: (…, n) → (…, k, k)."""
    m = jnp.zeros((*weight.shape[:-1], k, k), weight.dtype)
    for one in rows:
        for other in rows:
            m = m.at[..., one, other].add(weight, mode="drop")
    return m


def _between(rows: Array, matrix: Array) -> Array:
    """diag(Bᵀ matrix B): (…, k, k) → (…, n)."""
    pairs = [
        matrix.at[..., one, other].get(mode="fill", fill_value=0) for one in rows for other in rows
    ]
    return sum(pairs[1:], pairs[0])


def _diagonal(m: Array) -> Array:
    return jnp.diagonal(m, axis1=-2, axis2=-1)


def _outer(unit: Array) -> Array:
    return unit[..., :, None] * unit[..., None, :]


def independent_rows(shape: tuple[int, ...], keep: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """For each interaction and cell, the number of its row of B, or the rank: (interactions, n)."""
    n, start, found = int(np.prod(shape)), 0, []
    terms = kronecker.interactions(keep)
    rank = sum(int(np.prod([shape[a] - 1 for a in t])) for t in terms)
    index = np.indices(shape).reshape(len(shape), n)
    for term in terms:
        place, inside = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
        for a in term:
            place = place * (shape[a] - 1) + index[a] - 1
            inside &= index[a] > 0
        found.append(np.where(inside, start + place, rank))
        start += int(np.prod([shape[a] - 1 for a in term]))
    return np.stack(found)


def log_det_of_rows(shape: tuple[int, ...], keep: tuple[tuple[int, ...], ...]) -> float:
    """log det BBᵀ in closed form.

    In the basis of `kronecker.reflect` B is block triangular over the interactions S; its block
    (S, S) is ⊗_a (G_a if a ∈ S else √m_a) with |det G_a| = m_a^−½, because e₂, …, e_m and the row
    of ones together have determinant ±1.
    """
    half_logs, total = 0.5 * np.log(shape), 0.0
    for term in kronecker.interactions(keep):
        lengths = {a: shape[a] - 1 for a in term}
        size = int(np.prod(list(lengths.values())))
        for a, half_log in enumerate(half_logs):
            if a in lengths and size:
                total -= half_log * size / lengths[a]
            else:
                total += half_log * size
    return 2 * float(total)
