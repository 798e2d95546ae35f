"""Views whose draw is a deterministic map of independent noise, as NumPyro sees them."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints
from numpyro.distributions.transforms import Transform

from cdp_views._checks import UnsupportedError, is_concrete
from cdp_views.invariants import Invariant
from cdp_views.support import AffineSubspace
from cdp_views.views._common import Common, coloured, proper, warn_if_noise_drowns


class Push(Transform):
    """u ↦ centre + colour(u): n independent variables to a draw. Not a bijection.

    Nothing needs its inverse: guides and NUTS use the isometry of the support.
    """

    domain = constraints.real_vector  # pyright: ignore[reportAssignmentType]
    invariant: Invariant
    loc: Any
    scale: Any
    weights: Any
    centre: Any
    law: Any
    _fields = ("invariant", "loc", "scale", "weights", "centre", "law")

    def __init__(self, *leaves: Any) -> None:
        for name, leaf in zip(self._fields, leaves, strict=True):
            setattr(self, name, leaf)

    @property
    def codomain(self) -> AffineSubspace:
        return AffineSubspace(self.invariant, origin=self.centre)

    def __call__(self, x: Any) -> Array:
        noise = coloured(self.law, jnp.asarray(x))
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


class PushedView(Common, dist.TransformedDistribution):
    """Independent unit-variance noise `unit`, pushed onto {A y = A centre} by `law.colour`.

    A subclass says which `law` (the second moments) belongs to its scale.
    """

    unit: ClassVar[dist.Distribution]
    pytree_data_fields = ()
    pytree_aux_fields = ("fixed_totals",)
    fixed_totals: bool
    """Whether `total=` fixed the totals in advance, so that they say nothing about the data."""

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
        warn_if_noise_drowns(loc, scale)
        self.fixed_totals = shift is not None
        law = self.law(
            invariant, jnp.asarray(proper(scale)), None if weights is None else jnp.asarray(weights)
        )
        centre = loc if shift is None else loc + self.moved(law, jnp.asarray(shift))
        batch_shape = jnp.broadcast_shapes(batch_shape, jnp.shape(centre)[:-1])
        unit = self.unit.expand((*batch_shape, invariant.n)).to_event(1)
        push = Push(invariant, loc, scale, weights, centre, law)
        super().__init__(unit, push, validate_args=validate_args)

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Any:
        """The centred second moments, from the base's scale; in any precision."""
        raise NotImplementedError

    @staticmethod
    def moved(law: Any, shift: Array) -> Array:
        """Where the centre goes when the total differs from A loc by A shift."""
        return shift

    @property
    def _push(self) -> Any:
        return self.transforms[0]

    @property
    def invariant(self) -> Invariant:
        return self._push.invariant

    @property
    def loc(self) -> Any:
        return self._push.loc

    @property
    def scale(self) -> Any:
        return self._push.scale

    @property
    def centre(self) -> Any:
        return self._push.centre

    @property
    def exposure(self) -> np.ndarray:
        weights = self._push.weights
        if weights is not None and np.ptp(np.asarray(weights)) > 0:
            raise UnsupportedError(
                "With weights= the worst pair of an imaged view does not follow from the scales. "
                "Name the differences to protect against: cdp.differences(V)."
            )
        return super().exposure

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of X with A X = 0, the centre not added: (*sample_shape, …, n)."""
        draw = self.base_dist.sample(key, sample_shape)
        return coloured(self._push.law, jnp.asarray(draw))

    def _heights(self, key: Array, count: int) -> tuple[Array, Array | None]:
        u = jnp.asarray(self.base_dist.sample(key, (count,)))
        height = self._height(coloured(self._push.law, u), key)
        try:
            known = self.base_dist.entropy()
        except NotImplementedError:
            return height, None
        return height, -jnp.asarray(self.base_dist.log_prob(u)) - known

    def _height(self, noise: Array, key: Array) -> Array:
        """−log p at draws (count, …, n); the key is for a density that is itself simulated."""
        del key
        return -self._log_density(noise)

    @property
    def variance(self) -> Array:
        return jnp.broadcast_to(self._law_in_force.variance, self.shape())

    @property
    def _law_in_force(self) -> Any:
        """The law in JAX's precision of now: evaluators ask in float64 of a float32 view."""
        push = self._push
        coarse = all(leaf.dtype != jnp.float64 for leaf in jax.tree.leaves(push.law))
        if jnp.result_type(float) != jnp.float64 or not coarse or not is_concrete(push.scale):
            return push.law
        weights = None if push.weights is None else jnp.asarray(push.weights, jnp.float64)
        return self.law(push.invariant, jnp.asarray(push.scale, jnp.float64), weights)

    def covariance_product(self, x: Any) -> Array:
        """Cov(Y) x for any x (…, n), without forming the covariance."""
        return self._push.law.covariance_product(jnp.asarray(x))
