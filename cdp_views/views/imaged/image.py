"""The law of a projected Normal, with the same operations as G(ν)."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero
from scipy import sparse

from cdp_views.invariants import Invariant, Precision


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Image:
    """Π U for U ~ N(0, diag σ²) and Π the projection onto V closest in diag(w).

    Π = Cov_{G(w)} diag(w), so Σ = Π diag(σ²) Πᵀ, and on V its pseudo-inverse is
    diag(w) Cov_{G(w²σ²)} diag(w): two Gaussians with diagonal precision, `metric` and `dual`.
    """

    spread: Array  # σ²
    weight: Array  # w
    metric: Precision  # G(w)
    dual: Precision  # G(w²σ²)
    logdet: Array  # log pdet of the precision Σ⁺: (…)

    @staticmethod
    def of(invariant: Invariant, spread: Array, weight: Array) -> "Image":
        """Build both Gaussians; shapes (…, n) or (…, 1)."""
        metric, dual = invariant.restrict(weight), invariant.restrict(weight**2 * spread)
        return Image(spread, weight, metric, dual, 2 * metric.logdet - dual.logdet)

    def quadratic(self, x: Array) -> Array:
        """xᵀ Σ⁺ x for x ∈ V, as a sum of squares: (…, n) → (…)."""
        if self.spread.shape[-1] == 1 and self.weight.shape[-1] == 1:  # Σ = σ² P
            return jnp.sum(x * x, -1) / self.spread[..., 0]
        return inverse_quadratic(self.dual, self.weight * x)

    def colour(self, u: Array) -> Array:
        """A draw, as a deterministic map of n independent standard normals."""
        moved = self.metric.covariance_product(self.weight * jnp.sqrt(self.spread) * u)
        return self.metric.settle(moved)

    def covariance_product(self, x: Array) -> Array:
        """Σ x: (…, n) → (…, n)."""
        back = self.spread * self.weight * self.metric.covariance_product(x)
        return self.metric.covariance_product(self.weight * back)

    @property
    def variance(self) -> Array:
        """diag Σ: (…, n)."""
        return self.metric.projected_variance(self.spread)

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        """w Σ wᵀ for each row of `queries`, on the host; unbatched only."""
        n = queries.shape[1]
        spread = np.broadcast_to(np.asarray(self.spread), (n,))
        return self.metric.project_rows(queries).power(2) @ spread

    def squared_length(self, differences: sparse.csr_array) -> np.ndarray:
        """v Σ⁺ vᵀ for each row of `differences`, on the host; unbatched only."""
        n = differences.shape[1]
        weight = np.broadcast_to(np.asarray(self.weight), (n,))
        return self.dual.variance_of(sparse.csr_array(differences * weight[None, :]))


@jax.custom_jvp
def inverse_quadratic(law: Precision, y: Array) -> Array:
    """yᵀ Cov y for G(ν), as the sum of squares Σ ν_i s_i² with s = Cov y: (…, n) → (…)."""
    return law.quadratic(law.covariance_product(y))


def _inverse_quadratic_jvp(
    primals: tuple[Precision, Array], tangents: tuple[Any, Any]
) -> tuple[Array, Array]:
    # yᵀ Cov y = max over s ∈ V of 2 yᵀs − Σ ν_i s_i²: at the maximum s need not be differentiated
    (law, y), (dlaw, dy) = primals, tangents
    s = law.covariance_product(y)
    value = law.quadratic(s)
    slope = jnp.zeros_like(value)
    if not isinstance(dy, SymbolicZero):
        slope = slope + jnp.sum(2 * s * dy, -1)
    if not isinstance(dlaw.nu, SymbolicZero):
        slope = slope - jnp.sum(dlaw.nu * s * s, -1)
    return value, slope


inverse_quadratic.defjvp(_inverse_quadratic_jvp, symbolic_zeros=True)
