"""What conditioned noise with random scales shares, whether its totals overlap or not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant
from cdp_views.loss import BoundedLoss
from cdp_views.noise import Mixing
from cdp_views.support import AffineSubspace
from cdp_views.views._common import proper
from cdp_views.views._mixture import RandomScales, disjoint, host_scale, is_disjoint
from cdp_views.views._suprema import cell_exposure
from cdp_views.views.conditioned import characteristic as law_of
from cdp_views.views.conditioned import supremum
from cdp_views.views.conditioned.supremum import Supremum


class ConditionedScales(RandomScales):
    """Π p(x_i) given A y = A loc, or given A y = A (loc + shift)."""

    kind = "conditioned"
    pytree_data_fields = ("shift",)

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        mixing: Mixing,
        *,
        shift: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.shift = shift
        if shift is not None:
            batch_shape = jnp.broadcast_shapes(batch_shape, jnp.shape(shift)[:-1])
        super().__init__(invariant, loc, scale, batch_shape, mixing, validate_args=validate_args)

    @property
    def centre(self) -> Any:
        """A point of the support: loc, moved to the total by the shortest step."""
        return self.loc if self.shift is None else self.loc + self.shift

    @property
    def support(self) -> AffineSubspace:  # pyright: ignore[reportIncompatibleMethodOverride]
        return AffineSubspace(self.invariant, origin=self.centre)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        noise = self.sample_noise(key, sample_shape)
        return jnp.asarray(self.centre, noise.dtype) + noise

    def _base(self, noise: Array) -> Array:
        """The base's log-density of every cell of Y − centre: (…, n)."""
        scale = jnp.asarray(proper(self.scale), noise.dtype)
        x = noise if self.shift is None else noise + jnp.asarray(self.shift, noise.dtype)
        return law_of.log_base(self.mixing, x / scale) - jnp.log(scale)

    @property
    def fixed_totals(self) -> bool:
        """Whether `total=` fixed the totals in advance, so that they say nothing about the data."""
        return self.shift is not None

    @property
    def exposure(self) -> np.ndarray:
        """1/scale (n,), or of Student-t noise of several df what orders the cells: S(1)."""
        return cell_exposure(self.mixing, super().exposure)

    def loss(self, differences: sparse.csr_array, query: Any = None) -> BoundedLoss:
        """The largest loss of every difference v, as `supremum` says.

        Laplace and logistic: Σ|v_i|/λ_i, Student-t: Σ (ν + 1) asinh(|v_i|/2λ_i√ν); and, where v
        changes a total fixed in advance, |log f(r) − log f(r − A v)| for this table's own r.
        """
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        found = self._supremum(differences)
        return BoundedLoss(found.here, "exact" if found.exact else "bound")

    def loss_anywhere(self, differences: sparse.csr_array, query: Any = None) -> Any:
        """`loss` whatever the table: its distance from totals fixed in advance is a secret."""
        if self.shift is None or query is not None:
            return self.loss(differences, query)
        found = self._supremum(differences)
        if np.all(found.here == found.anywhere):
            return self.loss(differences)
        return BoundedLoss(found.anywhere, "bound")

    def loss_scope(self, differences: sparse.csr_array) -> str:
        """For which tables `loss` holds, in words, where it isn't all of them."""
        if self.shift is None:
            return ""
        found = self._supremum(differences)
        if np.all(found.here == found.anywhere):
            return ""
        return "holds for this table, with its own distance from the fixed totals"

    def _supremum(self, differences: sparse.csr_array) -> Supremum:
        scale = host_scale(self, "loss")
        if is_disjoint(self.invariant):
            groups = disjoint(self.invariant)
            shift = None if self.shift is None else np.asarray(self.shift, np.float64)
            found = supremum.of_groups(self.mixing, groups, scale, shift, differences)
        else:
            matrix = sparse.csr_array(self.invariant.matrix)
            found = supremum.of_any_totals(self.mixing, matrix, scale, differences)
        if found is not None:
            return found
        if self.shift is None:
            raise self._refuse("loss", "Pass key= for an estimate from draws.")
        raise self._refuse(
            "loss", "Use Laplace, logistic, Student-t or Normal noise for totals fixed in advance."
        )

    @in_float64
    def loss_draws(self, key: Array, differences: sparse.csr_array, draws: int) -> np.ndarray:
        """Draws of the privacy loss of every difference, (m, draws): no normaliser is needed."""
        if self.shift is not None:
            raise self._refuse(
                "loss_draws",
                "With totals fixed in advance leave key= out: what is proved needs no draws.",
            )
        scale = float64(host_scale(self, "loss_draws"))
        z = jax.jit(lambda key: self.sample_noise(key, (draws,)))(key) / scale
        moved = float64(differences.toarray()) / scale
        base = jax.jit(lambda z: jnp.sum(law_of.log_base(self.mixing, z), -1))
        here = np.asarray(base(z))
        return np.stack([here - np.asarray(base(z + v)) for v in moved])

    def deviation(self, workload: Any = None) -> Any:
        """Not exact: evaluators estimate it from draws when given `key=`."""
        raise self._refuse("deviation", "Pass key= to the evaluator for an estimate from draws.")
