"""Imaging in the L1 metric: the cells of largest |weight| per cost take their group's residual."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views.invariants import Invariant, Totals
from cdp_views.loss import ProfileLoss
from cdp_views.precision.along import kept_apart
from cdp_views.precision.fibre import log_fibre_integral
from cdp_views.views._common import proper
from cdp_views.views._gaussian import GaussianView
from cdp_views.views._mixture import host_scale
from cdp_views.views.imaged.laplace import ImagedLaplace, fibre_sup
from cdp_views.views.imaged.moves import (
    Along,
    Moved,
    log_volume,
)
from cdp_views.views.imaged.profile import imaged_profile


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AlongNormal(Moved):
    """The law of Normal noise moved along u: the Gaussian on V with precision as below.

    Integrating along the fibre: xᵀΣ⁺x = Σ (x_i + s u_i)²/σ_i² at the s that makes it least.
    """

    @staticmethod
    def of(invariant: Invariant, scale: Array, weights: Array | None) -> "AlongNormal":
        return AlongNormal(
            Along.cheapest(invariant, weights, scale.dtype), scale, jnp.ones((1,), scale.dtype)
        )

    def _least(self, x: Array) -> Array:
        u, segments = self.move.u, self.move.segments  # pyright: ignore[reportAttributeAccessIssue]
        nu = 1 / self.scale**2
        s = -segments.sum(nu * u * x) / segments.sum(nu * u * u)
        return x + u * segments.spread(s)

    def quadratic(self, x: Array) -> Array:
        """xᵀ Σ⁺ x for x ∈ V: (…)."""
        return jnp.sum((self._least(x) / self.scale) ** 2, -1)

    @property
    def logdet(self) -> Array:
        """log pdet Σ⁺ = Σ log σ⁻² − Σ_g log(Σ u²/σ²) + 2 Σ_g log(b·u/|b|): (…)."""
        move: Any = self.move
        nu = jnp.broadcast_to(1 / self.scale**2, (*self.scale.shape[:-1], move.segments.n))
        length = move.segments.sum(nu * move.u**2)
        size = move.segments.sum(move.b * move.u) ** 2 / move.segments.sum(move.b**2)
        return jnp.sum(jnp.log(nu), -1) + jnp.sum(jnp.log(size) - jnp.log(length), -1)

    def variance_of(self, queries: sparse.csr_array) -> np.ndarray:
        """w Σ wᵀ for each row of `queries`, on the host; unbatched only."""
        move: Any = self.move
        spread = np.broadcast_to(np.asarray(self.scale) ** 2, (move.segments.n,))
        return move.rows(queries).power(2) @ spread

    def squared_length(self, differences: sparse.csr_array) -> np.ndarray:
        """v Σ⁺ vᵀ for each row of `differences`, on the host; unbatched only."""
        return np.stack(
            [np.asarray(self.quadratic(jnp.asarray(v))) for v in differences.toarray()]
        ).reshape(-1)


class CheapestNormal(GaussianView):
    """Normal noise moved to its closest point in L1; build it with `cdp.Imaged(metric="l1")`."""

    kind = "imaged"

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> AlongNormal:
        return AlongNormal.of(invariant, scale, weights)

    @staticmethod
    def moved(law: AlongNormal, shift: Array) -> Array:
        return shift - law.move.apply(shift)


class CheapestLaplace(ImagedLaplace):
    """Laplace noise moved to its closest point in L1; build it with `cdp.Imaged(metric="l1")`.

    One cell of largest |b|/w: the density is that of the other cells, times |b_m|/|b|. Ties: the
    tied cells are integrated along their fibre in closed form.
    """

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Moved:  # pyright: ignore[reportIncompatibleMethodOverride]
        # `unit` has variance 1, so its scale is the standard deviation
        sd = math.sqrt(2) * scale
        return Moved(Along.cheapest(invariant, weights, scale.dtype), sd, jnp.ones((1,), sd.dtype))

    @staticmethod
    def moved(law: Moved, shift: Array) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        return shift - law.move.apply(shift)

    def _log_density(self, noise: Array) -> Array:
        groups = self.invariant.disjoint_groups
        assert groups is not None
        scale = jnp.asarray(proper(self.scale), noise.dtype)
        u = jnp.asarray(self._push.law.move.u, noise.dtype)
        moving = kept_apart(groups.segments, u)
        fibre = log_fibre_integral(noise, u, 1 / scale, moving)
        still = jnp.where(moving.member, 0, -jnp.abs(noise) / scale)
        cells = jnp.sum(still - jnp.broadcast_to(jnp.log(2 * scale), noise.shape), -1)
        return cells + jnp.sum(fibre + log_volume(groups, u), -1)

    def loss(self, differences: sparse.csr_array, query: Any = None) -> ProfileLoss:
        """Of every difference v the profile, exact for two cells that stay where they are.

        The cells that are not moved are independent, and one that takes all shows nothing of its
        own. sup is min_w ‖(v + uw)/λ‖₁.
        """
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        groups: Any = self.invariant.disjoint_groups
        rate, u = 1 / host_scale(self, "loss"), np.asarray(self._push.law.move.u, np.float64)
        labels = np.where(u == 0, groups.rank, np.asarray(groups.segments.labels))
        sup = fibre_sup(differences, u, rate, labels, groups.rank)
        return imaged_profile(differences, sup, u, rate, labels, groups.rank)

    def on_cells(self, part: Totals, scale: np.ndarray, cells: np.ndarray) -> "CheapestLaplace":
        """The same noise on some of the groups alone."""
        weights = self._push.weights
        if weights is not None and np.size(weights) > 1:
            weights = np.asarray(weights)[cells]
        return CheapestLaplace(part, np.zeros(part.n), scale, (), weights=weights)
