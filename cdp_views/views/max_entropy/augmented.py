"""Maximum-entropy noise with random scales in a model, exactly: the scales are latents of it.

`scales="couple"` on disjoint totals has the density, group by group,

    p(x) = f_c(x) + ∫ Π h(s_i) 1{s kept} N(x; Σ(λ∘s)) ds,   f_c(x) = ∫ h(s) π(s) N(x; s²Σ_λ) ds,

f_c that of coupled scales (`coupling`: one integral, π tabulated). With latents s the joint density

    Π h(s_i) [1{s kept} N(x; Σ(λ∘s)) + f_c(x)]

integrates over s to p(x). To give the coupled part no latent of its own leaves no wall where scales
cease to be kept: beyond it they are draws of h, and say nothing. On totals that overlap π has no
table; what is not kept has the mean over i of N(x; s_i²Σ_λ) instead, as the test is symmetric in s.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpyro.distributions import constraints

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants._reduced import Reduced
from cdp_views.precision.dual import balance_rows
from cdp_views.support import AffineSubspace
from cdp_views.views._common import proper
from cdp_views.views.max_entropy.coupling import Coupling, coupling_of
from cdp_views.views.max_entropy.density import _by_group
from cdp_views.views.max_entropy.mixture import (
    MaxEntropyCoupled,
    MaxEntropyMixture,
    needed_cells,
)
from cdp_views.views.max_entropy.overlapping import MaxEntropyWhole, _rows

_LOG_2PI = math.log(2 * math.pi)
_NODES = 161


def observe_max_entropy(name: str, view: Any, value: Any) -> Any:
    """Observe a table released by a max-entropy view, exactly. Inside a model.

    Normal noise and `scales="shared"` have a density and are observed as they are. For
    `scales="couple"` a latent `name_scales` says how large the noise of each cell was: v_i with
    log s_i = v_i + ¼ log(1 + x_i²/λ_i²), about where s_i lies given the noise x. Integrated over it
    the joint density is the view's, for every loc and scale (up to 1e-3 of the coupled part,
    the accuracy of π). Groups of one or two cells, and cells of none, need no latent.

    Args:
        name: of the site; its latents are called `name_scales`.
        view: from `cdp.MaxEntropy`; loc may depend on latents, and so may a scale that is the same
            for all cells of a group.
        value: the released table (…, n), or `None` to draw one.

    Returns:
        The value.

    Raises:
        TypeError: another view.
        UnsupportedError: `scales="resample"` or "raise"; a df that is a latent, or scales that are
            latents and differ within a group.

    Example:
        >>> import cdp_views as cdp, numpyro, numpyro.distributions as dist
        >>> inv = cdp.totals(["a", "a", "a"])
        >>> def model(y):
        ...     q = numpyro.deterministic("q", y)
        ...     cdp.observe_max_entropy("y", cdp.MaxEntropy(dist.Laplace(q, 2.0), inv), y)

    Reference: docs/notation.md, "Analysis of a release"; Tanner and Wong 1987 (augmentation).
    """
    if getattr(view, "kind", None) != "max-entropy":
        raise TypeError(
            f"`view` must come from cdp.MaxEntropy; got {type(view).__name__}. Use "
            "numpyro.sample(name, view, obs=value), or cdp.observe_imaged."
        )
    if value is None or not needs_scales(view):
        return numpyro.sample(name, view, obs=value)
    value = jnp.asarray(value)
    x = value - jnp.asarray(view.centre, jnp.result_type(value, float))
    inside = AffineSubspace(view.invariant, origin=view.centre)(value)
    scale = jnp.asarray(proper(view._one("observe_max_entropy")), x.dtype)
    cells = scaled_cells(view)
    flat = dist.ImproperUniform(constraints.real_vector, x.shape[:-1], (cells.size,))
    v: Any = numpyro.sample(f"{name}_scales", flat)
    x = jnp.where(inside[..., None], x, 0)
    z = (x / scale)[..., cells]
    joint = log_joint(view, x, v + jnp.log1p(z * z) / 4)
    numpyro.factor(name, jnp.where(inside & jnp.all(view.scale > 0), joint, -jnp.inf))
    return value


def needs_scales(view: Any) -> bool:
    """Whether this view has no density but with its random scales."""
    return isinstance(view, MaxEntropyMixture | MaxEntropyWhole)


def scaled_cells(view: Any) -> np.ndarray:
    """The cells whose scale is a latent, in order."""
    if isinstance(view, MaxEntropyCoupled):
        labels = np.asarray(view.groups.segments.labels)
        return np.flatnonzero(np.append(np.asarray(view.groups.segments.sizes), 0)[labels] > 2)
    if isinstance(view, MaxEntropyWhole):
        return np.flatnonzero(_touched(view))
    raise _checks.UnsupportedError(
        '`scales` must be "couple" or "shared" for a view that is observed: "resample" and "raise" '
        "keep no law that is known."
    )


def log_joint(view: Any, noise: Array, log_s: Array) -> Array:
    """log density of noise (…, n) with A x = 0 and of log s of `scaled_cells` (…, L): (…)."""
    scale = _of_cells(view, noise)
    cells = scaled_cells(view)
    s = (
        jnp.ones((*log_s.shape[:-1], noise.shape[-1]), noise.dtype)
        .at[..., cells]
        .set(jnp.exp(log_s))
    )
    prior = view.mixing.log_density(s)[..., cells] + log_s
    law: Any = _on_groups if isinstance(view, MaxEntropyCoupled) else _on_the_whole
    return jnp.sum(prior, -1) + law(view, noise, scale, s)


def _on_groups(view: MaxEntropyCoupled, x: Array, scale: Array, s: Array) -> Array:
    groups, mixing = view.groups, view.mixing
    seg, per_group = groups.segments, mixing.of_groups(groups.segments)
    m = seg.sizes
    alone, pair = m == 1, m == 2
    logdet, q = _by_group(_at_equal_s(groups, scale), x)
    coupling = coupling_of(mixing, seg, _needed(view))
    together = 0.5 * logdet + jnp.where(
        pair, per_group.log_elliptical(q, 1), _coupled(per_group, coupling, q, m - 1)
    )
    kept = view._accept(s) & ~alone & ~pair
    sigma = scale * jnp.where(seg.spread(kept.astype(s.dtype)) > 0, s, 1)
    logdet, q = _by_group(groups.equalize_traced(sigma**2), x)
    own = jnp.where(kept, 0.5 * (logdet - q - (m - 1) * _LOG_2PI), -jnp.inf)
    whole = jnp.where(alone, 0, jnp.logaddexp(together, own))
    free = mixing.log_elliptical((x / scale) ** 2, 1) - jnp.log(scale)
    return jnp.sum(whole, -1) + jnp.sum(jnp.where(seg.member, 0, free), -1)


def _on_the_whole(view: MaxEntropyWhole, x: Array, scale: Array, s: Array) -> Array:
    rows, touched = _rows(view.invariant), _touched(view)
    free = view.mixing.log_elliptical((x / scale) ** 2, 1) - jnp.log(scale)
    free = jnp.sum(jnp.where(touched, 0, free), -1)
    # cells of no total are taken out of the Gaussian: noise 0, and their constant back
    x, d = jnp.where(touched, x, 0), int(touched.sum()) - view.invariant.rank
    constant = jnp.sum(jnp.where(touched, 0, jnp.log(scale)))

    def gaussian(sigma: Array) -> tuple[Array, Array]:
        law = Reduced.of(rows, balance_rows(rows.table, rows.pivots, sigma), sigma)
        return 0.5 * (law.logdet - d * _LOG_2PI) + constant, law.quadratic(x)

    kept = view._accept(s)
    height, q = gaussian(scale * jnp.where(kept[..., None], s, 1))
    own = jnp.where(kept, height - 0.5 * q, -jnp.inf)
    height, q = gaussian(scale)
    log_s = jnp.log(s)[..., np.flatnonzero(touched)]
    one = height[..., None] - d * log_s - 0.5 * q[..., None] * jnp.exp(-2 * log_s)
    together = logsumexp(one, -1) - math.log(one.shape[-1])
    return free + jnp.where(kept, own, together)


def _of_cells(view: Any, noise: Array) -> Array:
    """λ (n,), known wherever it was."""
    if not _checks.is_concrete(view.scale):
        return jnp.broadcast_to(jnp.asarray(proper(view.scale), noise.dtype), noise.shape[-1:])
    with jax.ensure_compile_time_eval():
        return jnp.broadcast_to(jnp.asarray(view.scale, noise.dtype), noise.shape[-1:])


def _at_equal_s(groups: Any, scale: Array) -> Any:
    """The law of coupled scales with s = 1, solved here and now where the scales are known."""
    if not _checks.is_concrete(groups, scale):
        return groups.equalize_traced(scale**2)
    with jax.ensure_compile_time_eval():
        return groups.equalize_traced(scale**2)


def _coupled(mixing: Any, coupling: Coupling, q: Array, d: Array) -> Array:
    """log ∫ h(s) π(s) (2πs²)^{−d/2} e^{−q/(2s²)} ds: (…, G), by the trapezoid rule in log s.

    The nodes span where h is seen, and as far down as e^{−q/(2s²)} is; no search, as it is asked
    for at every step of a sampler.
    """
    q = jnp.maximum(q, 1e-12)
    start = coupling.start[coupling.kind]
    end = start + coupling.step[coupling.kind] * (coupling.table.shape[-1] - 1)
    still = lax.stop_gradient(q)
    low = jnp.minimum(start, 0.5 * jnp.log(still / (80 + 2 * d)))
    high = end + 0.5 * jnp.log1p(still / (d + 1))
    step = (high - low) / (_NODES - 1)
    v = low + jnp.arange(_NODES, dtype=q.dtype).reshape(-1, *[1] * q.ndim) * step
    line = mixing.log_density(jnp.exp(v)) + v + coupling.log_chance(v)
    line = line - d * (v + 0.5 * _LOG_2PI) - 0.5 * q * jnp.exp(-2 * v)
    return logsumexp(line, 0) + jnp.log(step)


def _touched(view: MaxEntropyWhole) -> np.ndarray:
    return np.asarray(abs(view.invariant.matrix).sum(axis=0)).ravel() > 0


def _needed(view: MaxEntropyCoupled) -> np.ndarray:
    """`view.needed` on the host: a view that is built inside a trace has it traced."""
    if view.alike and _checks.is_concrete(view.mixing):
        return np.ones(())
    if not _checks.is_concrete(view.groups, view.scale, view.mixing):
        raise _checks.UnsupportedError(
            "`scale` is traced and differs within a group, or df is traced: how often scales are "
            "coupled is tabulated for concrete ones. Use one scale for all cells of a group, or "
            'scales="shared".'
        )
    return _host_needed(view)


@in_float64
def _host_needed(view: MaxEntropyCoupled) -> np.ndarray:
    weights = jnp.abs(view.groups._weights_like(np.dtype(np.float64)))
    return np.asarray(needed_cells(weights * float64(view.scale), view.groups.segments))
