"""What the three views of Normal noise share: a Gaussian on the subspace, as NumPyro sees it."""

import math
import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints
from numpyro.distributions.transforms import Transform
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.deviation import NormalDeviation
from cdp_views.invariants import Invariant, Precision
from cdp_views.loss import GaussianLoss
from cdp_views.support import AffineSubspace
from cdp_views.views._base import Kind
from cdp_views.views._image import Image

_DENSE = 10_000


class Push(Transform):
    """u ↦ centre + colour(u): n independent standard normals to a draw. Not a bijection.

    Nothing needs its inverse: guides and NUTS use the isometry of the support.
    """

    domain = constraints.real_vector  # pyright: ignore[reportAssignmentType]
    _fields = ("invariant", "loc", "scale", "weights", "centre", "law")

    def __init__(self, *leaves: Any) -> None:
        for name, leaf in zip(self._fields, leaves, strict=True):
            setattr(self, name, leaf)

    @property
    def codomain(self) -> AffineSubspace:
        return AffineSubspace(self.invariant, origin=self.centre)

    def __call__(self, x: Any) -> Array:
        noise = self.law.colour(x)
        return jnp.asarray(self.centre, noise.dtype) + noise

    def tree_flatten(self) -> Any:
        return tuple(getattr(self, name) for name in self._fields), (self._fields, {})

    def eq(self, other: object, static: bool = False) -> Any:
        if not isinstance(other, Push):
            return False
        mine, theirs = jax.tree.flatten(self), jax.tree.flatten(other)
        same = mine[1] == theirs[1] and jnp.all(
            jnp.asarray([jnp.array_equiv(a, b) for a, b in zip(mine[0], theirs[0], strict=True)])
        )
        return bool(same) if static else same


class GaussianView(dist.TransformedDistribution):
    """A Gaussian on {A y = A centre}; a subclass says which, by `law` and `centre_of`."""

    kind: ClassVar[Kind]
    noise_name: ClassVar[str] = "normal"
    pytree_data_fields = ()

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        *,
        weights: Any = None,
        shift: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        _warn_if_noise_drowns(loc, scale)
        law = self.law(invariant, jnp.asarray(scale), _like(weights))
        centre = loc if shift is None else loc + self.moved(law, jnp.asarray(shift))
        batch_shape = jnp.broadcast_shapes(batch_shape, jnp.shape(centre)[:-1])
        normal = dist.Normal(0.0, 1.0).expand((*batch_shape, invariant.n)).to_event(1)
        push = Push(invariant, loc, scale, weights, centre, law)
        super().__init__(normal, push, validate_args=validate_args)

    @staticmethod
    @abstractmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Precision | Image:
        """The centred Gaussian, from the base's scale; any precision."""

    @staticmethod
    def moved(law: Any, shift: Array) -> Array:
        """Where the centre goes when the total differs from A loc by A shift."""
        return shift

    @property
    def _push(self) -> Any:
        return self.transforms[0]

    @property
    def invariant(self) -> Invariant:
        """What holds exactly."""
        return self._push.invariant

    @property
    def loc(self) -> Any:
        """The base's location: the true answers (…, n)."""
        return self._push.loc

    @property
    def scale(self) -> Any:
        """The base's scale, (…, n) or (…, 1)."""
        return self._push.scale

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of X with A X = 0, the centre not added: (*sample_shape, …, n)."""
        return self._push.law.colour(self.base_dist.sample(key, sample_shape))

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """Log-density with respect to Hausdorff measure on the subspace; −inf off it."""
        value = jnp.asarray(value)
        inside = self.support(value)
        noise = value - jnp.asarray(self._push.centre, jnp.result_type(value, float))
        noise = jnp.where(inside[..., None], noise, 0)
        law, d = self._push.law, self.invariant.dim
        density = 0.5 * (law.logdet - d * math.log(2 * math.pi) - law.quadratic(noise))
        return jnp.where(inside, density, -jnp.inf)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(jnp.asarray(self._push.centre), self.shape())

    @property
    def variance(self) -> Array:
        return jnp.broadcast_to(self._push.law.variance, self.shape())

    def covariance_product(self, x: Any) -> Array:
        """Cov(Y) x for any x (…, n), without forming the covariance."""
        return self._push.law.covariance_product(jnp.asarray(x))

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
        return jnp.moveaxis(self.covariance_product(eye), 0, -1)

    def entropy(self) -> Array:
        """Differential entropy on the subspace, in nats: (…)."""
        d = self.invariant.dim
        value = 0.5 * (d * (1 + math.log(2 * math.pi)) - self._push.law.logdet)
        return jnp.broadcast_to(value, self.batch_shape)

    @property
    def exposure(self) -> np.ndarray:
        """1/scale (n,): in every view a class's worst pair has the two smallest scales."""
        return np.broadcast_to(1 / np.asarray(self._one("exposure"), np.float64), (self.invariant.n,))

    @in_float64
    def loss(self, differences: sparse.csr_array, query: sparse.csr_array | None = None) -> GaussianLoss:
        """L ~ N(μ²/2, μ²) with μ² = v Σ⁺ vᵀ; of a query W, (Wv)ᵀ(WΣWᵀ)⁺(Wv). Exact."""
        law = self._exact_law("loss")
        if query is None:
            return GaussianLoss(np.sqrt(np.maximum(law.squared_length(differences), 0)))
        weights = query.toarray()
        covariance = np.asarray(law.covariance_product(float64(weights))) @ weights.T
        seen = np.asarray((query @ differences.T).toarray(), dtype=np.float64)
        return GaussianLoss(_lengths(covariance, seen))

    @in_float64
    def deviation(self, workload: sparse.csr_array | None = None) -> NormalDeviation:
        """The error of every query of the workload (or cell) is Normal: its bias and sd. Exact."""
        law = self._exact_law("deviation")
        bias = np.broadcast_to(np.asarray(self._push.centre, np.float64) - np.asarray(self.loc), self.shape())
        if workload is None:
            sd = np.sqrt(np.asarray(law.variance))
            return NormalDeviation(bias, np.broadcast_to(sd, bias.shape))
        variance = law.variance_of(workload)
        # a query of exact totals only is left with rounding errors of its cells' variances
        scale2 = np.broadcast_to(np.asarray(self.scale, np.float64) ** 2, (self.invariant.n,))
        settled = np.where(variance > 1e-26 * (workload.power(2) @ scale2), variance, 0)
        return NormalDeviation(workload @ bias, np.sqrt(settled))

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

    def _exact_law(self, what: str) -> Any:
        """The law again, in float64 on the raw scale; only inside `in_float64`."""
        weights = self._push.weights
        weights = None if weights is None else float64(weights)
        return self.law(self.invariant, float64(self._one(what)), weights)


def _like(weights: Any) -> Array | None:
    return None if weights is None else jnp.asarray(weights)


def _lengths(covariance: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """√(wᵀ C⁺ w) for each column w; infinite where w leaves the range of C."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > max(len(values), 1) * 1e-14 * max(values.max(initial=0), 0)
    along = vectors.T @ seen
    outside = np.linalg.norm(along[~kept], axis=0) > 1e-9 * np.linalg.norm(seen, axis=0)
    inside = np.sqrt(np.sum(along[kept] ** 2 / values[kept][:, None], axis=0))
    return np.where(outside, np.inf, inside)


def _warn_if_noise_drowns(loc: Any, scale: Any) -> None:
    """float32 near 3.9e7 moves in steps of 4: say so before noise of sd 1 is lost in them."""
    if jnp.result_type(float) != jnp.float32 or not _checks.is_concrete(loc, scale):
        return
    step = np.spacing(np.float32(np.max(np.abs(np.asarray(loc)), initial=0.0)))
    if step > 0.1 * np.min(np.asarray(scale)):
        warnings.warn(
            f"`loc` is so large that float32 rounds it in steps of {step:.2g}, coarse against the "
            'smallest scale. Enable 64-bit JAX (jax.config.update("jax_enable_x64", True)), or add '
            "`sample_noise` to the counts in float64.",
            stacklevel=4,
        )
