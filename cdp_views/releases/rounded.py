"""Noise that was rounded after it was added: the probability of the interval it came from."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import log_ndtr
from numpyro.distributions import constraints


class Rounded(dist.Distribution):
    """log p(y) = log[F(y + r/2) − F(y − r/2)] − log r: a symmetric law, rounded to multiples of r.

    Divided by r it is a density that for small r is the law's own. It is a function of real y, as a
    latent needs.

    Args:
        base: `dist.Normal` or `dist.Laplace`, any batch shape; or one expanded.
        step: r > 0, counts.

    Raises:
        TypeError: another base.

    Reference: grouped data, Heitjan 1989, §2.
    """

    pytree_data_fields = ("base_dist",)
    pytree_aux_fields = ("step",)
    support = constraints.real  # pyright: ignore[reportAssignmentType]

    def __init__(self, base: dist.Distribution, step: float) -> None:
        self.base_dist, self.step = base, float(step)
        super().__init__(base.batch_shape, ())

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        base: Any = self.base_dist
        while isinstance(base, dist.ExpandedDistribution):
            base = base.base_dist
        # both laws are symmetric: the interval is looked at from the left, where F keeps its digits
        z, half = -jnp.abs(value - base.loc) / base.scale, self.step / 2 / base.scale
        log_cdf = _log_cdf(base)
        low, high = log_cdf(z - half), log_cdf(z + half)
        inside = high + jnp.log(-jnp.expm1(low - high)) - jnp.log(self.step)
        return jnp.broadcast_to(inside, jnp.broadcast_shapes(jnp.shape(value), self.batch_shape))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        draw = jnp.asarray(self.base_dist.sample(key, sample_shape))
        return self.step * jnp.round(draw / self.step)

    @classmethod
    def infer_shapes(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def _log_cdf(base: Any) -> Any:
    if isinstance(base, dist.Normal):
        return log_ndtr
    if isinstance(base, dist.Laplace):
        return _log_laplace
    raise TypeError(f"`base` must be Normal or Laplace; got {type(base).__name__}.")


def _log_laplace(z: Array) -> Array:
    """log F of the standard Laplace law, both branches kept finite."""
    left, right = jnp.minimum(z, 0), jnp.maximum(z, 0)
    return jnp.where(z < 0, left - jnp.log(2.0), jax.numpy.log1p(-jnp.exp(-right) / 2))
