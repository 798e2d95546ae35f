"""Maximum entropy with Laplace marginals: a correlated scale mixture of normals."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views._segments import once
from cdp_views.deviation import LaplaceDeviation
from cdp_views.precision.fibre import segmented_cumsum
from cdp_views.views._mixture import MixtureView, disjoint, host_scale, squared_unit_scales


class MaxEntropyLaplace(MixtureView):
    """Every cell exactly Laplace(loc_i, λ_i), A X = 0 with probability one.

    Given scales σ_i = λ_i s_i (s Rayleigh, independent) X is the Gaussian of largest entropy
    with these standard deviations. Draws whose scales are out of balance are *coupled*: the whole
    group takes one s. Build it with `cdp.MaxEntropy`.
    """

    kind = "max-entropy"
    pytree_data_fields = ("needed",)

    def __init__(self, invariant: Any, loc: Any, scale: Any, *args: Any, **kwargs: Any) -> None:
        groups, lam = disjoint(invariant), jnp.asarray(scale)
        groups.equalize(lam**2)  # no such law: raises
        alike = groups.even and lam.shape[-1] == 1
        c = jnp.abs(groups._weights_like(lam.dtype)) * lam
        self.needed = jnp.ones(()) if alike else needed_cells(c, groups.segments)
        super().__init__(invariant, loc, scale, *args, **kwargs)

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        one, two = jax.random.split(key)
        shape, groups = self.shape(sample_shape), self.groups
        s = once(jnp.sqrt(squared_unit_scales(jax.random.exponential(one, shape))))
        lam = jnp.asarray(self.scale, s.dtype)
        accepted = groups.segments.spread(self._accept(s).astype(s.dtype)) > 0
        common = groups._at_anchor(s)
        sigma = once(lam * jnp.where(accepted | ~groups.segments.member, s, common))
        return groups.equalize_traced(sigma**2).colour(once(jax.random.normal(two, shape)))

    def coupled_share(self, key: Array, draws: int = 1000) -> np.ndarray:
        """Share (G,) of draws whose group takes one common scale, from `draws` draws."""
        shape = self.shape((draws,))
        s = jnp.sqrt(squared_unit_scales(jax.random.exponential(key, shape)))
        return np.asarray(1 - jnp.mean(self._accept(s), 0))

    def _accept(self, s: Array) -> Array:
        """Whether each group keeps its own scales: (…, G).

        The test must be symmetric in s for the marginals to stay exact: then, given rejection,
        every s_i has the same law as the one s that replaces them. Whatever their order, scales
        with sum S and maximum s₁ balance the largest c if (S − s₁)/s₁ exceeds the number of the
        group's smallest other c that add up to it (1 where all c are equal).
        """
        seg = self.groups.segments
        largest = seg.max(s)
        # strictly inside, by a few roundings: the solver must see a balanced group
        roundings = 8 + jnp.sqrt(seg.sizes.astype(s.dtype))
        slack = 1 + 8 * roundings * jnp.finfo(s.dtype).eps
        return seg.sum(s) - largest > self.needed * largest * slack

    def _log_density(self, noise: Array) -> Array:
        raise self._refuse(
            "log_prob", "Use cdp.Conditioned or cdp.Imaged of the same base as a likelihood."
        )

    @property
    def variance(self) -> Array:
        fixed = self.groups.segments.spread(self.groups.segments.sizes) == 1
        return jnp.broadcast_to(jnp.where(fixed, 0, 2 * jnp.asarray(self.scale) ** 2), self.shape())

    def covariance_product(self, x: Any) -> Array:
        if not self.alike:
            raise self._refuse(
                "covariance_product", "Estimate it from sample_noise draws, or use equal scales."
            )
        # exchangeable cells that sum to 0: their covariance is fixed by the variance
        law = self.groups.equalize(2 * jnp.asarray(self.scale) ** 2)
        return law.covariance_product(jnp.asarray(x))

    def entropy(self) -> Array:
        """Not in closed form."""
        raise self._refuse("entropy", "Compare variances instead.")

    def loss(self, differences: Any, query: Any = None) -> Any:
        """No guarantee of the joint release is proved, in the paper or here."""
        raise self._refuse(
            "loss", "No guarantee is proved for it: release cdp.Conditioned or cdp.Imaged instead."
        )

    def deviation(self, workload: Any = None) -> LaplaceDeviation:
        """The error of every cell is exactly Laplace(0, λ_i); other queries from draws."""
        if workload is not None:
            raise self._refuse(
                "deviation", "Pass key= to the evaluator for an estimate from draws."
            )
        scale = np.where(self.groups.determined, 0, host_scale(self, "deviation"))
        return LaplaceDeviation(np.zeros_like(scale), scale)


def needed_cells(c: Array, seg: Any) -> Array:
    """How many of a group's smallest other c add up to its largest, with a fraction: (…, G)."""
    c = jnp.broadcast_to(c, (*c.shape[:-1], seg.n))
    labels = jnp.broadcast_to(seg.labels, c.shape)
    _, c = lax.sort((labels, c), num_keys=2)
    ordered = replace(seg, labels=jnp.sort(seg.labels))
    change = ordered.labels[1:] != ordered.labels[:-1]
    first, last = jnp.append(True, change), jnp.append(change, True)
    below = segmented_cumsum(c, first) - c
    missing = ordered.spread(ordered.max(c)) - below
    count = jnp.where(last, 0, jnp.clip(missing / jnp.where(c > 0, c, 1), 0, 1))
    return ordered.sum(count)
