"""Margins of a contingency table, kept exact: every operation by Kronecker algebra."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views.invariants import _kronecker as kronecker
from cdp_views.invariants._base import Invariant
from cdp_views.invariants._crossed import Crossed
from cdp_views.invariants._kronecker import Axes
from cdp_views.invariants._precision import Precision, Scaled
from cdp_views.invariants.linear import linear, named
from cdp_views.invariants.orthonormal import Orthonormal

_MOST_CELLS = 2**31 - 1
_LARGEST = 5 * 10**7  # entries (n·rank) of the dense factor for unequal scales: 400 MB
_LARGEST_RANK = 6000  # beyond `_LARGEST`, a rank × rank matrix: 290 MB


def margins(shape: Iterable[int], keep: Iterable[Any]) -> Invariant:
    """Keep margins of a table exact: Σ over the other axes, for each set of axes in `keep`.

    Nothing n × n or n × rank is formed: the projection is a product of "subtract the mean over
    these axes", one factor per margin, because those commute.

    Args:
        shape: the table's axes, such as (50, 2, 23); cells are its entries in C order.
        keep: the margins, each a tuple of axes: [(0,), (1, 2)]; an integer is one axis, () the
            grand total. A margin contained in another is welcome.

    Returns:
        An invariant on n = Π shape cells. `evaluate` gives the margins one after another, each in
        C order, named like "[3, :, 1]".

    Raises:
        ValueError: for an axis that the table lacks or that occurs twice, or an empty axis.

    Example:
        >>> import cdp_views as cdp
        >>> inv = cdp.margins((3, 4), keep=[(0,), (1,)])
        >>> inv.n, inv.rank, inv.dim
        (12, 6, 6)

    Reference: Darroch and Speed 1983 (additive interactions); docs/notation.md, "margin".
    """
    sizes = _shape(shape)
    if prod(sizes) > _MOST_CELLS:
        raise ValueError(f"`shape` has {prod(sizes):.3g} cells; at most {_MOST_CELLS:,} fit.")
    sets = tuple(_axes(axes, len(sizes)) for axes in keep)
    whole = Margins.of(sizes, sets)
    if len(whole.sweep) > 1:
        return whole
    # one margin (and margins of it) is a set of disjoint totals: O(n) for any scales
    return named(linear(whole.matrix), [whole.names])


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["free"],
    meta_fields=["sizes", "keep", "sweep"],
)
@dataclass(frozen=True, eq=False, repr=False)
class Margins(Invariant):
    """Two or more margins of a table, none of which contains all others; see `margins`.

    Leverage is the same in every cell, so constant scales cost nothing.

    Attributes:
        free: (d,) the coefficients (of `kronecker.reflect`) that the margins leave free.
        sizes: the table's axes; n is their product.
        keep: the margins asked for, each a tuple of axes.
        sweep: the largest of them.
    """

    free: Array
    sizes: tuple[int, ...]
    keep: tuple[Axes, ...]
    sweep: tuple[Axes, ...]

    @staticmethod
    def of(sizes: tuple[int, ...], keep: tuple[Axes, ...]) -> "Margins":
        """From checked arguments."""
        fixed = kronecker.fixed_coefficients(sizes, keep)
        free = jnp.asarray(np.flatnonzero(~fixed), dtype=jnp.int32)
        return Margins(free, sizes, keep, kronecker.largest(keep))

    @property
    def n(self) -> int:
        return prod(self.sizes)

    @property
    def rank(self) -> int:
        return self.n - self.free.shape[0]

    @property
    def leverage(self) -> Array:
        return jnp.full(self.n, self.rank / self.n, jnp.result_type(float))

    @property
    def determined(self) -> np.ndarray:
        return np.full(self.n, self.dim == 0)

    @property
    def matrix(self) -> sparse.csr_array:
        cells, parts = np.arange(self.n), []
        for axes in self.keep:
            rows, count = kronecker.rows_of_margin(self.sizes, axes), self._count(axes)
            parts.append(sparse.csr_array((np.ones(self.n), (rows, cells)), shape=(count, self.n)))
        empty = sparse.csr_array((0, self.n))
        return sparse.csr_array(sparse.vstack(parts)) if parts else empty

    @property
    def names(self) -> np.ndarray:
        found = [
            f"[{', '.join(str(index[axes.index(a)]) if a in axes else ':' for a in self._every)}]"
            for axes in self.keep
            for index in np.ndindex(*(self.sizes[a] for a in axes))
        ]
        return np.array(found, dtype=object)

    @property
    def blocks(self) -> np.ndarray:
        used = tuple(sorted({a for axes in self.keep for a in axes}))
        label = kronecker.rows_of_margin(self.sizes, used)
        return np.where(self.determined, -1, label)

    def evaluate(self, x: Any) -> Array:
        x = self._shaped("x", x)
        x = jnp.broadcast_to(x, (*x.shape[:-1], self.n))
        table = self._table(x)
        sums = [
            jnp.sum(table, tuple(a + 1 for a in self._every if a not in axes)) for axes in self.keep
        ]
        flat = [
            s.reshape(*x.shape[:-1], self._count(a)) for a, s in zip(self.keep, sums, strict=True)
        ]
        return jnp.concatenate(flat, -1) if flat else jnp.zeros((*x.shape[:-1], 0), x.dtype)

    def gross(self, x: Any) -> Array:
        return self.evaluate(x)

    def yardstick(self, x: Any) -> Array:
        # projecting spreads every cell's rounding over the table: a margin that does not contain
        # the largest cell still feels it
        x = self._shaped("x", x)
        size = self.evaluate(jnp.abs(x))
        length = jnp.linalg.norm(jnp.broadcast_to(x, (*x.shape[:-1], self.n)), axis=-1)
        width = [np.full(self._count(a), np.sqrt(self.n / self._count(a))) for a in self.keep]
        width = np.concatenate(width) if width else np.zeros(0)
        return size + jnp.asarray(width, x.dtype) * length[..., None]

    def lift(self, total: Any) -> Array:
        total = jnp.asarray(total)
        if not jnp.issubdtype(total.dtype, jnp.floating):
            total = total.astype(jnp.result_type(float))
        x = jnp.zeros((*total.shape[:-1], self.n), total.dtype)
        for _ in range(2):  # the second pass removes the first one's rounding
            missing = self._margins_of(total - self.evaluate(x))
            for axes in self.sweep:
                share = missing[axes] / (self.n // self._count(axes))
                step = jnp.broadcast_to(share, (share.shape[0], *self.sizes))
                x = x + step.reshape(x.shape)
                # what this step adds to the other margins is missing there no longer
                added = {
                    a: kronecker.average_out(step, a) * (self.n // self._count(a))
                    for a in self.sweep
                }
                missing = {a: missing[a] - added[a] for a in self.sweep}
        return x

    def project(self, x: Any) -> Array:
        x = self._shaped("x", x)
        x = jnp.broadcast_to(x, (*x.shape[:-1], self.n))
        return self._sweep(self._sweep(x))  # twice: the first pass leaves its rounding

    def projected_variance(self, variance: Any) -> Array:
        variance = jnp.asarray(variance)
        variance = jnp.broadcast_to(variance, (*variance.shape[:-1], self.n))
        table = self._table(variance)
        parts = [
            (h * self.n / self._count(t)) * kronecker.average_out(table, t)
            for t, h in kronecker.squared_projection(self.sizes, self.keep).items()
        ]
        return jnp.broadcast_to(sum(parts[1:], parts[0]), table.shape).reshape(variance.shape)

    def project_rows(self, queries: sparse.csr_array) -> sparse.csr_array:
        rows = queries.toarray().reshape(-1, *self.sizes)
        for axes in self.sweep * 2:
            gone = tuple(a + 1 for a in self._every if a not in axes)
            rows = rows - rows.mean(axis=gone, keepdims=True)
        return sparse.csr_array(rows.reshape(-1, self.n))

    def embed(self, z: Any) -> Array:
        z = jnp.asarray(z)
        spectrum = jnp.zeros((*z.shape[:-1], self.n), z.dtype).at[..., self.free].set(z)
        return self._sweep(self._reflected(spectrum))

    def coordinates(self, x: Any) -> Array:
        return self._reflected(self._shaped("x", x))[..., self.free]

    def restrict(self, nu: Any) -> Precision:
        nu = self._shaped("nu", nu)
        _checks.positive("nu", nu, "A zero or negative precision comes only from `equalize`.")
        if nu.shape[-1] == 1:
            return Scaled(self, nu)
        if self._affordable:
            return _dense(self.sizes, self.sweep).restrict(nu)
        if self.rank <= _LARGEST_RANK:
            return Crossed.of(self, nu)
        raise _checks.UnsupportedError(
            f"`scale` that differs between cells needs a matrix of rank × rank on margins; their "
            f"rank is {self.rank}, above {_LARGEST_RANK}. Use one scale for all cells, or keep "
            "fewer margins."
        )

    def equalize(self, variance: Any) -> Precision:
        variance = self._shaped("variance", variance)
        if variance.shape[-1] == 1 and self.dim:
            return Scaled(self, (self.dim / self.n) / variance)  # R = (n/d) P
        if self._affordable:
            return _dense(self.sizes, self.sweep).equalize(variance)
        raise _checks.UnsupportedError(
            f"cdp.MaxEntropy with unequal scales on margins of rank {self.rank} over {self.n} "
            f"cells needs a dense factor above {_LARGEST:.0e} entries. Use one scale for all "
            "cells, or cdp.Conditioned or cdp.Imaged."
        )

    @property
    def _affordable(self) -> bool:
        return self.n * self.rank <= _LARGEST

    @property
    def _every(self) -> Axes:
        return tuple(range(len(self.sizes)))

    def _count(self, axes: Axes) -> int:
        return prod(self.sizes[a] for a in axes)

    def _table(self, x: Array) -> Array:
        return x.reshape(-1, *self.sizes)

    def _reflected(self, x: Array) -> Array:
        return kronecker.reflect(self._table(x)).reshape(x.shape)

    def _sweep(self, x: Array) -> Array:
        """P x = Π (I − averages over all axes but those of a margin) x: the factors commute."""
        table = self._table(x)
        for axes in self.sweep:
            table = table - kronecker.average_out(table, axes)
        return table.reshape(x.shape)

    def _margins_of(self, totals: Array) -> dict[Axes, Array]:
        """The largest margins (batch, *shape with 1 for summed axes) among all totals (…, k)."""
        found, start = {}, 0
        for axes in self.keep:
            part = totals[..., start : start + self._count(axes)]
            start += self._count(axes)
            if axes in self.sweep:
                kept = [m if a in axes else 1 for a, m in enumerate(self.sizes)]
                found[axes] = part.reshape(-1, *kept)
        return found


@lru_cache(maxsize=4)
def _dense(sizes: tuple[int, ...], sweep: tuple[Axes, ...]) -> Orthonormal:
    """The same kernel by orthonormal rows, for Gaussians with unequal precisions."""
    return Orthonormal.of(Margins.of(sizes, sweep).matrix.toarray())


def _shape(shape: Iterable[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(int(m) for m in shape)
        same = all(m == s for m, s in zip(sizes, shape, strict=True))
    except (TypeError, ValueError):
        sizes, same = (), False
    if not same or not sizes or min(sizes) < 1:
        raise ValueError(
            f"`shape` must be the lengths of the table's axes, integers of at least 1; got "
            f"{shape!r}. Write it as table.shape."
        )
    return sizes


def _axes(axes: Any, ndim: int) -> Axes:
    if isinstance(axes, int | np.integer):
        axes = (axes,)
    try:
        found = tuple(int(a) for a in axes)
    except (TypeError, ValueError):
        found = (ndim,)
    if any(not -ndim <= a < ndim for a in found):
        raise ValueError(
            f"`keep` must name axes from 0 to {ndim - 1}; got {axes!r}. Give each margin as a "
            "tuple of axes, such as [(0,), (1, 2)]."
        )
    found = tuple(sorted(a % ndim for a in found))
    if len(set(found)) < len(found):
        raise ValueError(f"`keep` names an axis twice in {axes!r}. Name each axis once.")
    return found
