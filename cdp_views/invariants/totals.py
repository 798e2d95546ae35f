"""Exact (weighted) totals of disjoint groups: every operation in O(n)."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._segments import Segments, take_or_zero
from cdp_views.invariants._base import Invariant
from cdp_views.invariants._labels import factorize
from cdp_views.invariants._pivoted import Pivoted
from cdp_views.invariants._precision import Precision, Scaled
from cdp_views.precision.scalar import Balance, balance_totals


def totals(
    groups: Any, weights: Any = None, *, missing: Literal["raise", "free"] = "raise"
) -> "Totals":
    """Keep each group's (weighted) total exact: Σ_{i in g} b_i x_i is fixed for every group g.

    Args:
        groups: labels (n,), one per cell, in any order: strings, integers, categories; a list,
            NumPy array, or a pandas, polars or pyarrow column. Totals are ordered by first
            appearance (`invariant.names`).
        weights: b (n,), any sign; `None` for plain sums. A cell of weight 0 is unconstrained.
        missing: what a missing label means: "raise" an error, or a "free" cell in no group.

    Returns:
        The invariant, for `cdp.MaxEntropy`, `cdp.Conditioned`, `cdp.Imaged` and the evaluators.

    Raises:
        ValueError: for no cells, missing labels, or weights that are not finite numbers (n,).

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.totals(["IL", "IL", "OH", "OH", "OH"])
        >>> inv.n, inv.rank, inv.dim
        (5, 2, 3)
        >>> inv.evaluate([1.0, 2.0, 3.0, 4.0, 5.0]).tolist()
        [3.0, 12.0]

    Reference: [L] §2.1 (aggregation invariants); docs/notation.md, "Setting".
    """
    _checks.choice("missing", missing, ("raise", "free"))
    labels, names = factorize("groups", groups, allow_missing=missing == "free")
    return Totals.of(labels, names, weights)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["segments", "weights", "anchor", "place"],
    meta_fields=["even"],
    drop_fields=["group_names"],
)
@dataclass(frozen=True, eq=False, repr=False)
class Totals(Invariant):
    """Disjoint weighted totals; build it with `cdp.totals`.

    Attributes:
        segments: which cell is in which group.
        weights: b (n,), 0 for a free cell; None for plain sums.
        anchor: (n,) marks the cell of largest |weight| in each group (last of ties): the one that
            the isometry leaves out.
        place: (n,) each cell's position among the coordinates (d for anchors).
        even: whether |weight| is constant within every group, so that P is constant there too.
        group_names: one label per group (rank,), or None.
    """

    segments: Segments
    weights: Any
    anchor: Array
    place: Array
    even: bool
    group_names: np.ndarray | None = field(default=None)

    @staticmethod
    def of(labels: np.ndarray, names: np.ndarray | None, weights: Any = None) -> "Totals":
        """From integer labels (host, −1 for a free cell) and optional weights."""
        n, count = labels.size, int(labels.max(initial=-1)) + 1
        labels = np.where(labels < 0, count, labels)
        b = None
        if weights is not None:
            b = _weights(weights, n)
            labels = np.where(b == 0, count, labels)
            used = np.bincount(labels, minlength=count + 1)[:count] > 0
            if not used.all():
                group = _called(names, int(np.argmin(used)))
                raise ValueError(
                    f"`weights` of group {group} are all 0, so it has no total. Give those cells "
                    'no label (missing="free") or a weight.'
                )
            b = np.where(labels == count, 0.0, b)
            if np.all(b[labels < count] == 1.0):
                b = None
        size = np.ones(n) if b is None else np.abs(b)
        # the last cell of the largest weight of every group: of repeated writes the last one stays
        largest, last = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
        np.maximum.at(largest, labels, size)
        top = np.flatnonzero(size == largest[labels])
        last[labels[top]] = top
        anchor = np.zeros(n, dtype=bool)
        anchor[last[:count]] = True
        place = np.where(anchor, n - count, np.cumsum(~anchor) - 1)
        even = b is None
        if b is not None:
            low = np.full(count + 1, np.inf)
            np.minimum.at(low, labels, size)
            even = bool(np.all((size == low[labels]) | (labels == count)))
        return Totals(
            Segments.of(labels, count),
            b,
            jnp.asarray(anchor),
            jnp.asarray(place, dtype=jnp.int32),
            even,
            names,
        )

    @property
    def n(self) -> int:
        return self.segments.n

    @property
    def rank(self) -> int:
        return self.segments.count

    @property
    def names(self) -> np.ndarray | None:
        return self.group_names

    @property
    def leverage(self) -> Array:
        b = self._weights_like(jnp.result_type(float))
        return b * b / self._outside(self._norm2(b), 1)

    @property
    def matrix(self) -> sparse.csr_array:
        labels = np.asarray(self.segments.labels)
        inside = np.flatnonzero(labels < self.rank)
        b = np.ones(self.n) if self.weights is None else np.asarray(self.weights)
        shape = (self.rank, self.n)
        return sparse.csr_array((b[inside], (labels[inside], inside)), shape=shape)

    @property
    def disjoint_groups(self) -> "Totals | None":
        return self

    @property
    def plain_groups(self) -> Segments | None:
        plain = self.weights is None or (self.even and bool(np.all(np.asarray(self.weights) >= 0)))
        return self.segments if plain else None

    @property
    def determined(self) -> np.ndarray:
        labels, sizes = np.asarray(self.segments.labels), np.asarray(self.segments.sizes)
        return np.append(sizes == 1, False)[labels]

    @property
    def blocks(self) -> np.ndarray:
        labels = np.asarray(self.segments.labels, dtype=np.int64)
        if self.weights is not None:
            _, levels = np.unique(np.asarray(self.weights), return_inverse=True)
            _, labels = np.unique(labels * (levels.max() + 1) + levels, return_inverse=True)
        return np.where(self.determined, -1, labels)

    def evaluate(self, x: Any) -> Array:
        x = self._shaped("x", x)
        if self.weights is None:
            return self.segments.sum(x)
        return self.segments.sum(self._weights_like(x.dtype) * x)

    def gross(self, x: Any) -> Array:
        x = self._shaped("x", x)
        if self.weights is None:
            return self.segments.sum(x)
        return self.segments.sum(jnp.abs(self._weights_like(x.dtype)) * x)

    def residual(self, x: Array, origin: Array) -> tuple[Array, Array]:
        b = jnp.ones((1,), x.dtype) if self.weights is None else self._weights_like(x.dtype)
        total, gross = self.segments.accumulate(_net_and_gross, (b, x, origin))
        return jnp.abs(total), gross

    def lift(self, total: Any) -> Array:
        t = jnp.asarray(total)
        if not jnp.issubdtype(t.dtype, jnp.floating):
            t = t.astype(jnp.result_type(float))
        b = self._weights_like(t.dtype)
        return b * self.segments.spread(t / self._norm2(b))

    def project(self, x: Any) -> Array:
        x = self._shaped("x", x)
        if self.weights is None:
            x = x - self.segments.spread(self.segments.sum(x) / self.segments.sizes)
        else:
            b = self._weights_like(x.dtype)
            x = x - b * self.segments.spread(self.segments.sum(b * x) / self._norm2(b))
        # let the anchor take the rounding, so that totals hold relative to small cells too
        residual = self.segments.spread(self.evaluate(x))
        b = self._weights_like(x.dtype)
        return x - jnp.where(self.anchor, residual / jnp.where(self.anchor, b, 1), 0)

    def projected_variance(self, variance: Any) -> Array:
        variance = jnp.asarray(variance)
        share = jnp.asarray(self.leverage, variance.dtype)
        return variance * (1 - 2 * share) + share * self.segments.spread(
            self.segments.sum(share * variance)
        )

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        rows = self.matrix
        share = sparse.csr_array(queries @ rows.T) / rows.power(2).sum(axis=1)[None, :]
        return sparse.csr_array(queries - sparse.csr_array(share) @ rows)

    def embed(self, z: Any) -> Array:
        x = take_or_zero(jnp.asarray(z), self.place)
        unit = self._unit(x.dtype)
        t = self.segments.spread(self.segments.sum(unit * x))
        end = jnp.abs(self._at_anchor(unit))
        return jnp.where(self.anchor, -jnp.sign(unit) * t, x - unit * t / (1 + end))

    def coordinates(self, x: Any) -> Array:
        x = self._shaped("x", x)
        unit = self._unit(x.dtype)
        end = self._at_anchor(unit)
        reflected = x - jnp.sign(end) * unit * self._at_anchor(x) / (1 + jnp.abs(end))
        z = jnp.zeros((*x.shape[:-1], self.dim), x.dtype)
        return z.at[..., self.place].set(reflected, mode="drop")

    def restrict(self, nu: Any) -> Precision:
        nu = self._shaped("nu", nu)
        _checks.positive("nu", nu, "A zero or negative precision comes only from `equalize`.")
        if nu.shape[-1] == 1 or self.rank == 0:
            return Scaled(self, nu)
        return _loosest(self, nu)

    def equalize(self, variance: Any) -> Precision:
        variance = self._shaped("variance", variance)
        if self.rank == 0:
            return Scaled(self, 1 / variance)
        if self.even and variance.shape[-1] == 1:
            kept = 1 - jnp.asarray(self.leverage, variance.dtype)
            return Scaled(self, jnp.where(kept > 0, kept, 1) / variance)
        variance = jnp.broadcast_to(variance, (*variance.shape[:-1], self.n))
        c = jnp.abs(self._weights_like(variance.dtype)) * jnp.sqrt(variance)
        solution = balance_totals(c, self.segments)
        self._require_balance(c, solution.feasible, solution.gap)
        return self._solved(variance, solution)

    def equalize_traced(self, variance: Array) -> Pivoted:
        """`equalize` of cell-by-cell variances (…, n) known to be balanced: checks nothing."""
        c = jnp.abs(self._weights_like(variance.dtype)) * jnp.sqrt(variance)
        return self._solved(variance, balance_totals(c, self.segments))

    def _solved(self, variance: Array, solution: Balance) -> Pivoted:
        kappa = jnp.where(solution.feasible, 2 * solution.u, -1)
        return Pivoted.of(self, solution.theta / variance, solution.pivot, kappa)

    def _require_balance(self, c: Array, feasible: Array, gap: Array) -> None:
        if not _checks.is_concrete(c, feasible) or bool(jnp.all(feasible)):
            return
        sizes, balanced = np.asarray(c), np.asarray(feasible)
        first = tuple(np.argwhere(~balanced)[0])
        group = int(first[-1])
        cells = np.flatnonzero(np.asarray(self.segments.labels) == group)
        size = sizes[first[:-1]][cells]
        cell = int(cells[size.argmax()])
        share = size.max() / size.sum()
        if len(cells) == 2:
            problem = "its two cells must have equal |weight|·scale"
        elif abs(float(gap[first])) < 1e-12:
            problem = "it makes up exactly half of its group, so the law has no density there"
        else:
            problem = "it must stay below half"
        raise _checks.InfeasibleError(
            f"`scale` is out of balance: |weight|·scale of cell {cell} is {share:.4g} of the sum "
            f"in group {_called(self.names, group)}; {problem}. Lower that cell's scale (or raise "
            "others), or use cdp.Conditioned or cdp.Imaged, which shrink scales instead."
        )

    # The weights and what follows from them, in the caller's precision.

    def _weights_like(self, dtype: Any) -> Array:
        if self.weights is None:
            return self.segments.member.astype(dtype)
        return jnp.asarray(self.weights, dtype)

    def _norm2(self, b: Array) -> Array:
        return (
            self.segments.sizes.astype(b.dtype)
            if self.weights is None
            else self.segments.sum(b * b)
        )

    def _outside(self, t: Array, value: float) -> Array:
        return jnp.where(self.segments.member, self.segments.spread(t), value)

    def _unit(self, dtype: Any) -> Array:
        b = self._weights_like(dtype)
        return b / jnp.sqrt(self._outside(self._norm2(b), 1))

    def _at_anchor(self, x: Array) -> Array:
        return self.segments.spread(self.segments.sum(jnp.where(self.anchor, x, 0)))


def _net_and_gross(b: Array, x: Array, origin: Array) -> tuple[Array, Array]:
    return b * (x - origin), jnp.abs(b) * (jnp.abs(x) + jnp.abs(origin))


@jax.jit
def _loosest(invariant: Totals, nu: Array) -> Pivoted:
    """Eliminate the cell of smallest ν/b² of every group: nothing cancels then."""
    b = invariant._weights_like(nu.dtype)
    looseness = jnp.where(invariant.segments.member, b * b, 1) / nu
    return Pivoted.of(invariant, nu, invariant.segments.last_argmax(looseness), None)


def _weights(weights: Any, n: int) -> np.ndarray:
    try:
        b = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "`weights` must be numbers, one per cell. Convert the column first."
        ) from None
    if b.shape != (n,):
        raise ValueError(f"`weights` must have shape ({n},), one per cell; got {b.shape}.")
    _checks.finite("weights", b, "Drop the cell or give it a weight.")
    return b


def _called(names: np.ndarray | None, group: int) -> str:
    return str(group) if names is None else f"{names[group]!s}"
