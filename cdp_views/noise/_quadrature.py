"""Integrals over the whole line by the trapezoid rule, in a window that finds the mass itself."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import logsumexp

_SCAN, _ZOOMS, _NODES = 65, 5, 129
_KEPT = 42.0  # nats below the peak: e^{−42} is below rounding in float64
_RANGE = 80.0  # e^{±80} is a float32


def window(f: Callable[[Array], Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """The nodes (129, *shape) that span where f is within 42 nats of its peak.

    `f` maps nodes (k, *shape) to log-values, rising towards its peak from both sides; each of five
    scans keeps a window around the peak, so a peak 10⁻⁶ wide is found as well as one 100 wide.
    """
    low, high = jnp.full(shape, -_RANGE, dtype), jnp.full(shape, _RANGE, dtype)
    for _ in range(_ZOOMS):
        nodes = _spread(low, high, _SCAN)
        value = f(nodes)
        value = jnp.where(jnp.isnan(value), -jnp.inf, value)
        kept = value > jnp.max(value, 0) - _KEPT
        first = jnp.argmax(kept, 0)
        last = _SCAN - 1 - jnp.argmax(kept[::-1], 0)
        step = (high - low) / (_SCAN - 1)
        low, high = (
            low + jnp.maximum(first - 1, 0) * step,
            high - step * jnp.maximum(_SCAN - 2 - last, 0),
        )
    return lax.stop_gradient(_spread(low, high, _NODES))


def log_integral(f: Callable[[Array], Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """log ∫ e^{f(v)} dv, elementwise: (*shape)."""
    return log_trapezoid(f, window(f, shape, dtype))


def log_trapezoid(f: Callable[[Array], Array], nodes: Array, every: int = 1) -> Array:
    """The rule on these equally spaced nodes, or on every second one (to see its error)."""
    nodes = nodes[::every]
    value = f(nodes)
    value = jnp.where(jnp.isnan(value), -jnp.inf, value)
    return logsumexp(value, 0) + jnp.log(nodes[1] - nodes[0])


def _spread(low: Array, high: Array, count: int) -> Array:
    fraction = jnp.linspace(0, 1, count, dtype=low.dtype).reshape((count,) + (1,) * low.ndim)
    return low + fraction * (high - low)
