"""Mixing laws whose integrals are numerical: the logistic's, and any that a user gives."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax
from jax.scipy.special import ndtr
from numpyro.distributions import biject_to, constraints

from cdp_views import _checks
from cdp_views._float64 import in_float64
from cdp_views.noise import _quadrature, kolmogorov
from cdp_views.noise.mixing import Mixing

_LOG_2PI = math.log(2 * math.pi)
_RAY = 97


class Numerical(Mixing):
    """A mixing law known by its density alone; integrals run over v with s = s(v), v real."""

    def _scale(self, v: Array) -> tuple[Array, Array]:
        """s(v) and log ds/dv."""
        return jnp.exp(v), v

    def _log_line(self, v: Array) -> Array:
        """The log-density of v."""
        s, jacobian = self._scale(v)
        return self.log_density(s) + jacobian

    def log_elliptical(self, q: Array, d: Any) -> Array:
        return _quadrature.log_trapezoid(*self._elliptical(q, d))

    def elliptical_error(self, q: Array, d: Any) -> Array:
        """Relative error of `log_elliptical`'s integral: what half of its nodes get wrong."""
        f, nodes = self._elliptical(q, d)
        fine, coarse = (_quadrature.log_trapezoid(f, nodes, every) for every in (1, 2))
        return jnp.abs(jnp.expm1(coarse - fine))

    def _elliptical(self, q: Array, d: Any) -> tuple[Any, Array]:
        q = jnp.asarray(q)
        d = jnp.broadcast_to(jnp.asarray(d, q.dtype), q.shape)

        def f(v: Array) -> Array:
            s, jacobian = self._scale(v)
            log_s = jnp.log(s)
            inner = self.log_density(s) + jacobian - d * (log_s + 0.5 * _LOG_2PI)
            return inner - jnp.where(q > 0, 0.5 * q * jnp.exp(-2 * log_s), 0)

        return f, _quadrature.window(f, q.shape, q.dtype)

    def given(self, key: Array, z: Array, draws: int) -> tuple[Array, Array]:
        """By inversion of a piecewise linear density in v, with what it gets wrong as a weight."""
        nodes = _quadrature.window(f := self._line_given(z), z.shape, z.dtype)
        value = f(nodes)
        log_mass = _quadrature.log_trapezoid(f, nodes)
        step = nodes[1] - nodes[0]
        p = jnp.exp(jnp.where(jnp.isnan(value), -jnp.inf, value) - log_mass)
        below, above = p[:-1], p[1:]
        cumulative = jnp.cumsum((below + above) / 2 * step, 0)
        u = jax.random.uniform(key, (draws, *z.shape), z.dtype) * cumulative[-1]
        flat = jax.vmap(lambda c, x: jnp.searchsorted(c, x, side="right"), (1, 1), 1)
        index = flat(cumulative.reshape(-1, z.size), u.reshape(draws, z.size))
        index = jnp.clip(index, 0, len(below) - 1).reshape(u.shape)

        def at(table: Array) -> Array:
            return jnp.take_along_axis(table, index, 0)

        a, b, mass = at(below), at(above), at(cumulative)
        rest = jnp.clip(1 - (mass - u) / jnp.where(a + b > 0, (a + b) / 2 * step, 1), 0, 1)
        root = jnp.sqrt(jnp.maximum(a * a + rest * (b * b - a * a), 0))
        place = jnp.clip(rest * (a + b) / jnp.where(a + root > 0, a + root, 1), 0, 1)
        v = at(nodes[:-1]) + place * step
        proposal = jnp.log(a + (b - a) * place) + log_mass
        return self._scale(v)[0], f(v) - proposal

    def _line_given(self, z: Array) -> Any:
        half = z * z / 2

        def f(v: Array) -> Array:
            s, jacobian = self._scale(v)
            log_s = jnp.log(s)
            return (
                self.log_density(s)
                + jacobian
                - log_s
                - jnp.where(half > 0, half * jnp.exp(-2 * log_s), 0)
            )

        return f

    def log_ray(self, w: Array, groups: Any, power: Array, b: Array) -> Array:
        """By the trapezoid rule in log t, wide enough for the ray's law around a draw (t = 1)."""
        m = groups.sizes.astype(w.dtype)
        reach = 1 + 12 / jnp.sqrt(jnp.maximum(m, 1))

        def add(total: Array, k: Array) -> tuple[Array, None]:
            v = reach * (2 * k / (_RAY - 1) - 1)
            product = groups.sum(self.log_density(w * groups.spread(jnp.exp(v))))
            return jnp.logaddexp(total, product + power * v - b * jnp.exp(-2 * v)), None

        start = jnp.full(jnp.broadcast_shapes(power.shape, b.shape), -jnp.inf, w.dtype)
        total, _ = lax.scan(add, start, jnp.arange(_RAY, dtype=w.dtype))
        return total + jnp.log(2 * reach / (_RAY - 1))

    def _mean_of(self, power: int) -> Any:
        """E s^power: numerical, and inf where the mass doesn't end."""

        def f(v: Array) -> Array:
            s, _ = self._scale(v)
            return self._log_line(v) + power * jnp.log(s)

        dtype = jnp.result_type(float)
        nodes = _quadrature.window(f, self._shape, dtype)
        peak = jnp.max(f(nodes), 0)
        endless = f(nodes[-1]) > peak - 20
        return jnp.where(endless, jnp.inf, jnp.exp(_quadrature.log_trapezoid(f, nodes)))

    @property
    def first_moment(self) -> Any:
        return self._mean_of(1)

    @property
    def second_moment(self) -> Any:
        return self._mean_of(2)

    @property
    @abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """The shape of the law's parameters."""

    @in_float64
    def margin(self, level: float) -> Any:
        nodes = _quadrature.window(self._log_line, self._shape, np.float64)
        s = self._scale(nodes)[0]
        weight = jnp.exp(self._log_line(nodes))
        weight = weight / jnp.sum(weight, 0)
        low, high = jnp.zeros(self._shape), jnp.full(self._shape, 40.0) * jnp.max(s, 0)
        for _ in range(200):
            m = (low + high) / 2
            inside = jnp.sum(weight * (1 - 2 * ndtr(-m / s)), 0) < level
            low, high = jnp.where(inside, m, low), jnp.where(inside, high, m)
        return np.asarray(high)


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DoubledKolmogorov(Numerical):
    """s = 2K, for which s·Z is logistic(0, 1)."""

    family = "logistic"

    def sample(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        return 2 * kolmogorov.sample(key, shape, dtype)

    def log_density(self, s: Array) -> Array:
        return kolmogorov.log_density(s / 2) - math.log(2)

    @property
    def first_moment(self) -> float:
        return 2 * math.log(2) * math.sqrt(math.pi / 2)

    @property
    def second_moment(self) -> float:
        return math.pi**2 / 3

    @property
    def _shape(self) -> tuple[int, ...]:
        return ()

    def margin(self, level: float) -> float:
        return math.log1p(level) - math.log1p(-level)


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Given(Numerical):
    """s with a NumPyro law on (0, ∞) or an interval of it."""

    law: dist.Distribution
    family = "scale mixture"

    def sample(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        draw = self.law.expand(jnp.broadcast_shapes(shape, self.law.batch_shape)).sample(key)
        return jnp.maximum(jnp.asarray(draw, dtype), jnp.finfo(dtype).tiny)

    def log_density(self, s: Array) -> Array:
        support: Any = self.law.support
        inside = support(s)
        typical = lax.stop_gradient(jnp.broadcast_to(self._feasible, jnp.shape(s)))
        value = self.law.log_prob(jnp.where(inside, s, typical))
        return jnp.where(inside, value, -jnp.inf)

    @property
    def _feasible(self) -> Array:
        v = jnp.zeros((), jnp.result_type(float))
        return self._scale(v)[0]

    def _scale(self, v: Array) -> tuple[Array, Array]:
        if self.law.support in (constraints.positive, constraints.nonnegative):
            return super()._scale(v)
        bijection: Any = biject_to(self.law.support)
        s = bijection(v)
        return s, bijection.log_abs_det_jacobian(v, s)

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.law.batch_shape


def given(mixing: Any) -> Given:
    """The mixing law behind a NumPyro distribution, checked: continuous, positive, scalar."""
    if not isinstance(mixing, dist.Distribution):
        raise TypeError(
            "`mixing` must be a NumPyro distribution on (0, ∞), such as dist.Gamma(2.0, 1.0); got "
            f"{type(mixing).__name__}."
        )
    if mixing.event_shape:
        raise ValueError(
            f"`mixing` must be a law of one number; got event shape {mixing.event_shape}. Use a "
            "batch of scalar laws."
        )
    if mixing.is_discrete or isinstance(mixing, dist.Delta):
        raise _checks.UnsupportedError(
            "`mixing` must have a density; got a discrete law. Use a continuous one (for a fixed "
            "scale, dist.Normal itself)."
        )
    support: Any = mixing.support
    positive = support in (constraints.positive, constraints.nonnegative)
    if not positive:
        low = getattr(support, "lower_bound", None)
        if low is None or (_checks.is_concrete(low) and np.any(np.asarray(low) < 0)):
            raise ValueError(
                f"`mixing` must live on positive numbers; got {type(mixing).__name__} on "
                f"{support}. Use a law such as dist.LogNormal or dist.HalfNormal."
            )
    return Given(mixing)
