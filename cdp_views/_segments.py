"""A partition of cells into groups, with the few sums and maxima that the geometry needs."""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["labels", "sizes"],
    meta_fields=["n", "count", "width"],
)
@dataclass(frozen=True)
class Segments:
    """`count` groups among `n` cells; the last axis of every argument is cells or groups.

    `labels` (n,) gives each cell's group, `count` for a cell in no group; `sizes` (count,) the
    number of cells of each group. `width` is set when the groups are contiguous and equally
    wide: sums are then reshapes (pairwise, so also more accurate in float32).
    """

    labels: Array
    sizes: Array
    n: int
    count: int
    width: int | None = field(default=None)

    @staticmethod
    def of(labels: np.ndarray, count: int) -> "Segments":
        """The partition with these integer labels (host array, values 0…count)."""
        n = labels.size
        width = n // count if count and n % count == 0 else None
        if width is not None and not np.array_equal(labels, np.repeat(np.arange(count), width)):
            width = None
        sizes = np.bincount(labels, minlength=count + 1)[:count]
        return Segments(
            jnp.asarray(labels, dtype=jnp.int32),
            jnp.asarray(sizes, dtype=jnp.int32),
            n,
            count,
            width,
        )

    @property
    def member(self) -> Array:
        """Whether each cell belongs to a group (n,)."""
        return self.labels < self.count

    def sum(self, x: Array) -> Array:
        """Sum over each group: (…, n) → (…, count)."""
        x = jnp.asarray(x)
        if self.width is not None:
            return self._split(x).sum(-1)
        zeros = jnp.zeros((*x.shape[:-1], self.count), x.dtype)
        return zeros.at[..., self.labels].add(x, mode="drop", wrap_negative_indices=False)

    def sums(self, x: Array, y: Array) -> tuple[Array, Array]:
        """`sum` of both, in one pass over the labels."""
        if self.width is not None:
            return self.sum(x), self.sum(y)
        x, y = jnp.broadcast_arrays(x, y)
        zeros = jnp.zeros((*x.shape[:-1], self.count, 2), jnp.result_type(x, y))
        both = zeros.at[..., self.labels, :].add(
            jnp.stack([x, y], -1), mode="drop", wrap_negative_indices=False
        )
        return both[..., 0], both[..., 1]

    def max(self, x: Array) -> Array:
        """Largest of each group: (…, n) → (…, count)."""
        x = jnp.asarray(x)
        if self.width is not None:
            return self._split(x).max(-1)
        low = jnp.finfo(x.dtype).min if jnp.issubdtype(x.dtype, jnp.floating) else -1
        lows = jnp.full((*x.shape[:-1], self.count), low, x.dtype)
        return lows.at[..., self.labels].max(x, mode="drop", wrap_negative_indices=False)

    def spread(self, t: Array) -> Array:
        """Each group's number at its cells, zero elsewhere: (…, count) → (…, n)."""
        t = jnp.asarray(t)
        if self.width is not None:
            return jnp.repeat(t, self.width, axis=-1, total_repeat_length=self.n)
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


def take_or_zero(t: Array, index: Array) -> Array:
    """t[…, index], zero where the index lies beyond the last axis."""
    if t.shape[-1] == 0:
        return jnp.zeros((*t.shape[:-1], index.shape[0]), t.dtype)
    return t.at[..., index].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def once[T](x: T) -> T:
    """`x`, computed once: XLA else draws a noise twice, for its sums and again to use it."""
    return jax.lax.optimization_barrier(x)
