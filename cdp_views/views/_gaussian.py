"""What the three views of Normal noise share: a Gaussian on the subspace."""

import math
from typing import Any

import jax
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
    defined_everywhere = True
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
        """L ~ N(μ²/2, μ²) with μ² = u Σ⁺ uᵀ; of a query W, (Wu)ᵀ(WΣWᵀ)⁺(Wu). Exact.

        u is how far the release's centre moves when the data do by v: v itself where v keeps the
        totals. Where they were fixed in advance it need not, and u = v − ΔAᵀ(AΔAᵀ)⁻¹Av conditioned,
        the projection of v imaged.
        """
        law = self._exact_law("loss")
        if query is None:
            return GaussianLoss(np.sqrt(np.maximum(self._squared_length(law, differences), 0)))
        weights = query.toarray()
        covariance = np.asarray(law.covariance_product(float64(weights))) @ weights.T
        scale = np.broadcast_to(np.asarray(self.scale, np.float64), (self.invariant.n,))
        seeing = sparse.csr_array(self._pulled_back(law, weights)) if self.fixed_totals else query
        seen = np.asarray((seeing @ differences.T).toarray(), dtype=np.float64)
        noisy = np.linalg.norm(weights * scale, axis=1)
        rounding = 1e-13 * np.outer(np.linalg.norm(weights, axis=1), abs(differences).sum(axis=1))
        return GaussianLoss(_lengths(covariance, seen, noisy, rounding))

    def _squared_length(self, law: Any, differences: sparse.csr_array) -> np.ndarray:
        """u Σ⁺ uᵀ for each row v: (m,)."""
        nu = getattr(law, "nu", None)
        if not self.fixed_totals or nu is None:  # an image's form ignores what lies along the fibre
            return law.squared_length(differences)
        # G(ν): u = Cov diag(ν) v, so uᵀΣ⁺u = (νv)ᵀ Cov (νv)
        nu = np.broadcast_to(np.asarray(nu), (self.invariant.n,))
        return law.variance_of(sparse.csr_array(differences * nu[None, :]))

    def _pulled_back(self, law: Any, weights: np.ndarray) -> np.ndarray:
        """The rows W M of the map M: v ↦ u, (r, n)."""

        def centre(v: Any) -> Any:
            return v - self.moved(law, v)

        pull = jax.linear_transpose(centre, float64(np.zeros(self.invariant.n)))
        return np.stack([np.asarray(pull(float64(w))[0]) for w in weights])

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


def _lengths(
    covariance: np.ndarray, seen: np.ndarray, noisy: np.ndarray, rounding: np.ndarray
) -> np.ndarray:
    """√(wᵀ C⁺ w) for each column w of `seen` (r, m); infinite where w leaves the range of C.

    What an exact total lets through of its cells' noise, sd `noisy` (r,), is rounding; so is what
    it shows of a difference, up to `rounding` (r, m).
    """
    # to unit variances first: a query's unit of measurement must not matter
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    exact = sd <= 1e-7 * noisy
    covariance = np.where(exact[:, None] | exact[None, :], 0, covariance)
    seen = np.where(exact[:, None] & (np.abs(seen) <= rounding), 0, seen)
    unit = np.where(exact, 1, sd)
    covariance, seen = covariance / np.outer(unit, unit), seen / unit[:, None]
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > max(len(values), 1) * 1e-14 * max(values.max(initial=0), 0)
    along = vectors.T @ seen
    outside = np.linalg.norm(along[~kept], axis=0) > 1e-9 * np.linalg.norm(seen, axis=0)
    inside = np.sqrt(np.sum(along[kept] ** 2 / values[kept][:, None], axis=0))
    return np.where(outside, np.inf, inside)
