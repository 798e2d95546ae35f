"""A pool of draws filled by rejection: many proposals at once, the accepted ones kept."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

_NUMBERS = 2**24  # of one batch of proposals


def fill(
    key: Array,
    propose: Callable[[Array, int], tuple[Array, Array]],
    shape: tuple[int, int],
    chance: float,
    *,
    least: float | None = None,
) -> Array:
    """`count` independent accepted rows, (count, width); NaN where the cap on rounds is reached.

    Args:
        key: a typed JAX key.
        propose: (key, wide) ↦ rows (wide, width) and the log of their chance to be kept (wide,).
        shape: (count, width).
        chance: about the mean chance: it sets how many proposals are made at once.
        least: the smallest mean chance for which the pool is still filled; `None`: `chance`.
    """
    count, width = shape
    wide = min(max(math.ceil(1.1 * count / max(chance, 1e-3)), 64), max(_NUMBERS // width, 64))
    most = math.ceil(20 * count / ((least or chance) * wide)) + 20

    def more(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, pool, filled, rounds = state
        key, one, two = jax.random.split(key, 3)
        rows, ratio = propose(one, wide)
        u = jax.random.uniform(two, (wide,), rows.dtype, minval=jnp.finfo(rows.dtype).tiny)
        keep = jnp.log(u) <= ratio
        place = jnp.where(keep, filled + jnp.cumsum(keep) - 1, count)
        return key, pool.at[place].set(rows, mode="drop"), filled + jnp.sum(keep), rounds + 1

    def short(state: tuple[Array, ...]) -> Array:
        return (state[2] < count) & (state[3] < most)

    dtype = jax.eval_shape(lambda k: propose(k, wide)[0], key).dtype
    start = (key, jnp.full(shape, jnp.nan, dtype), jnp.asarray(0), jnp.asarray(0))
    return lax.while_loop(short, more, start)[1]


def fill_parts(
    key: Array,
    propose: Callable[[Array, int], tuple[Array, Array]],
    labels: Array,
    shape: tuple[int, int],
    chance: float,
) -> Array:
    """The same where rows fall into parts that are accepted one by one, and put together again.

    Args:
        key: a typed JAX key.
        propose: (key, wide) ↦ rows (wide, width) and which parts of each are kept (wide, parts).
        labels: the part (width,) of every column.
        shape: (count, width).
        chance: the smallest part's acceptance.
    """
    count, width = shape
    wide = min(max(math.ceil(1.1 * count / max(chance, 1e-5)), 64), max(_NUMBERS // 4 // width, 64))
    most = math.ceil(20 * count / (chance * wide)) + 20
    columns = jnp.arange(width)

    def more(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, pool, filled, rounds = state
        key, one = jax.random.split(key)
        rows, keep = propose(one, wide)
        place = jnp.where(keep, filled + jnp.cumsum(keep, 0) - 1, count)
        pool = pool.at[place[:, labels], columns].set(rows, mode="drop")
        return key, pool, filled + jnp.sum(keep, 0), rounds + 1

    def short(state: tuple[Array, ...]) -> Array:
        return jnp.any(state[2] < count) & (state[3] < most)

    rows, keep = jax.eval_shape(lambda k: propose(k, wide), key)
    start = (key, jnp.full(shape, jnp.nan, rows.dtype), jnp.zeros(keep.shape[1:], int))
    return lax.while_loop(short, more, (*start, jnp.asarray(0)))[1]
