"""G(ν) on any subspace for positive ν, by one thin QR factor."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from scipy import sparse

from cdp_views.invariants._precision import Precision

if TYPE_CHECKING:
    from cdp_views.invariants.orthonormal import Orthonormal


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Eliminated(Precision):
    """G(ν) with diag(ν)^−½ Q = `q` `r`, where Q (n, rank) spans the rows of the invariant.

    Σ = diag(ν)^−½ (I − q qᵀ) diag(ν)^−½ and det(Kᵀ diag(ν) K) = Π ν_i · det(r)².
    """

    invariant: "Orthonormal"
    nu: Array
    q: Array
    r: Array

    @property
    def logdet(self) -> Array:
        diagonal = jnp.abs(jnp.diagonal(self.r, axis1=-2, axis2=-1))
        return jnp.sum(jnp.log(self.nu), -1) + 2 * jnp.sum(jnp.log(diagonal), -1)

    def colour(self, u: Array) -> Array:
        x = self._drop(u) / jnp.sqrt(self.nu)
        # one correction by the residual itself keeps A x = 0 where scales span many decades
        residual = self.invariant.evaluate(x)
        back = solve_triangular(self._matching(self.r, residual), residual[..., None], trans=1)
        x = x - jnp.einsum("...nk,...k->...n", self.q, back[..., 0]) / jnp.sqrt(self.nu)
        return self.invariant._undetermined(x)

    def covariance_product(self, x: Array) -> Array:
        return self.colour(self._drop(x / jnp.sqrt(self.nu)))

    @property
    def variance(self) -> Array:
        share = jnp.sum(self.q**2, -1)
        kept = jnp.clip(1 - share, 0)
        # 1 − share cancels where one scale dwarfs the others: at most 2·rank cells have share ≥ ½
        q, most = self.q, min(2 * self.invariant.rank, self.invariant.n)
        _, cell = jax.lax.top_k(share, most)
        rows = jax.nn.one_hot(cell, self.invariant.n, dtype=share.dtype)
        for _ in range(2):
            rows = rows - (rows @ q) @ q.swapaxes(-1, -2)
        kept = jnp.put_along_axis(kept, cell, jnp.sum(rows**2, -1), axis=-1, inplace=False)
        return self.invariant._undetermined(kept / self.nu)

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        q, root = np.asarray(self.q, np.float64), np.sqrt(np.asarray(self.nu, np.float64))
        scaled = sparse.csr_array(queries * (1 / root)[None, :])
        rest = scaled.toarray() - (scaled @ q) @ q.T
        return np.sum(rest * rest, axis=1)

    def projected_variance(self, variance: Array) -> Array:
        root = jnp.sqrt(self.nu)
        share = jnp.sum(self.q**2, -1)
        inner = jnp.einsum("...nk,...n,...nl->...kl", self.q, self.nu * variance, self.q)
        back = jnp.einsum("...nk,...kl,...nl->...n", self.q, inner, self.q) / root**2
        return self.invariant._undetermined(variance * (1 - 2 * share) + back)

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        q, root = np.asarray(self.q, np.float64), np.sqrt(np.asarray(self.nu, np.float64))
        along = sparse.csr_array(queries * (1 / root)[None, :]) @ q
        return sparse.csr_array(queries.toarray() - (along @ q.T) * root)

    def _drop(self, x: Array) -> Array:
        along = jnp.einsum("...nk,...n->...k", self.q, x)
        return x - jnp.einsum("...nk,...k->...n", self.q, along)

    @staticmethod
    def _matching(r: Array, residual: Array) -> Array:
        return jnp.broadcast_to(r, (*residual.shape[:-1], *r.shape[-2:]))
