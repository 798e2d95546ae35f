"""A sparse matrix that JAX can multiply by: coordinate form, values on the host in float64."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["row", "column", "value"],
    meta_fields=["shape"],
)
@dataclass(frozen=True, eq=False)
class Rows:
    """Rows (k, n) with `row`, `column` (jax int32) and `value` (float64) of each entry."""

    row: Array
    column: Array
    value: Any
    shape: tuple[int, int]

    @staticmethod
    def of(matrix: sparse.csr_array) -> "Rows":
        """From a SciPy matrix of any sparse format."""
        entries = sparse.coo_array(matrix)
        return Rows(
            jnp.asarray(entries.row, dtype=jnp.int32),
            jnp.asarray(entries.col, dtype=jnp.int32),
            np.asarray(entries.data, dtype=np.float64),
            (int(entries.shape[0]), int(entries.shape[1])),
        )

    @property
    def matrix(self) -> sparse.csr_array:
        """The same, back in SciPy."""
        entries = (np.asarray(self.value), (np.asarray(self.row), np.asarray(self.column)))
        return sparse.csr_array(entries, shape=self.shape)

    def absolute(self) -> "Rows":
        """The rows of absolute values."""
        return Rows(self.row, self.column, abs(self.value), self.shape)

    def lengths(self, dtype: Any) -> Array:
        """Euclidean norm of each row (k,)."""
        square = jnp.asarray(self.value, dtype) ** 2
        return jnp.sqrt(jnp.zeros(self.shape[0], dtype).at[self.row].add(square))

    def times(self, x: Array) -> Array:
        """(…, n) → (…, k)."""
        terms = x[..., self.column] * jnp.asarray(self.value, x.dtype)
        zeros = jnp.zeros((*x.shape[:-1], self.shape[0]), x.dtype)
        return zeros.at[..., self.row].add(terms, mode="promise_in_bounds")
