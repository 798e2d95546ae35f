"""A partition of cells into groups, with the few sums and maxima that the geometry needs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Segments:
    """`count` groups among `n` cells; the last axis of every argument is cells or groups.

    `labels` (n,) gives each cell's group, `count` for a cell in no group; `sizes` (count,) the
    number of cells of each group. `width` is set when the groups are contiguous and equally
    wide: sums are then reshapes (pairwise, so also more accurate in float32). Otherwise cells are
    added one after the other, and rounding grows with their number: where some group is large,
    cells are summed into parts of groups, their `target` (n,), and these `over` groups. So they
    are where neighbours are of one group: each sum would have to wait for the one before.
    """

    labels: Array
    sizes: Array
    n: int
    count: int
    width: int | None = field(default=None)
    # not copied by `replace`, whose other labels would not fit them
    target: Array | None = field(default=None, init=False)
    over: "Segments | None" = field(default=None, init=False)

    @staticmethod
    def of(labels: np.ndarray, count: int) -> "Segments":
        """The partition with these integer labels (host array, values 0…count)."""
        n = labels.size
        width = n // count if count and n % count == 0 else None
        if width is not None and not np.array_equal(labels, np.repeat(np.arange(count), width)):
            width = None
        sizes = np.bincount(labels, minlength=count + 1)[:count]
        seg = Segments(
            jnp.asarray(labels, dtype=jnp.int32),
            jnp.asarray(sizes, dtype=jnp.int32),
            n,
            count,
            width,
        )
        parts = np.where(sizes > _LARGE, -(-sizes // _PART), 1)
        if n >= 8 * _BLOCK and np.mean(labels[1:] == labels[:-1]) > 0.5:
            parts = np.maximum(parts, _TURNS)
        if width is None and parts.max(initial=1) > 1:
            target = jnp.asarray(_targets(labels, sizes, parts), dtype=jnp.int32)
            object.__setattr__(seg, "target", target)
            over = Segments.of(np.repeat(np.arange(count), parts), count)
            object.__setattr__(seg, "over", over)
        return seg

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.labels, self.sizes, self.target, self.over), (self.n, self.count, self.width)

    @classmethod
    def tree_unflatten(cls, static: Any, leaves: Any) -> "Segments":
        labels, sizes, target, over = leaves
        seg = cls(labels, sizes, *static)
        object.__setattr__(seg, "target", target)
        object.__setattr__(seg, "over", over)
        return seg

    @property
    def member(self) -> Array:
        """Whether each cell belongs to a group (n,)."""
        return self.labels < self.count

    def sum(self, x: Array) -> Array:
        """Sum over each group: (…, n) → (…, count)."""
        x = jnp.asarray(x)
        if self.width is not None:
            return self._split(x).sum(-1)
        if self.target is not None and self.over is not None:
            return self.over.sum(_scatter(x, self.target, self.over.n))
        return _scatter(x, self.labels, self.count)

    def accumulate(
        self, function: Callable[..., Any], cells: tuple[Any, ...], groups: tuple[Array, ...] = ()
    ) -> Any:
        """`sum` of one or two cellwise numbers that are computed on the way, nothing stored.

        Args:
            function: (cells…, groups…) → (…) or a pair of them, elementwise; must close over no
                array.
            cells: its arguments (…, n) or (…, 1).
            groups: its further arguments (…, G), which it sees spread over cells.
        """
        return _accumulate(function, self, cells, groups)

    def max(self, x: Array) -> Array:
        """Largest of each group: (…, n) → (…, count)."""
        x = jnp.asarray(x)
        if self.width is not None:
            return self._split(x).max(-1)
        low = jnp.finfo(x.dtype).min if jnp.issubdtype(x.dtype, jnp.floating) else -1
        lows = jnp.full((*x.shape[:-1], self.count), low, x.dtype)
        if self.count == 0:  # XLA refuses to scatter into nothing
            return lows
        return lows.at[..., self.labels].max(x, mode="drop", wrap_negative_indices=False)

    def spread(self, t: Array) -> Array:
        """Each group's number at its cells, zero elsewhere: (…, count) → (…, n)."""
        t = jnp.asarray(t)
        if self.width is not None:
            return jnp.broadcast_to(t[..., None], (*t.shape, self.width)).reshape(
                *t.shape[:-1], self.n
            )
        return take_or_zero(t, self.labels)

    def last_argmax(self, x: Array) -> Array:
        """Mask (…, n) of exactly one cell of each group where `x` is largest, the last of ties."""
        top = (x == self.spread(self.max(x))) & self.member
        return (self.spread(self.place(top)) == self._cells) & self.member

    def place(self, mask: Array) -> Array:
        """The last cell of each group where `mask` (…, n) is true: (…, count)."""
        return self.max(jnp.where(mask, self._cells, -1))

    @property
    def _cells(self) -> Array:
        return jnp.arange(self.n, dtype=jnp.int32)

    def _split(self, x: Array) -> Array:
        return x.reshape((*x.shape[:-1], self.count, self.width))


# A group of more cells than _LARGE is summed in parts of _PART cells.
_LARGE, _PART = 256, 64
# Where neighbours are of one group, every group of a large table is summed in _TURNS parts.
_TURNS = 4
# Cells of one step: a few arrays of them fit a processor's own cache.
_BLOCK = 8192


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _accumulate(function: Callable[..., Any], seg: Segments, cells: Any, groups: Any) -> Any:
    cells = tuple(jnp.asarray(a) for a in cells)
    small = seg.n < 8 * _BLOCK or seg.count == 0
    if small or seg.width is not None or jax.default_backend() != "cpu":
        return jax.tree.map(seg.sum, _cellwise(function, seg, cells, groups))
    # A scatter wants its summands as an array: block by block they never leave the cache, and two
    # sums are the real and the imaginary part of one.
    shape = jax.eval_shape(partial(_cellwise, function), seg, cells, groups)
    pair = isinstance(shape, tuple)
    leaf = shape[0] if pair else shape
    dtype = jnp.result_type(leaf.dtype, jnp.complex64) if pair else leaf.dtype

    def add(total: Array, part: Callable[[Array], Array]) -> Array:
        labels = part(seg.labels)
        target = labels if seg.target is None else part(seg.target)
        here = [part(a) if a.shape[-1] == seg.n else a for a in cells]
        value = function(*here, *(take_or_zero(g, labels) for g in groups))
        value = lax.complex(*jnp.broadcast_arrays(*value)) if pair else value
        return total.at[..., target].add(value, mode="drop", wrap_negative_indices=False)

    def step(i: Array, total: Array) -> Array:
        return add(total, lambda a: lax.dynamic_slice_in_dim(a, i * _BLOCK, _BLOCK, -1))

    whole = seg.n // _BLOCK
    start = jnp.zeros((*leaf.shape[:-1], seg.count if seg.over is None else seg.over.n), dtype)
    total = lax.fori_loop(0, whole, step, start)
    if seg.n % _BLOCK:
        total = add(total, lambda a: a[..., whole * _BLOCK :])
    totals = (total.real, total.imag) if pair else total
    return totals if seg.over is None else jax.tree.map(seg.over.sum, totals)


@_accumulate.defjvp
def _(function: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    (seg, cells, groups), (_, dcells, dgroups) = primals, tangents

    def of(cells: Any, groups: Any) -> Any:
        return _cellwise(function, seg, cells, groups)

    _, change = jax.jvp(of, (cells, groups), (dcells, dgroups))
    return _accumulate(function, seg, cells, groups), jax.tree.map(seg.sum, change)


def _cellwise(function: Callable[..., Any], seg: Segments, cells: Any, groups: Any) -> Any:
    value = function(*cells, *(seg.spread(g) for g in groups))
    shape = jnp.broadcast_shapes((seg.n,), *(v.shape for v in jax.tree.leaves(value)))
    return jax.tree.map(lambda v: jnp.broadcast_to(v, shape), value)


def _targets(labels: np.ndarray, sizes: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Which part each cell is added to, a group's cells by turns: (n,), Σ parts for free cells."""
    first = np.append(0, np.cumsum(parts))
    target = first[labels]
    large = np.flatnonzero(np.append(parts > 1, False)[labels])
    order = large[np.argsort(labels[large], kind="stable")]
    groups = np.flatnonzero(parts > 1)
    rank = np.concatenate([np.arange(size) for size in sizes[groups]])
    target[order] += rank % np.repeat(parts[groups], sizes[groups])
    return target


def _scatter(x: Array, target: Array, count: int) -> Array:
    zeros = jnp.zeros((*x.shape[:-1], count), x.dtype)
    return zeros.at[..., target].add(x, mode="drop", wrap_negative_indices=False)


def take_or_zero(t: Array, index: Array) -> Array:
    """t[…, index], zero where the index lies beyond the last axis."""
    if t.shape[-1] == 0:
        return jnp.zeros((*t.shape[:-1], index.shape[0]), t.dtype)
    return t.at[..., index].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def once[T](x: T) -> T:
    """`x`, computed once: XLA else draws a noise twice, for its sums and again to use it."""
    return jax.lax.optimization_barrier(x)
