"""The modified Bessel function K of half-integer and integer order, in logarithms.

    log x^ν K_ν(x),   K_ν(x) = ∫₀^∞ e^{−x cosh t} cosh(νt) dt,

which is finite at x = 0 (2^{ν−1} Γ(ν)) for ν > 0, and falls as −x far out. Small orders climb the
recurrence in its ratios ρ_ν = x K_{ν+1}/K_ν = 2ν + x²/ρ_{ν−1}, a sum of positive terms; large ones
use Debye's expansion, uniform in x (Abramowitz and Stegun 9.7.8).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_LARGE = 16.0  # orders from here on by Debye's expansion
_SERIES = 14  # terms of K_0 and K_1 up to x = 2
_NODES = 33  # of their integral beyond


@jax.custom_jvp
@jax.jit
def log_power_bessel(order: Any, x: Any) -> Array:
    """log x^ν K_ν(x) for ν = 0, ½, 1, 3/2, … and x ≥ 0, elementwise; +inf at ν = x = 0.

    Args:
        order: ν, non-negative multiples of ½.
        x: non-negative; broadcasts with `order`.

    Example:
        >>> import math
        >>> value = log_power_bessel(0.5, 2.0)  # x^½ K_½(x) = √(π/2) e^{−x}
        >>> abs(float(value) - (0.5 * math.log(math.pi / 2) - 2)) < 1e-6
        True
    """
    x = jnp.asarray(x, jnp.result_type(float, x))
    order, x = jnp.broadcast_arrays(jnp.asarray(order, x.dtype), x)
    small = order < _LARGE
    climbed = _climb(jnp.where(small, order, 1.0), x)
    return jnp.where(small, climbed, _debye(jnp.where(small, _LARGE, order), x))


@log_power_bessel.defjvp
def _(primals: Any, tangents: Any) -> Any:
    """d/dx log x^ν K_ν = −K_{ν−1}/K_ν, that is −x x^{ν−1}K_{ν−1}/(x^ν K_ν) for ν ≥ 1."""
    (order, x), (_, dx) = primals, tangents
    value = log_power_bessel(order, x)
    order, x = jnp.broadcast_arrays(jnp.asarray(order, value.dtype), jnp.asarray(x, value.dtype))
    positive = x > 0
    safe = jnp.where(positive, x, 1)
    below = log_power_bessel(jnp.abs(order - 1), safe)
    # K_{−ν} = K_ν: the power of x in front changes where ν < 1
    power = jnp.where(order >= 1, 1.0, 2 * order - 1)
    slope = -jnp.exp(below + power * jnp.log(safe) - jnp.where(positive, value, 0))
    return value, jnp.where(positive, slope, jnp.where(order == 0.5, -1.0, 0.0)) * dx


def _climb(order: Array, x: Array) -> Array:
    """From K_0 and K_1, or from K_½ in closed form, up to `order` < 16."""
    half = order % 1 != 0
    log_k0, log_xk1 = _first_two(x)
    start = jnp.where(half, 0.5, 1.0)
    value = jnp.where(half, 0.5 * math.log(math.pi / 2) - x, log_xk1)
    # ρ one order below the start: x for K_½/K_{−½}, x K_1/K_0 for the integers
    square = jnp.where(half, x, x * x * jnp.exp(log_k0 - log_xk1))  # x²/ρ
    square = jnp.where(x > 0, square, 0)
    for step in range(int(_LARGE)):
        now = start + step
        rho = 2 * now + square
        active = now < order
        value = jnp.where(active, value + jnp.log(rho), value)
        square = jnp.where(active, x * (x / rho), square)
    return jnp.where(order == 0, log_k0, value)


def _first_two(x: Array) -> tuple[Array, Array]:
    """log K_0(x) and log x K_1(x)."""
    near = x <= 2
    y = jnp.where(near & (x > 0), x, 1.0)
    log_half = jnp.log(y / 2)
    q, term0, term1 = y * y / 4, jnp.ones_like(y), jnp.ones_like(y)
    i0, k0 = term0, jnp.zeros_like(y)
    i1, k1 = term1, jnp.full_like(y, 1 - 2 * np.euler_gamma)
    harmonic = 0.0
    for k in range(1, _SERIES):
        harmonic += 1 / k
        term0, term1 = term0 * q / k**2, term1 * q / (k * (k + 1))
        i0, k0 = i0 + term0, k0 + harmonic * term0
        i1 = i1 + term1
        k1 = k1 + (2 * harmonic + 1 / (k + 1) - 2 * np.euler_gamma) * term1
    near0 = -(log_half + np.euler_gamma) * i0 + k0
    near1 = 1 + y * y * (0.5 * log_half * i1 - 0.25 * k1)
    # beyond: trapezoid of e^{−x(cosh t − 1)}, which has fallen to e^{−40} at the last node
    far = jnp.where(near, 2.0, x)
    rise = 40 / far
    step = jnp.log1p(rise + jnp.sqrt(rise * (2 + rise))) / (_NODES - 1)
    t = step[..., None] * jnp.arange(_NODES, dtype=x.dtype)
    weight = jnp.exp(-2 * far[..., None] * jnp.sinh(t / 2) ** 2)
    weight = weight.at[..., 0].multiply(0.5) * step[..., None]
    far0 = jnp.log(jnp.sum(weight, -1)) - far
    far1 = jnp.log(jnp.sum(weight * jnp.cosh(t), -1)) - far + jnp.log(far)
    log_k0 = jnp.where(near, jnp.log(near0), far0)
    log_xk1 = jnp.where(near, jnp.log(near1), far1)
    return jnp.where(x > 0, log_k0, jnp.inf), jnp.where(x > 0, log_xk1, 0.0)


def _debye(order: Array, x: Array) -> Array:
    """Uniform expansion in 1/ν with z = x/ν, the power x^ν taken into the exponent."""
    z = x / order
    root = jnp.sqrt(1 + z * z)
    p = 1 / root
    total, power = jnp.zeros_like(x), jnp.ones_like(x)
    for k, coefficients in enumerate(_DEBYE):
        u = jnp.zeros_like(x)
        for c in reversed(coefficients):
            u = u * p * p + c
        total = total + power * p**k * u
        power = -power / order
    exponent = order * (jnp.log(order) + jnp.log1p(root) - root)
    return (
        exponent + 0.5 * (math.log(math.pi / 2) - jnp.log(order) - jnp.log(root)) + jnp.log(total)
    )


def _debye_coefficients(count: int) -> list[list[float]]:
    """u_k(p)/p^k as polynomials in p²: u_{k+1} = ½p²(1−p²)u_k′ + ⅛∫₀^p (1−5t²)u_k dt."""
    from fractions import Fraction

    u, found = [Fraction(1)], []  # coefficients of p^0, p^1, …
    for k in range(count):
        found.append([float(u[k + 2 * j]) for j in range(k + 1)])
        new = [Fraction(0)] * (len(u) + 3)
        for i, c in enumerate(u):
            new[i + 1] += c * i / 2 + c / 8 / (i + 1)
            new[i + 3] -= c * i / 2 + c * 5 / 8 / (i + 3)
        u = new
    return found


_DEBYE = _debye_coefficients(10)
