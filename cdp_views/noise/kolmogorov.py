"""The Kolmogorov law, by whose double a logistic variable is a scale mixture of normals.

    P(K > x) = 2 Σ_{j≥1} (−1)^{j−1} e^{−2j²x²},   P(K ≤ x) = (√(2π)/x) Σ_{j≥1} e^{−(2j−1)²π²/(8x²)}.

The first series needs three terms from x = 0.9 on, the second three below.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

_SWITCH = 0.9
_TERMS = 5


def log_density(x: Any) -> Array:
    """log k(x), x > 0; −inf where x ≤ 0.

    Example:
        >>> round(float(log_density(1.0)), 4)
        0.0695

    Reference: Andrews and Mallows 1974, Scale mixtures of normal distributions.
    """
    x = jnp.asarray(x)
    above = x > _SWITCH
    y = jnp.where(above, x, 1.0)
    square, total = y * y, jnp.zeros_like(y)
    for j in range(1, _TERMS + 1):  # 8x Σ (−1)^{j−1} j² e^{−2j²x²}
        total = total + (-1) ** (j - 1) * j * j * jnp.exp(-2 * (j * j - 1) * square)
    high = jnp.log(8 * y) - 2 * square + jnp.log(total)
    y = jnp.where(above | (x <= 0), 0.5, x)
    a, total = math.pi**2 / 8 / (y * y), jnp.zeros_like(y)
    for j in range(1, _TERMS + 1):
        odd = (2 * j - 1) ** 2
        total = total + (2 * a * odd - 1) * jnp.exp(-(odd - 1) * a)
    low = 0.5 * math.log(2 * math.pi) - 2 * jnp.log(y) - a + jnp.log(total)
    return jnp.where(above, high, jnp.where(x > 0, low, -jnp.inf))


def sample(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Draws of K by inversion to rounding: P(K > x) = e^{−e} with e ~ Exp(1).

    Beyond the median log P(K > x) is nearly linear in x², below it log P(K ≤ x) in 1/x²; Newton
    in these variables is at rounding after five steps.
    """
    e = jax.random.exponential(key, shape, jnp.result_type(float) if dtype is None else dtype)
    upper = e > math.log(2)
    target = jnp.where(upper, e, 1.0)
    w = (target + math.log(2)) / 2  # x²
    for _ in range(5):
        q = jnp.exp(-6 * w)
        value = math.log(2) - 2 * w + jnp.log1p(-q + q ** (8 / 3)) + target
        slope = -2 + (6 * q - 16 * q ** (8 / 3)) / (1 - q + q ** (8 / 3))
        w = w - value / slope
    tiny = jnp.finfo(e.dtype).tiny
    log_f = jnp.log(-jnp.expm1(-jnp.where(upper, 0.5, jnp.maximum(e, tiny))))
    r = 1.5 - log_f * (8 / math.pi**2)  # 1/x²
    for _ in range(6):
        q = jnp.exp(-(math.pi**2) * r)
        value = 0.5 * (math.log(2 * math.pi) + jnp.log(r)) - math.pi**2 / 8 * r + jnp.log1p(q)
        slope = 0.5 / r - math.pi**2 / 8 - math.pi**2 * q / (1 + q)
        r = r - (value - log_f) / slope
    return jnp.where(upper, jnp.sqrt(w), 1 / jnp.sqrt(r))
