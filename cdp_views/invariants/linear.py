"""Any linear invariants A x, by the cheapest geometry that has the same kernel."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views._segments import Segments
from cdp_views.invariants._base import Invariant
from cdp_views.invariants._precision import Precision
from cdp_views.invariants._recognise import Part, disjoint, parts_of
from cdp_views.invariants._rows import Rows
from cdp_views.invariants.blocks import Blocks
from cdp_views.invariants.orthonormal import Orthonormal
from cdp_views.invariants.totals import Totals

_LARGEST = 2 * 10**8  # entries of the dense factor: 1.6 GB


def linear(A: Any) -> Invariant:
    """Keep A x exact for any matrix A: of any rank, with redundant, zero or badly scaled rows.

    Rows that are disjoint or nested totals (in any order, repeated or scaled) get the O(n)
    geometry of `cdp.totals`; all others an orthonormal factor in O(n·rank) memory. Parts of the
    table that share no total are told apart first.

    Args:
        A: (k, n), dense or scipy.sparse; k = 0 means no invariant at all.

    Returns:
        An invariant whose `evaluate(x)` is A x with all k rows.

    Raises:
        ValueError: if A is not a finite matrix with at least one column.
        UnsupportedError: if the factor would exceed 1.6 GB.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
        >>> inv.rank, inv.dim
        (2, 4)

    Reference: [L] §2.1 (aggregation invariants); docs/notation.md, "Setting".
    """
    rows = _matrix(A)
    groups = disjoint(rows)
    if groups is not None:
        geometry = Totals.of(groups.labels, None, groups.weights)
        if groups.in_order:
            return geometry
        return Linear(Rows.of(rows), Rows.of(groups.combination), geometry)
    members = parts_of(rows)
    made = [_geometry(rows, part) for part in members]
    shape: Any = rows.shape
    combination = sparse.csr_array(
        sparse.vstack(
            [
                _widened(own, part.rows, shape[0])
                for (_, own), part in zip(made, members, strict=True)
            ]
        )
    )
    geometry = (
        made[0][0]
        if len(made) == 1
        else Blocks.of([geometry for geometry, _ in made], [part.cells for part in members])
    )
    return Linear(Rows.of(rows), Rows.of(combination), geometry)


def _geometry(rows: sparse.csr_array, part: Part) -> tuple[Totals | Orthonormal, sparse.csr_array]:
    """One part's geometry, and how its totals follow from the part's rows (rank, rows)."""
    own = sparse.csr_array(rows[part.rows][:, part.cells])
    if part.groups is not None:
        return Totals.of(part.groups.labels, None, part.groups.weights), part.groups.combination
    shape: Any = own.shape
    if shape[0] * shape[1] > _LARGEST:
        raise UnsupportedError(
            f"`A` with {shape[0]} overlapping rows on {shape[1]} cells needs a dense "
            f"factor above {_LARGEST:.0e} entries. Split the table into parts that share no total."
        )
    geometry = Orthonormal.of(own.toarray())
    size = np.sqrt(own.power(2).sum(axis=1))
    weight = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    # A x = t and x = Q y: y = (W A Q)⁺ W t, rows weighted to equal size so that rank is relative
    combination = np.linalg.pinv((own @ geometry.matrix.T).toarray() * weight[:, None], rcond=1e-12)
    return geometry, sparse.csr_array(combination * weight)


def _widened(combination: sparse.csr_array, rows: np.ndarray, k: int) -> sparse.csr_array:
    """A part's combination of its own rows as one of all k rows."""
    entries = sparse.coo_array(combination)
    shape: Any = combination.shape
    return sparse.csr_array((entries.data, (entries.row, rows[entries.col])), shape=(shape[0], k))


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["rows", "combination", "geometry"],
    meta_fields=[],
    drop_fields=["row_names"],
)
@dataclass(frozen=True, eq=False, repr=False)
class Linear(Invariant):
    """The user's rows over a geometry with the same kernel; build it with `cdp.linear`.

    Attributes:
        rows: A (k, n), as the user gave it.
        combination: C (rank, k) with C A = the geometry's own rows.
        geometry: an invariant with the same kernel and independent rows.
        row_names: one label per row (k,), or None.
    """

    rows: Rows
    combination: Rows
    geometry: Totals | Orthonormal | Blocks
    row_names: np.ndarray | None = field(default=None)

    @property
    def names(self) -> np.ndarray | None:
        return self.row_names

    @property
    def blocks(self) -> np.ndarray:
        # disjoint totals tell the same cells apart as the rows that they came from
        return self.geometry.blocks if isinstance(self.geometry, Totals) else super().blocks

    @property
    def n(self) -> int:
        return self.geometry.n

    @property
    def rank(self) -> int:
        return self.geometry.rank

    @property
    def leverage(self) -> Array:
        return self.geometry.leverage

    @property
    def matrix(self) -> sparse.csr_array:
        return self.rows.matrix

    @property
    def core(self) -> Invariant:
        return self.geometry

    @property
    def disjoint_groups(self) -> Totals | None:
        return self.geometry.disjoint_groups

    @property
    def plain_groups(self) -> Segments | None:
        return self.geometry.plain_groups

    @property
    def determined(self) -> np.ndarray:
        return self.geometry.determined

    def evaluate(self, x: Any) -> Array:
        return self.rows.times(self._shaped("x", x))

    def gross(self, x: Any) -> Array:
        return self.rows.absolute().times(self._shaped("x", x))

    def yardstick(self, x: Any) -> Array:
        x = self._shaped("x", x)
        size = self.gross(jnp.abs(x))
        if isinstance(self.geometry, Totals):
            return size
        # overlapping rows are met through orthonormal ones, which touch other cells as well
        return size + self.rows.lengths(x.dtype) * jnp.linalg.norm(x, axis=-1, keepdims=True)

    def lift(self, total: Any) -> Array:
        total = jnp.asarray(total)
        if not jnp.issubdtype(total.dtype, jnp.floating):
            total = total.astype(jnp.result_type(float))
        return self.geometry.lift(self.combination.times(total))

    def project(self, x: Any) -> Array:
        return self.geometry.project(x)

    def projected_variance(self, variance: Any) -> Array:
        return self.geometry.projected_variance(variance)

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        return self.geometry.project_rows(queries)

    def embed(self, z: Any) -> Array:
        return self.geometry.embed(z)

    def coordinates(self, x: Any) -> Array:
        return self.geometry.coordinates(x)

    def restrict(self, nu: Any) -> Precision:
        return self.geometry.restrict(nu)

    def equalize(self, variance: Any) -> Precision:
        return self.geometry.equalize(variance)


def named(joint: Invariant, parts: list[np.ndarray]) -> Invariant:
    """The joint invariant of several, with the names of their totals."""
    names = np.concatenate(parts)
    if isinstance(joint, Linear):
        return replace(joint, row_names=names)
    assert isinstance(joint, Totals)
    return replace(joint, group_names=names)


def _matrix(A: Any) -> sparse.csr_array:
    if sparse.issparse(A):
        rows = sparse.csr_array(A, dtype=np.float64, copy=True)
    else:
        try:
            dense = np.atleast_2d(np.asarray(A, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(
                "`A` must be a matrix of numbers (k, n), dense or scipy.sparse."
            ) from None
        if dense.ndim != 2:
            raise ValueError(f"`A` must be a matrix (k, n); got shape {dense.shape}.")
        rows = sparse.csr_array(dense)
    if rows.shape[1] == 0:
        raise ValueError(
            f"`A` must have at least one column (one per cell); got shape {rows.shape}."
        )
    if not np.all(np.isfinite(rows.data)):
        bad = int(np.searchsorted(rows.indptr, np.argmin(np.isfinite(rows.data)), "right")) - 1
        raise ValueError(f"`A` must be finite; row {bad} is not. Drop or correct that row.")
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
