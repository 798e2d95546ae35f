"""Inequalities on the published table, alone or beside exact totals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.invariants._base import Invariant
from cdp_views.invariants.linear import _matrix, linear


@dataclass(frozen=True, eq=False)
class Bounds:
    """{z : B z ≥ lower}; build it with `bounds` or `nonnegative`, join it with `&`.

    Attributes:
        matrix: B (m, n), on the host in float64.
        lower: (m,), finite, in counts.

    Example:
        >>> from cdp_views.invariants import nonnegative
        >>> nonnegative(3)
        Bounds(n=3, rows=3)
    """

    matrix: sparse.csr_array
    lower: np.ndarray

    @property
    def n(self) -> int:
        """Number of cells."""
        shape: Any = self.matrix.shape
        return shape[1]

    @property
    def cellwise(self) -> bool:
        """Whether every row is one cell by itself, each cell once: z ≥ lower, cell by cell."""
        eye = self.matrix - sparse.eye_array(self.n, format="csr") if self._square else None
        return eye is not None and bool(abs(eye).sum() == 0)

    @property
    def _square(self) -> bool:
        shape: Any = self.matrix.shape
        return shape[0] == shape[1]

    def __and__(self, other: "Bounds | Invariant | Region") -> "Bounds | Region":
        """Both at once."""
        if isinstance(other, Region):
            joint = self & other.bounds
            assert isinstance(joint, Bounds)
            return Region(other.equalities, joint)
        _same_cells(self.n, other.n)
        if isinstance(other, Invariant):
            return Region(other, self)
        rows = sparse.csr_array(sparse.vstack([self.matrix, other.matrix]))
        return Bounds(rows, np.concatenate([self.lower, other.lower]))

    def __rand__(self, other: Invariant) -> "Bounds | Region":
        """`totals & bounds`."""
        return self & other

    def __repr__(self) -> str:
        return f"Bounds(n={self.n}, rows={len(self.lower)})"


@dataclass(frozen=True, eq=False)
class Region:
    """Exact totals and bounds of the published table: {z : A z = A loc, B z ≥ lower}.

    Build it with `&`: inv & bounds. `cdp.Imaged` and `cdp.Conditioned` take it in place of an
    invariant.

    Attributes:
        equalities: the totals, over n cells.
        bounds: the inequalities, over the same cells.

    Raises:
        ValueError: from `&`, where the two have different cells.

    Example:
        >>> import cdp_views as cdp
        >>> (cdp.totals(["a", "a"]) & cdp.nonnegative(2)).n
        2
    """

    equalities: Invariant
    bounds: Bounds

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.equalities.n

    def __and__(self, other: "Bounds | Invariant") -> "Region":
        """Further totals or bounds."""
        _same_cells(self.n, other.n)
        if isinstance(other, Invariant):
            return Region(self.equalities & other, self.bounds)
        joint = self.bounds & other
        assert isinstance(joint, Bounds)
        return Region(self.equalities, joint)

    def __rand__(self, other: "Bounds | Invariant") -> "Region":
        """`totals & region`."""
        return self & other

    def __repr__(self) -> str:
        return f"Region(n={self.n}, rank={self.equalities.rank}, bounds={len(self.bounds.lower)})"


def bounds(A: Any, lower: Any) -> Bounds:
    """Require A z ≥ lower of the published table.

    Args:
        A: (m, n), dense or scipy.sparse. For an upper bound negate the row and the number.
        lower: (m,), public numbers in counts; −inf for a row without bound.

    Returns:
        The bounds; join them to totals with `&`.

    Raises:
        ValueError: shapes that do not fit, or entries that are not finite.

    Example:
        >>> import cdp_views as cdp
        >>> region = cdp.totals(["a", "a", "a"]) & cdp.bounds([[1, 1, 0]], [5])
        >>> region
        Region(n=3, rank=1, bounds=1)

    Reference: [TV] Definition 3.1 (the constraint set); docs/notation.md, "projection".
    """
    rows = _matrix(A)
    limit = np.atleast_1d(np.asarray(lower, dtype=np.float64))
    if limit.shape != rows.shape[:1]:
        raise ValueError(
            f"`lower` must have one number per row of A, shape {rows.shape[:1]}; got {limit.shape}."
        )
    if np.any(np.isnan(limit)) or np.any(limit == np.inf):
        raise ValueError("`lower` must be numbers below infinity. Drop rows that have no bound.")
    kept = np.isfinite(limit)
    return Bounds(rows[np.flatnonzero(kept)], limit[kept])


def nonnegative(n: int) -> Bounds:
    """Require every published cell to be at least 0: z ≥ 0.

    Args:
        n: number of cells.

    Returns:
        The bounds; join them to totals with `&`.

    Raises:
        ValueError: `n` is no whole number of at least 1.

    Example:
        >>> import cdp_views as cdp
        >>> cdp.totals(["a", "a"]) & cdp.nonnegative(2)
        Region(n=2, rank=1, bounds=2)

    Reference: [TV] Definition 3.1 (the constraint set); docs/notation.md, "projection".
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"`n` must be the number of cells; got {n!r}.")
    return Bounds(sparse.csr_array(sparse.eye_array(int(n))), np.zeros(int(n)))


def region_of(invariant: Bounds | Region) -> Region:
    """A region as it is; bounds alone are one without totals, {z : B z ≥ lower}.

    Args:
        invariant: bounds, or totals with bounds.

    Returns:
        The region.

    Example:
        >>> from cdp_views.invariants import nonnegative, region_of
        >>> region_of(nonnegative(2))
        Region(n=2, rank=0, bounds=2)
    """
    if isinstance(invariant, Region):
        return invariant
    return Region(linear(np.zeros((0, invariant.n))), invariant)


def _same_cells(one: int, other: int) -> None:
    if one != other:
        raise ValueError(
            f"`&` needs both on the same cells; got {one} and {other} cells. Build both over the "
            "whole table."
        )
