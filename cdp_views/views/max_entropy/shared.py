"""Maximum entropy with one random scale for all cells: an elliptical law, exact in every way."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.deviation import Deviation
from cdp_views.noise import Mixing
from cdp_views.noise._quadrature import window
from cdp_views.views._common import coloured, proper
from cdp_views.views._mixture import RandomScales
from cdp_views.views.max_entropy.marginal import loss_of_row
from cdp_views.views.max_entropy.mixture import finite_second_moment, require_one_law


@final
class MaxEntropyShared(RandomScales):
    """X = s·G with G the max-entropy Gaussian of the base's scales and one s: `scales="shared"`.

    Every cell exactly the base's law, A X = 0 with probability one, for every invariant that has
    the Gaussian. Density √det(KᵀNK) g_d(xᵀΣ⁺x) with g_d(q) = ∫ h(s)(2πs²)^{−d/2} e^{−q/(2s²)} ds:
    Bessel K for Laplace, the multivariate t, quadrature else. Cells are uncorrelated where the
    Gaussian's are but never independent; Laplace is unbounded at 0 for d ≥ 2.
    """

    kind = "max-entropy"
    pytree_data_fields = ("law",)

    def __init__(
        self,
        invariant: Any,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        mixing: Mixing,
        *,
        validate_args: bool | None = None,
    ) -> None:
        require_one_law(mixing)
        self.law = invariant.equalize(jnp.asarray(proper(scale)) ** 2)
        super().__init__(invariant, loc, scale, batch_shape, mixing, validate_args=validate_args)

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of X with A X = 0, loc not added: (*sample_shape, …, n)."""
        one, two = jax.random.split(key)
        shape, dtype = self.shape(sample_shape), jnp.result_type(float)
        s = self.mixing.sample(one, (*shape[:-1], 1), dtype)
        return s * coloured(self.law, jax.random.normal(two, shape, dtype))

    def _log_density(self, noise: Array) -> Array:
        q = jnp.maximum(self.law.quadratic(noise), 0)
        q, logdet = jnp.broadcast_arrays(q, self.law.logdet)
        infeasible = jnp.isneginf(logdet)
        q = jnp.where(infeasible, 1, q)
        return jnp.where(infeasible, -jnp.inf, 0.5 * logdet + self._log_elliptical(q))

    def _log_elliptical(self, q: Array) -> Array:
        """log g_d, cell by cell of the batch: the law's parameters have a trailing axis 1."""
        return self.mixing.log_elliptical(q[..., None], self.invariant.dim)[..., 0]

    @property
    def variance(self) -> Array:
        """λ² E s²; inf where the base has none, 0 for a cell that the totals determine."""
        fixed = self.law.variance
        value = jnp.where(fixed > 0, jnp.where(fixed > 0, fixed, 1) * self._square, 0)
        return jnp.broadcast_to(value, self.shape())

    @property
    def _square(self) -> Any:
        return jnp.asarray(self.mixing.second_moment)

    def covariance_product(self, x: Any) -> Array:
        """Cov(Y) x = E s² Σ x, exact."""
        return finite_second_moment(self) * self.law.covariance_product(jnp.asarray(x))

    def entropy(self) -> Array:
        """Differential entropy on the subspace, in nats: −½ logdet − E log g_d(R²), R = |s·Z|.

        One integral over log R, by the trapezoid rule.
        """
        d = self.invariant.dim
        if d == 0:
            return jnp.zeros(self.batch_shape)
        sphere = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)

        def line(v: Array) -> Array:
            return self.mixing.log_elliptical(jnp.exp(2 * v), d) + d * v + sphere

        shape: Any = jnp.broadcast_shapes(*map(jnp.shape, jax.tree.leaves(self.mixing)), (1,))
        v = window(line, shape, jnp.result_type(float))
        log_p = line(v)
        p = jnp.exp(log_p - jnp.max(log_p, 0))
        height = jnp.sum(p * (log_p - d * v - sphere), 0) / jnp.sum(p, 0)
        return jnp.broadcast_to(-0.5 * self.law.logdet - height[..., 0], self.batch_shape)

    @in_float64
    def loss(self, differences: Any, query: Any = None) -> Any:
        """Of a query of one row w, exactly the base's with scale √(wΣwᵀ).

        No guarantee of the joint release is proved (Laplace: unbounded loss for d ≥ 2).
        """
        if query is not None and query.shape[0] == 1:
            scale = np.sqrt(self._variance_of(query))
            found = loss_of_row(self.mixing, differences, query, scale)
            if found is not None:
                return found
        raise self._refuse(
            "loss", "No guarantee is proved for it: release cdp.Conditioned or cdp.Imaged instead."
        )

    @in_float64
    def deviation(self, workload: sparse.csr_array | None = None) -> Deviation:
        """The error of every query w has the base's law with scale √(wΣwᵀ). Exact."""
        if workload is None:
            law = self.invariant.equalize(float64(self._one("deviation")) ** 2)
            sd = np.sqrt(np.asarray(law.variance))
            return self.mixing.deviation(np.array(np.broadcast_to(sd, (self.invariant.n,))))
        return self.mixing.deviation(np.sqrt(self._variance_of(workload)))

    def _variance_of(self, workload: sparse.csr_array) -> np.ndarray:
        """wΣwᵀ of every row."""
        law = self.invariant.equalize(float64(self._one("deviation")) ** 2)
        variance = law.variance_of(workload)
        # a query of exact totals only is left with rounding errors of its cells' variances
        scale2 = np.broadcast_to(np.asarray(self.scale, np.float64) ** 2, (self.invariant.n,))
        return np.where(variance > 1e-26 * (workload.power(2) @ scale2), variance, 0)
