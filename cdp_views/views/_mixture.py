"""Views of Laplace noise that are drawn by way of random scales: what two of them share."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant, Totals
from cdp_views.noise import Mixing
from cdp_views.support import AffineSubspace
from cdp_views.views._common import Common, proper, warn_if_noise_drowns


class NoiseView(Common, dist.Distribution):
    """Noise on ker A around loc; a subclass gives `sample_noise` and its law."""

    pytree_data_fields = ("invariant", "loc", "scale")

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        *,
        validate_args: bool | None = None,
    ) -> None:
        warn_if_noise_drowns(loc, scale)
        self.invariant, self.loc, self.scale = invariant, loc, scale
        super().__init__(batch_shape, (invariant.n,), validate_args=validate_args)

    @property
    def support(self) -> AffineSubspace:  # pyright: ignore[reportIncompatibleMethodOverride]
        return AffineSubspace(self.invariant, origin=self.loc)

    @property
    def centre(self) -> Any:
        return self.loc

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of X with A X = 0, loc not added: (*sample_shape, …, n)."""
        raise NotImplementedError

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        noise = self.sample_noise(key, sample_shape)
        return jnp.asarray(self.loc, noise.dtype) + noise


class RandomScales(NoiseView):
    """Such noise with a random scale in every cell, of law `mixing`: loc + λ s Z."""

    pytree_data_fields = ("mixing",)

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        mixing: Mixing,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.mixing = mixing
        super().__init__(invariant, loc, scale, batch_shape, validate_args=validate_args)

    @property
    def noise_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The base's family."""
        return self.mixing.family


class MixtureView(NoiseView):
    """Such noise for disjoint totals, Laplace unless a subclass says otherwise."""

    noise_name = "laplace"

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        *,
        shift: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if shift is not None:
            raise _checks.UnsupportedError(
                f"`total` with {self.noise_name} noise is for cdp.Conditioned and cdp.Imaged. "
                "Leave it out: the base's own totals are kept."
            )
        disjoint(invariant)
        super().__init__(invariant, loc, scale, batch_shape, validate_args=validate_args)

    @property
    def groups(self) -> Totals:
        """The disjoint totals behind the invariant."""
        return disjoint(self.invariant)

    @property
    def alike(self) -> bool:
        """Whether |weight|·scale is one number within every group, known from shapes alone."""
        return self.groups.even and jnp.shape(self.scale)[-1] == 1


def disjoint(invariant: Invariant) -> Totals:
    """The O(n) geometry, where the totals are disjoint or nested."""
    groups = invariant.disjoint_groups
    if groups is None:
        raise _checks.UnsupportedError(
            "This number of scale-mixture noise (such as Laplace) is known for disjoint or nested "
            "totals only. Use those or dist.Normal, or estimate it from draws (key=)."
        )
    return groups


def is_disjoint(invariant: Invariant) -> bool:
    """Whether the totals are disjoint or nested."""
    return invariant.disjoint_groups is not None


def scale_like(view: MixtureView, dtype: Any) -> Array:
    """λ in the working precision, (…, n) or (…, 1)."""
    return jnp.asarray(proper(view.scale), dtype)


def scale_in_total(groups: Totals, scale: Array) -> Array:
    """c = |a| λ (…, n): what each cell's noise is in its group's total, a the weights."""
    c = jnp.abs(groups._weights_like(scale.dtype)) * scale
    return jnp.broadcast_to(c, (*scale.shape[:-1], groups.n))


def squared_unit_scales(exponential: Array) -> Array:
    """s² = 2e of a Laplace as a scale mixture; e = 0 (one draw in 2²³ in float32) is kept off."""
    return 2 * jnp.maximum(exponential, jnp.finfo(exponential.dtype).eps ** 2)


def host_scale(view: Common, what: str) -> np.ndarray:
    """λ of a single mechanism on the host, (n,)."""
    return np.broadcast_to(np.asarray(view._one(what), np.float64), (view.invariant.n,))


@in_float64
def laplace_loss_draws(
    view: Any, key: Array, differences: sparse.csr_array, draws: int
) -> np.ndarray:
    """Draws of the loss log p(X) − log p(X + v) for every row v: (m, draws), on the host.

    Groups are independent, so only those that some row touches are drawn.
    """
    groups, scale = disjoint(view.invariant), host_scale(view, "loss_draws")
    labels = np.asarray(groups.segments.labels)
    touched = np.unique(differences.indices)
    near = np.isin(labels, labels[touched]) & (labels < groups.rank)
    near[touched] = True
    cells = np.flatnonzero(near)
    _, inner = np.unique(labels[cells], return_inverse=True)
    inner = np.where(labels[cells] == groups.rank, -1, inner)
    weights = None if groups.weights is None else np.asarray(groups.weights)[cells]
    part = view.on_cells(Totals.of(inner, None, weights), scale[cells], cells)
    x = _drawn(part, key, draws)
    here = np.asarray(_density(part, x, float64(np.zeros(cells.size))))
    moved = np.asarray(differences[:, cells].toarray())
    return np.stack([here - np.asarray(_density(part, x, float64(v))) for v in moved])


# views of one kind and shape share what is compiled, whatever their scales
@partial(jax.jit, static_argnames="draws")
def _drawn(view: Any, key: Array, draws: int) -> Array:
    return view.sample_noise(key, (draws,))


@jax.jit
def _density(view: Any, noise: Array, v: Array) -> Array:
    return view._log_density(noise + v)
