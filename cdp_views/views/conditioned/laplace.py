"""Conditioned Laplace noise: independent Laplace cells *given* that their totals are exact."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views._lanes import Lanes
from cdp_views._pairs import exponential_and_normal
from cdp_views._segments import once
from cdp_views.deviation import LaplaceDeviation
from cdp_views.invariants import Totals
from cdp_views.loss import ProfileLoss
from cdp_views.precision.characteristic import (
    MOST_NODES,
    average,
    equal_log_density_at_zero,
    log_density_at_zero,
    node_count,
)
from cdp_views.views._common import proper
from cdp_views.views._mixture import (
    MixtureView,
    disjoint,
    host_scale,
    laplace_loss_draws,
    scale_in_total,
    scale_like,
    squared_unit_scales,
)
from cdp_views.views.conditioned.profile import conditioned_profile
from cdp_views.views.conditioned.signs import draw_alike


class ConditionedLaplace(MixtureView):
    """Π Laplace(loc_i, λ_i) given A y = A loc; build it with `cdp.Conditioned`.

    Density p(x)/(√det AAᵀ · f(0)) on ker A, with f(0) the density of the totals' noise at 0 (one
    quadrature per group, closed form for equal scales). ‖X/λ‖₁ ~ Gamma(d, 1) exactly. Pure ε of a
    difference v is Σ|v_i|/λ_i, as for unconstrained noise.
    """

    kind = "conditioned"
    defined_everywhere = True
    pytree_data_fields = ("log_normalizer", "lanes")
    pytree_aux_fields = ("nodes", "has_free_cells")

    def __init__(self, invariant: Any, loc: Any, scale: Any, *args: Any, **kwargs: Any) -> None:
        groups = disjoint(invariant)
        alike = groups.even and jnp.shape(scale)[-1] == 1
        concrete = _checks.is_concrete(invariant, scale)
        self.nodes = _nodes(groups, scale) if concrete and not alike else None
        if concrete:  # once, on the host, in float64: the quadrature costs many passes
            self.log_normalizer = _exact_log_normalizer(
                groups, np.asarray(scale), alike, self.nodes
            )
        else:
            self.log_normalizer = log_normalizer(
                groups, jnp.asarray(proper(scale)), alike, self.nodes
            )
        self.lanes = Lanes.of(groups.segments) if alike else None
        member = groups.segments.member
        # kept apart from the arrays: a compiled draw must know it to leave their noise out
        self.has_free_cells = not (_checks.is_concrete(member) and bool(np.all(np.asarray(member))))
        super().__init__(invariant, loc, scale, *args, **kwargs)

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        shape = self.shape(sample_shape)
        if self.lanes is None:
            noise = _draw_by_omega(key, self.groups, jnp.asarray(self.scale), shape)
        else:
            noise = draw_alike(key, self.groups, self.lanes, jnp.asarray(self.scale), shape)
        return self._free_cells(key, noise)

    def _free_cells(self, key: Array, noise: Array) -> Array:
        if not self.has_free_cells:
            return noise
        member = self.groups.segments.member
        free = jax.random.laplace(jax.random.fold_in(key, 1), noise.shape, noise.dtype)
        return jnp.where(member, noise, scale_like(self, noise.dtype) * free)

    def _log_density(self, noise: Array) -> Array:
        scale = scale_like(self, noise.dtype)
        cells = jnp.sum(-jnp.abs(noise) / scale, -1)
        return cells - jnp.asarray(self.log_normalizer, noise.dtype)

    @property
    def variance(self) -> Array:
        groups, scale = self.groups, jnp.asarray(self.scale)
        if self.alike:
            m = groups.segments.sizes.astype(scale.dtype)
            ratio = (2 * m - 1) * (m - 1) / (m * (m + 1))
            value = scale**2 * groups._outside(ratio, 2.0)
        else:
            c, nodes = scale_in_total(groups, scale), self._node_count
            value = average(c, groups.segments, nodes, lambda t: _second(scale, c * t))
            value = jnp.where(groups.segments.member, value, 2 * scale**2)
            value = jnp.where(groups.segments.spread(groups.segments.sizes) == 1, 0, value)
        return jnp.broadcast_to(value, self.shape())

    def covariance_product(self, x: Any) -> Array:
        x = jnp.asarray(x)
        groups, scale = self.groups, jnp.asarray(self.scale)
        if self.alike:  # exchangeable cells: Σ = m/(m − 1)·Var·P, group by group
            m = groups.segments.sizes.astype(x.dtype)
            factor = groups._outside((2 * m - 1) / (m + 1), 2.0) * scale**2
            return factor * groups.project(x)
        c, nodes, segments = scale_in_total(groups, scale), self._node_count, groups.segments

        def off_diagonal(t: Array) -> Array:  # (φ′/φ)_i of every cell, against all its group
            slope = (
                2 * scale * (c * t) / (1 + (c * t) ** 2) * jnp.sign(groups._weights_like(c.dtype))
            )
            return slope * segments.spread(segments.sum(slope * x)) - slope**2 * x

        shape = jnp.broadcast_shapes(x.shape, c.shape)
        spread_c = jnp.broadcast_to(c, shape)
        return self.variance * x - average(spread_c, segments, nodes, off_diagonal)

    def entropy(self) -> Array:
        """Differential entropy on the subspace, in nats: d + log normaliser. Exact: (…)."""
        value = self.invariant.dim + jnp.asarray(self.log_normalizer)
        return jnp.broadcast_to(value, self.batch_shape)

    def loss(self, differences: sparse.csr_array, query: Any = None) -> ProfileLoss:
        """The profile of every difference v, exact for two cells of a group; sup Σ|v_i|/λ_i."""
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        groups, scale = self.groups, host_scale(self, "loss")
        b = np.ones(groups.n) if groups.weights is None else np.asarray(groups.weights, float)
        labels = np.asarray(groups.segments.labels)
        return conditioned_profile(differences, scale, b, labels, groups.rank)

    def loss_draws(self, key: Array, differences: sparse.csr_array, draws: int) -> np.ndarray:
        """Draws of the privacy loss of every difference, (m, draws), in float64."""
        return laplace_loss_draws(self, key, differences, draws)

    def on_cells(self, part: Totals, scale: np.ndarray, cells: np.ndarray) -> "ConditionedLaplace":
        """The same noise on some of the groups alone."""
        return ConditionedLaplace(part, np.zeros(part.n), _one_if_equal(scale), ())

    def deviation(self, workload: Any = None) -> Any:
        """Exact only for cells without any total; evaluators estimate it when given `key=`."""
        if workload is None and self.groups.rank == 0:
            scale = host_scale(self, "deviation")
            return LaplaceDeviation(np.zeros_like(scale), scale)
        raise self._refuse("deviation", "Pass key= to the evaluator for an estimate from draws.")

    @property
    def _node_count(self) -> int:
        return self.nodes or MOST_NODES


def log_normalizer(groups: Any, scale: Array, alike: bool, nodes: int | None) -> Array:
    """log of ∫ exp(−Σ|x_i|/λ_i) over ker A, with respect to Hausdorff measure: (…)."""
    c = scale_in_total(groups, scale)
    if alike:
        anchor = groups.segments.sum(jnp.where(groups.anchor, c, 0))
        log_f = equal_log_density_at_zero(anchor, groups.segments.sizes)
    else:
        log_f = log_density_at_zero(c, groups.segments, nodes or MOST_NODES)
    weights = groups._weights_like(c.dtype)
    per_group = log_f + 0.5 * jnp.log(groups._norm2(weights))
    return jnp.sum(jnp.broadcast_to(jnp.log(2 * scale), c.shape), -1) + jnp.sum(per_group, -1)


@in_float64
def _exact_log_normalizer(
    groups: Any, scale: np.ndarray, alike: bool, nodes: int | None
) -> np.ndarray:
    return np.asarray(_compiled_normalizer(groups, float64(scale), alike, nodes))


# one compilation instead of one for every step
_compiled_normalizer = jax.jit(log_normalizer, static_argnums=(2, 3))


def _one_if_equal(scale: np.ndarray) -> np.ndarray:
    return scale[:1] if np.all(scale == scale[0]) else scale


def _nodes(groups: Any, scale: Any) -> int:
    weights = 1.0 if groups.weights is None else np.abs(np.asarray(groups.weights))
    c = np.broadcast_to(weights * np.asarray(scale, np.float64), (*np.shape(scale)[:-1], groups.n))
    return max(node_count(row, groups.segments) for row in c.reshape(-1, groups.n))


def _second(scale: Array, ct: Array) -> Array:
    """−φ″/φ of a Laplace characteristic function φ(t) = 1/(1 + c²t²)."""
    return 2 * scale**2 * (1 - 3 * ct**2) / (1 + ct**2) ** 2


# run eagerly, every operation would be compiled by itself, and the loop again at every call
@partial(jax.jit, static_argnames="shape")
def _draw_by_omega(key: Array, groups: Any, scale: Array, shape: tuple[int, ...]) -> Array:
    """Any scales: draw ω of each group, then independent scales, then the Gaussian on ker A.

    det(AD²Aᵀ)^{−½} in the law of the scales is an integral over ω, given which they are
    independent: σ_i² = 2λ_i² e_i/(1 + c_i²ω²), e_i ~ Exp(1). (numerics.md, §5)
    """
    one, two = jax.random.split(key)
    e, u = once(exponential_and_normal(two, shape))
    lam = jnp.asarray(scale, e.dtype)
    c = scale_in_total(groups, lam)
    omega_c = draw_omega(one, c, groups.segments, shape)
    variance = once(lam**2 * squared_unit_scales(e) / (1 + omega_c**2))
    return groups.restrict(1 / variance).colour(u)


def draw_omega(key: Array, c: Array, seg: Any, shape: tuple[int, ...]) -> Array:
    """c_i·ω of every cell, ω with density ∝ Π(1 + c_i²ω²)⁻¹ in its group: (*shape).

    With η = |c|ω, q = c/|c| and h = max q²: Σ log(1 + q_i²η²) ≥ (1/h) log(1 + hη²), so η from the
    density ∝ (1 + hη²)^{−1/h} (a scaled Student-t with 2/h − 1 degrees of freedom, drawn by
    Bailey's polar method) is accepted with the ratio: never below 0.80, 1 for equal c.
    """
    norm = jnp.sqrt(seg.sum(c * c))
    q = c / jnp.where(seg.member, seg.spread(norm), 1)
    h = seg.max(q) ** 2
    rows = (*shape[:-1], seg.count)
    power = 2 / (2 / h - 1)

    def again(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, eta, done, rounds = state
        key, one, two, three = jax.random.split(key, 4)
        tiny = jnp.finfo(c.dtype).tiny
        u = jax.random.uniform(one, rows, c.dtype, minval=tiny)
        angle = jax.random.uniform(two, rows, c.dtype, maxval=2 * math.pi)
        new = jnp.sqrt(jnp.expm1(-power * jnp.log(u)) / h) * jnp.cos(angle)
        bound = jnp.log1p(h * new**2) / h
        ratio = bound - seg.sum(jnp.log1p((q * seg.spread(new)) ** 2))
        accept = jnp.log(jax.random.uniform(three, rows, c.dtype, minval=tiny)) <= ratio
        accept = accept | (h >= 1)  # a cell alone in its group: its noise is 0 anyway
        return key, jnp.where(done, eta, new), done | accept, rounds + 1

    start = (key, jnp.zeros(rows, c.dtype), jnp.zeros(rows, bool), jnp.zeros((), jnp.int32))
    _, eta, _, _ = lax.while_loop(lambda s: ~jnp.all(s[2]), again, start)
    return q * seg.spread(eta)
