"""Conditioned Laplace noise of equal scales from one exponential and a few random bits a cell.

Given that they sum to 0, K of a group's m cells are positive with P(K = k) ∝ C(m,k) C(m−2,k−1),
every set of k cells as likely as another; and the positive cells add up to P ~ Gamma(m−1, λ/2), as
do the negative ones, in shares that are uniform: exponentials over their sum.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from cdp_views._lanes import Lanes
from cdp_views._pairs import SPARE_BITS, exponential_and_bits
from cdp_views._segments import once

_SHIFT = 8  # Stirling's series is used from here on: error 3e-10


# run eagerly, every operation would be compiled by itself, and the loop again at every call
@partial(jax.jit, static_argnames="shape")
def draw_alike(
    key: Array, groups: Any, lanes: Lanes, scale: Array, shape: tuple[int, ...]
) -> Array:
    """Noise (*shape) of scale λ and equal |weights| in every group; 0 in no group.

    ΣE of m exponentials is Gamma(m), independent of all shares, and times U^{1/(m−1)} it is
    Gamma(m−1): no gamma sampler is needed.
    """
    one, two, three = jax.random.split(key, 3)
    e, bits = exponential_and_bits(one, lanes.shape(shape[:-1]))
    e, bits = once((lanes.kept(e), lanes.kept(bits)))
    bits, turn = choose_signs(two, lanes, bits)
    up, down = lanes.sum(_up, (e, bits), (turn,)), lanes.sum(_down, (e, bits), (turn,))
    m = lanes.sizes.astype(e.dtype)
    u = jax.random.uniform(three, up.shape, e.dtype, minval=jnp.finfo(e.dtype).tiny)
    size = (up + down) * u ** (1 / jnp.maximum(m - 1, 1)) * (jnp.asarray(scale, e.dtype) / 2)
    several = m > 1
    rise = jnp.where(several, size / jnp.where(several, up, 1), 0)
    fall = jnp.where(several, size / jnp.where(several, down, 1), 0)
    # only rounding is left to take off: the sums' own errors times the noise
    error = lanes.spread(lanes.sum(_signed, (e, bits), (turn, rise, fall)) / m)
    x = _signed(e, bits, lanes.spread(turn), lanes.spread(rise), lanes.spread(fall)) - error
    x = lanes.given(x)
    return x if groups.weights is None else jnp.sign(groups._weights_like(x.dtype)) * x


def choose_signs(key: Array, lanes: Lanes, bits: Array) -> tuple[Array, Array]:
    """Candidate bits (…, width, R), and which of them is each group's sign: (…, G).

    A candidate has Binomial(m, ½) positive cells and is accepted with C(m−2,k−1) over its largest
    value: seven in ten. New bits are drawn for groups that accept none of theirs.
    """
    m, (*batch, _, _) = lanes.sizes, bits.shape
    rows = (*batch, m.shape[-1])

    def again(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, bits, turn, done, round_ = state
        key, one, two = jax.random.split(key, 3)
        now = jnp.full(rows, round_ % SPARE_BITS, jnp.int32)

        def fresh() -> Array:
            new = lanes.kept(jax.random.bits(one, bits.shape, bits.dtype))
            return jnp.where(lanes.spread(done.astype(jnp.int32)) > 0, bits, new)

        exhausted = (round_ > 0) & (round_ % SPARE_BITS == 0)
        bits = lax.cond(exhausted, fresh, lambda: bits)
        k = lanes.sum(_bit, (bits,), (now,))
        accept = jax.random.uniform(two, rows) < acceptance(m, k)
        turn = jnp.where(done, turn, now)
        return key, bits, turn, done | accept | (m == 1), round_ + 1

    state = (key, bits, jnp.zeros(rows, jnp.int32), jnp.zeros(rows, bool), jnp.zeros((), jnp.int32))
    _, bits, turn, _, _ = lax.while_loop(lambda s: ~jnp.all(s[3]), again, state)
    return bits, turn


def acceptance(m: Array, k: Array) -> Array:
    """Γ(h+1)²/(Γ(h+d+1) Γ(h−d+1)) with h = (m−2)/2 and d = k − m/2; 0 unless 0 < k < m.

    C(m−2,k−1) over its largest value, by Stirling's series at h + 8, whose terms are all small.
    """
    m, k = (jnp.asarray(a, jnp.result_type(float)) for a in (m, k))
    inside = (k > 0) & (k < m)
    h, d = (m - 2) / 2, jnp.where(inside, k - m / 2, 0)
    large = h + _SHIFT
    t = d / large
    flat = jnp.log1p(-t * t)
    value = -large * (flat + t * jnp.log1p(2 * t / (1 - t))) - flat / 2
    value = value + 2 * _stirling(large) - _stirling(large + d) - _stirling(large - d)
    product = jnp.exp(value)
    for i in range(1, _SHIFT + 1):
        product = product * (1 - (d / (h + i)) ** 2)
    return jnp.where(inside, product, 0)


def _stirling(x: Array) -> Array:
    y = 1 / (x * x)
    return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) / x


def _bit(bits: Array, turn: Array) -> Array:
    return ((bits.astype(jnp.int32) >> turn) & 1).astype(jnp.int32)


def _up(e: Array, bits: Array, turn: Array) -> Array:
    return jnp.where(_bit(bits, turn) == 1, e, 0)


def _down(e: Array, bits: Array, turn: Array) -> Array:
    return jnp.where(_bit(bits, turn) == 1, 0, e)


def _signed(e: Array, bits: Array, turn: Array, rise: Array, fall: Array) -> Array:
    return e * jnp.where(_bit(bits, turn) == 1, rise, -fall)
