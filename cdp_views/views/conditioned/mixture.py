"""Conditioned Student-t, logistic and other scale mixtures, and any of them at a given total."""

import warnings
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant, Totals
from cdp_views.noise import Mixing
from cdp_views.precision.characteristic_of_shift import Nodes, average
from cdp_views.views._common import coloured, proper
from cdp_views.views._mixture import disjoint, scale_in_total
from cdp_views.views.conditioned import characteristic as law_of
from cdp_views.views.conditioned import omega, tilted
from cdp_views.views.conditioned.scales import ConditionedScales

_SMALLEST = 1e-3  # chance of acceptance at a given total
_ROUNDS = 20_000
_FAR = (
    "`total` is so far from loc's own that exact draws are kept less than once in 1000. Move loc "
    "nearer to it, or draw with NUTS: log_prob is exact."
)
_WORST = 1e-6  # relative error of a normaliser that is let through


@final
class ConditionedMixture(ConditionedScales):
    """Π p(x_i) given A y = total, for cells loc_i + λ_i s_i Z_i; build it with `cdp.Conditioned`.

    Density Π p_i(x_i)/(√det AAᵀ · f(τ)) with f the density of the totals' noise at
    τ = total − A loc, by quadrature. Drawn by ω (numerics.md, §5), then scales, then the Gaussian
    given A x = τ; for τ ≠ 0 scales are kept with probability exp(−½ Σ τ²/S), S = Σ b_i²σ_i².
    """

    pytree_data_fields = ("nodes",)

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        mixing: Mixing,
        *,
        shift: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        groups = disjoint(invariant)
        law_of.require_known(mixing)
        if _checks.is_concrete(invariant, scale, shift, mixing):
            self.nodes = _exact_nodes(groups, mixing, scale, shift)
            _require_accurate(self.nodes, mixing)
        else:
            own = None if shift is None else jnp.asarray(shift)
            self.nodes = _nodes(groups, mixing, jnp.asarray(proper(scale)), own)
        super().__init__(
            invariant, loc, scale, batch_shape, mixing, shift=shift, validate_args=validate_args
        )

    @property
    def groups(self) -> Totals:
        """The disjoint totals behind the invariant."""
        return disjoint(self.invariant)

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of Y − centre, which keeps every total: (*sample_shape, …, n)."""
        if _checks.is_concrete(self.mixing) and not law_of.drawable(self.mixing):
            raise self._refuse("sample", law_of.WAY_OUT)
        one, two, three = jax.random.split(key, 3)
        shape, dtype = self.shape(sample_shape), jnp.result_type(float)
        u = jax.random.normal(two, shape, dtype)
        groups, lam = self.groups, jnp.asarray(proper(self.scale), dtype)
        if self.shift is None:
            variance = lam**2 * self._squares(one, shape)
            noise = coloured(groups.restrict(1 / variance), u)
        else:
            shift = jnp.asarray(self.shift, dtype)
            variance, tau = self._squares_at(one, shape, groups.evaluate(shift))
            b = groups._weights_like(dtype)
            size = groups.segments.sum(b * b * variance)
            share = b * variance * groups.segments.spread(tau / size)
            # exactly in ker A: what both ends leave of their totals is rounding
            noise = coloured(groups.restrict(1 / variance), u) + groups.project(share - shift)
        member = groups.segments.member
        if _checks.is_concrete(member) and np.all(np.asarray(member)):
            return noise
        free = lam * jnp.sqrt(self.mixing.sample(three, shape, dtype) ** 2) * u
        return jnp.where(member, noise, free)

    def _squares(self, key: Array, shape: tuple[int, ...]) -> Array:
        """s² of every cell under the law at the base's own totals."""
        c = scale_in_total(self.groups, jnp.asarray(proper(self.scale), jnp.result_type(float)))
        seg = self.groups.segments
        if not _checks.is_concrete(self.mixing):
            return _squares(key, self.mixing, c, seg, shape)
        return _compiled_squares(key, _Law.of(self.mixing), c, seg, shape)

    def _squares_at(self, key: Array, shape: tuple[int, ...], tau: Array) -> tuple[Array, Array]:
        """λ²s² under the law at τ, by rejection from the law at 0, group by group.

        NaN, and a warning, for a traced total so far out that `_SMALLEST` is not reached.
        """
        hopeless = self._require_chance()
        groups, dtype = self.groups, jnp.result_type(float)
        lam, b = jnp.asarray(proper(self.scale), dtype), groups._weights_like(dtype)
        rows = (*shape[:-1], groups.rank)
        half = jnp.broadcast_to(tau * tau / 2, rows)

        def again(state: tuple[Array, ...]) -> tuple[Array, ...]:
            key, variance, done, rounds = state
            key, one, two = jax.random.split(key, 3)
            new = lam**2 * self._squares(one, shape)
            size = groups.segments.sum(b * b * new)
            e = jax.random.exponential(two, rows, dtype)
            keep = (half <= e * size) & ~done | (groups.segments.sizes == 1)
            cells = groups.segments.spread(keep.astype(dtype)) > 0
            variance = jnp.where(cells, new, variance)
            return key, variance, done | keep, rounds + 1

        def unfinished(state: tuple[Array, ...]) -> Array:
            return ~jnp.all(state[2]) & (state[3] < _ROUNDS)

        out = jnp.broadcast_to(hopeless, rows)
        start = (key, jnp.ones(shape, dtype), out, jnp.asarray(0))
        _, variance, done, _ = lax.while_loop(unfinished, again, start)
        lost = groups.segments.spread((out | ~done).astype(dtype)) > 0
        return jnp.where(lost, jnp.nan, variance), tau

    def _require_chance(self) -> Array:
        """Which groups' f(τ)/f(0), the chance that scales are kept, is too small: (…, G)."""
        if _checks.is_concrete(self.nodes, self.scale, self.mixing):
            at_zero = _exact_nodes(self.groups, self.mixing, self.scale, None).log_f
        else:
            scale = jnp.asarray(proper(self.scale))
            at_zero = _nodes(self.groups, self.mixing, scale, None).log_f
        far = jnp.asarray(self.nodes.log_f) - jnp.asarray(at_zero) < np.log(_SMALLEST)
        far = far & (self.groups.segments.sizes > 1)
        if not _checks.is_concrete(far):
            jax.debug.callback(_warn_if, jnp.any(far))
        elif np.any(np.asarray(far)):
            raise self._refuse("sample", _FAR)
        return far

    def _log_density(self, noise: Array) -> Array:
        groups, dtype = self.groups, noise.dtype
        weights = groups._weights_like(dtype)
        per_group = jnp.asarray(self.nodes.log_f, dtype) + 0.5 * jnp.log(groups._norm2(weights))
        return jnp.sum(self._base(noise), -1) - jnp.sum(per_group, -1)

    @property
    def mean(self) -> Array:
        """E Y: loc for loc's own totals (also where the base has no mean)."""
        if self.shift is None:
            return jnp.broadcast_to(jnp.asarray(self.loc), self.shape())
        return jnp.broadcast_to(jnp.asarray(self.loc) + self._first, self.shape())

    @property
    def variance(self) -> Array:
        """Marginal variances, by quadrature; inf where they do not exist (Student-t, df ≤ ½)."""
        groups, segments = self.groups, self.groups.segments
        lam, tau, b = self._numbers()
        c, sign = scale_in_total(groups, lam), jnp.sign(b)

        def others(z: Array) -> Array:  # m_i times what the other cells of the group add to b·X
            m = omega.slopes(self.mixing, c * z)
            return m * (_spread_sum(segments, c * m) - c * m)

        inside = jnp.where(segments.member, c, 1)
        cross = lam * lam / inside * self._average(others)
        # b_i E X_i² = τ E X_i − Σ_{j≠i} b_j E X_i X_j
        first = 0.0 if tau is None else self._first
        pull = 0.0 if tau is None else sign * lam / inside * segments.spread(tau) * first
        square = pull - cross
        own = self.mixing.second_moment * lam**2
        value = jnp.where(segments.member, square - jnp.asarray(first) ** 2, own)
        value = jnp.where(law_of.has_variance(self.mixing) | ~segments.member, value, jnp.inf)
        alone = segments.spread((segments.sizes == 1).astype(value.dtype)) > 0
        return jnp.broadcast_to(jnp.where(alone, 0, value), self.shape())

    def covariance_product(self, x: Any) -> Array:
        x = jnp.asarray(x)
        groups, segments = self.groups, self.groups.segments
        lam, tau, b = self._numbers()
        c, sign = scale_in_total(groups, lam), jnp.sign(b)

        def others(z: Array) -> Array:
            m = sign * lam * omega.slopes(self.mixing, c * z)
            return m * (_spread_sum(segments, m * x) - m * x)

        product = self.variance * x + self._average(others)
        if tau is not None:
            first = self._first
            product = product - first * (segments.spread(segments.sum(first * x)) - first * x)
        return product

    @property
    def _first(self) -> Array:
        """E X of every cell, given its group's total."""
        groups = self.groups
        lam, tau, b = self._numbers()
        if tau is None:
            return jnp.zeros_like(lam)
        c = scale_in_total(groups, lam)
        towards = jnp.sign(b) * groups.segments.spread(jnp.sign(tau))
        mean = self._average(lambda z: omega.slopes(self.mixing, c * z))
        alone = groups.segments.spread((groups.segments.sizes == 1).astype(lam.dtype)) > 0
        exact = groups.segments.spread(tau) / jnp.where(alone, b, 1)
        return jnp.where(alone, exact, towards * lam * mean)

    def _average(self, function: Any) -> Array:
        return average(self.nodes, self.groups.segments, function)

    def _numbers(self) -> tuple[Array, Array | None, Array]:
        """λ (…, n), τ (…, G) and b (n,)."""
        lam = jnp.asarray(proper(self.scale))
        lam = jnp.broadcast_to(lam, (*lam.shape[:-1], self.groups.n))
        tau = None if self.shift is None else self.groups.evaluate(self.shift)
        return lam, tau, self.groups._weights_like(lam.dtype)

    def entropy(self) -> Array:
        """Differential entropy on the subspace, in nats: (…); not of a ScaleMixture.

        Σ_g [log f(τ) + ½ log|b|²] − Σ_i E log p_i(x_i), each cell's mean by the nodes of f.
        """
        height = law_of.mean_log_base(self.mixing)
        if height is None or not _checks.is_concrete(self.nodes, self.scale, self.mixing):
            raise self._refuse("entropy", "Use entropy_estimate(key), with its standard error.")
        return jnp.broadcast_to(jnp.asarray(self._exact_entropy(height)), self.batch_shape)

    @in_float64
    def _exact_entropy(self, height: Any) -> np.ndarray:
        groups, seg = self.groups, self.groups.segments
        lam = np.broadcast_to(self.scale, (*np.shape(self.scale)[:-1], groups.n))
        c, labels = np.asarray(scale_in_total(groups, float64(lam))), np.asarray(seg.labels)
        member = labels < seg.count
        of = np.where(member, labels, 0)
        mean = np.zeros(c.shape)
        if seg.count:
            for z, weight in zip(*map(np.asarray, self.nodes[:2]), strict=True):
                mean = mean + (weight[..., of] * height(c * z[..., of])).real
        cells = np.where(member, mean, np.real(height(np.zeros(())))) - np.log(lam)
        many = np.asarray(seg.sizes) > 1
        moving = ~member if not seg.count else np.where(member, many[of], True)
        norm = np.log(np.asarray(groups._norm2(groups._weights_like(np.float64))))
        constant = np.where(many, np.asarray(self.nodes.log_f) + norm / 2, 0)
        return np.sum(constant, -1) - np.sum(np.where(moving, cells, 0), -1)


def _warn_if(far: Any) -> None:
    if np.any(far):
        warnings.warn(f"Draws of cdp.Conditioned are NaN: {_FAR}", stacklevel=2)


def _quadrature(groups: Any, mixing: Mixing, scale: Array, shift: Array | None) -> Nodes:
    tau = None if shift is None else groups.evaluate(shift)
    return omega.quadrature(mixing, scale_in_total(groups, scale), groups.segments, tau)


_nodes = jax.jit(_quadrature)


@in_float64
def _exact_nodes(groups: Any, mixing: Mixing, scale: Any, shift: Any) -> Nodes:
    shift = None if shift is None else float64(shift)
    nodes = _compiled_nodes(groups, _Law.of(mixing), float64(scale), shift)
    host: Any = [np.asarray(part) for part in nodes]
    return Nodes(*host)


class _Law:
    """A mixing law of concrete numbers, to which compiled code may be fitted: equal by value."""

    def __init__(self, mixing: Mixing, key: Any) -> None:
        self.mixing, self._key = mixing, key

    @staticmethod
    def of(mixing: Mixing) -> "_Law":
        leaves, structure = jax.tree.flatten(mixing)
        numbers = [np.asarray(leaf) for leaf in leaves]
        return _Law(mixing, (structure, tuple((a.shape, a.dtype, a.tobytes()) for a in numbers)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Law) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@partial(jax.jit, static_argnames="law")
def _compiled_nodes(groups: Any, law: _Law, scale: Array, shift: Array | None) -> Nodes:
    return _quadrature(groups, law.mixing, scale, shift)


def _squares(key: Array, mixing: Mixing, c: Array, seg: Any, shape: tuple[int, ...]) -> Array:
    one, two = jax.random.split(key)
    return tilted.draw_squares(two, mixing, omega.draw_a(one, mixing, c, seg, shape))


@partial(jax.jit, static_argnames=("law", "shape"))
def _compiled_squares(key: Array, law: _Law, c: Array, seg: Any, shape: tuple[int, ...]) -> Array:
    return _squares(key, law.mixing, c, seg, shape)


def _require_accurate(nodes: Nodes, mixing: Mixing) -> None:
    error = float(np.max(np.asarray(omega.quadrature_error(nodes)), initial=0))
    if not error < _WORST:
        raise _checks.UnsupportedError(
            f"The normaliser of {mixing.family} noise at this `total` is known only to {error:.0e} "
            "(relative). Move loc nearer to the total, or use dist.Laplace or dist.Logistic."
        )


def _spread_sum(segments: Any, x: Array) -> Array:
    return segments.spread(lax.complex(segments.sum(x.real), segments.sum(x.imag)))
