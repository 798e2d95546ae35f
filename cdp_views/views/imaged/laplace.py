"""Imaged Laplace noise: independent Laplace cells, moved to the closest point with exact totals."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from scipy import sparse

from cdp_views.invariants import Invariant, Totals
from cdp_views.loss import ProfileLoss
from cdp_views.precision.fibre_host import log_fibre_product
from cdp_views.views._common import proper
from cdp_views.views._mixture import host_scale, laplace_loss_draws
from cdp_views.views._suprema import by_row
from cdp_views.views.imaged.entropy import Standard
from cdp_views.views.imaged.image import Image
from cdp_views.views.imaged.noise import ImagedNoise
from cdp_views.views.imaged.profile import imaged_profile, pairs_below, whole_of_groups


class ImagedLaplace(ImagedNoise):
    """The projection of Π Laplace(loc_i, λ_i) onto {A y = total}; build it with `cdp.Imaged`.

    Density: the base integrated along each group's fibre, in closed form by sorting (disjoint
    totals). `TransformReparam` of it is the exact augmented model for overlapping totals. Pure ε
    of a difference v is min_w ‖(v + uw)/λ‖₁ with u the fibre's direction: never above conditioned.
    """

    noise_name = "laplace"
    unit = dist.Laplace(0.0, np.sqrt(0.5))
    pytree_data_fields = ()

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Image:
        weight = jnp.ones((1,), scale.dtype) if weights is None else weights
        return Image.of(invariant, 2 * scale**2, weight)

    @staticmethod
    def moved(law: Image, shift: Array) -> Array:
        return shift - law.metric.covariance_product(law.weight * shift)

    @property
    def standard_cells(self) -> Standard:
        return Standard(np.zeros(1), _standard_law, _tiny, 80)

    def log_cells(self, noise: Array) -> Array:
        return dist.Laplace(0.0, jnp.asarray(proper(self.scale), noise.dtype)).log_prob(noise)

    def _log_density(self, noise: Array) -> Array:
        groups, scale = self.disjoint, jnp.asarray(proper(self.scale), noise.dtype)
        segments, weight = groups.segments, jnp.asarray(self._push.law.weight, noise.dtype)
        one = jnp.ones((1,), noise.dtype)
        b = one if groups.weights is None else groups._weights_like(noise.dtype)
        direction = b / weight
        # coordinates (x, s) of x + s·u: the volume of u beyond V is b·u/|b|
        alike = direction.shape[-1] == 1
        along = direction * segments.sizes if alike else segments.sum(b * direction)
        volume = jnp.log(along) - 0.5 * jnp.log(groups._norm2(b))
        fibre = log_fibre_product(noise, direction, 1 / scale, segments)
        free = jnp.where(segments.member, 0, -jnp.abs(noise) / scale)
        each = noise.shape[-1] if scale.shape[-1] == 1 else 1
        cells = jnp.sum(free, -1) - each * jnp.sum(jnp.log(2 * scale), -1)
        return cells + fibre + jnp.sum(volume, -1)

    def loss(self, differences: sparse.csr_array, query: Any = None) -> ProfileLoss:
        """The profile of each difference v, exact in groups of 2 or 3; sup min_w ‖(v + uw)/λ‖₁.

        Where totals overlap a bound: that of the base's noise, of which the image is a function.
        """
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        groups, rate = self.invariant.disjoint_groups, 1 / host_scale(self, "loss")
        if groups is None:
            sup = by_row(differences, np.abs(differences.data) * rate[differences.indices])
            nowhere = np.zeros(rate.size, int)  # no cell on any fibre
            found = imaged_profile(differences, sup, np.ones(rate.size), rate, nowhere, 0)
            return replace(found, kind="bound", sup_kind="bound")
        u, labels = self.fibre(groups), np.asarray(groups.segments.labels)
        sup = fibre_sup(differences, u, rate, labels, groups.rank)
        return imaged_profile(differences, sup, u, rate, labels, groups.rank)

    def loss_of_pairs_below(
        self, total: float, largest: float, size: float | None = None
    ) -> ProfileLoss:
        """What is proved of two cells with |v_i|/λ_i at most `largest`, in sum at most `total`.

        Nearer where they keep every total and |v_i| is at most `size`; see `pairs_below`.
        """
        whole = np.inf
        groups = self.invariant.disjoint_groups
        if size is not None and groups is not None:
            rate, labels = 1 / host_scale(self, "loss"), np.asarray(groups.segments.labels)
            whole = size * whole_of_groups(self.fibre(groups), rate, labels, groups.rank)
        return pairs_below(total, largest, whole)

    def loss_draws(self, key: Array, differences: sparse.csr_array, draws: int) -> np.ndarray:
        """Draws of the privacy loss of every difference, (m, draws), in float64."""
        if self.invariant.disjoint_groups is None:
            raise self._refuse(
                "loss_draws", "Where totals overlap leave key= out: what is proved needs no draws."
            )
        return laplace_loss_draws(self, key, differences, draws)

    def on_cells(self, part: Totals, scale: np.ndarray, cells: np.ndarray) -> "ImagedLaplace":
        """The same noise on some of the groups alone."""
        weights = self._push.weights
        if weights is not None and np.size(weights) > 1:
            weights = np.asarray(weights)[cells]
        return ImagedLaplace(part, np.zeros(part.n), scale, (), weights=weights)


def _standard_law(_shape: Array) -> dist.Distribution:
    return dist.Laplace(0.0, 1.0)


def _tiny(_shape: Array) -> Array:
    return jnp.asarray(1e-9)


def fibre_sup(
    differences: sparse.csr_array, u: np.ndarray, rate: np.ndarray, labels: np.ndarray, count: int
) -> np.ndarray:
    """Σ_g min_w Σ_{i∈g} r_i |v_i + w u_i| for each row v: (m,), by one weighted median per group.

    A row touches few cells of a group; all others have their breakpoint at w = 0 and enter
    together, with the group's remaining weight.
    """
    entries = sparse.coo_array(differences)
    row, cell, v = entries.row.astype(np.int64), entries.col, np.asarray(entries.data, np.float64)
    group = labels[cell]
    direct = np.bincount(
        row, np.where(group == count, rate[cell] * np.abs(v), 0), differences.shape[0]
    )
    inside = group < count
    row, cell, v, group = row[inside], cell[inside], v[inside], group[inside]
    if row.size == 0:
        return direct
    whole = np.bincount(labels, np.abs(u) * rate, count + 1)
    pair, index = np.unique(row * (count + 1) + group, return_inverse=True)
    slope = np.abs(u[cell]) * rate[cell]
    remaining = np.maximum(whole[pair % (count + 1)] - np.bincount(index, slope, pair.size), 0)
    # breakpoints of every (row, group), the shared one at 0 among them, in order of w
    part = np.concatenate([index, np.arange(pair.size)])
    w = np.concatenate([-v / u[cell], np.zeros(pair.size)])
    mass = np.concatenate([slope, remaining])
    order = np.lexsort((w, part))
    part, w, mass = part[order], w[order], mass[order]
    running = np.cumsum(mass)
    start = np.concatenate([[0], running[np.flatnonzero(np.diff(part))]])
    total = np.bincount(part, mass, pair.size)
    reached = running - start[part] >= total[part] / 2 * (1 - 1e-12)
    median = w[np.flatnonzero(reached)[np.unique(part[reached], return_index=True)[1]]]
    value = np.bincount(index, rate[cell] * np.abs(v + median[index] * u[cell]), pair.size)
    value += np.abs(median) * remaining
    return direct + np.bincount(pair // (count + 1), value, differences.shape[0])
