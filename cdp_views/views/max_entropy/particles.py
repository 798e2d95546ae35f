"""Likelihood ratios of a coupled release between neighbours, each estimated without bias.

One group of m cells; x is drawn with scales s⁰, which are then a draw of their own posterior. With
K − 1 fresh draws of the kept scales beside it, from a proposal q, and w(s, x) = Π h(s_i) N(x; Σ(s))
/ q(s), the ratio of the two sums

    ρ = [f_c(x + v) + mean_k w(s_k, x + v)] / [f_c(x) + mean_k w(s_k, x)]

has expectation f(x + v)/f(x) given x, *whatever K and q*: given the K draws, which of them x came
from has chances in proportion to its terms, and ρ is the mean of N(x + v; ·)/N(x; ·) under these
(iterated importance resampling; where x was drawn with coupled scales, f_c stands for it). f_c is
the coupled part, an integral over one s. K = 1 leaves the ratio of two Gaussians: the release whose
scales are published too.

q draws the scales of cells that don't move from their posteriors given independent cells at x, and
those of the moved ones from a tabulated mixture of theirs at x, x + v and x − v, as points evenly
spread and turned at random: any of them could be s⁰, so the argument holds. Each set of scales is
solved once for all three points.

Reference: Andrieu, Lee and Vihola 2018, "Uniform ergodicity of the iterated conditional SMC".
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import logsumexp

from cdp_views.noise._quadrature import log_integral, window

_LOG_2PI = math.log(2 * math.pi)
_BINS, _RESTS = 128, 8
_TINY, _CLOSE, _STEPS = 1e-300, 1e-9, 10


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["mixing", "coupling", "weights", "scale", "needed", "member", "sizes"],
    meta_fields=["moved", "pair"],
)
@dataclass(frozen=True)
class Group:
    """One group, padded with cells that don't count: then groups of many sizes compile once.

    It stands for `Segments` of one group where a `Mixing` asks for sums.
    """

    mixing: Any
    coupling: Any
    weights: Array  # (n,) 0 where padded
    scale: Array  # (n,) 1 where padded
    needed: Array
    member: Array  # (n,)
    sizes: Array  # (1,) cells that count
    moved: int  # the first so many cells are those that move
    pair: bool

    def sum(self, x: Array) -> Array:
        return jnp.sum(jnp.where(self.member, x, 0), -1, keepdims=True)

    def spread(self, x: Array) -> Array:
        return x


class Law(NamedTuple):
    """The Gaussian of largest entropy with given deviations: ν (…, n), pivot, κ, log det (…, 1)."""

    nu: Array
    pivot: Array
    kappa: Array
    logdet: Array


class Ratios(NamedTuple):
    """f(x ± v)/f(x), (N, 2) each: from all scales, from the fresh half, from the other half."""

    all: Array
    fresh: Array
    rest: Array


def solve(group: Group, sigma: Array) -> Law:
    """ν of every row of σ (…, n), which must be in balance: see `precision.scalar`.

    Σ_{i≠m} α_i/(u + R_i) = 1 by Newton on the reciprocal, with R = √((u − α)² + α(1 − α)). What is
    left after the last step moves the law a little, for draws and densities alike.
    """
    c = jnp.abs(group.weights) * sigma
    largest = jnp.max(c, -1, keepdims=True)
    pivot = jnp.arange(c.shape[-1]) == jnp.argmax(c, -1, keepdims=True)
    p = jnp.where(pivot, 0.0, c / largest)
    alpha = p * p
    spread = alpha * (1 - alpha)
    s1, s2, s4 = (jnp.sum(a, -1, keepdims=True) for a in (p, alpha, alpha * alpha))
    low = jnp.where(s2 >= 1, 0.45 * s2, jnp.maximum(0.9 * (s1 - 1) / (group.sizes - 1), 1e-12))
    high = jnp.where(s2 >= 1, 2 * s2, 1.0)
    start = jnp.where(s2 > 0.8, (s2 + s4 / jnp.maximum(s2, 0.8)) / 2, low)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        u, low, high, _, count = state
        root = jnp.sqrt((u - alpha) ** 2 + spread)
        g = alpha / (u + root)
        excess = jnp.sum(g, -1, keepdims=True) - 1
        slope = jnp.sum(g * (1 + (u - alpha) / jnp.maximum(root, _TINY)) / (u + root), -1)[
            ..., None
        ]
        low, high = jnp.where(excess >= 0, u, low), jnp.where(excess < 0, u, high)
        new = u + excess * (1 + excess) / jnp.maximum(slope, _TINY)
        new = jnp.where((new >= low) & (new <= high), new, jnp.sqrt(low * high))
        close = jnp.abs(excess) < 1e-13
        return jnp.where(close, u, new), low, high, jnp.abs(excess), count + 1

    def unfinished(state: tuple[Array, ...]) -> Array:
        return (state[4] < _STEPS) & (jnp.max(state[3]) > _CLOSE)

    u = jnp.clip(start, low, high)
    if not group.pair:
        u = lax.while_loop(unfinished, step, (u, low, high, jnp.ones_like(u), jnp.zeros((), int)))[
            0
        ]
    else:
        u = jnp.ones_like(u)
    theta = jnp.where(pivot, 1 - 0.5 / u, (1 + jnp.sqrt((u - alpha) ** 2 + spread) / u) / 2)
    nu = theta / sigma**2
    b = jnp.sum(jnp.where(pivot, group.weights, 0), -1, keepdims=True)
    rest = jnp.where(pivot, 0.0, jnp.log(jnp.where(pivot, 1.0, nu)))
    norm = jnp.sum(group.weights**2)
    return Law(nu, pivot, 2 * u, group.sum(rest) + jnp.log(2 * u) + jnp.log(b**2 / norm))


def kept(group: Group, s: Array) -> Array:
    """Whether a group keeps these scales (…, n): the symmetric test of `MaxEntropyCoupled`."""
    largest = jnp.max(jnp.where(group.member, s, 0), -1, keepdims=True)
    slack = 1 + 8 * (8 + jnp.sqrt(group.sizes.astype(s.dtype))) * jnp.finfo(s.dtype).eps
    return group.sum(s) - largest > group.needed * largest * slack


def draw(group: Group, key: Array, draws: int) -> tuple[Array, Array, Array]:
    """x (draws, n), the standardised scales it was drawn with, and whether they were kept."""
    one, two = jax.random.split(key)
    shape = (draws, group.scale.shape[-1])
    s = group.mixing.sample(one, shape, group.scale.dtype)
    keeps = kept(group, s) & (not group.pair)
    s = jnp.where(keeps, s, s[:, :1])
    law = solve(group, group.scale * s)
    u = jax.random.normal(two, shape, s.dtype)
    root = jnp.sqrt(law.kappa)
    rest = ~law.pivot & group.member
    nu = jnp.where(rest, law.nu, 1.0)
    b = jnp.where(law.pivot, group.weights, 0).sum(-1, keepdims=True)
    nu_m = jnp.where(law.pivot, law.nu, 0).sum(-1, keepdims=True)
    free = jnp.where(rest, group.weights / b, 0.0)
    pull = nu_m / (root * (1 + root)) * jnp.sum(free * u / jnp.sqrt(nu), -1, keepdims=True)
    x = jnp.where(rest, u / jnp.sqrt(nu) - pull * free / nu, 0.0)
    own = -jnp.sum(free * x, -1, keepdims=True)
    return jnp.where(law.pivot, own, x), s, keeps


@partial(jax.jit, static_argnames=("draws", "inner", "block"))
def ratios(group: Group, v: Array, key: Array, draws: int, inner: int, block: int) -> Ratios:
    """Ratios of `draws` outcomes rounded up to blocks, each from `inner` directions.

    Args:
        group: float64.
        v: (n,) the difference, on the subspace.
        key: a JAX key.
        draws: outcomes x.
        inner: directions of the scales for each outcome, even.
        block: outcomes at a time, for memory.
    """

    def one(key: Array) -> Ratios:
        first, second = jax.random.split(key)
        x, s, keeps = draw(group, first, block)
        if group.pair:  # the law is elliptical, in one dimension
            shape = group.mixing.log_elliptical
            law = solve(group, group.scale)
            q = _squares(law.nu, x, v)[..., 0]
            exact = jnp.exp(shape(q[1:], 1) - shape(q[:1], 1)).T
            return Ratios(exact, exact, exact)
        return _of_block(group, x, s, keeps, v, second, inner)

    keys = jax.random.split(key, -(-draws // block))
    return jax.tree.map(lambda a: a.reshape(-1, 2), lax.map(one, keys))


def _of_block(
    group: Group, x: Array, s: Array, keeps: Array, v: Array, key: Array, inner: int
) -> Ratios:
    d, half = group.moved, inner // 2
    one, two, three = jax.random.split(key, 3)
    z, shift = x / group.scale, (v / group.scale)[:d]
    table = _table(group.mixing, z[:, :d], shift)
    # two sets of evenly spread points, turned at random; the second through what x came from
    spots = jnp.stack([jax.random.uniform(one, (len(x), d)), _place(table, s[:, :d])])
    start = jax.random.randint(two, (2, len(x)), 0, half)
    steps = jnp.arange(half)[:, None] - start[:, None]
    u = (spots[:, None] + steps[..., None] * _turns(d)) % 1  # (2, half, N, d)
    first, log_q = _at(table, u.reshape(inner, len(x), d))
    many = min(_RESTS, half)  # sets of the other cells' scales: few matter
    # Flat: the same numbers as of shape (2, many, N, n), which XLA takes 14 s to compile, not 1 s.
    found = group.mixing.given(three, jnp.tile(z, (2 * many, 1)).ravel(), 1)
    rest, off = (a.reshape(2, many, *z.shape) for a in found)
    own = (jnp.arange(many)[:, None] == start[1] % many) & keeps[:, 0]
    rest = rest.at[1].set(jnp.where(own[..., None], s, rest[1]))
    off = off.at[1].set(jnp.where(own[..., None], 0.0, off[1]))
    turn = jnp.arange(half) % many
    rest, off = (a[:, turn].reshape(inner, *z.shape) for a in (rest, off))
    own = (jnp.arange(half)[:, None] == start[1]) & keeps[:, 0]
    own = jnp.concatenate([jnp.zeros_like(own), own])[..., None]
    first = jnp.where(own, s[:, :d], first)
    scales = jnp.concatenate([first, rest[..., d:]], -1)
    off = off.at[..., :d].set(0.0)

    good = kept(group, scales)
    law = solve(group, group.scale * jnp.where(good, scales, 1.0))
    gaussian = 0.5 * law.logdet - (group.sizes - 1) / 2 * _LOG_2PI
    gaussian = gaussian - jnp.maximum(_squares(law.nu, x, v), 0.0) / 2  # (3, K, N, 1)
    log_s = jnp.log(scales)
    # Π h/q: of the moved cells directly; of the others, drawn from h(s) φ(z/s)/s, its constant
    other = jnp.arange(x.shape[-1]) >= d
    alone = group.mixing.log_elliptical(z * z, 1) + 0.5 * _LOG_2PI
    prior = group.sum(jnp.where(other, alone + log_s + 0.5 * (z / scales) ** 2 + off, 0.0))
    moved = group.mixing.log_density(scales)[..., :d] - log_q
    log_w = gaussian + prior + jnp.sum(moved, -1, keepdims=True)
    log_w = jnp.where(good, log_w, -jnp.inf)[..., 0]
    coupled = _coupled(group, x, v)

    def ratio(of: Any) -> Array:
        log_f = jnp.logaddexp(coupled, logsumexp(log_w[:, of], 1) - jnp.log(log_w[:, of].shape[1]))
        return jnp.exp(log_f[1:] - log_f[0]).T

    return Ratios(ratio(slice(None)), ratio(slice(half)), ratio(slice(half, None)))


class _Table(NamedTuple):
    """A density of log s that is constant in bins: edges (L + 1,), masses and sums (L, N, d)."""

    edges: Array
    mass: Array
    below: Array


def _table(mixing: Any, z: Array, shift: Array) -> _Table:
    """Posteriors of s given one cell alone at z, z + shift and z − shift, mixed half and half."""

    def line(u: Array) -> Array:
        return mixing.log_density(jnp.exp(u)) + u

    nodes = window(lambda u: line(u)[..., :1], (1,), z.dtype)[:, 0]
    edges = jnp.linspace(nodes[0], nodes[-1], _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    log_h = jnp.broadcast_to(line(middle[:, None]), (_BINS, 1))[..., None] - middle[:, None, None]
    points = jnp.stack([z, z + shift, z - shift])[:, None]
    log_p = log_h - 0.5 * (points * jnp.exp(-middle)[:, None, None]) ** 2
    p = jax.nn.softmax(log_p, 1)
    mass = 0.5 * p[0] + 0.25 * (p[1] + p[2])
    return _Table(edges, mass, jnp.cumsum(mass, 0) - mass)


def _place(table: _Table, s: Array) -> Array:
    """The share of the mass below s (N, d)."""
    k, part = _bin(table, jnp.log(s))
    return _pick(table.below, k[None])[0] + part * _pick(table.mass, k[None])[0]


def _bin(table: _Table, v: Array) -> tuple[Array, Array]:
    at = (v - table.edges[0]) / (table.edges[1] - table.edges[0])
    k = jnp.clip(at.astype(jnp.int32), 0, _BINS - 1)
    return k, jnp.clip(at - k, 0, 1)


def _at(table: _Table, u: Array) -> tuple[Array, Array]:
    """s and its log density where the share u (K, N, d) of the mass lies below."""
    search = jax.vmap(
        jax.vmap(lambda a, b: jnp.searchsorted(a, b, side="right"), (1, 1), 1), (2, 2), 2
    )
    k = jnp.clip(search(table.below, u) - 1, 0, _BINS - 1)
    mass = _pick(table.mass, k)
    part = jnp.clip((u - _pick(table.below, k)) / mass, 0, 1)
    width = table.edges[1] - table.edges[0]
    v = table.edges[0] + width * (k + part)
    return jnp.exp(v), jnp.log(mass / width) - v


def _pick(table: Array, k: Array) -> Array:
    return jnp.take_along_axis(table, k, 0)


def _turns(d: int) -> Array:
    """Steps that spread points evenly in d dimensions: powers of 1/g, g^{d+1} = g + 1."""
    g = 2.0
    for _ in range(60):
        g = (1 + g) ** (1 / (d + 1))
    return jnp.array([g ** -(j + 1) for j in range(d)])


def _squares(nu: Array, x: Array, v: Array) -> Array:
    """Σ ν y² at y = x, x + v and x − v: (3, …, 1)."""
    square = jnp.sum(nu * x * x, -1, keepdims=True)
    cross = 2 * jnp.sum(nu * x * v, -1, keepdims=True)
    own = jnp.sum(nu * v * v, -1, keepdims=True)
    return jnp.stack([square, square + cross + own, square - cross + own])


def _coupled(group: Group, x: Array, v: Array) -> Array:
    """log f_c at the three points: (3, N)."""
    mixing, d = group.mixing.of_groups(group), group.sizes.astype(x.dtype) - 1
    law = solve(group, group.scale)
    q = jnp.maximum(_squares(law.nu, x, v), 0.0)

    def f(u: Array) -> Array:
        line = mixing.log_density(jnp.exp(u)) + u + group.coupling.log_chance(u)
        return line - d * (u + 0.5 * _LOG_2PI) - 0.5 * q * jnp.exp(-2 * u)

    return (0.5 * law.logdet + log_integral(f, q.shape, q.dtype))[..., 0]
