"""The two random numbers of every cell of a scale mixture: its scale s and a standard normal."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from cdp_views._lanes import Lanes
from cdp_views._pairs import exponential_and_normal
from cdp_views._segments import once
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import Rayleigh
from cdp_views.views._mixture import squared_unit_scales


def independent_pairs(
    mixing: Mixing, lanes: Lanes, key: Array, shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """Independent s and standard normals of every cell (*batch, n), at its place in the lanes."""
    dtype, places = jnp.result_type(float), lanes.shape(shape[:-1])
    if isinstance(mixing, Rayleigh):  # both from one hash
        return _laplace_pairs(key, places)
    one, two = jax.random.split(key)
    s = lanes.taken(mixing.sample(one, shape, dtype))
    return once((s, jax.random.normal(two, places, dtype)))


@partial(jax.jit, static_argnames="places")
def _laplace_pairs(key: Array, places: tuple[int, ...]) -> tuple[Array, Array]:
    e, z = once(exponential_and_normal(key, places))
    return jnp.sqrt(squared_unit_scales(e)), z
