"""Products of integrals along fibres: where a table is large, NumPy computes them for JAX."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from cdp_views._segments import Segments
from cdp_views.precision.fibre import breakpoints, log_fibre_integral
from cdp_views.precision.fibre_rows import fibre_integrals

_HOST = 2**15  # cells of a table from which NumPy is faster, for all that a call of it costs


def log_fibre_product(x: Array, u: Array, rate: Array, segments: Segments) -> Array:
    """The sum over groups of `log_fibre_integral`, on the host where a table is large: (…).

    `u` and `rate` may be (…, 1).
    """
    if segments.n < _HOST or segments.count == 0 or jax.default_backend() != "cpu":
        return jnp.sum(log_fibre_integral(x, u, rate, segments), -1)
    return _on_host(*breakpoints(x, u, rate, segments), segments)


@jax.custom_jvp
def _on_host(place: Array, weight: Array, segments: Segments) -> Array:
    """Σ_g log ∫ exp(−Σ_{i∈g} w_i |s − t_i|) ds: t (…, n) and w (…, n) or (…, 1) → (…)."""
    return _call(place, weight, segments, slopes=False)[0]


@partial(_on_host.defjvp, symbolic_zeros=True)
def _(primals: tuple[Array, Array, Segments], tangents: tuple[Any, Any, Any]) -> Any:
    (place, weight, segments), (dplace, dweight, _) = primals, tangents
    value, pull = _value_and_slopes(place, weight, segments)
    slope = jnp.zeros_like(value)
    if not isinstance(dplace, SymbolicZero):
        slope = slope + jnp.sum(pull * dplace, -1)
    if not isinstance(dweight, SymbolicZero):
        by_weight = partial(_plain, place, segments=segments)
        slope = slope + jax.jvp(by_weight, (weight,), (dweight,))[1]
    return value, slope


@jax.custom_jvp
def _value_and_slopes(place: Array, weight: Array, segments: Segments) -> tuple[Array, Array]:
    """The value (…), and its slopes in t (…, n)."""
    return _call(place, weight, segments, slopes=True)


@_value_and_slopes.defjvp
def _(primals: tuple[Array, Array, Segments], tangents: tuple[Any, Any, Any]) -> Any:
    (place, weight, segments), (dplace, dweight, _) = primals, tangents

    def slopes(place: Array, weight: Array) -> tuple[Array, Array]:
        value, back = jax.vjp(partial(_plain, weight=weight, segments=segments), place)
        return value, back(jnp.ones_like(value))[0]

    return _value_and_slopes(*primals), jax.jvp(slopes, (place, weight), (dplace, dweight))[1]


def _plain(place: Array, weight: Array, segments: Segments) -> Array:
    one = jnp.ones((1,), place.dtype)
    return jnp.sum(log_fibre_integral(-place, one, weight, segments), -1)


def _call(place: Array, weight: Array, segments: Segments, *, slopes: bool) -> tuple[Array, Array]:
    """`fibre_integrals` of every row of a batch; without `slopes` they are (…, 0)."""
    dtype, n, shape = np.dtype(place.dtype), place.shape[-1], place.shape[:-1]
    weight = jnp.broadcast_to(weight, (*shape, weight.shape[-1]))
    words = dtype.itemsize // 4

    def solve(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        place, weight, labels = (np.asarray(a) for a in arguments)
        place, weight = (np.ascontiguousarray(a).view(dtype) for a in (place, weight))
        # under vmap there are more axes, of length 1 where an argument has no batch
        rows = np.broadcast_shapes(place.shape[:-1], weight.shape[:-1], labels.shape[:-1])
        place, weight, labels = (
            np.broadcast_to(a, (*rows, a.shape[-1])) for a in (place, weight, labels)
        )
        value = np.empty((*rows, 1), dtype)
        slope = np.empty((*rows, n if slopes else 0), dtype)
        for row in np.ndindex(rows):
            by_group, slope[row] = fibre_integrals(
                place[row], weight[row], labels[row], segments.count, slopes=slopes
            )
            value[row] = by_group.sum()
        return value.view(np.uint32), slope.view(np.uint32)

    out = tuple(
        jax.ShapeDtypeStruct((*shape, words * size), jnp.uint32) for size in (1, n if slopes else 0)
    )
    labels = jnp.broadcast_to(segments.labels, (*(1 for _ in shape), n))
    found = jax.pure_callback(
        solve, out, _bits(place), _bits(weight), labels, vmap_method="expand_dims"
    )
    value, slope = (_numbers(a, dtype) for a in found)
    return value[..., 0], slope


def _bits(x: Array) -> Array:
    """The bits of x (…, n): the thread of a callback may have no float64, and would round."""
    return lax.bitcast_convert_type(x, jnp.uint32).reshape(*x.shape[:-1], -1)


def _numbers(bits: Array, dtype: Any) -> Array:
    words = np.dtype(dtype).itemsize // 4
    if words > 1:
        bits = bits.reshape(*bits.shape[:-1], -1, words)
    return lax.bitcast_convert_type(bits, dtype)
