"""Two independent uniform numbers a cell, for the price of one in float32.

Drawing noise is mostly hashing: one threefry block holds 64 random bits, of which `jax.random`
keeps 32 for a float32. Both halves are independent, so a cell that needs two numbers needs one
block. (Salmon et al., 2011, "Parallel random numbers: as easy as 1, 2, 3".)
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.random import threefry2x32_p

SPARE_BITS = 12
_SPARE = np.uint16(2**SPARE_BITS - 1)


def exponential_and_normal(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Independent Exp(1) and N(0, 1) numbers, (shape) each."""
    u, v = _two_uniforms(key, shape)
    # in (−1, 1), as jax.random.normal has it
    low = np.nextafter(np.array(-1.0, v.dtype), np.array(0.0, v.dtype))
    v = jnp.maximum(v * (1 - low) + low, low)
    return -jnp.log1p(-u), math.sqrt(2) * lax.erf_inv(v)


def exponential_and_bits(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Independent Exp(1) numbers and `SPARE_BITS` random bits (uint16), (shape) each.

    A float64 uniform takes 52 of a block's 64 bits, so here both precisions need one block.
    """
    key, size, dtype = _typed(key), math.prod(shape), jnp.result_type(float)
    if not _is_threefry(key) or size >= 2**32:
        one, two = jax.random.split(key)
        e = jax.random.exponential(one, shape, dtype)
        return e, jax.random.bits(two, shape, np.uint16) & _SPARE
    high, low = _words(key, shape)
    spare = low.astype(np.uint16) & _SPARE
    if dtype == jnp.float32:
        return -jnp.log1p(-_unit(high)), spare
    word = (high.astype(np.uint64) << 32) | low
    u = lax.bitcast_convert_type((word >> 12) | np.uint64(0x3FF << 52), np.float64) - 1
    return -jnp.log1p(-u), spare


def _two_uniforms(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """In [0, 1), in the precision that JAX is set to."""
    key, size, dtype = _typed(key), math.prod(shape), jnp.result_type(float)
    if dtype != jnp.float32 or not _is_threefry(key) or size >= 2**32:
        one, two = jax.random.split(key)
        return jax.random.uniform(one, shape, dtype), jax.random.uniform(two, shape, dtype)
    one, two = (_unit(word) for word in _words(key, shape))
    return one, two


def _typed(key: Array) -> Array:
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)


def _is_threefry(key: Array) -> bool:
    return str(jax.random.key_impl(key)) == "threefry2x32"


def _words(key: Array, shape: tuple[int, ...]) -> Any:
    """Both 32-bit words of one block for every number."""
    data: Any = jax.random.key_data(key)
    count = lax.iota(np.uint32, math.prod(shape)).reshape(shape)
    return threefry2x32_p.bind(data[0], data[1], jnp.zeros_like(count), count)


def _unit(bits: Array) -> Array:
    """The upper 23 bits as the mantissa of a float32 in [1, 2), less 1."""
    return lax.bitcast_convert_type((bits >> 9) | np.uint32(0x3F800000), np.float32) - 1
