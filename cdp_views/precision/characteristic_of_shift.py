"""Sums of independent symmetric variables at any point τ, by a contour through the saddle.

With moment generating functions M_i, whose poles lie on the real axis,

    f(τ) = (1/2πi) ∫ Π M_i(c_i z) e^{−zτ} dz,   z(w) = θ + κ(cosh w − 1 + i sinh w),

θ the saddle K′(θ) = τ. Both arms bend towards the decay of e^{−zτ} and pass around the poles, so
the trapezoid rule in w converges geometrically, relative to f(τ) even far out. The same nodes give
every moment of the cells given their sum. (Weideman and Trefethen 2007, Parabolic and hyperbolic
contours for computing the Bromwich integral.)
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views._segments import Segments

NODES = 240
_REACH = 60
_BISECTIONS = 60


class Nodes(NamedTuple):
    """z (J, …, G), weights with real parts that sum to 1 over J, and log f(τ) (…, G)."""

    z: Array
    weight: Array
    log_f: Array


def around_saddle(
    log_mgf: Callable[[Array], Array], c: Array, segments: Segments, tau: Array
) -> Nodes:
    """Nodes for c = |b|λ (…, n), and τ ≥ 0 (…, G); log M has its first pole at 1.

    `log_mgf` is elementwise and takes complex arguments with imaginary part ≥ 0.
    """
    theta, kappa = lax.stop_gradient(_saddle(log_mgf, c, segments, tau))

    def on(w: Array) -> tuple[Array, Array]:
        """z, and log of the integrand with dz/dw."""
        z = lax.complex(theta + kappa * (jnp.cosh(w) - 1), kappa * jnp.sinh(w))
        turn = jnp.log(lax.complex(kappa * jnp.cosh(w), -kappa * jnp.sinh(w)))
        # what a cell outside all groups would add is 0
        return z, segments_sum(segments, log_mgf(c * segments.spread(z))) - z * tau + turn

    width = jnp.full(theta.shape, float(_REACH), theta.dtype)
    steps = jnp.arange(_REACH, dtype=theta.dtype)
    sizes = lax.map(lambda w: on(jnp.full(theta.shape, w))[1].real, steps)
    far = lax.stop_gradient(sizes - sizes[0]) < -42
    width = jnp.where(jnp.any(far, 0), jnp.argmax(far, 0).astype(theta.dtype), width)
    step = width / NODES

    def node(k: Array) -> tuple[Array, Array]:
        z, log_g = on(step * k)
        return z, log_g + jnp.where(k == 0, -math.log(2), 0)

    z, log_g = lax.map(node, jnp.arange(NODES + 1, dtype=theta.dtype))
    return normalised(z, log_g, step)


def normalised(z: Array, log_g: Array, step: Array) -> Nodes:
    """f = (step/π) Re Σ e^{log g}, scaled so that nothing overflows."""
    peak = lax.stop_gradient(jnp.max(log_g.real, 0))
    g = jnp.exp(log_g - peak)
    total = jnp.sum(g.real, 0)
    log_f = jnp.log(total * step / math.pi) + peak
    return Nodes(z, g / total, log_f)


def average(nodes: Nodes, segments: Segments, function: Callable[[Array], Array]) -> Array:
    """Re Σ_k weight_k·function(z_k spread over cells), cell by cell: (…, n)."""

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        z, weight = node
        return total + (segments.spread(weight) * function(segments.spread(z))).real, None

    shape = jax.eval_shape(lambda z: function(segments.spread(z)).real, nodes.z[0])
    start = jnp.zeros(shape.shape, shape.dtype)
    return lax.scan(add, start, (nodes.z, nodes.weight))[0]


def segments_sum(segments: Segments, x: Array) -> Array:
    """`Segments.sum` of complex numbers."""
    return lax.complex(segments.sum(x.real), segments.sum(x.imag))


def _saddle(
    log_mgf: Callable[[Array], Array], c: Array, segments: Segments, tau: Array
) -> tuple[Array, Array]:
    """θ in [0, 1/max c) and the contour's size κ."""
    first = jnp.where(segments.sizes > 0, segments.max(jnp.broadcast_to(c, _wide(c, segments))), 1)
    shape = jnp.broadcast_shapes(first.shape, tau.shape)

    def slope(x: Array) -> Array:
        return jax.jvp(log_mgf, (x,), (jnp.ones_like(x),))[1]

    def mean(theta: Array) -> Array:
        x = c * segments.spread(theta)
        return segments.sum(c * slope(lax.complex(x, jnp.zeros_like(x))).real)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        below = mean(middle) < tau
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    ends = (jnp.zeros(shape, c.dtype), jnp.broadcast_to(1 / first, shape))
    theta = lax.fori_loop(0, _BISECTIONS, halve, ends)[0]
    x = c * segments.spread(theta)
    z = lax.complex(x, jnp.zeros_like(x))
    curvature = jax.jvp(slope, (z,), (jnp.ones_like(z),))[1].real
    spread = jnp.sqrt(segments.sum(c * c * curvature) / 2)
    return theta, jnp.minimum(1 / spread, 2 * (1 / first - theta))


def _wide(c: Array, segments: Segments) -> tuple[int, ...]:
    return (*c.shape[:-1], segments.n)


def laplace(x: Any) -> Array:
    """log 1/(1 − x²)."""
    return -jnp.log((1 - x) * (1 + x))


def logistic(x: Any) -> Array:
    """log πx/sin πx, for imaginary parts ≥ 0."""
    y = math.pi * x
    small = jnp.abs(y) < 0.1
    near = jnp.where(small, y, 0)
    square = near * near
    series = square * (1 / 6 + square * (1 / 180 + square * (1 / 2835 + square / 37800)))
    far = jnp.where(small, 1, y)
    # sin y = e^{−iy} (1 − e^{2iy}) i/2
    direct = jnp.log(far) + 1j * far - jnp.log(1 - jnp.exp(2j * far)) - jnp.log(0.5j)
    return jnp.where(small, series, direct)
