"""Exact draws of a cell's scale s: given the cell's a = cω, or given its noise z.

Given a, u = log s has the log-density L(u) − a²e^{2u}/2 with L that of log s; given z, it is
L(u) − u − z²e^{−2u}/2. Both are log-concave where L is, so two tangents bound them. Tangents of L
alone bound the first as well, and in a large group, where a is small, nearly as tightly: one round
of proposals from them settles most cells, and only what is left needs tangents of its own.
"""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views.noise import Mixing
from cdp_views.noise.mixing import InverseChi, Rayleigh
from cdp_views.precision.omega_tangents import Tent, draw, tent
from cdp_views.views.conditioned import characteristic as law_of

_FEW = 2**17  # cells below which setting the settled ones aside is not worth compiling

Line = Callable[[Array, Array], Array]


def draw_squares(key: Array, mixing: Mixing, a: Array) -> Array:
    """s² of every cell, s from h(s) e^{−a²s²/2}: exact, (*a.shape)."""
    if isinstance(mixing, Rayleigh):
        e = jax.random.exponential(key, a.shape, a.dtype)
        return 2 * jnp.maximum(e, jnp.finfo(a.dtype).eps ** 2) / (1 + a * a)
    line = law_of.log_density_of_log(mixing)

    def tilted(u: Array, a: Array) -> Array:
        return line(u) - 0.5 * (a * jnp.exp(u)) ** 2

    peak = partial(_peak, mixing)
    if a.size <= _FEW or not law_of.one_law(mixing):
        u = draw(key, _tangents(tilted, a, *peak(a)), lambda u: tilted(u, a), a.shape)
    else:
        u = _in_stages(key, tilted, peak, a.reshape(-1)).reshape(a.shape)
    return jnp.exp(2 * u)


def draw_squares_given(key: Array, mixing: Mixing, z: Array) -> Array:
    """s² of every cell given its noise s·Z = z, from h(s) e^{−z²/(2s²)}/s: exact, (*z.shape).

    At z = 0 the law is ∝ h(s)/s.
    """
    if isinstance(mixing, Rayleigh | InverseChi):
        return mixing.given(key, z, 1)[0][0] ** 2
    line = law_of.log_density_of_log(mixing)

    def tilted(u: Array, z: Array) -> Array:
        return line(u) - u - 0.5 * (z * jnp.exp(-u)) ** 2

    hat = _tangents(tilted, z, *_peak_given(mixing, z))
    return jnp.exp(2 * draw(key, hat, lambda u: tilted(u, z), z.shape))


def _in_stages(key: Array, tilted: Line, peak: Any, a: Array) -> Array:
    """u of many cells (N,): one round for all, one for a third, the rest until none is left."""
    size, keys = a.size, jax.random.split(key, 3)
    zero = jnp.zeros((), a.dtype)
    common = _tangents(tilted, zero, *peak(zero))
    u, done = _round(keys[0], common, tilted, a)

    def own(u: Array, done: Array, count: int, settle: Any) -> tuple[Array, Array]:
        place = jnp.nonzero(~done, size=count, fill_value=size)[0]
        cells = a.at[place].get(mode="fill", fill_value=0)
        new, kept = settle(_tangents(tilted, cells, *peak(cells)), cells)
        place = jnp.where(kept, place, size)
        return u.at[place].set(new, mode="drop"), done.at[place].set(True, mode="drop")

    u, done = own(u, done, size // 3, lambda hat, cells: _round(keys[1], hat, tilted, cells))

    def rest(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, one = jax.random.split(state[0])

        def until_kept(hat: Tent, cells: Array) -> tuple[Array, Array]:
            new = draw(one, hat, lambda u: tilted(u, cells), cells.shape)
            return new, jnp.ones(cells.shape, bool)

        return key, *own(state[1], state[2], size // 10, until_kept)

    return lax.while_loop(lambda state: ~jnp.all(state[2]), rest, (keys[2], u, done))[1]


def _round(key: Array, hat: Tent, tilted: Line, a: Array) -> tuple[Array, Array]:
    """One proposal for every cell, and whether it is kept."""
    side, one, two = jax.random.split(key, 3)
    e = jax.random.exponential(one, a.shape, a.dtype)
    left = jax.random.uniform(side, a.shape, a.dtype) < hat.fall / (hat.rise + hat.fall)
    u = jnp.where(left, hat.at - e / hat.rise, hat.at + e / hat.fall)
    # the second exponential number is −log of the uniform one that accepts
    room = jnp.maximum(jax.random.exponential(two, a.shape, a.dtype), jnp.finfo(a.dtype).tiny)
    return u, tilted(u, a) - (hat.top - e) >= -room


def _tangents(tilted: Line, a: Array, mode: Array, width: Array) -> Tent:
    """At a width to either side of the mode; any two points are valid, these are efficient."""
    ends = jnp.stack([mode - width, mode + width])
    (low, high), (rise, fall) = jax.jvp(lambda u: tilted(u, a), (ends,), (jnp.ones_like(ends),))
    return tent(ends[0], ends[1], (low, high), (rise, fall))


@singledispatch
def _peak(mixing: Mixing, a: Array) -> tuple[Array, Array]:
    """About the mode of log s given a, and its width."""
    u = law_of.log_scale_line(mixing, a.dtype)[0]
    g1 = law_of.slope(law_of.log_density_of_log(mixing), u)
    g1 = jnp.where(jnp.isnan(g1), 0, g1)
    change: Any = jnp.gradient(g1, u[1] - u[0])
    bend = jnp.maximum(-change, 1e-6)
    # at the mode g′(u) = a² e^{2u}: ½ log g′ − u falls in u
    log_a = jnp.where(g1 > 0, 0.5 * jnp.log(jnp.where(g1 > 0, g1, 1)) - u, -1e30)
    mode = jnp.interp(jnp.log(jnp.maximum(jnp.abs(a), 1e-30)), log_a[::-1], u[::-1])
    curved = jnp.interp(mode, u, bend) + 2 * (a * jnp.exp(mode)) ** 2
    return mode, 1 / jnp.sqrt(curved)


@_peak.register
def _(mixing: InverseChi, a: Array) -> tuple[Array, Array]:
    df = jnp.asarray(mixing.df, a.dtype)
    df = df.reshape(()) if df.size == 1 else df
    square = 2 * df / (df + jnp.sqrt(df * df + 4 * a * a * df))
    return 0.5 * jnp.log(square), 1 / jnp.sqrt(2 * a * a * square + 2 * df / square)


def _peak_given(mixing: Mixing, z: Array) -> tuple[Array, Array]:
    """About the mode of log s given z, and its width."""
    u = law_of.log_scale_line(mixing, z.dtype)[0]
    g1 = law_of.slope(law_of.log_density_of_log(mixing), u)
    g1 = jnp.where(jnp.isnan(g1), 0, g1)
    change: Any = jnp.gradient(g1, u[1] - u[0])
    # at the mode 1 − g′(u) = z² e^{−2u}: ½ log(1 − g′) + u rises in u
    rest = 1 - g1
    log_z = jnp.where(rest > 0, 0.5 * jnp.log(jnp.where(rest > 0, rest, 1)) + u, -1e30)
    mode = jnp.interp(jnp.log(jnp.maximum(jnp.abs(z), 1e-30)), log_z, u)
    curved = jnp.interp(mode, u, jnp.maximum(-change, 1e-6)) + 2 * (z * jnp.exp(-mode)) ** 2
    return mode, 1 / jnp.sqrt(curved)
