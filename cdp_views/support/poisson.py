"""The Poisson law carried to real counts, as the prior of a latent table under NUTS."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import gammaln
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes

# Trapezoid rule in u of exp(−λ eᵘ)/(π² + u²): the poles at ±iπ and the double exponential end
# leave an error of exp(−2π·π/h) ≈ 1e-17 at this step.
_STEP = 0.5
_BELOW = (
    40.0  # exp(−e^{−40}) = 1: from there on the integrand is 1/(π² + u²), summed in closed form
)
_ABOVE = 5.0  # exp(−e⁵) = 3e-65


class ContinuousPoisson(dist.Distribution):
    """p(x) = λˣ e^{−λ} / (Γ(x + 1) Z(λ)) on x ≥ 0: the Poisson law between the whole numbers.

    A latent count of persons is a whole number; a sampler that follows gradients needs it real.
    This density agrees with the Poisson's probabilities at whole x up to the factor Z, the mass

        Z(λ) = e^{−λ} ∫₀^∞ λˣ/Γ(x + 1) dx = 1 − ∫₀^∞ e^{−λ(1 + t)} / (t (π² + ln² t)) dt,

    so it says the same about λ. What it costs: Z is .998 at λ = 5 and .835 at λ = 1; below that,
    real counts are too coarse a picture of 0, 1, 2 persons.

    Args:
        rate: λ > 0, expected count, any batch shape.

    `sample` inverts nothing: it draws a Poisson count and spreads it within the unit interval below
    and above, which is a starting point, not a draw of the density; simulate from `dist.Poisson`.

    Raises:
        ValueError: a concrete rate that is not positive (by NumPyro's validation).

    Example:
        >>> import cdp_views as cdp, numpyro.distributions as dist
        >>> real, whole = cdp.ContinuousPoisson(20.0), dist.Poisson(20.0)
        >>> round(float(real.log_prob(18.0) - whole.log_prob(18)), 6)
        0.0

    Reference: Ramanujan's integral for the mass, Hardy 1940, *Ramanujan*, §11.10; Ilienko 2013 for
    continuous counterparts of the Poisson law.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative  # pyright: ignore[reportAssignmentType]

    def __init__(self, rate: Any, *, validate_args: bool | None = None) -> None:
        (self.rate,) = promote_shapes(rate)
        super().__init__(jnp.shape(rate), (), validate_args=validate_args)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        x = jnp.asarray(value, jnp.result_type(value, float))
        rate = jnp.asarray(self.rate, x.dtype)
        inside = x >= 0
        safe = jnp.where(inside, x, 0)
        log_p = safe * jnp.log(rate) - rate - gammaln(safe + 1) - jnp.log(_mass(rate))
        return jnp.where(inside, log_p, -jnp.inf)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        whole, within = jax.random.split(key)
        shape = self.shape(sample_shape)
        rate = jnp.asarray(self.rate, jnp.result_type(float))
        count = jax.random.poisson(whole, rate, shape).astype(rate.dtype)
        return jnp.abs(count + jax.random.uniform(within, shape, rate.dtype, -0.5, 0.5))


def _mass(rate: Array) -> Array:
    """Z(λ) of the density's docstring, by Ramanujan's integral in u = ln t."""
    shift = jnp.log(jnp.maximum(rate, 1e-30))
    # nodes follow the end of exp(−λ eᵘ), near u = −ln λ
    v = np.arange(-_BELOW, _ABOVE + _STEP, _STEP)
    u = v - shift[..., None]
    grid = jnp.exp(-jnp.exp(jnp.asarray(v, rate.dtype))) / (np.pi**2 + u * u)
    # the nodes below: ∫_{−∞}^{a} du/(π² + u²) up to the middle of two nodes, with the first term
    # of Euler and Maclaurin
    a = -_BELOW - _STEP / 2 - shift
    rest = (np.pi / 2 + jnp.arctan(a / np.pi)) / np.pi
    rest += _STEP**2 / 12 * a / (np.pi**2 + a * a) ** 2
    return 1 - jnp.exp(-rate) * (_STEP * jnp.sum(grid, -1) + rest)
