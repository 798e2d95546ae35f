"""ω of overlapping totals: the k numbers given which a conditioned table's scales are independent.

With ΛAᵀ = Q T (thin QR) and η = Tω the cells' characteristic numbers are a = Qη and

    η ~ Π_i φ(a_i)   on R^k.

−log φ(√v) is concave in v for every mixture of normals (φ is a Laplace transform in t²), so it lies
above its chord from 0: with h = max_i |q_i|², Π φ(q_i·η) ≤ φ(√h |η|)^{1/h}. The right-hand side is
drawn (any direction, |η| from a law on the line), accepted with the ratio, and the mean ratio is
the normaliser (numerics.md, §5). Laplace: (1 + h|η|²)^{−1/h} is a multivariate t, which exists for
2/h − k > 0. Cells of several laws: as Σ_i (q_i·η)² = |η|², the product is below the largest of
φ_j(√h |η|)^{1/h}, and so below their sum, a mixture that is drawn law by law.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from jax.scipy.special import logsumexp
from scipy import special

from cdp_views.precision.omega_tangents import around_peak, draw

_RANDOMISATIONS, _POINTS = 16, 2**12
_FIRST, _LAST, _NODES, _KEPT = -24.0, 80.0, 8193, 42.0
_COARSE = 1041  # nodes of a smooth integral over the same range

LogPhi = Callable[[Any], Any]


class Laws(NamedTuple):
    """log φ_j(t), t ≥ 0, of every distinct law, and which one each cell has (n,)."""

    each: tuple[LogPhi, ...]
    which: np.ndarray

    def log_product(self, a: Any) -> Any:
        """Σ_i log φ_i(a_i): (…, n) → (…)."""
        if len(self.each) == 1:
            return self.each[0](a).sum(-1)
        return sum(phi(a[..., self.which == j]).sum(-1) for j, phi in enumerate(self.each))


def propose_laplace(key: Array, q: Array, wide: int) -> tuple[Array, Array]:
    """`wide` proposals of a = Qη (wide, n), and the log of their chance to be kept (wide,)."""
    k = q.shape[-1]
    h = jnp.max(jnp.sum(q * q, -1))
    one, two = jax.random.split(key)
    z = jax.random.normal(one, (wide, k), q.dtype)
    # √(df/χ²) z/√(h·df) = z/√(hχ²)
    chi2 = 2 * jnp.exp(jax.random.loggamma(two, (2 / h - k) / 2, (wide,), q.dtype))
    chi2 = jnp.maximum(chi2, jnp.finfo(q.dtype).tiny)
    a = (z / jnp.sqrt(h * chi2)[:, None]) @ q.T
    return a, jnp.log1p(jnp.sum(z * z, -1) / chi2) / h - jnp.sum(jnp.log1p(a * a), -1)


def propose(key: Array, q: Array, wide: int, laws: Laws) -> tuple[Array, Array]:
    """The same for any mixtures of normals by their log φ(t), t ≥ 0: |η| by two tangents."""
    k = q.shape[-1]
    h = jnp.max(jnp.sum(q * q, -1))
    one, two, three = jax.random.split(key, 3)

    def line_of(log_phi: LogPhi) -> Callable[[Array], Array]:  # of v = log |η|
        return lambda v: k * v + log_phi(jnp.sqrt(h) * jnp.exp(v)) / h

    lines = [line_of(log_phi) for log_phi in laws.each]
    keys = jax.random.split(one, len(lines))
    found = [
        draw(own, around_peak(line, h), line, (wide,))
        for own, line in zip(keys, lines, strict=True)
    ]
    v = found[0]
    if len(lines) > 1:
        grid = jnp.linspace(_FIRST, _LAST, _COARSE, dtype=q.dtype)
        mass = jnp.stack([logsumexp(line(grid)) for line in lines])
        chosen = jax.random.categorical(three, mass, shape=(wide,))
        v = jnp.take_along_axis(jnp.stack(found), chosen[None], 0)[0]
    z = jax.random.normal(two, (wide, k), q.dtype)
    length = jnp.exp(v) / jnp.linalg.norm(z, axis=-1)
    a = (length[:, None] * z) @ q.T
    bound = logsumexp(jnp.stack([line(v) for line in lines]), 0) - k * v
    return a, laws.log_product(jnp.abs(a)) - bound


class Chord(NamedTuple):
    """The law of |η| ∝ r^{k−1} φ(√h r)^{1/h} on the host: quantiles, log φ(√h r)/h, log mass."""

    quantile: Callable[[np.ndarray], np.ndarray]
    log_bound: Callable[[np.ndarray], np.ndarray]
    log_mass: float


def laplace_chord(h: float, k: int) -> Chord | None:
    """Of a Laplace base, in closed form; `None` where the law does not exist."""
    df = 2 / h - k
    if df <= 2e-6 / h:
        return None

    def quantile(u: np.ndarray) -> np.ndarray:  # 1/(1 + h r²) ~ Beta(df/2, k/2)
        b = np.maximum(special.betaincinv(df / 2, k / 2, u), np.finfo(float).tiny)
        return np.sqrt((1 - b) / (b * h))

    log_mass = special.betaln(df / 2, k / 2) - math.log(2) - k / 2 * math.log(h)
    return Chord(quantile, lambda r: -np.log1p(h * r * r) / h, float(log_mass))


def chord(h: float, k: int, laws: Laws) -> Chord | None:
    """Of any base, by the trapezoid rule in log r; `None` where the law does not exist."""

    def bound(r: np.ndarray) -> np.ndarray:
        each = [np.asarray(phi(math.sqrt(h) * r)) / h for phi in laws.each]
        return np.asarray(special.logsumexp(each, 0))

    coarse = np.arange(_FIRST, _LAST, 0.25)
    value = np.nan_to_num(k * coarse + bound(np.exp(coarse)), nan=-np.inf)
    kept = np.flatnonzero(value > value.max() - _KEPT)
    if kept[-1] + 1 == coarse.size:
        return None
    v = np.linspace(coarse[max(kept[0] - 1, 0)], coarse[kept[-1] + 1], _NODES)
    value = k * v + bound(np.exp(v))
    p = np.exp(value - value.max())
    ladder = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2)])
    log_mass = float(value.max() + np.log(ladder[-1] * (v[1] - v[0])))
    return Chord(lambda u: np.exp(np.interp(u * ladder[-1], ladder, v)), bound, log_mass)


def acceptance(q: np.ndarray, law: Chord, laws: Laws) -> tuple[float, float]:
    """The mean ratio and its standard error, from 65,536 scrambled Sobol points: on the host."""
    k = q.shape[1]
    means = []
    for seed in range(_RANDOMISATIONS):
        u = np.clip(
            scipy.stats.qmc.Sobol(k + 1, rng=np.random.default_rng(seed)).random(_POINTS),
            1e-12,
            1 - 1e-12,
        )
        z = special.ndtri(u[:, :k])
        r = law.quantile(u[:, k])
        a = np.abs((r / np.linalg.norm(z, axis=1))[:, None] * z @ q.T)
        ratio = np.asarray(laws.log_product(a)) - law.log_bound(r)
        means.append(np.mean(np.exp(np.minimum(ratio, 0))))
    mean = float(np.mean(means))
    return mean, float(np.std(means, ddof=1) / math.sqrt(_RANDOMISATIONS))


def log_density_at_zero(k: int, law: Chord, chance: float) -> float:
    """log of the density of Qᵀz at 0, (2π)^{−k} · area of the sphere · mass · E[ratio]."""
    sphere = math.log(2) + k / 2 * math.log(math.pi) - special.gammaln(k / 2)
    return float(sphere + law.log_mass - k * math.log(2 * math.pi) + math.log(chance))
