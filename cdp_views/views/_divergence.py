"""Kullback–Leibler divergence between two Gaussian views of the same totals."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from numpyro.distributions.kl import kl_divergence

from cdp_views.views._gaussian import GaussianView
from cdp_views.views.imaged.image import Image


@kl_divergence.register(GaussianView, GaussianView)  # pyright: ignore[reportFunctionMemberAccess]
def _(p: GaussianView, q: GaussianView) -> Array:
    """KL(p ‖ q) = ½[tr(Σ_p Σ_q⁺) − d + mᵀΣ_q⁺m + log pdet Σ_q − log pdet Σ_p], in nats: (…).

    m is the difference of the means. Infinite where the two have different totals.
    """
    if p.invariant.n != q.invariant.n or p.invariant.rank != q.invariant.rank:
        raise ValueError(
            "`kl_divergence` needs two views of the same totals; got invariants of different "
            "size. Build both views on one invariant."
        )
    mine, theirs = p._push.law, q._push.law
    shift = jnp.asarray(p.centre) - jnp.asarray(q.centre)
    together = jnp.asarray(q.support(jnp.asarray(p.centre)))
    distance = theirs.quadratic(jnp.where(together[..., None], shift, 0))
    trace = _trace(p, theirs)
    value = 0.5 * (trace - p.invariant.dim + distance + mine.logdet - theirs.logdet)
    return jnp.where(together, value, jnp.inf)


def _trace(p: GaussianView, law: Any) -> Array:
    """tr(Σ_p Σ_q⁺): O(n) where q has diagonal precision, dense where it is an image."""
    if not isinstance(law, Image):
        return jnp.sum(law.nu * p.variance, -1)
    weighted = law.weight[..., :, None] * p.covariance_matrix * law.weight[..., None, :]
    return jnp.trace(law.dual.covariance_product(weighted), axis1=-2, axis2=-1)
