"""R(θ) = K(KᵀΘK)⁻¹Kᵀ by eliminating pivot cells: any sign of θ at the pivots, nothing cancels.

In cells of unit scale y = x/σ, with pivots J, others r and y_J = −P Θ_r^½ y_r, the precision of
Θ_r^½ y_r is I + PᵀΘ_J P. With P = L Uᵀ (U orthonormal) it is I − UUᵀ + U M Uᵀ, M = I + LᵀΘ_J L:
positive definite exactly where M is.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from cdp_views.precision.dual_basis import Basis

_DENSE = 64  # up to so many cells U is the identity: no factor whose derivative may not exist


class Form(NamedTuple):
    """One factorised R(θ); `u` is `None` where U = I.

    rest (d,) the cells that are not pivots; t = θ_r^−½ (d,); u (d, q); low = L (k, q); root (q, q)
    the Cholesky factor of M; `sound` whether KᵀΘK is positive definite.
    """

    rest: Array
    t: Array
    u: Array | None
    low: Array
    root: Array
    sound: Array


def is_dense(k: int, n: int) -> bool:
    """Whether U = I is the better choice."""
    return n - k <= max(_DENSE, 2 * k)


def factorised(basis: Basis, scale: Array, theta: Array) -> Form:
    """The form at θ; where it is not sound its numbers are finite and mean nothing."""
    k, n = basis.table.shape
    chosen = jnp.zeros(n, bool).at[basis.at].set(True)
    rest = jnp.nonzero(~chosen, size=n - k)[0]
    positive = jnp.all(theta[rest] > 0)
    t = 1 / jnp.sqrt(jnp.where(theta[rest] > 0, theta[rest], 1))
    share = basis.table[:, rest] * (scale[rest] / scale[basis.at][:, None]) * t
    if is_dense(k, n):
        u, low = None, share
    else:
        u, upper = jnp.linalg.qr(share.T)
        low = upper.T
    pulled = low.T @ (theta[basis.at][:, None] * low)
    eye = jnp.eye(low.shape[1], dtype=low.dtype)
    root = jnp.linalg.cholesky(eye + pulled)
    diagonal = jnp.diagonal(root)
    sound = positive & jnp.all(jnp.isfinite(root)) & jnp.all(diagonal > 0)
    return Form(rest, t, u, low, jnp.where(sound, root, eye), sound)


def log_determinant(form: Form, theta: Array, volume: Array) -> Array:
    """log det KᵀΘK, up to the constant that `volume` leaves open."""
    rest = theta[form.rest]
    rest = jnp.where(rest > 0, rest, 1)
    return jnp.sum(jnp.log(rest)) + 2 * jnp.sum(jnp.log(jnp.diagonal(form.root))) + 2 * volume


class Spread(NamedTuple):
    """R = diag(t) − X Xᵀ + Y Yᵀ over all n cells; where U = I, R = Y Yᵀ and t, x are `None`."""

    t: Array | None
    x: Array | None
    y: Array


def spread(form: Form, at: Array) -> Spread:
    """R as diagonal plus low rank."""
    k, d = form.low.shape[0], form.rest.shape[0]
    n, dtype = k + d, form.t.dtype
    below = solve_triangular(form.root, form.low.T, lower=True).T
    inner = jnp.eye(d, dtype=dtype) if form.u is None else form.u
    inner = solve_triangular(form.root, inner.T, lower=True).T * form.t[:, None]
    y = jnp.zeros((n, inner.shape[1]), dtype).at[form.rest].set(inner).at[at].set(-below)
    if form.u is None:
        return Spread(None, None, y)
    x = jnp.zeros_like(y).at[form.rest].set(form.u * form.t[:, None])
    return Spread(jnp.zeros(n, dtype).at[form.rest].set(form.t**2), x, y)


def diagonal(parts: Spread) -> Array:
    """diag R (n,)."""
    square = jnp.sum(parts.y**2, -1)
    if parts.x is None or parts.t is None:
        return square
    return parts.t - jnp.sum(parts.x**2, -1) + square


def dense(parts: Spread) -> Array:
    """R (n, n)."""
    whole = parts.y @ parts.y.T
    if parts.x is None or parts.t is None:
        return whole
    return jnp.diag(parts.t) - parts.x @ parts.x.T + whole


def hadamard(parts: Spread, z: Array) -> Array:
    """(R∘R) z = diag(R diag(z) R) in O(n q²)."""
    if parts.x is None or parts.t is None:
        return jnp.sum((parts.y @ (parts.y.T @ (z[:, None] * parts.y))) * parts.y, -1)
    both = jnp.concatenate([parts.x, parts.y], -1)
    sign = jnp.repeat(jnp.array([-1.0, 1.0], z.dtype), parts.x.shape[1])
    low = both * sign
    cross = jnp.sum(both * low, -1)
    inner = both.T @ (z[:, None] * both)
    return parts.t * (parts.t + 2 * cross) * z + jnp.sum((low @ inner) * low, -1)
