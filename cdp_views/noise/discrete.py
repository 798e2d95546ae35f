"""Whole-number noise around whole counts: the discrete Laplace and the discrete normal."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes

_TERMS = np.arange(1, 8)
_SWITCH = 0.5  # below, the sum over integers is short; above, the sum over frequencies


class WholeNumbers(constraints.ParameterFreeConstraint):
    """All integers, as integer or floating values."""

    is_discrete = True

    def __call__(self, x: Any) -> Array:
        """Whether each value is a whole number."""
        x = jnp.asarray(x)
        return x == jnp.round(x)

    def feasible_like(self, prototype: Any) -> Array:
        return jnp.zeros_like(prototype)

    def __repr__(self) -> str:
        return "WholeNumbers()"


class _Discrete(dist.Distribution):
    """Noise on the integers, symmetric around a whole `loc`."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = WholeNumbers()  # pyright: ignore[reportAssignmentType]

    def __init__(
        self, loc: Any = 0, scale: Any = 1.0, *, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = promote_shapes(loc, scale)
        batch_shape = lax.broadcast_shapes(jnp.shape(loc), jnp.shape(scale))
        super().__init__(batch_shape, (), validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        noise = self._noise(key, self.shape(sample_shape))
        return jnp.asarray(jnp.round(jnp.asarray(self.loc)), noise.dtype) + noise

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """Log-probability; −inf where value − loc is not a whole number."""
        value = jnp.asarray(value)
        x = value - jnp.asarray(self.loc, jnp.result_type(value, float))
        return jnp.where(x == jnp.round(x), self._log_mass(x), -jnp.inf)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(jnp.asarray(self.loc, jnp.result_type(float)), self.batch_shape)

    def _noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        raise NotImplementedError

    def _log_mass(self, x: Array) -> Array:
        raise NotImplementedError


class DiscreteLaplace(_Discrete):
    """P(x) = tanh(1/2λ) exp(−|x − loc|/λ) on the integers: the two-sided geometric.

    The difference of two geometric counts; adding it to a count costs pure ε = 1/λ per record.

    Args:
        loc: whole numbers, any batch shape.
        scale: λ > 0, in counts, broadcast against `loc`.

    Raises:
        ValueError: a concrete scale that is not positive (by NumPyro's validation).

    Example:
        >>> import cdp_views as cdp
        >>> noise = cdp.DiscreteLaplace(0, 2.0)
        >>> round(float(noise.variance), 4)  # 2a/(1 − a)², a = exp(−1/λ)
        7.8354

    Reference: Ghosh, Roughgarden and Sundararajan 2012 (geometric mechanism).
    """

    @property
    def variance(self) -> Array:
        # 2a/(1 − a)² = ½ sinh(1/2λ)⁻²
        value = 0.5 / jnp.sinh(0.5 / jnp.asarray(self.scale, jnp.result_type(float))) ** 2
        return jnp.broadcast_to(value, self.batch_shape)

    def _noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        # ⌊λE⌋ of a standard exponential E is geometric: P(⌊λE⌋ ≥ k) = exp(−k/λ)
        e = jax.random.exponential(key, (2, *shape))
        whole = jnp.floor(jnp.asarray(self.scale, e.dtype) * e)
        return (whole[0] - whole[1]).astype(jnp.result_type(int))

    def _log_mass(self, x: Array) -> Array:
        scale = jnp.asarray(self.scale, x.dtype)
        return -jnp.abs(x) / scale + jnp.log(jnp.tanh(0.5 / scale))


class DiscreteNormal(_Discrete):
    """P(x) ∝ exp(−(x − loc)²/2σ²) on the integers.

    Adding it to counts keeps zCDP with ρ = |v|²/2σ², as normal noise does.

    Args:
        loc: whole numbers, any batch shape.
        scale: σ > 0, in counts, broadcast against `loc`. (The variance is below σ², by a factor
            that matters only below σ = 1.)

    Example:
        >>> import cdp_views as cdp
        >>> round(float(cdp.DiscreteNormal(0, 0.5).variance), 4), 0.5**2
        (0.215, 0.25)

    Reference: Canonne, Kamath and Steinke 2020, Theorem 4 and Algorithm 3 (exact sampling).
    """

    @property
    def variance(self) -> Array:
        s2 = jnp.asarray(self.scale, jnp.result_type(float)) ** 2
        k2 = jnp.asarray(_TERMS**2, s2.dtype)
        frequencies = jnp.exp(-2 * np.pi**2 * jnp.maximum(s2, _SWITCH**2)[..., None] * k2)
        slope = jnp.sum(4 * np.pi**2 * k2 * frequencies, -1) / (1 + 2 * jnp.sum(frequencies, -1))
        wide = s2 - 2 * s2**2 * slope
        integers = jnp.exp(-k2 / (2 * jnp.minimum(s2, _SWITCH**2)[..., None]))
        narrow = 2 * jnp.sum(k2 * integers, -1) / (1 + 2 * jnp.sum(integers, -1))
        return jnp.broadcast_to(jnp.where(s2 > _SWITCH**2, wide, narrow), self.batch_shape)

    def _noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        sigma = jnp.broadcast_to(jnp.asarray(self.scale, jnp.result_type(float)), shape)
        t = jnp.floor(sigma) + 1
        proposal = DiscreteLaplace(0, t)

        def unfinished(state: tuple[Array, Array, Array]) -> Array:
            return ~jnp.all(state[2])

        def retry(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            key, x, done = state
            key, one, two = jax.random.split(key, 3)
            y = proposal._noise(one, shape)
            excess = (jnp.abs(y) - sigma**2 / t) / sigma
            kept = jax.random.exponential(two, shape) > 0.5 * excess**2
            return key, jnp.where(done, x, y), done | kept

        start = (key, jnp.zeros(shape, jnp.result_type(int)), jnp.zeros(shape, bool))
        return lax.while_loop(unfinished, retry, start)[1]

    def _log_mass(self, x: Array) -> Array:
        scale = jnp.asarray(self.scale, x.dtype)
        return -0.5 * (x / scale) ** 2 - log_theta(scale)


def log_theta(scale: Array) -> Array:
    """log Σ_k exp(−k²/2σ²) over all integers, by the shorter of its two Poisson sums."""
    s2 = scale**2
    k2 = jnp.asarray(_TERMS**2, s2.dtype)
    frequencies = jnp.exp(-2 * np.pi**2 * jnp.maximum(s2, _SWITCH**2)[..., None] * k2)
    wide = 0.5 * jnp.log(2 * np.pi * s2) + jnp.log1p(2 * jnp.sum(frequencies, -1))
    narrow = jnp.log1p(2 * jnp.sum(jnp.exp(-k2 / (2 * jnp.minimum(s2, _SWITCH**2)[..., None])), -1))
    return jnp.where(s2 > _SWITCH**2, wide, narrow)


LAWS: dict[str, type[DiscreteLaplace | DiscreteNormal]] = {
    "discrete-laplace": DiscreteLaplace,
    "discrete-normal": DiscreteNormal,
}


def log_mass(family: str, x: Any, scale: Any) -> Array:
    """Log-probability of the noise x, which must be whole: shapes broadcast.

    Args:
        family: "discrete-laplace" or "discrete-normal".
        x: whole numbers, in counts.
        scale: of the noise, in counts.

    Returns:
        In nats, −inf off the whole numbers.
    """
    return LAWS[family](0, scale)._log_mass(x)


def masses(family: str, scale: float) -> tuple[int, np.ndarray]:
    """(low, p): the masses of low, low + 1, …, in float64; less than 1e-35 lies beyond.

    Args:
        family: "discrete-laplace" or "discrete-normal".
        scale: of the noise, in counts.

    Returns:
        The least whole number, and masses (w,) of sum 1.

    Example:
        >>> low, p = masses("discrete-laplace", 0.5)
        >>> low + len(p) - 1 == -low, round(float(p[-low]), 4)  # tanh(1)
        (True, 0.7616)
    """
    wide = family == "discrete-laplace"
    width = int(np.ceil((80 if wide else 13) * scale)) + 1
    k = np.arange(-width, width + 1)
    p = np.exp(-np.abs(k) / scale) if wide else np.exp(-0.5 * (k / scale) ** 2)
    return -width, p / p.sum()
