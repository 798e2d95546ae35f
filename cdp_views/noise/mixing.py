"""The random scale inside a base noise: X = loc + scale · s · Z with Z normal, s ~ mixing law."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its `stats`, most of a second of imports, comes when it is asked for
from jax import Array

from cdp_views._float64 import in_float64
from cdp_views.deviation import Deviation, LaplaceDeviation
from cdp_views.deviation.scaled import ScaledDeviation
from cdp_views.precision.bessel import log_power_bessel

_LOG_2PI = math.log(2 * math.pi)


class Mixing(ABC):
    """The law of s > 0 of a standardised noise s·Z, with density h.

    Everything a view needs: draws of s, its density and moments, the elliptical law that one
    common s gives in d dimensions, and the law of s given one cell's noise.
    """

    family: ClassVar[str]

    @abstractmethod
    def sample(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Draws of s."""

    @abstractmethod
    def log_density(self, s: Array) -> Array:
        """log h(s)."""

    @property
    @abstractmethod
    def first_moment(self) -> Any:
        """E s, which may be inf."""

    @property
    @abstractmethod
    def second_moment(self) -> Any:
        """E s², the variance of s·Z, which may be inf."""

    @abstractmethod
    def log_elliptical(self, q: Array, d: Any) -> Array:
        """log g_d(q) = log ∫ h(s)(2πs²)^{−d/2} e^{−q/(2s²)} ds: the density of s·Z in d dimensions.

        `q` is the squared length, `d` the dimension (an array broadcast with q); d = 1 is the
        base's own density.
        """

    @abstractmethod
    def given(self, key: Array, z: Array, draws: int) -> tuple[Array, Array]:
        """Draws (draws, *z.shape) of s given the cell's noise z, and the log of density/proposal.

        The law is ∝ h(s) e^{−z²/(2s²)}/s; the second is 0 where the draws are exact.
        """

    @abstractmethod
    def log_ray(self, w: Array, groups: Any, power: Array, b: Array) -> Array:
        """log ∫ t^{p−1} Π_i h(t w_i) e^{−b/t²} dt along the ray through the scales w (…, n).

        The product is over each group's cells; p and b have shape (k, …, G), as has the result.
        """

    @abstractmethod
    def margin(self, level: float) -> Any:
        """The m with P(|s·Z| ≤ m) = level, on the host."""

    @in_float64
    def deviation(self, scale: np.ndarray) -> Deviation:
        """The law of errors scale·s·Z, (q,): exact."""
        sd = np.sqrt(np.asarray(self.second_moment, np.float64))
        mae = math.sqrt(2 / math.pi) * np.asarray(self.first_moment, np.float64)
        return ScaledDeviation(scale, sd, mae, self.margin)

    def of_groups(self, groups: Any) -> "Mixing":
        """The same law with parameters per group (…, G) instead of per cell."""
        del groups
        return self


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rayleigh(Mixing):
    """h(s) = s e^{−s²/2}, for which s·Z is Laplace(0, 1): s² = 2·Exp(1)."""

    family = "laplace"

    def sample(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        e = jax.random.exponential(key, shape, dtype)
        # e = 0 (one draw in 2²³ in float32) is kept off
        return jnp.sqrt(2 * jnp.maximum(e, jnp.finfo(e.dtype).eps ** 2))

    def log_density(self, s: Array) -> Array:
        return jnp.log(s) - s * s / 2

    @property
    def first_moment(self) -> float:
        return math.sqrt(math.pi / 2)

    @property
    def second_moment(self) -> float:
        return 2.0

    def log_elliptical(self, q: Array, d: Any) -> Array:
        """(2π)^{−d/2} q^{(2−d)/4} K_{(d−2)/2}(√q); at q = 0 it is ½ for d = 1, else infinite."""
        d = jnp.asarray(d, q.dtype)
        positive = q > 0
        x = jnp.sqrt(jnp.where(positive, q, 1))
        order = jnp.abs(d - 2) / 2
        bessel = log_power_bessel(order, jnp.where(positive, x, 0))
        power = jnp.where(d >= 2, 2 - d, 0)  # x^{1−d/2} K = x^{2−d}·(x^ν K_ν), x^{2ν}… for d = 1
        away = jnp.where(power < 0, power * jnp.where(positive, jnp.log(x), -jnp.inf), 0)
        return away + bessel - d / 2 * _LOG_2PI

    def given(self, key: Array, z: Array, draws: int) -> tuple[Array, Array]:
        """1/s² is inverse Gaussian with mean 1/|z| and shape 1, by its two roots (stable at 0)."""
        one, two = jax.random.split(key)
        shape = (draws, *z.shape)
        z, y = jnp.abs(z), jax.random.normal(one, shape, z.dtype) ** 2
        root = z + y / 2 + jnp.sqrt(z * y + y * y / 4)
        first = jax.random.uniform(two, shape, z.dtype) * (root + z) <= root
        square = jnp.where(first, root, z * (z / jnp.where(root > 0, root, 1)))
        tiny = jnp.finfo(z.dtype).tiny
        return jnp.sqrt(jnp.maximum(square, tiny)), jnp.zeros(shape, z.dtype)

    def log_ray(self, w: Array, groups: Any, power: Array, b: Array) -> Array:
        """∫ t^{p−1} e^{−At²−b/t²} dt = (b/A)^{p/4} K_{p/2}(2√(Ab)), p raised by the size."""
        a = groups.sum(w * w) / 2
        p = power + groups.sizes
        x = 2 * jnp.sqrt(a * b)
        ray = log_power_bessel(p / 2, x) - p / 2 * jnp.log(2 * a)
        return ray + groups.sum(jnp.log(w))

    def margin(self, level: float) -> float:
        return -math.log1p(-level)

    def deviation(self, scale: np.ndarray) -> Deviation:
        return LaplaceDeviation(np.zeros_like(scale), scale)


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class InverseChi(Mixing):
    """s² ~ InverseGamma(df/2, df/2), for which s·Z is Student-t with `df` degrees of freedom."""

    df: Any  # (…, n), or (…, 1) for one number
    family = "student-t"

    def sample(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        half = jnp.asarray(self.df, dtype) / 2
        log_g = jax.random.loggamma(key, jnp.broadcast_to(half, shape), shape, dtype)
        return jnp.exp((jnp.log(half) - log_g) / 2)

    def log_density(self, s: Array) -> Array:
        half = jnp.asarray(self.df, s.dtype) / 2
        constant = math.log(2) + half * jnp.log(half) - jax.lax.lgamma(half)
        return constant - (2 * half + 1) * jnp.log(s) - half / (s * s)

    @property
    def first_moment(self) -> Any:
        df = np.asarray(self.df, np.float64)
        safe = np.where(df > 1, df, 2)
        value = np.sqrt(safe / 2) * np.exp(
            scipy.special.gammaln((safe - 1) / 2) - scipy.special.gammaln(safe / 2)
        )
        return np.where(df > 1, value, np.inf)

    @property
    def second_moment(self) -> Any:
        df = jnp.asarray(self.df)
        return jnp.where(df > 2, df / jnp.where(df > 2, df - 2, 1), jnp.inf)

    def log_elliptical(self, q: Array, d: Any) -> Array:
        """The multivariate t: Γ((df+d)/2)/(Γ(df/2)(πdf)^{d/2}) (1 + q/df)^{−(df+d)/2}."""
        df, d = jnp.asarray(self.df, q.dtype), jnp.asarray(d, q.dtype)
        top = jax.lax.lgamma((df + d) / 2) - jax.lax.lgamma(df / 2)
        return top - d / 2 * jnp.log(math.pi * df) - (df + d) / 2 * jnp.log1p(q / df)

    def given(self, key: Array, z: Array, draws: int) -> tuple[Array, Array]:
        """s² ~ InverseGamma((df + 1)/2, (df + z²)/2)."""
        df = jnp.broadcast_to(jnp.asarray(self.df, z.dtype), z.shape)
        shape = (draws, *z.shape)
        log_g = jax.random.loggamma(key, jnp.broadcast_to((df + 1) / 2, shape), shape, z.dtype)
        return jnp.exp((jnp.log((df + z * z) / 2) - log_g) / 2), jnp.zeros(shape, z.dtype)

    def log_ray(self, w: Array, groups: Any, power: Array, b: Array) -> Array:
        """∫ t^{−2a−1} e^{−B/t²} dt = ½ Γ(a) B^{−a}."""
        df, m = self.of_groups(groups).df, groups.sizes
        half = jnp.asarray(df, w.dtype) / 2
        a = (m * (2 * half + 1) - power) / 2
        whole = b + half * groups.sum(1 / (w * w))
        constant = m * (math.log(2) + half * jnp.log(half) - jax.lax.lgamma(half))
        ray = jax.lax.lgamma(a) - a * jnp.log(whole) - math.log(2)
        return ray + constant - (2 * half + 1) * groups.sum(jnp.log(w))

    def margin(self, level: float) -> Any:
        return scipy.stats.t.ppf((1 + level) / 2, np.asarray(self.df, np.float64))

    def of_groups(self, groups: Any) -> "InverseChi":
        df = jnp.asarray(self.df)
        if df.shape[-1] == 1:
            return self
        return InverseChi(groups.sum(df) / groups.sizes)
