"""Imaged noise on any totals by its fibre coordinates: an estimate of the density, an exact model.

The points y + U t, t ∈ Rᵏ, all move to one point of V, so its density there is
    p(x) = |det QᵀU| ∫ Π p_i(x_i + (U t)_i) dt,   Q orthonormal rows of A, U = W⁻¹Q.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.linalg
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpyro.distributions import constraints

from cdp_views import _checks
from cdp_views.views._common import proper
from cdp_views.views._pushed import PushedView

_ROUNDS, _DF = 6, 4.0


class DensityEstimate(NamedTuple):
    """An estimated log-density, its standard error, and the largest share of one weight."""

    log_density: Array
    standard_error: Array
    largest_share: Array


class Fibre(NamedTuple):
    """U (…, n, k) and log |det QᵀU| of a view, and the base's scale of every cell."""

    u: Array
    log_volume: Array
    scale: Array

    @staticmethod
    def of(view: PushedView, dtype: Any) -> "Fibre":
        """By an orthonormal basis of A's rows, on the host: O(n k²) once."""
        invariant = view.invariant
        if not _checks.is_concrete(invariant):
            raise _checks.UnsupportedError(
                "The fibre's basis needs the invariant itself, not a traced one. Build the view "
                "inside the compiled function, from a traced loc and scale."
            )
        rows = invariant.matrix.toarray()
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1)
        q = jnp.asarray(scipy.linalg.orth(rows.T, rcond=1e-12), dtype)
        law: Any = view._push.law
        move = getattr(law, "move", law)
        if hasattr(move, "u"):  # moves along u within disjoint groups
            labels = np.asarray(move.segments.labels)
            member = labels[:, None] == np.arange(move.segments.count)
            u = jnp.asarray(move.u, dtype)[..., None] * member
        else:
            u = q / jnp.broadcast_to(jnp.asarray(move.weight, dtype), (invariant.n,))[:, None]
        volume = jnp.linalg.slogdet(q.T @ u)[1]
        scale = jnp.broadcast_to(jnp.asarray(proper(view.scale), dtype), view.shape())
        return Fibre(u, volume, scale)

    def solve(self, x: Array, nu: Array) -> tuple[Array, Array]:
        """The t with least Σ ν_i (x + U t)_i², and the Cholesky factor of UᵀNU."""
        factor = jnp.linalg.cholesky(jnp.einsum("nk,...n,nl->...kl", self.u, nu, self.u))
        right = jnp.einsum("nk,...n->...k", self.u, nu * x)[..., None]
        t = jax.scipy.linalg.cho_solve((factor, True), right)[..., 0]
        return -t, factor


def log_cells(view: Any, noise: Array) -> Array:
    """The base's log-density of every cell's noise: (…, n)."""
    if hasattr(view, "log_cells"):
        return view.log_cells(noise)
    return dist.Normal(0.0, jnp.asarray(proper(view.scale), noise.dtype)).log_prob(noise)


def log_prob_estimate(view: Any, value: Any, key: Array, *, draws: int = 4096) -> DensityEstimate:
    """The log-density at one point by importance sampling over its fibre, with its error.

    The proposal is a multivariate Student-t of 4 degrees of freedom, fitted to weighted draws of
    its own in six rounds; the estimate takes fresh ones. It is unbiased on the density's scale.

    Args:
        view: any imaged view whose draw moves independent noise.
        value: one table (n,); off the subspace the answer is −inf.
        key: a JAX key: passing one is the request for an estimate.
        draws: of the last round.

    Returns:
        (log density, its standard error, the largest share of one weight: above a few per cent,
        distrust both).
    """
    value = jnp.asarray(value)
    if value.ndim != 1 or view.batch_shape:
        raise ValueError(
            f"`value` must be one table (n,) of one view; got shape {value.shape} and batch "
            f"{view.batch_shape}. Use jax.vmap, with a key for each."
        )
    inside = view.support(value)
    x = value - jnp.asarray(view.centre, jnp.result_type(value, float))
    x = jnp.where(inside, x, 0)
    fibre = Fibre.of(view, x.dtype)
    k = fibre.u.shape[-1]

    def log_f(t: Array) -> Array:
        return jnp.sum(log_cells(view, x + t @ fibre.u.T), -1)

    # from the least-squares point, its spread widened by how far the cells are from fitting
    t, factor = fibre.solve(x, 1 / fibre.scale**2)
    start = jax.scipy.linalg.solve_triangular(factor, jnp.eye(k, dtype=x.dtype), lower=True).T
    rest = (x + fibre.u @ t) / fibre.scale
    state = lax.stop_gradient((t, start * jnp.sqrt(1 + jnp.mean(rest**2))))
    *rounds, last = jax.random.split(key, _ROUNDS + 1)
    for one in rounds:
        t, log_q = _propose(one, *state, max(512, 64 * k))
        state = lax.stop_gradient(_refit(t, log_f(t) - log_q))
    t, log_q = lax.stop_gradient(_propose(last, *state, draws))
    log_w = log_f(t) - log_q
    total = logsumexp(log_w)
    share = jnp.exp(log_w - total)
    error = jnp.sqrt(jnp.maximum(jnp.sum(share**2) - 1 / draws, 0) * draws / (draws - 1))
    estimate = jnp.where(inside, total - jnp.log(draws) + fibre.log_volume, -jnp.inf)
    return DensityEstimate(estimate, error, jnp.max(share))


def _propose(key: Array, centre: Array, root: Array, draws: int) -> tuple[Array, Array]:
    """Student-t draws centre + root·T and their log-density."""
    k = centre.shape[-1]
    law = dist.MultivariateStudentT(_DF, jnp.zeros(k, centre.dtype), jnp.eye(k, dtype=centre.dtype))
    z = law.sample(key, (draws,))
    return centre + z @ root.T, law.log_prob(z) - jnp.linalg.slogdet(root)[1]


def _refit(t: Array, log_w: Array) -> tuple[Array, Array]:
    """Centre and spread of weighted draws, tempered until 40 + 10 k draws share the weight."""
    draws, k = t.shape

    def kept(power: Array) -> Array:
        w = jax.nn.softmax(power * log_w)
        return 1 / jnp.sum(w * w)

    low, high = jnp.zeros((), t.dtype), jnp.ones((), t.dtype)
    for _ in range(12):
        middle = (low + high) / 2
        enough = kept(middle) >= min(10 * k + 40, draws / 2)
        low, high = jnp.where(enough, middle, low), jnp.where(enough, high, middle)
    w = jax.nn.softmax(low * log_w)
    mean = w @ t
    off = t - mean
    cover = (off * w[:, None]).T @ off
    floor = 1e-6 * jnp.trace(cover) / k + jnp.finfo(t.dtype).tiny
    return mean, jnp.linalg.cholesky(cover + floor * jnp.eye(k, dtype=t.dtype))


def observe_imaged(name: str, view: PushedView, value: Any) -> Any:
    """Observe a table released by an imaged view, exactly, on any totals: an augmented model.

    The noise before it was moved is x + U t with x = value − centre. Its k fibre coordinates t
    are latents, here as τ with t = t̂(x) + L⁻ᵀτ (least squares and its spread, so that τ is of
    order one) under Lebesgue measure, and the joint density is the base's: integrated over τ it
    is the view's density, for every loc, scale and other parameter.

    Args:
        name: of the site; its latents are called `name_fibre`.
        view: any imaged view but those of whole numbers or within bounds; loc and scale may
            depend on latents. For loc that may leave {A y = value's totals} give
            `cdp.Imaged(…, total=)`.
        value: the released table (…, n), or `None` to draw one.

    Returns:
        The value.

    Raises:
        TypeError: a view that is not imaged, or of whole numbers.

    Example:
        >>> import cdp_views as cdp, numpyro, numpyro.distributions as dist
        >>> inv = cdp.linear([[1, 1, 1, 0], [0, 1, 1, 1]])
        >>> def model(y):
        ...     base = dist.StudentT(3.0, numpyro.deterministic("q", y), 1.0)
        ...     cdp.observe_imaged("y", cdp.Imaged(base, inv), y)
    """
    if not isinstance(view, PushedView) or view.kind != "imaged":
        raise TypeError(
            f"`view` must be an imaged view of continuous noise; got {type(view).__name__}. Use "
            "numpyro.sample(name, view, obs=value)."
        )
    if value is None:
        return numpyro.sample(name, view)
    value = jnp.asarray(value)
    x = value - jnp.asarray(view.centre, jnp.result_type(value, float))
    shape = jnp.broadcast_shapes(view.batch_shape, x.shape[:-1])
    inside = jnp.broadcast_to(view.support(value), shape)
    x = jnp.broadcast_to(jnp.where(inside[..., None], x, 0), (*shape, x.shape[-1]))
    fibre = Fibre.of(view, x.dtype)
    flat = dist.ImproperUniform(constraints.real_vector, shape, (fibre.u.shape[-1],))
    tau: Any = numpyro.sample(f"{name}_fibre", flat)
    t, factor = fibre.solve(x, 1 / fibre.scale**2)
    step = jax.scipy.linalg.solve_triangular(
        jnp.broadcast_to(factor, (*shape, *factor.shape[-2:])), tau[..., None], lower=True, trans=1
    )
    log_step = -jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    noise = x + (t + step[..., 0]) @ fibre.u.T
    joint = jnp.sum(log_cells(view, noise), -1) + fibre.log_volume + log_step
    numpyro.factor(name, jnp.where(inside, joint, -jnp.inf))
    return value
