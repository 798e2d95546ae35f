"""Whole-number noise *given* that the totals are exact."""

from functools import cached_property, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views.loss import BoundedLoss, Loss, ProfileLoss
from cdp_views.loss.by_law import Later
from cdp_views.loss.concentrated import ConcentratedLoss, RhoLoss
from cdp_views.loss.conversions import delta_of_rho
from cdp_views.noise import log_mass
from cdp_views.precision.given_totals import GivenTotals
from cdp_views.precision.whole_sums import Mass
from cdp_views.support import WholeTotals
from cdp_views.views._suprema import by_row
from cdp_views.views._whole import WholeView, base_measure, require_whole, whole_weights
from cdp_views.views._whole_profile import Split, delta_of_sup


class ConditionedWhole(WholeView):
    """Π p_i given A y = A loc in whole numbers; build it with `cdp.Conditioned`.

    P(x) = Π p_i(x_i)/P(A U = 0) on {x ∈ Zⁿ : A x = 0}. Draws are exact and independent, by sums of
    cells with equal columns of A; the totals hold with `==`.

    With `lower` (n,) the base is also given that y ≥ lower: then P(A U = 0, loc + U ≥ lower), the
    normaliser, depends on the true table, and so do errors and guarantee (Gong and Meng 2020).
    """

    kind = "conditioned"
    pytree_data_fields = ("lower",)

    def __init__(self, *args: Any, lower: np.ndarray | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lower = lower
        if lower is None:
            return
        if self.batch_shape or not _checks.is_concrete(self.loc):
            raise _checks.UnsupportedError(
                "`loc` of discrete noise with bounds must be one concrete table: the bounds make "
                "every number depend on it. Build one view per table, outside jit."
            )
        broken = np.flatnonzero(self.loc < lower)
        if broken.size:
            named = ", ".join(map(str, broken[:5])) + (", …" if broken.size > 5 else "")
            raise ValueError(
                f"`invariant` has bounds that the true table itself breaks, of {broken.size} cells "
                f"({named}). Bounds must hold for every possible table."
            )

    @cached_property
    def _given(self) -> GivenTotals:
        return self._given_at(self.loc)

    def _given_at(self, loc: Any) -> GivenTotals:
        """The noise around another table (n,), under the same totals and bounds."""
        which, masses = self._truncated(loc)
        return GivenTotals(whole_weights(self.invariant), which, masses)

    def _truncated(self, loc: Any) -> tuple[np.ndarray, list[Mass]]:
        """Each cell's law (n,) and the distinct ones, cut off where the table meets its bound."""
        which, masses = self._masses()
        if self.lower is None:
            return which, masses
        least = np.maximum(np.ceil(self.lower - loc), -(2**53)).astype(np.int64)
        least = np.maximum(least, np.array([mass.low for mass in masses])[which])
        pairs, place = np.unique(np.stack([which, least]), axis=1, return_inverse=True)
        cut = [
            Mass(int(low), masses[law].p[low - masses[law].low :]) for law, low in pairs.T.tolist()
        ]
        return place.ravel(), cut

    @property
    def support(self) -> WholeTotals:  # pyright: ignore[reportIncompatibleMethodOverride]
        return WholeTotals(self.invariant, self.loc, self.lower)

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
        which, masses = self._truncated(self.loc)
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

    def loss(self, differences: sparse.csr_array, query: Any = None) -> Loss:
        """The profile of every difference v, exact where its list of losses is short.

        That is so for two cells under one total, and of discrete Laplace noise for any few.
        Otherwise it is bounded from what is always exact: the largest loss Σ|v_i|/λ_i of discrete
        Laplace noise, ρ = Σ v_i²/2σ_i² of discrete normal noise. (On any lattice: Canonne, Kamath
        and Steinke 2020, Theorem 4, with Poisson summation over the lattice.)

        With bounds the two tables' normalisers differ: |log Z(q) − log Z(q ± v)| is added, a bound
        for this table q (and confidential as it is).
        """
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        require_whole(differences)
        family, laplace = self.noise_name, self.noise_name == "discrete-laplace"
        size = by_row(differences, base_measure(family, self.scale, differences))
        if self.lower is not None:
            return self._loss_within(differences, size)
        noise = self._base_noise()
        split = Split(noise, whole_weights(self.invariant), differences)
        kind = "exact" if split.listed.all() else "bound"

        def proved(row: int) -> Any:
            return delta_of_sup(size[row]) if laplace else partial(delta_of_rho, size[row])

        profile = Later(lambda: split.profile(self._given, proved))
        if laplace:
            return ProfileLoss(profile, size, kind=kind)
        if not split.listed.any():
            return RhoLoss(size)
        return ConcentratedLoss(profile, np.where(size > 0, np.inf, 0.0), kind=kind, rho=size)

    def loss_scope(self, differences: sparse.csr_array) -> str:
        """For which tables `loss` holds, in words, where it isn't all of them."""
        del differences
        return "" if self.lower is None else "holds for this table, as its bounds cut it off"

    def loss_anywhere(self, differences: sparse.csr_array, query: Any = None) -> Loss:
        """`loss` whatever the table: within bounds 2 Σ|v_i|/λ_i of discrete Laplace noise.

        Z(q + v)/Z(q) is the mean of p(x − v)/p(x) over the law at q: at most the cells' own loss.
        """
        if self.lower is None or self.noise_name != "discrete-laplace" or query is not None:
            return self.loss(differences, query)
        require_whole(differences)
        size = by_row(differences, base_measure(self.noise_name, self.scale, differences))
        return BoundedLoss(2 * size, sup_kind="bound")

    def _loss_within(self, differences: sparse.csr_array, sup: np.ndarray) -> BoundedLoss:
        """With bounds: the base's loss, and what the two normalisers differ by."""
        if self.noise_name != "discrete-laplace":
            raise self._refuse(
                "loss", "Within bounds use cdp.DiscreteLaplace, whose pure epsilon is bounded."
            )
        own = self._given.log_mass
        for row, v in enumerate(differences.toarray()):
            tables = [q for q in (self.loc + v, self.loc - v) if np.all(q >= self.lower)]
            sup[row] += max((abs(self._given_at(q).log_mass - own) for q in tables), default=0.0)
        return BoundedLoss(sup, sup_kind="bound")

    @property
    def mean(self) -> Array:
        if self.lower is None:
            return super().mean
        biased = np.asarray(self.loc, np.float64) + self.deviation().bias
        return jnp.asarray(biased, jnp.result_type(float))

    @property
    def exposure(self) -> np.ndarray:
        if self.lower is not None:
            raise self._refuse(
                "loss of any relocation",
                "Bounds make the worst one depend on the table: name the differences(V) to try.",
            )
        return super().exposure
