"""What the three views of Normal noise share: a Gaussian on the subspace."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from scipy import sparse

from cdp_views._float64 import float64, in_float64
from cdp_views.deviation import NormalDeviation
from cdp_views.loss import GaussianLoss
from cdp_views.views._pushed import PushedView


class GaussianView(PushedView):
    """A Gaussian on {A y = A centre}; `law` is a `Precision` or an `Image` of one."""

    noise_name = "normal"
    unit = dist.Normal(0.0, 1.0)
    pytree_data_fields = ()

    def _log_density(self, noise: Array) -> Array:
        law, d = self._push.law, self.invariant.dim
        return 0.5 * (law.logdet - d * math.log(2 * math.pi) - law.quadratic(noise))

    def entropy(self) -> Array:
        """Differential entropy on the subspace, in nats: (…)."""
        d = self.invariant.dim
        value = 0.5 * (d * (1 + math.log(2 * math.pi)) - self._push.law.logdet)
        return jnp.broadcast_to(value, self.batch_shape)

    @in_float64
    def loss(
        self, differences: sparse.csr_array, query: sparse.csr_array | None = None
    ) -> GaussianLoss:
        """L ~ N(μ²/2, μ²) with μ² = v Σ⁺ vᵀ; of a query W, (Wv)ᵀ(WΣWᵀ)⁺(Wv). Exact."""
        law = self._exact_law("loss")
        if query is None:
            return GaussianLoss(np.sqrt(np.maximum(law.squared_length(differences), 0)))
        weights = query.toarray()
        covariance = np.asarray(law.covariance_product(float64(weights))) @ weights.T
        seen = np.asarray((query @ differences.T).toarray(), dtype=np.float64)
        return GaussianLoss(_lengths(covariance, seen))

    @in_float64
    def deviation(self, workload: sparse.csr_array | None = None) -> NormalDeviation:
        """The error of every query of the workload (or cell) is Normal: its bias and sd. Exact."""
        law = self._exact_law("deviation")
        bias = np.broadcast_to(
            np.asarray(self.centre, np.float64) - np.asarray(self.loc), self.shape()
        )
        if workload is None:
            sd = np.sqrt(np.asarray(law.variance))
            return NormalDeviation(bias, np.broadcast_to(sd, bias.shape))
        variance = law.variance_of(workload)
        # a query of exact totals only is left with rounding errors of its cells' variances
        scale2 = np.broadcast_to(np.asarray(self.scale, np.float64) ** 2, (self.invariant.n,))
        settled = np.where(variance > 1e-26 * (workload.power(2) @ scale2), variance, 0)
        return NormalDeviation(workload @ bias, np.sqrt(settled))

    def _exact_law(self, what: str) -> Any:
        """The law again, in float64 on the raw scale; only inside `in_float64`."""
        weights = self._push.weights
        weights = None if weights is None else float64(weights)
        return self.law(self.invariant, float64(self._one(what)), weights)


def _lengths(covariance: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """√(wᵀ C⁺ w) for each column w; infinite where w leaves the range of C."""
    # to unit variances first: a query's unit of measurement must not matter
    sd = np.sqrt(np.diag(covariance))
    unit = np.where(sd > 0, sd, 1)
    covariance, seen = covariance / np.outer(unit, unit), seen / unit[:, None]
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > max(len(values), 1) * 1e-14 * max(values.max(initial=0), 0)
    along = vectors.T @ seen
    outside = np.linalg.norm(along[~kept], axis=0) > 1e-9 * np.linalg.norm(seen, axis=0)
    inside = np.sqrt(np.sum(along[kept] ** 2 / values[kept][:, None], axis=0))
    return np.where(outside, np.inf, inside)
