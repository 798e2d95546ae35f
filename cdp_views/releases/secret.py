"""The secret of one release: drawn from the operating system, used once, kept nowhere."""

import secrets

import jax
import numpy as np
from jax import Array

GENERATOR = "threefry2x32"


def fresh_key() -> Array:
    """A key that nobody chose and nobody can ask for again; 64 bits, all that such a key holds."""
    words = np.frombuffer(secrets.token_bytes(8), dtype=np.uint32)
    # The generator by name: a session's default (jax_default_prng_impl) may be another.
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl=GENERATOR)
