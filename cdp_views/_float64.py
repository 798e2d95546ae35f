"""Privacy numbers are float64 whatever JAX's flag says: one decorator for host functions."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax


def in_float64[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with 64-bit JAX, also inside a trace; it must return host numbers."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return function(*args, **kwargs)

    return wrapper


def float64(value: Any) -> Any:
    """`value` as a JAX float64 array; only inside a function decorated by `in_float64`."""
    return jax.numpy.asarray(value, dtype="float64")
