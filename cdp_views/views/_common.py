"""What every view shares: density off the support, moments that follow from others, refusals."""

import warnings
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cdp_views import _checks
from cdp_views._segments import once
from cdp_views.support import AffineSubspace
from cdp_views.views._base import Kind
from cdp_views.views._estimate import Estimate, entropy_of_draws

_DENSE = 10_000


class Common:
    """Mixed into a NumPyro distribution over n cells; a subclass gives `_log_density`."""

    kind: ClassVar[Kind]
    noise_name: ClassVar[str]
    batch_shape: tuple[int, ...]
    # whether `_log_density` is a number off the support as well: it need not wait for the check
    defined_everywhere: ClassVar[bool] = False

    # the standard error of `_log_density`, where it rests on an estimated constant
    _density_error: Any = 0.0

    # properties of the subclass: what holds exactly; the base's location (…, n) and scale (…, n)
    # or (…, 1); and a point of the support, which is `loc` unless `total=` moved it
    invariant: Any
    loc: Any
    scale: Any
    centre: Any
    sample_noise: Any

    def _log_density(self, noise: Array) -> Array:
        """Log-density at noise X ∈ ker A (…, n), with respect to Hausdorff measure: (…)."""
        raise NotImplementedError

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """Log-density with respect to Hausdorff measure on the subspace; −inf off it."""
        value = jnp.asarray(value)
        inside = AffineSubspace(self.invariant, origin=self.centre)(value)
        noise = value - jnp.asarray(self.centre, jnp.result_type(value, float))
        known = _with_slopes_where if self.defined_everywhere else _where
        density = self._log_density(known(inside, noise))
        if not _checks.is_concrete(self.scale):  # a concrete scale was checked by the constructor
            inside = inside & jnp.all(jnp.asarray(self.scale) > 0, -1)
        return jnp.where(inside, density, -jnp.inf)

    @property
    def mean(self) -> Array:
        """E Y, the centre: (…, n)."""
        return jnp.broadcast_to(jnp.asarray(self.centre), (*self.batch_shape, self.invariant.n))

    def covariance_product(self, x: Any) -> Array:
        """Cov(Y) x for any x (…, n), without forming the covariance."""
        raise NotImplementedError

    @property
    def covariance_matrix(self) -> Array:
        """The covariance (…, n, n), dense: up to 10,000 cells."""
        n = self.invariant.n
        if n > _DENSE:
            raise _checks.UnsupportedError(
                f"`covariance_matrix` of {n} cells would need {8 * n * n / 1e9:.0f} GB. Use "
                "covariance_product(x), or variance."
            )
        eye = jnp.eye(n).reshape((n,) + (1,) * len(self.batch_shape) + (n,))
        matrix = jnp.moveaxis(self.covariance_product(eye), 0, -1)
        return jnp.broadcast_to(matrix, (*self.batch_shape, n, n))

    def entropy_estimate(self, key: Array, *, draws: int = 4000) -> Estimate:
        """The entropy as the mean of −log p over own draws, in nats, with standard error: (…).

        Args:
            key: a JAX key: passing one is the request for an estimate.
            draws: of the table.

        Raises:
            UnsupportedError: the density itself is not known.

        Example:
            >>> import cdp_views as cdp, jax, numpyro.distributions as dist
            >>> view = cdp.Imaged(dist.Laplace(0.0, 1.0), cdp.totals([0, 0, 0]))
            >>> value, error = view.entropy_estimate(jax.random.key(0))
            >>> bool(abs(value - 3.48) < 0.1), bool(error < 0.02)
            (True, True)
        """
        return entropy_of_draws(self, key, draws)

    def _heights(self, key: Array, count: int) -> tuple[Array, Array | None]:
        """−log p at `count` draws (count, …), and a number beside each whose mean is 0, or none."""
        noise = self.sample_noise(key, (count,))
        return -self._log_density(jnp.asarray(noise, jnp.result_type(float))), None

    @property
    def exposure(self) -> np.ndarray:
        """1/scale (n,): in every view a class's worst pair has the two smallest scales."""
        return np.broadcast_to(
            1 / np.asarray(self._one("exposure"), np.float64), (self.invariant.n,)
        )

    @classmethod
    def infer_shapes(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _one(self, what: str) -> Any:
        """The scale of a single mechanism: evaluators take one at a time."""
        if self.batch_shape:
            raise ValueError(
                f"`{what}` is about one mechanism; got a batch of shape {self.batch_shape}. "
                "Index loc and scale first."
            )
        return self.scale

    def _refuse(self, what: str, way_out: str) -> _checks.UnsupportedError:
        return _checks.UnsupportedError(
            f"`{what}` of the {self.kind} view of {self.noise_name} noise has no closed form here. "
            f"{way_out}"
        )


def _where(inside: Array, noise: Array) -> Array:
    return jnp.where(inside[..., None], noise, 0)


@jax.custom_jvp
def _with_slopes_where(inside: Array, noise: Array) -> Array:
    """The noise itself, where it is a number, but no slope where it is not `inside`."""
    del inside  # a density needs the check for its slopes alone
    return jnp.where(jnp.isfinite(noise), noise, 0)


@_with_slopes_where.defjvp
def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
    return _with_slopes_where(*primals), _where(primals[0], tangents[1])


@jax.jit  # run eagerly, every operation would be compiled by itself
def coloured(law: Any, u: Array) -> Array:
    """A draw of the law from independent standard normals u (…, n)."""
    return law.colour(once(u))


def proper(scale: Any) -> Any:
    """The scale, with 1 for a traced value ≤ 0: the density is −inf there, and no gradient NaN."""
    if _checks.is_concrete(scale):
        return scale
    return jnp.where(scale > 0, scale, 1)


def warn_if_noise_drowns(loc: Any, scale: Any) -> None:
    """float32 near 3.9e7 moves in steps of 4: say so before noise of sd 1 is lost in them."""
    if jnp.result_type(float) != jnp.float32 or not _checks.is_concrete(loc, scale):
        return
    step = np.spacing(np.float32(np.max(np.abs(np.asarray(loc)), initial=0.0)))
    if step > 0.1 * np.min(np.asarray(scale)):
        warnings.warn(
            "`loc` is so large that float32 rounds it in steps coarse against the smallest scale. "
            'Enable 64-bit JAX (jax.config.update("jax_enable_x64", True)), or add '
            "`sample_noise` to the counts in float64.",
            stacklevel=5,
        )
