"""The maximum-entropy precisions of any linear invariants: Newton's method on the convex dual.

In scaled variables θ = νσ², B = DAᵀ, K an orthonormal basis of ker Bᵀ, minimise

    f(θ) = Σ θ_i − log det(KᵀΘK),     gradient 1 − diag R,     Hessian R∘R,     R = K(KᵀΘK)⁻¹Kᵀ.

f is self-concordant, so a step of length 1/(1+λ) (λ the Newton decrement) stays in the domain. A
point of the domain with Σθ < 0 proves that no R with unit diagonal exists: for any such R
0 ≤ tr(R Θ) = Σθ. R is unique though θ need not be (R∘R is singular then).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views.precision.dual_basis import Basis, rechosen
from cdp_views.precision.dual_form import (
    Spread,
    dense,
    diagonal,
    factorised,
    hadamard,
    log_determinant,
    spread,
)

_TRIES = 400  # 5–11 steps are usual, 27 at a relative distance of 1e-6 from the boundary
_SOLVED = 5e-9  # on the boundary itself rounding stops the search at a few 1e-8
_DIRECT = 400  # cells up to which R∘R is factorised; conjugate gradients above


class Dual(NamedTuple):
    """θ = νσ² (…, n), the final pivots' `table` (…, k, n) and cells `at` (…, k), and how it went.

    `residual` is max |R_ii − 1|; `impossible` says that Σθ < 0 with KᵀΘK ≻ 0, a proof that there
    is no solution; `solved` that the residual is small (1e-9 in float64, 1e-4 in float32).
    """

    theta: Array
    table: Array
    at: Array
    residual: Array
    iterations: Array
    solved: Array
    impossible: Array


def balance_rows(table: Any, at: Any, scale: Array) -> Dual:
    """Solve for scales σ (…, n) under x_J = −F x_r, given as an echelon table (k, n) with pivots.

    Jittable, vmappable, and differentiable in `scale` by the implicit function theorem:
    ∂θ/∂log σ = 2 diag θ − 2 (R∘R)⁻¹. Where not solved, θ is that of the start, so that traced
    code can answer −inf without a NaN.
    """
    scale = jnp.asarray(scale)
    table, at = jnp.asarray(table, scale.dtype), jnp.asarray(at, jnp.int32)
    flat = jnp.reshape(scale, (-1, scale.shape[-1]))
    many = jax.vmap(_solved, (None, None, 0))(table, at, flat) if len(flat) != 1 else None
    answer = _solved(table, at, flat[0]) if many is None else many
    return jax.tree.map(
        lambda x: x.reshape((*scale.shape[:-1], *(x.shape if many is None else x.shape[1:]))),
        answer,
    )


@jax.jit
def _solved(table: Array, at: Array, scale: Array) -> Dual:
    dual = _newton(*lax.stop_gradient((table, at, scale)))
    return dual._replace(theta=_attached(dual.theta, dual.table, dual.at, scale))


class _Point(NamedTuple):
    """A point of the domain, with Newton's direction there and the length of it to be tried."""

    theta: Array
    basis: Basis
    value: Array
    residual: Array
    direction: Array
    decrement: Array
    length: Array


class _State(NamedTuple):
    point: _Point
    best: tuple[Array, Basis, Array]
    count: Array  # accepted points
    tries: Array
    stale: Array  # steps near the solution without a better residual
    status: Array


_RUNNING, _DONE, _IMPOSSIBLE = (np.int32(i) for i in range(3))


def _newton(table: Array, at: Array, scale: Array) -> Dual:
    """One loop, each turn of which tries one point: accepted, or the step is shortened."""
    n, dtype = scale.shape[0], scale.dtype
    eps = jnp.finfo(dtype).eps

    def turn(state: _State) -> _State:
        old, first = state.point, state.count == 0
        theta = old.theta + old.length * old.direction
        basis = rechosen(old.basis, scale, theta)
        form = factorised(basis, scale, theta)
        parts = spread(form, basis.at)
        ratio = diagonal(parts)
        value = jnp.sum(theta) - log_determinant(form, theta, basis.volume)
        residual = jnp.max(jnp.abs(ratio - 1), initial=0)
        sound = form.sound & jnp.isfinite(value) & jnp.all(jnp.isfinite(ratio))
        # f cannot be told from rounding near the solution, where a full step is always right
        enough = value <= old.value - 0.1 * old.length * old.decrement**2
        accepted = sound & (enough | (old.decrement < 0.25))

        loose = jnp.clip(0.1 * residual, 1e-10, 0.1)
        step = _hessian_solve(parts, theta, ratio, ratio - 1, loose)
        decrement = jnp.sqrt(jnp.maximum((ratio - 1) @ step, 0))
        # at θ = 1 the diagonal of R is 1 − leverage, from where Newton starts
        step = jnp.where(first, jnp.maximum(ratio, 1e-3) - 1, step)
        decrement = jnp.where(first, 0, decrement)
        one = jnp.ones((), dtype)
        here = _Point(theta, basis, value, residual, step, decrement, one)
        # a step of 1/(1+λ) stays in the domain and lowers f: only rounding asks for less
        shorter = jnp.where(old.length == 1, 1 / (1 + old.decrement), old.length / 2)
        point = _either(accepted, here, old._replace(length=shorter))

        best = _either(accepted & (residual < state.best[2]), (theta, basis, residual), state.best)
        near = accepted & ~first & (old.decrement < 0.1) & (residual > 0.5 * state.best[2])
        stale = jnp.where(near, state.stale + 1, jnp.where(accepted, 0, state.stale))
        stuck = ~accepted & (shorter < 1e-7 / (1 + old.decrement))
        broken = accepted & ~jnp.all(jnp.isfinite(step))
        done = stuck | broken | (best[2] <= 4 * eps) | (stale >= 2)
        impossible = accepted & (jnp.sum(theta) < -64 * eps * jnp.sum(jnp.abs(theta)))
        status = jnp.where(impossible, _IMPOSSIBLE, jnp.where(done, _DONE, _RUNNING))
        return _State(point, best, state.count + accepted, state.tries + 1, stale, status)

    def unfinished(state: _State) -> Array:
        return (state.status == _RUNNING) & (state.tries < _TRIES)

    ones, none, zero = jnp.ones(n, dtype), jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    basis, far = Basis(table, at, none), jnp.full((), jnp.inf, dtype)
    start = _Point(ones, basis, far, far, 0 * ones, none, none + 1)
    state = _State(start, (ones, basis, far), zero, zero, zero, zero + _RUNNING)
    state = lax.while_loop(unfinished, turn, state)
    impossible = state.status == _IMPOSSIBLE
    solved = (state.best[2] <= (_SOLVED if dtype == jnp.float64 else 1e-4)) & ~impossible
    last = (state.point.theta, state.point.basis, state.point.residual)  # the proof, if one
    theta, basis, residual = _either(solved, state.best, last)
    steps = jnp.maximum(state.count - 2, 0)  # the first two points are θ = 1 and Newton's start
    return Dual(theta, basis.table, basis.at, residual, steps, solved, impossible)


def _either[T](condition: Array, yes: T, no: T) -> T:
    return jax.tree.map(partial(jnp.where, condition), yes, no)


def _hessian_solve(
    parts: Spread, theta: Array, ratio: Array, rhs: Array, tolerance: Array | float
) -> Array:
    """(R∘R + ridge)⁻¹ rhs; the ridge is rounding-sized in the metric of θ."""
    n, dtype = rhs.shape[0], rhs.dtype
    size = jnp.maximum(1, jnp.abs(theta))
    ridge = 4 * n**0.5 * jnp.finfo(dtype).eps / size**2
    if n <= _DIRECT:
        scaled = dense(parts) ** 2 * size * size[:, None]
        scaled = scaled.at[jnp.diag_indices(n)].add(ridge * size**2)
        factor = jax.scipy.linalg.cho_factor(scaled, lower=True)
        return size * jax.scipy.linalg.cho_solve(factor, size * rhs)
    return _conjugate(parts, ratio, ridge, rhs, tolerance)


def _conjugate(
    parts: Spread, ratio: Array, ridge: Array, rhs: Array, tolerance: Array | float
) -> Array:
    """Conjugate gradients. R∘R is a diagonal plus low rank, inverted by Woodbury's identity.

    Where that diagonal is too small (the pivots, and few other cells) a larger one is put in its
    place, so that the number of steps is about the number of these cells.
    """
    assert parts.t is not None and parts.x is not None
    split = parts.t * (2 * ratio - parts.t)
    weight = jnp.where(split > 0.05 * ratio**2, split, ratio**2) + ridge
    condition = _woodbury(parts.x, parts.y, weight)

    def step(state: Any) -> Any:
        x, r, p, rz, count = state
        hp = hadamard(parts, p) + ridge * p
        alpha = rz / (p @ hp)
        x, r = x + alpha * p, r - alpha * hp
        z = condition(r)
        new = r @ z
        return x, r, z + new / rz * p, new, count + 1

    def unfinished(state: Any) -> Array:
        return (state[3] > tolerance**2 * first) & (state[4] < 300)

    z = condition(rhs)
    first = rhs @ z
    return lax.while_loop(unfinished, step, (jnp.zeros_like(rhs), rhs, z, first, 0))[0]


def _woodbury(x: Array, y: Array, weight: Array) -> Callable[[Array], Array]:
    """The inverse of diag(weight) + (YYᵀ − XXᵀ)∘(YYᵀ − XXᵀ); of the diagonal alone for q > 10."""
    if x.shape[1] > 10:
        return lambda r: r / weight
    both = jnp.concatenate([x, y], -1)
    sign = np.repeat([-1.0, 1.0], x.shape[1])
    one, two = np.triu_indices(both.shape[1])
    pairs = both[:, one] * both[:, two] * np.where(one == two, 1, 2**0.5).astype(x.dtype)
    shared = pairs / weight[:, None]
    inner = jnp.diag(jnp.asarray(sign[one] * sign[two], x.dtype)) + pairs.T @ shared
    factor = jax.scipy.linalg.lu_factor(inner)
    return lambda r: r / weight - shared @ jax.scipy.linalg.lu_solve(factor, shared.T @ r)


@jax.custom_jvp
def _attached(theta: Array, *_: Array) -> Array:
    """θ as a function of the scales alone: the solution of diag R(θ) = 1."""
    return theta


@_attached.defjvp
def _implicit(primals: Any, tangents: Any) -> tuple[Array, Array]:
    theta, table, at, scale = primals
    theta = _attached(theta, table, at, scale)
    change = tangents[3] / scale
    form = factorised(Basis(table, at, jnp.zeros((), scale.dtype)), scale, theta)
    parts = spread(form, at)
    ratio = diagonal(parts)
    solved = lax.custom_linear_solve(
        lambda z: hadamard(parts, z),
        change,
        lambda _, b: _hessian_solve(parts, theta, ratio, b, 1e-10),
        symmetric=True,
    )
    return theta, 2 * theta * change - 2 * solved
