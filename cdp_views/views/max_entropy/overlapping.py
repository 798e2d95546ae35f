"""Coupled scales on totals that overlap: exact marginals, one solve for each draw."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cdp_views import _checks
from cdp_views._segments import once
from cdp_views.deviation import Deviation
from cdp_views.invariants import Invariant
from cdp_views.invariants._reduced import Reduced
from cdp_views.invariants.orthonormal import Orthonormal
from cdp_views.noise import Mixing
from cdp_views.precision.dual import balance_rows
from cdp_views.views._common import coloured, proper
from cdp_views.views._mixture import RandomScales, host_scale
from cdp_views.views.max_entropy.marginal import loss_of_cell
from cdp_views.views.max_entropy.mixture import require_one_law

_LARGEST = 2 * 10**7  # entries of the dense rows


@final
class MaxEntropyWhole(RandomScales):
    """`scales="couple"` where totals overlap: the whole table keeps its scales or takes one s.

    Scales are kept where every order of them is sure to be feasible. With h the leverages of
    B = ΛAᵀ and s_(1) ≤ … ≤ s_(n),

        A D² Aᵀ ≽ g(s) A Λ² Aᵀ,   g(s) = Σ_k w_k s_(k)²,   w_k = (1 − H_{k−1})₊ − (1 − H_k)₊,

    H_k the sum of the k largest h: of any k − 1 cells left out the projection has norm at most
    H_{k−1}. So no leverage of DAᵀ exceeds h_max s_max²/g(s), and one below ½ is enough
    (Saunderson et al. 2012). The test is symmetric in s, so the marginals are exactly the base's.
    """

    kind = "max-entropy"
    pytree_data_fields = ("leverages",)

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
        require_one_law(mixing)
        rows = _rows(invariant)
        lam = jnp.asarray(proper(scale))
        invariant.equalize(lam**2)  # no such law even at equal s: raises
        b = jnp.asarray(rows.table, lam.dtype) * lam[..., None, :]
        q = jnp.linalg.qr(jnp.swapaxes(b, -1, -2))[0]
        self.leverages = jnp.sum(q * q, -1)
        super().__init__(invariant, loc, scale, batch_shape, mixing, validate_args=validate_args)

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        one, two = jax.random.split(key)
        shape, dtype = self.shape(sample_shape), jnp.result_type(float)
        s = once(self.mixing.sample(one, shape, dtype))
        # a cell in no total keeps its own scale
        touched = jnp.asarray(self.leverages, dtype) > 0
        first = jnp.take_along_axis(s, jnp.broadcast_to(self._first, (*shape[:-1], 1)), -1)
        s = jnp.where(self._accept(s)[..., None] | ~touched, s, first)
        rows = _rows(self.invariant)
        sigma = jnp.broadcast_to(jnp.asarray(self.scale, dtype) * s, shape)
        law = Reduced.of(rows, balance_rows(rows.table, rows.pivots, sigma), sigma)
        return coloured(law, jax.random.normal(two, shape, dtype))

    @property
    def _first(self) -> Array:
        return jnp.argmax(self.leverages > 0, -1, keepdims=True)

    def coupled_share(self, key: Array, draws: int = 1000) -> np.ndarray:
        """Share (…) of draws whose cells all take one common scale, from `draws` draws."""
        s = self.mixing.sample(key, self.shape((draws,)), jnp.result_type(float))
        return np.asarray(1 - jnp.mean(self._accept(s), 0))

    def _accept(self, s: Array) -> Array:
        """Whether the scales are kept: (…)."""
        h = -jnp.sort(-jnp.asarray(self.leverages, s.dtype), axis=-1)
        touched = jnp.asarray(self.leverages) > 0
        rest = jnp.maximum(1 - jnp.cumsum(h, -1), 0)
        weight = jnp.concatenate([jnp.ones_like(h[..., :1]), rest[..., :-1]], -1) - rest
        low = jnp.sort(jnp.where(touched, s, jnp.inf), -1)
        floor = jnp.sum(jnp.where(weight > 0, weight * low**2, 0), -1)
        highest = jnp.max(jnp.where(touched, s, 0), -1)
        return 2 * h[..., 0] * highest**2 * (1 + 1e3 * jnp.finfo(s.dtype).eps) < floor

    def _log_density(self, noise: Array) -> Array:
        raise self._refuse("log_prob", 'Use scales="shared", whose density is exact.')

    @property
    def variance(self) -> Array:
        """λ² E s²; inf where the base has none, 0 for a cell that the totals determine."""
        fixed = jnp.asarray(self.invariant.leverage) >= 1
        square = self.mixing.second_moment * jnp.asarray(self.scale) ** 2
        return jnp.broadcast_to(jnp.where(fixed, 0, square), self.shape())

    def covariance_product(self, x: Any) -> Array:
        raise self._refuse("covariance_product", "Estimate it from sample_noise draws.")

    def entropy(self) -> Array:
        """Not in closed form."""
        raise self._refuse("entropy", 'Use scales="shared", whose entropy is exact.')

    def loss(self, differences: Any, query: Any = None) -> Any:
        """Of a query of one cell alone, exactly the base's; of anything more nothing is proved."""
        if query is not None:
            scale = host_scale(self, "loss")
            found = loss_of_cell(self.mixing, differences, query, scale)
            if found is not None:
                return found
        raise self._refuse(
            "loss", "No guarantee is proved for it: release cdp.Conditioned or cdp.Imaged instead."
        )

    def deviation(self, workload: Any = None) -> Deviation:
        """The error of every cell has exactly the base's law; other queries from draws."""
        if workload is not None:
            raise self._refuse(
                "deviation", "Pass key= to the evaluator for an estimate from draws."
            )
        scale = np.where(self.invariant.determined, 0, host_scale(self, "deviation"))
        return self.mixing.deviation(scale)


def _rows(invariant: Invariant) -> Orthonormal:
    """The invariant's rows in echelon form."""
    geometry = invariant.core
    if isinstance(geometry, Orthonormal):
        return geometry
    if not _checks.is_concrete(invariant) or invariant.n * invariant.rank > _LARGEST:
        raise _checks.UnsupportedError(
            'Coupled scales on margins need their dense rows. Use scales="shared".'
        )
    return Orthonormal.of(invariant.matrix.toarray())
