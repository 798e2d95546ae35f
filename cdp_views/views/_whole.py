"""What the views of whole-number noise share: exact totals with ==, drawn on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views.deviation import WholeDeviation
from cdp_views.invariants import Invariant
from cdp_views.noise import masses
from cdp_views.precision.whole_sums import Mass
from cdp_views.support import WholeTotals
from cdp_views.support.whole import difference
from cdp_views.views._common import Common
from cdp_views.views._whole_profile import Noise

_LARGEST_SCALE = 10_000  # 1.6 million masses of a discrete Laplace cell


class WholeView(Common, dist.Distribution):
    """Whole noise X with A X = 0 around whole counts; a subclass gives its draws and its law.

    Draws and sums over masses are float64 on the host, where whole numbers are exact; under `jit`
    they go through a callback. The scale must be known there: a traced one is refused.
    """

    pytree_data_fields = ("invariant", "loc", "scale")
    pytree_aux_fields = ("noise_name",)

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        *,
        family: str,
        shift: Any = None,
        weights: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if shift is not None or weights is not None:
            raise _checks.UnsupportedError(
                "`total` and `weights` are for real noise. Leave them out: whole noise keeps the "
                "totals of loc."
            )
        if not _checks.is_concrete(invariant, scale):
            raise _checks.UnsupportedError(
                "`scale` of discrete noise must be a number, not traced: its masses are summed on "
                "the host. Build the view outside jit, or use real noise."
            )
        if np.ndim(scale) > 1 and np.prod(np.shape(scale)[:-1]) > 1:
            raise _checks.UnsupportedError(
                f"`scale` of discrete noise is one number or one per cell; got a batch of shape "
                f"{np.shape(scale)}. Build one view per scale."
            )
        self.noise_name = family  # pyright: ignore[reportAttributeAccessIssue]
        self.invariant, self.loc = invariant, _whole(loc)
        self.scale = np.asarray(scale, np.float64).reshape(-1)
        if self.scale.max() > _LARGEST_SCALE:
            raise _checks.UnsupportedError(
                f"`scale` of discrete noise must stay below {_LARGEST_SCALE:,}, as its masses are "
                f"listed; got {self.scale.max():g}. Use dist.Laplace or dist.Normal: whole numbers "
                "no longer matter there."
            )
        whole_weights(invariant)
        super().__init__(batch_shape, (invariant.n,), validate_args=validate_args)

    def _draw(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Noise (draws, n), int64, on the host."""
        raise NotImplementedError

    def _laws(self) -> list[tuple[np.ndarray, Mass]]:
        """The law of every cell's noise: (cells, mass)."""
        raise NotImplementedError

    @property
    def support(self) -> WholeTotals:  # pyright: ignore[reportIncompatibleMethodOverride]
        return WholeTotals(self.invariant, self.loc)

    @property
    def centre(self) -> Any:
        return self.loc

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(jnp.asarray(self.loc, jnp.result_type(float)), self.shape())

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of X with A X = 0, whole numbers: (*sample_shape, …, n)."""
        shape = self.shape(sample_shape)
        whole = jnp.result_type(int)

        def host(bits: Any) -> np.ndarray:
            seed = np.asarray(bits).ravel().tolist()
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
            draws = int(np.prod(shape[:-1]))
            return self._draw(rng, draws).reshape(shape).astype(whole)

        bits = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        if _checks.is_concrete(bits):
            return jnp.asarray(host(bits))
        out = jax.ShapeDtypeStruct(shape, whole)
        return jax.pure_callback(host, out, bits, vmap_method="sequential")

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        noise = self.sample_noise(key, sample_shape)
        return jnp.asarray(self.loc, noise.dtype) + noise

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """Log-probability; −inf where a number is not whole or a total not kept."""
        inside = self.support(value)
        noise = jnp.where(inside[..., None], difference(value, self.loc), 0)
        return jnp.where(inside, self._log_density(noise), -jnp.inf)

    @property
    def variance(self) -> Array:
        found = np.asarray(self.deviation().sd) ** 2
        return jnp.broadcast_to(jnp.asarray(found, jnp.result_type(float)), self.shape())

    def covariance_product(self, x: Any) -> Array:
        raise self._refuse("covariance_product", "Estimate it from sample_noise draws.")

    def deviation(self, workload: sparse.csr_array | None = None) -> WholeDeviation:
        """The exact law of every cell's error; other queries are estimated, given `key=`."""
        if workload is not None:
            raise self._refuse(
                "deviation", "Pass key= to the evaluator for an estimate from draws."
            )
        laws = [(cells, mass.low, mass.p) for cells, mass in self._laws()]
        return WholeDeviation(laws, self.invariant.n)

    def _base_noise(self) -> Noise:
        """The base's laws, as the profiles of `_whole_profile` need them."""
        which, laws = self._masses()
        return Noise(self.noise_name, which, laws, np.unique(self.scale).tolist())

    def _masses(self) -> tuple[np.ndarray, list[Mass]]:
        """Which law each cell's base noise has (n,), and the distinct ones."""
        if not _checks.is_concrete(self.invariant, self.scale):
            raise _checks.UnsupportedError(
                "A view of discrete noise cannot itself be an argument of jit, vmap or scan: its "
                "masses are summed on the host. Build it inside the function."
            )
        scales, which = np.unique(self.scale, return_inverse=True)
        which = np.broadcast_to(which.ravel(), (self.invariant.n,))
        return which, [Mass(*masses(self.noise_name, float(scale))) for scale in scales]


def base_measure(family: str, scale: np.ndarray, V: sparse.csr_array) -> np.ndarray:
    """What each changed cell adds for the base noise, for each stored entry of V (m, n).

    Discrete Laplace: |v|/λ of the largest loss; discrete normal: v²/2σ² of ρ.
    """
    rate = 1 / np.broadcast_to(scale, V.shape[1:])[V.indices]
    if family == "discrete-laplace":
        return np.abs(V.data) * rate
    return (V.data * rate) ** 2 / 2


def require_whole(differences: sparse.csr_array) -> None:
    """A neighbour of whole counts is whole: other differences would be seen for certain."""
    if not np.all(differences.data == np.rint(differences.data)):
        raise ValueError(
            "`neighbours` must be whole numbers for discrete noise, as the counts are. Round the "
            "differences, or use real noise."
        )


def whole_weights(invariant: Invariant) -> sparse.csr_array:
    """The rows A, refused unless their entries are whole numbers."""
    rows = invariant.matrix
    if not np.all(rows.data == np.rint(rows.data)):
        raise _checks.UnsupportedError(
            "`invariant` must have whole weights for discrete noise. Use plain totals, or real "
            "noise (dist.Laplace, dist.Normal)."
        )
    return rows


def _whole(loc: Any) -> Any:
    if not _checks.is_concrete(loc):
        return jnp.round(loc).astype(jnp.result_type(int))
    host = np.asarray(loc, np.float64)
    parted = int(np.sum(host != np.rint(host)))
    if parted:
        raise ValueError(
            f"`loc` must be whole numbers for discrete noise; {parted} of {host.size} are not. "
            "Round the counts, or use real noise."
        )
    most = np.iinfo(jnp.result_type(int)).max // 2
    if np.abs(host).max(initial=0) > most:
        raise ValueError(
            f"`loc` must stay below {most} in 32-bit JAX. Enable 64-bit JAX "
            '(jax.config.update("jax_enable_x64", True)).'
        )
    return host.astype(np.int64)
