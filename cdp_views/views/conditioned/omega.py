"""ω of disjoint totals for any base: quadrature over it, and exact draws of it, group by group.

ω has density ∝ Π_i φ(c_i ω) in its group, c = |b|λ; v = log ω is log-concave. The density of the
totals' noise at τ is (1/π) ∫ cos(ωτ) Π φ dω. Where the base has a moment generating function the
contour of `precision.characteristic_of_shift` takes its place.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views._segments import Segments
from cdp_views.noise import Mixing
from cdp_views.precision import characteristic_of_shift as shifted
from cdp_views.precision.characteristic_of_shift import Nodes
from cdp_views.precision.omega_tangents import around_peak, draw, scan
from cdp_views.views.conditioned import characteristic as law_of

_NODES = 257
_KEPT = 42.0  # nats below the peak: e^{−42} is below rounding
_MORE = 2049  # where a total is not the base's own: cos(ωτ) has to be followed


def quadrature(mixing: Mixing, c: Array, segments: Segments, tau: Array | None) -> Nodes:
    """Nodes of the law at τ (…, G), or at 0 for `None`; log f is that of b·X of every group."""
    at_zero = tau is None
    tau = jnp.zeros((segments.count,), c.dtype) if tau is None else jnp.abs(tau)
    log_mgf = law_of.log_mgf_of(mixing)
    if log_mgf is not None:
        nodes = shifted.around_saddle(log_mgf, c, segments, tau)
    else:
        nodes = _along_axis(mixing, c, segments, tau, _NODES if at_zero else _MORE)
    alone = segments.sizes == 1
    only = segments.sum(jnp.broadcast_to(c, (*c.shape[:-1], segments.n)))
    only = jnp.where(alone, only, 1)
    cell = law_of.log_base(_of_groups(mixing, segments), tau / only) - jnp.log(only)
    return nodes._replace(log_f=jnp.where(alone, cell, nodes.log_f))


def slopes(mixing: Mixing, x: Array) -> Array:
    """d log M/dx at complex x: imaginary x where there is only a characteristic function."""
    log_mgf = law_of.log_mgf_of(mixing)
    if log_mgf is not None:
        return jax.jvp(log_mgf, (x,), (jnp.ones_like(x),))[1]
    t = x.imag
    phi = partial(law_of.log_characteristic, mixing)
    slope = jax.jvp(phi, (t,), (jnp.ones_like(t),))[1]
    return lax.complex(jnp.zeros_like(t), -jnp.where(t > 0, slope, 0))


def quadrature_error(nodes: Nodes) -> Array:
    """Relative error of f, by leaving out every second node: (…, G)."""
    return jnp.abs(2 * jnp.sum(nodes.weight[::2].real, 0) - 1)


def _along_axis(mixing: Mixing, c: Array, segments: Segments, tau: Array, count: int) -> Nodes:
    """z = iω on equal steps of log ω."""
    unit = jnp.sqrt(segments.sum(c * c))
    line = partial(_log_omega, mixing, c / segments.spread(unit), segments)

    grid, value = scan(line, unit)
    peak = jnp.argmax(value, 0)
    beyond = (jnp.arange(len(grid)).reshape(-1, *[1] * unit.ndim) > peak) & (
        value < jnp.max(value, 0) - _KEPT
    )
    high = jnp.where(jnp.any(beyond, 0), grid[jnp.argmax(beyond, 0)], grid[-1])
    low = grid[peak] - _KEPT
    step = lax.stop_gradient(high - low) / (count - 1)

    def node(k: Array) -> tuple[Array, Array]:
        v = low + k * step
        omega = jnp.exp(v) / unit
        return lax.complex(jnp.zeros_like(omega), omega), line(v) - jnp.log(unit)

    z, log_g = lax.map(node, jnp.arange(count, dtype=c.dtype))
    shape = jnp.broadcast_shapes(z.shape[1:], tau.shape)
    z, log_g = (jnp.broadcast_to(a, (count, *shape)) for a in (z, log_g))
    turned = lax.complex(log_g, -z.imag * tau)
    return shifted.normalised(z, turned, step)


def _log_omega(mixing: Mixing, c: Array, segments: Segments, v: Array) -> Array:
    """log of the density of v = log ω, not normalised: (…, G)."""
    t = c * segments.spread(jnp.exp(v))
    return segments.sum(law_of.log_characteristic(mixing, t)) + v


def draw_a(
    key: Array, mixing: Mixing, c: Array, segments: Segments, shape: tuple[int, ...]
) -> Array:
    """c_i·ω of every cell, (*shape): exact."""
    unit = jnp.sqrt(segments.sum(c * c))
    q = c / jnp.where(segments.member, segments.spread(unit), 1)
    line = partial(_log_omega, mixing, q, segments)
    hat = around_peak(line, unit)
    fast = _fast(mixing, q, segments)
    alone = segments.sizes == 1  # its noise is fixed anyway: any ω will do

    def density(v: Array) -> Array:
        return jnp.where(alone, math.inf, fast(v))

    v = draw(key, hat, density, (*shape[:-1], segments.count))
    return q * segments.spread(jnp.where(alone, 0, jnp.exp(v)))


def _fast(mixing: Mixing, q: Array, segments: Segments) -> Any:
    """`_log_omega` where many draws are to be judged: log φ from a table if it is not cheap."""
    if law_of.log_mgf_of(mixing) is not None or not law_of.one_law(mixing):
        return partial(_log_omega, mixing, q, segments)
    table = law_of.Table.of(mixing, q.dtype)
    log_q = jnp.log(jnp.where(segments.member, q, 1))

    def line(v: Array) -> Array:
        return segments.sum(table(log_q + segments.spread(v))) + v

    return line


def _of_groups(mixing: Mixing, segments: Segments) -> Mixing:
    return mixing.of_groups(segments)
