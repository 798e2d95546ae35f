"""G(ν): the Gaussian on V with diagonal precision ν, the one law under all three views."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

if TYPE_CHECKING:
    from cdp_views.invariants._base import Invariant


class Precision(ABC):
    """The Gaussian on V = ker A with covariance K(Kᵀ diag(ν) K)⁻¹Kᵀ.

    Its log-density at x ∈ V is ½ logdet − (d/2) log 2π − ½ Σ ν_i x_i². Single ν_i may be zero or
    negative as long as Kᵀ diag(ν) K is positive definite; where it is not, `logdet` is −inf.

    Attributes:
        invariant: what fixes V, n cells.
        nu: ν (…, n), or (…, 1) for one number for all cells; unit 1/counts².
        logdet: log det(Kᵀ diag(ν) K), (…).

    Example:
        >>> import cdp_views as cdp
        >>> cdp.totals(["a", "a"]).restrict(0.5).variance.tolist()  # 2 (1 − 1/2)
        [1.0, 1.0]

    Reference: docs/notation.md, "Symbols", ν and Σ.
    """

    invariant: "Invariant"
    nu: Array
    logdet: Any  # log det(Kᵀ diag(ν) K): (…)

    def quadratic(self, x: Array) -> Array:
        """xᵀ Σ⁺ x = Σ ν_i x_i² for x ∈ V: (…, n) → (…)."""
        return jnp.sum(self.nu * x * x, axis=-1)

    @abstractmethod
    def colour(self, u: Array) -> Array:
        """A draw, as a deterministic map of n independent standard normals: (…, n) → (…, n)."""

    @abstractmethod
    def covariance_product(self, x: Array) -> Array:
        """Σ x for any x: (…, n) → (…, n)."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """diag Σ: (…, n)."""

    @abstractmethod
    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        """w Σ wᵀ for each row w of `queries` (q, n): (q,), on the host; unbatched ν only."""

    @abstractmethod
    def projected_variance(self, variance: Array) -> Array:
        """diag(Π diag(variance) Πᵀ), Π = Σ diag(ν) the projection onto V closest in ν: (…, n)."""

    @abstractmethod
    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        """W Π for sparse rows W (q, n), on the host; unbatched ν only."""

    def settle(self, x: Array) -> Array:
        """`x` of V with what rounding left of its totals taken off, cell sizes kept: (…, n)."""
        return x

    def squared_length(self, differences: sparse.csr_array) -> np.ndarray:
        """v Σ⁺ vᵀ = Σ ν_i v_i² for each row v ∈ V of `differences` (m, n): (m,), on the host."""
        nu = np.broadcast_to(np.asarray(self.nu), (self.invariant.n,))
        return differences.power(2) @ nu

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The precisions ν themselves, so that NumPy sees an array."""
        return np.array(self.nu, dtype=dtype, copy=copy)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled(Precision):
    """G(ν) where ν is constant on each block of P, so that Σ = P/ν: no solve at all."""

    invariant: "Invariant"
    nu: Array
    logdet: Any = None  # computed here: once, not with every density

    def __post_init__(self) -> None:
        if self.logdet is not None or not isinstance(self.nu, jax.Array | np.ndarray):
            return
        if self.nu.shape[-1] == 1:
            value = self.invariant.dim * jnp.log(self.nu[..., 0])
        else:
            free = 1 - jnp.asarray(self.invariant.leverage, self.nu.dtype)
            value = jnp.sum(free * jnp.log(self.nu), axis=-1)
        object.__setattr__(self, "logdet", value)

    def colour(self, u: Array) -> Array:
        return self.invariant.project(u) / jnp.sqrt(self.nu)

    def covariance_product(self, x: Array) -> Array:
        return self.invariant.project(x) / self.nu

    @property
    def variance(self) -> Array:
        return (1 - jnp.asarray(self.invariant.leverage, self.nu.dtype)) / self.nu

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        nu = np.broadcast_to(np.asarray(self.nu), (self.invariant.n,))
        return self.invariant.project_rows(queries).power(2) @ (1 / nu)

    def projected_variance(self, variance: Array) -> Array:
        return self.invariant.projected_variance(variance)

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        return self.invariant.project_rows(queries)
