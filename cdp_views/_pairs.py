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


def two_exponentials(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Independent Exp(1) numbers, twice (shape)."""
    u, v = _two_uniforms(key, shape)
    return -jnp.log1p(-u), -jnp.log1p(-v)


def exponential_and_normal(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Independent Exp(1) and N(0, 1) numbers, (shape) each."""
    u, v = _two_uniforms(key, shape)
    # in (−1, 1), as jax.random.normal has it
    low = np.nextafter(np.array(-1.0, v.dtype), np.array(0.0, v.dtype))
    v = jnp.maximum(v * (1 - low) + low, low)
    return -jnp.log1p(-u), math.sqrt(2) * lax.erf_inv(v)


def _two_uniforms(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """In [0, 1), in the precision that JAX is set to."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    size, dtype = math.prod(shape), jnp.result_type(float)
    plain = str(jax.random.key_impl(key)) == "threefry2x32"
    if dtype != jnp.float32 or not plain or size >= 2**32:
        one, two = jax.random.split(key)
        return jax.random.uniform(one, shape, dtype), jax.random.uniform(two, shape, dtype)
    data: Any = jax.random.key_data(key)
    count = lax.iota(np.uint32, size).reshape(shape)
    words = threefry2x32_p.bind(data[0], data[1], jnp.zeros_like(count), count)
    one, two = (_unit(word) for word in words)
    return one, two


def _unit(bits: Array) -> Array:
    """The upper 23 bits as the mantissa of a float32 in [1, 2), less 1."""
    return lax.bitcast_convert_type((bits >> 9) | np.uint32(0x3F800000), np.float32) - 1
