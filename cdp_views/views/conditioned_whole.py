"""Whole-number noise *given* that the totals are exact."""

from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views.loss import BoundedLoss
from cdp_views.noise import log_mass
from cdp_views.precision.given_totals import GivenTotals
from cdp_views.precision.whole_sums import Mass
from cdp_views.views._whole import WholeView, whole_weights


class ConditionedWhole(WholeView):
    """Π p_i given A y = A loc in whole numbers; build it with `cdp.Conditioned`.

    P(x) = Π p_i(x_i)/P(A U = 0) on {x ∈ Zⁿ : A x = 0}. Draws are exact and independent, by sums of
    cells with equal columns of A; the totals hold with `==`.
    """

    kind = "conditioned"

    @cached_property
    def _given(self) -> GivenTotals:
        which, masses = self._masses()
        return GivenTotals(whole_weights(self.invariant), which, masses)

    def _draw(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        return self._given.draw(rng, draws)

    def _laws(self) -> list[tuple[np.ndarray, Mass]]:
        return self._given.marginals()

    def _log_density(self, noise: Array) -> Array:
        scale = jnp.asarray(self.scale, noise.dtype)
        cells = jnp.sum(log_mass(self.noise_name, noise, scale), -1)
        return cells - self._given.log_mass

    def entropy(self) -> Array:
        """Shannon entropy −E log P, in nats: exact."""
        which, masses = self._masses()
        total = self._given.log_mass
        for cells, mass in self._laws():
            base = masses[which[cells[0]]]
            log_p = np.log(
                base.at(mass.low + np.arange(mass.p.size)),
                where=mass.p > 0,
                out=np.zeros(mass.p.size),
            )
            total -= len(cells) * float(mass.p @ log_p)
        return jnp.broadcast_to(jnp.asarray(total, jnp.result_type(float)), self.batch_shape)

    def loss(self, differences: sparse.csr_array, query: Any = None) -> BoundedLoss:
        """Discrete Laplace: the largest loss Σ|v_i|/λ_i of every difference v: pure ε, exact."""
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        if self.noise_name != "discrete-laplace":
            raise self._refuse("loss", "Use cdp.DiscreteLaplace, whose pure epsilon is exact.")
        rate = np.broadcast_to(1 / self.scale, (self.invariant.n,))
        return BoundedLoss(abs(differences) @ rate)
