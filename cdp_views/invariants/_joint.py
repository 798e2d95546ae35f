"""G(ν) on parts that share no total: independent laws side by side."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views.invariants._precision import Precision

if TYPE_CHECKING:
    from cdp_views.invariants.blocks import Blocks


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Joint(Precision):
    """One law per part of the invariant."""

    invariant: "Blocks"
    laws: tuple[Precision, ...]

    @property
    def nu(self) -> Array:
        return self.invariant.join([law.nu for law in self.laws])

    @property
    def logdet(self) -> Array:
        total = self.laws[0].logdet
        for law in self.laws[1:]:
            total = total + law.logdet
        return total

    def quadratic(self, x: Array) -> Array:
        total = jnp.zeros((), x.dtype)
        for law, own in zip(self.laws, self.invariant.split(x), strict=True):
            total = total + law.quadratic(own)
        return total

    def colour(self, u: Array) -> Array:
        parts = zip(self.laws, self.invariant.split(u), strict=True)
        return self.invariant.join([law.colour(own) for law, own in parts])

    def covariance_product(self, x: Array) -> Array:
        parts = zip(self.laws, self.invariant.split(x), strict=True)
        return self.invariant.join([law.covariance_product(own) for law, own in parts])

    def settle(self, x: Array) -> Array:
        parts = zip(self.laws, self.invariant.split(x), strict=True)
        return self.invariant.join([law.settle(own) for law, own in parts])

    @property
    def variance(self) -> Array:
        return self.invariant.join([law.variance for law in self.laws])

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        parts = zip(self.laws, self.invariant.split_rows(queries), strict=True)
        return np.sum([law.variance_of(own) for law, own in parts], axis=0)

    def squared_length(self, differences: sparse.csr_array) -> np.ndarray:
        parts = zip(self.laws, self.invariant.split_rows(differences), strict=True)
        return np.sum([law.squared_length(own) for law, own in parts], axis=0)

    def projected_variance(self, variance: Array) -> Array:
        parts = zip(self.laws, self.invariant.split(jnp.asarray(variance)), strict=True)
        return self.invariant.join([law.projected_variance(own) for law, own in parts])

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        parts = zip(self.laws, self.invariant.split_rows(queries), strict=True)
        return self.invariant.join_rows([law.project_rows(own) for law, own in parts])
