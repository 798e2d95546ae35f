"""The density of coupled scale mixtures by simulation: two terms per group (numerics.md, §4).

With s standardised scales, x = λ∘z and d = m − 1 in a group of m cells,

    p(x) = ∫ h(s) π(s) N(x; s²Σ_λ) ds + ∫ Π h(s_i) 1{s kept} N(x; Σ(λ∘s)) ds,

π(s) the chance that a group whose first scale is s is coupled. In the second term s = t·w: t is
integrated out along the ray (`Mixing.log_ray`), and directions w come from the posterior of s given
independent cells, a fifth of them from cells shrunk by √(2/m), which cover one cell against all
others.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views import _checks
from cdp_views.noise._quadrature import log_integral
from cdp_views.support import AffineSubspace
from cdp_views.views.max_entropy.coupling import Coupling, coupling_of

_LOG_2PI = math.log(2 * math.pi)
_DEFENSIVE = 0.2


class DensityEstimate(NamedTuple):
    """log p, its standard error, and the largest share of one draw in its group's density."""

    log_density: Array
    stderr: Array
    largest_share: Array


def estimate(view: Any, value: Any, key: Array, draws: int) -> DensityEstimate:
    """The estimate at every row of `value` (…, n), one row after the other."""
    if draws < 10:
        raise ValueError(f"`draws` must be at least 10; got {draws}. Thousands tell more.")
    scale = jnp.asarray(view._one("log_prob_estimate"))
    value = jnp.asarray(value)
    centre = jnp.asarray(view.centre, jnp.result_type(value, float))
    inside = AffineSubspace(view.invariant, origin=view.centre)(value)
    noise = jnp.where(inside[..., None], value - centre, 0)
    groups = view.groups
    scale = jnp.broadcast_to(scale, (groups.n,)).astype(noise.dtype)
    if not _checks.is_concrete(groups, scale, view.mixing):
        raise ValueError(
            "`log_prob_estimate` tabulates how often scales are coupled, which takes concrete "
            "scales. Build the view outside jit."
        )
    coupling = coupling_of(view.mixing, groups.segments, np.asarray(view.needed))
    rows = noise.reshape(-1, groups.n)
    keys = jax.random.split(key, len(rows))
    one = _one_row(draws)
    got = lax.map(lambda pair: one(view, scale, coupling, *pair), (rows, keys))
    log_density, stderr, share = (a.reshape(inside.shape) for a in got)
    off = jnp.where(inside, 0, -jnp.inf)
    return DensityEstimate(log_density + off, stderr, share)


def _one_row(draws: int) -> Any:
    @jax.jit
    def row(view: Any, scale: Array, coupling: Coupling, x: Array, key: Array) -> Any:
        groups, mixing = view.groups, view.mixing
        seg, z = groups.segments, x / scale
        per_group = mixing.of_groups(seg)
        law = groups.equalize_traced(scale**2)
        logdet, q = _by_group(law, x)
        m = seg.sizes
        alone, pair = m == 1, m == 2
        coupled = 0.5 * logdet + jnp.where(
            pair, per_group.log_elliptical(q, 1), _coupled(per_group, coupling, q, m - 1)
        )
        own, relative, share = _independent(view, scale, z, key, draws)
        many = ~alone & ~pair
        whole = jnp.logaddexp(coupled, jnp.where(many, own, -jnp.inf))
        weight = jnp.where(many, jnp.exp(own - whole), 0)
        free = jnp.where(seg.member, 0, mixing.log_elliptical(z * z, 1) - jnp.log(scale))
        total = jnp.sum(jnp.where(alone, 0, whole)) + jnp.sum(free)
        stderr = jnp.sqrt(jnp.sum(jnp.where(many, weight * relative, 0) ** 2))
        return total, stderr, jnp.max(jnp.where(many, weight * share, 0), initial=0.0)

    return row


def _coupled(mixing: Any, coupling: Coupling, q: Array, d: Array) -> Array:
    """log ∫ h(s) π(s) (2πs²)^{−d/2} e^{−q/(2s²)} ds: (G,)."""

    def f(v: Array) -> Array:
        line = mixing.log_density(jnp.exp(v)) + v + coupling.log_chance(v)
        return line - d * (v + 0.5 * _LOG_2PI) - 0.5 * q * jnp.exp(-2 * v)

    return log_integral(f, q.shape, q.dtype)


def _independent(
    view: Any, scale: Array, z: Array, key: Array, draws: int
) -> tuple[Array, Array, Array]:
    """log of the second term, its relative standard error, the largest share: (G,) each."""
    groups, mixing = view.groups, view.mixing
    seg = groups.segments
    m = seg.sizes.astype(z.dtype)
    shrunk = z * jnp.where(seg.member, seg.spread(jnp.sqrt(2 / m)), 1)
    one, two = jax.random.split(key)
    extra = max(2, int(_DEFENSIVE * draws))
    s1, r1 = mixing.given(one, z, draws - extra)
    s2, r2 = mixing.given(two, shrunk, extra)
    s, r = jnp.concatenate([s1, s2]), seg.sum(jnp.concatenate([r1, r2]))
    kept = view._accept(s)
    # what is coupled counts 0 here; its scales are replaced by balanced ones
    sigma = scale * jnp.where(seg.spread(kept.astype(s.dtype)) > 0, s, 1)
    logdet, q = _by_group(groups.equalize_traced(sigma**2), scale * z)
    squares = jnp.stack([seg.sum((y / s) ** 2) for y in (z, shrunk)])
    powers = jnp.array([1.0, 0.0, 0.0], z.dtype)[:, None, None]
    rays = mixing.log_ray(s, seg, powers, jnp.concatenate([q[None], squares]) / 2)
    top = 0.5 * logdet - (m - 1) / 2 * _LOG_2PI + rays[0]
    sizes = seg.sum(jnp.log(s)) + m / 2 * _LOG_2PI
    below = [
        rays[i] - sizes - seg.sum(mixing.log_elliptical(y * y, 1)) for i, y in ((1, z), (2, shrunk))
    ]
    proposal = jnp.logaddexp(math.log(1 - _DEFENSIVE) + below[0], math.log(_DEFENSIVE) + below[1])
    log_w = jnp.where(kept, top - proposal + r, -jnp.inf)
    peak = jnp.max(log_w, 0)
    peak = jnp.where(jnp.isfinite(peak), peak, 0)
    w = jnp.exp(log_w - peak)
    mean, variance, largest = jnp.zeros_like(m), jnp.zeros_like(m), jnp.zeros_like(m)
    for part, share in ((w[: draws - extra], 1 - _DEFENSIVE), (w[draws - extra :], _DEFENSIVE)):
        count = part.shape[0]
        mean = mean + share * jnp.mean(part, 0)
        variance = variance + share**2 * jnp.var(part, 0, ddof=1) / count
        largest = jnp.maximum(largest, share * jnp.max(part, 0) / count)
    safe = jnp.where(mean > 0, mean, 1)
    log_mean = jnp.where(mean > 0, jnp.log(safe), -jnp.inf) + peak
    return log_mean, jnp.sqrt(variance) / safe, largest / safe


def _by_group(law: Any, x: Array) -> tuple[Array, Array]:
    """log det and quadratic form of a `Pivoted` law, group by group: (…, G) each."""
    groups, seg = law.invariant, law.invariant.segments
    b = groups._weights_like(law.nu.dtype)
    rest = ~law.pivot & seg.member
    nu = jnp.where(rest, law.nu, 1)
    b_m = seg.sum(jnp.where(law.pivot, b, 0))
    logdet = seg.sum(jnp.log(nu)) + jnp.log(law.kappa) + jnp.log(b_m**2 / groups._norm2(b))
    x_m = seg.sum(jnp.where(law.pivot, x, 0))
    safe = jnp.where(law.s > 0, law.s, 1)
    move = seg.spread(x_m / safe / jnp.where(b_m != 0, b_m, 1)) * b / nu
    square = seg.sum(jnp.where(rest, nu * (x + move) ** 2, 0))
    return logdet, square + jnp.where(law.s > 0, law.kappa * x_m**2 / safe, 0)
