"""What an invariant is to the rest of the library: a geometry on V = ker A, never a matrix."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._segments import Segments
from cdp_views.invariants._precision import Precision

if TYPE_CHECKING:
    from cdp_views.invariants.totals import Totals


class Invariant(ABC):
    """What must hold exactly: A x is fixed, so noise lives on V = ker A.

    A subclass is a frozen registered dataclass with static sizes. The last axis of every
    argument is the n cells (or the k totals, or the d coordinates); leading axes are batches.
    `embed` and `coordinates` are an isometry between Rᵈ and V, so a density in coordinates is
    the density with respect to d-dimensional Hausdorff measure.

    Raises:
        ValueError: from every operation, for arrays whose last axis does not fit.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["a", "a", "a"])
        >>> inv.project([1.0, 2.0, 6.0]).tolist()
        [-2.0, -1.0, 3.0]

    Reference: docs/notation.md, "Symbols" and "Reference measure".
    """

    __array_ufunc__ = None  # `array & inv` is ours to refuse, not NumPy's to try cell by cell

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of cells."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of linearly independent totals."""

    @property
    def dim(self) -> int:
        """Dimension d = n − rank of the subspace on which noise can live."""
        return self.n - self.rank

    @property
    @abstractmethod
    def leverage(self) -> Array:
        """Diagonal of I − P, (n,): 1 for a cell that the totals determine, 0 for a free one."""

    @property
    @abstractmethod
    def matrix(self) -> sparse.csr_array:
        """The rows A (k, n), on the host in float64."""

    @property
    def names(self) -> np.ndarray | None:
        """One label per total (k,), where the user gave labels."""
        return None

    @abstractmethod
    def evaluate(self, x: Any) -> Array:
        """The totals A x: (…, n) → (…, k)."""

    @abstractmethod
    def gross(self, x: Any) -> Array:
        """The totals of absolute weights, |A| x: (…, n) → (…, k)."""

    def yardstick(self, x: Any) -> Array:
        """The size against which rounding errors of A x are judged: (…, n) → (…, k)."""
        return self.gross(jnp.abs(x))

    def residual(self, x: Array, origin: Array) -> tuple[Array, Array]:
        """|A(x − x₀)| and the yardstick of |x| + |x₀|, the sides of "is this rounding?": (…, k)."""
        size = jnp.abs(x) + jnp.abs(origin)
        return jnp.abs(self.evaluate(x - origin)), self.yardstick(size)

    @abstractmethod
    def lift(self, total: Any) -> Array:
        """The shortest x with A x = total: (…, k) → (…, n)."""

    @abstractmethod
    def project(self, x: Any) -> Array:
        """The closest point of V, P x: (…, n) → (…, n)."""

    @abstractmethod
    def embed(self, z: Any) -> Array:
        """The point K z of V with orthonormal coordinates z: (…, d) → (…, n)."""

    @abstractmethod
    def coordinates(self, x: Any) -> Array:
        """The orthonormal coordinates Kᵀ x of a point x ∈ V: (…, n) → (…, d)."""

    @abstractmethod
    def projected_variance(self, variance: Any) -> Array:
        """diag(P diag(variance) P): (…, n) or (…, 1) → (…, n)."""

    @abstractmethod
    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        """W P for sparse rows W (q, n), on the host in float64."""

    @abstractmethod
    def restrict(self, nu: Any) -> Precision:
        """The Gaussian G(ν) on V with positive precisions ν, (…, n) or (…, 1)."""

    @abstractmethod
    def equalize(self, variance: Any) -> Precision:
        """The G(ν) whose marginal variances are `variance`, (…, n) or (…, 1): maximum entropy.

        Raises `InfeasibleError` where no law with these variances keeps the totals (for traced
        values its log-determinant is −inf instead).
        """

    def logdet(self, nu: Any) -> Array:
        """log det(Kᵀ diag(ν) K), the log-density's constant on V: (…)."""
        return self._gaussian(nu).logdet

    def colour(self, u: Any, nu: Any) -> Array:
        """A draw of G(ν) as a deterministic map of n independent standard normals u."""
        return self._gaussian(nu).colour(u)

    def variance(self, nu: Any) -> Array:
        """Marginal variances of G(ν), diag K(Kᵀ diag(ν) K)⁻¹Kᵀ: (…, n)."""
        return self._gaussian(nu).variance

    @property
    def core(self) -> "Invariant":
        """An invariant with the same kernel and independent rows; itself, if its own are."""
        return self

    @property
    def disjoint_groups(self) -> "Totals | None":
        """The disjoint or nested totals behind these, weighted or not; None where they overlap."""
        return None

    @property
    def plain_groups(self) -> Segments | None:
        """The disjoint unweighted groups behind these totals, where that is what they are."""
        return None

    @property
    @abstractmethod
    def determined(self) -> np.ndarray:
        """Cells (n,) that the totals alone fix: their noise is 0 under every view."""

    @property
    def blocks(self) -> np.ndarray:
        """Class (n,) of each cell: a record moving within a class changes no total.

        Two cells are in one class iff their columns of A are equal; −1 marks a determined cell.
        """
        columns = self.matrix.tocsc()
        columns.sort_indices()
        seen: dict[tuple[bytes, bytes], int] = {}
        ends = columns.indptr
        label = np.empty(self.n, dtype=np.int64)
        for j in range(self.n):
            part = slice(ends[j], ends[j + 1])
            key = (columns.indices[part].tobytes(), columns.data[part].tobytes())
            label[j] = seen.setdefault(key, len(seen))
        return np.where(self.determined, -1, label)

    def equals(self, other: object) -> bool | Array:
        """Whether `other` is the same geometry, array by array."""
        if type(other) is not type(self):
            return False
        mine, theirs = jax.tree.flatten(self), jax.tree.flatten(other)
        if mine[1] != theirs[1]:
            return False
        same = [jnp.array_equiv(a, b) for a, b in zip(mine[0], theirs[0], strict=True)]
        return jnp.all(jnp.asarray(same)) if same else True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, rank={self.rank})"

    def __and__(self, other: "Invariant") -> "Invariant":
        """Both invariants at once; `evaluate` gives the totals of the first, then the second."""
        from cdp_views.invariants.linear import linear, named  # the join is a linear system again

        if isinstance(other, np.ndarray) or sparse.issparse(other):
            _checks.instance("&", other, Invariant, "Wrap the rows first: inv & cdp.linear(A).")
        if not isinstance(other, Invariant):
            return NotImplemented  # bounds join from the right
        if other.n != self.n:
            raise ValueError(
                f"`&` needs two invariants on the same cells; got {self.n} and {other.n} cells. "
                "Build both over the whole table."
            )
        return named(
            linear(sparse.vstack([self.matrix, other.matrix])),
            [_row_names(self), _row_names(other)],
        )

    def _gaussian(self, nu: Any) -> Precision:
        return nu if isinstance(nu, Precision) else self.restrict(nu)

    def _shaped(self, name: str, value: Any) -> Array:
        """`value` as a floating array whose last axis is n, or 1 for one number for all cells."""
        value = jnp.asarray(value)
        if not jnp.issubdtype(value.dtype, jnp.floating):
            value = value.astype(jnp.result_type(float))
        if value.ndim == 0:
            return value[None]
        if value.shape[-1] not in (1, self.n):
            raise ValueError(
                f"`{name}` must have {self.n} cells on its last axis (or 1 for all); got shape "
                f"{value.shape}."
            )
        return value


def _row_names(invariant: Invariant) -> np.ndarray:
    if invariant.names is not None:
        return np.asarray(invariant.names, dtype=object)
    return np.array([f"row {i}" for i in range(len(invariant.matrix.indptr) - 1)], dtype=object)
