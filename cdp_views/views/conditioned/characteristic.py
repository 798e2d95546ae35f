"""What conditioning needs of each mixing law: its density, its characteristic function.

φ(t) = E e^{−t²s²/2} is the characteristic function of s·Z, and given ω a cell's scale has the law
∝ h(s) e^{−a²s²/2}, a = cω (`tilted`). With u = log s that law is log-concave if the law of log s
is, and so is that of log ω (a convolution and a product of log-concave functions; Prékopa 1973).
"""

import math
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from jax.scipy.special import logsumexp
from numpyro.distributions import constraints
from scipy import special

from cdp_views import _checks
from cdp_views._float64 import in_float64
from cdp_views.noise import Mixing
from cdp_views.noise._quadrature import window
from cdp_views.noise.mixing import InverseChi, Rayleigh
from cdp_views.noise.numerical import DoubledKolmogorov, Given
from cdp_views.precision import characteristic_of_shift as shifted
from cdp_views.precision.bessel import log_power_bessel

_NODES = 385
_TABLE = (-12.0, 30.0, 2101)
_HUGE = 1e30


# densities and moment generating functions


@singledispatch
def log_base(mixing: Mixing, z: Array) -> Array:
    """The log-density of s·Z."""
    return mixing.log_elliptical(z * z, 1)


@log_base.register
def _(_mixing: Rayleigh, z: Array) -> Array:
    return -jnp.abs(z) - math.log(2)


@log_base.register
def _(_mixing: DoubledKolmogorov, z: Array) -> Array:
    return -jnp.abs(z) - 2 * jnp.log1p(jnp.exp(-jnp.abs(z)))


@singledispatch
def log_mgf_of(_mixing: Mixing) -> Callable[[Array], Array] | None:
    """log E e^{x s·Z} for complex x with its first pole at 1, where there is one."""
    return None


@log_mgf_of.register
def _(_mixing: Rayleigh) -> Callable[[Array], Array]:
    return shifted.laplace


@log_mgf_of.register
def _(_mixing: DoubledKolmogorov) -> Callable[[Array], Array]:
    return shifted.logistic


def mean_log_base(mixing: Mixing) -> Callable[[np.ndarray], np.ndarray] | None:
    """x ↦ E[log p(s·Z) e^{x s·Z}]/E e^{x s·Z} on the host, where there is a formula.

    For a density ∝ w^a it is the slope in a of log ∫ w^a e^{xz} dz. x is complex, and imaginary for
    Student-t, where that integral is a Bessel function of the order a − ½.
    """
    if isinstance(mixing, Rayleigh):
        return lambda x: -math.log(2) - (1 + x * x) / (1 - x * x)
    if isinstance(mixing, DoubledKolmogorov):
        return lambda x: special.digamma(1 + x) + special.digamma(1 - x) - 2 * special.digamma(2)
    if isinstance(mixing, InverseChi) and np.size(mixing.df) == 1:
        return partial(_mean_log_student, float(np.asarray(mixing.df).reshape(())))
    return None


def _mean_log_student(df: float, x: np.ndarray) -> np.ndarray:
    a, y = (df + 1) / 2, math.sqrt(df) * np.abs(np.imag(x))
    step, safe = 1e-3, np.maximum(y, 1e-5)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        log_k = [np.log(special.kve(a - 0.5 + i * step, safe)) for i in (-2, -1, 1, 2)]
        turn = (8 * (log_k[2] - log_k[1]) - (log_k[3] - log_k[0])) / (12 * step)
        value = special.digamma(a) - np.log(safe / 2) - turn  # E log(1 + z²/df) e^{itz}/φ(t)
    at_zero = special.digamma(a) - special.digamma(a - 0.5)
    value = np.where((y > 1e-5) & np.isfinite(value), value, at_zero)
    peak = special.gammaln(a) - special.gammaln(df / 2) - 0.5 * math.log(math.pi * df)
    return peak - a * value


# characteristic functions


@singledispatch
def log_characteristic(mixing: Mixing, t: Array) -> Array:
    """log φ(t), t ≥ 0, elementwise."""
    return _by_quadrature(mixing, t)


@log_characteristic.register
def _(_mixing: Rayleigh, t: Array) -> Array:
    return -jnp.log1p(t * t)


@log_characteristic.register
def _(_mixing: DoubledKolmogorov, t: Array) -> Array:
    y = math.pi * t
    small = y < 0.1
    square = jnp.where(small, y, 0) ** 2
    series = square * (-1 / 6 + square * (1 / 180 - square * (1 / 2835 - square / 37800)))
    far = jnp.where(small, 1, y)
    direct = jnp.log(2 * far) - far - jnp.log1p(-jnp.exp(-2 * far))
    return jnp.where(small, series, direct)


@log_characteristic.register
def _(mixing: InverseChi, t: Array) -> Array:
    """x^ν K_ν(x)/(2^{ν−1} Γ(ν)) at x = √df t, ν = df/2, where df is a whole number."""
    if not _whole(mixing.df):
        return _by_quadrature(mixing, t)
    df = jnp.asarray(mixing.df, t.dtype)
    half = df / 2
    return log_power_bessel(half, jnp.sqrt(df) * t) - log_power_bessel(half, jnp.zeros_like(t))


def _whole(df: Any) -> bool:
    return _checks.is_concrete(df) and bool(np.all(np.asarray(df) == np.round(np.asarray(df))))


def _by_quadrature(mixing: Mixing, t: Array) -> Array:
    u, g = log_scale_line(mixing, t.dtype)
    whole = logsumexp(g)

    def at(t: Array) -> Array:
        return logsumexp(g - 0.5 * (t[..., None] * jnp.exp(u)) ** 2, -1) - whole

    return at(t)


def log_scale_line(mixing: Mixing, dtype: Any) -> tuple[Array, Array]:
    """u = log s (J,) and its log-density there, down to 84 nats below the peak."""
    density = log_density_of_log(mixing)
    ends = window(lambda u: density(u) / 2, (), dtype)
    u = jnp.linspace(ends[0], ends[-1], _NODES, dtype=dtype)
    g = density(u)
    return u, jnp.where(jnp.isnan(g), -jnp.inf, g)


def log_density_of_log(mixing: Mixing) -> Callable[[Array], Array]:
    """u ↦ log h(e^u) + u, elementwise."""
    if isinstance(mixing, InverseChi):
        df = jnp.asarray(mixing.df)

        def student(u: Array) -> Array:
            own = (
                df.astype(u.dtype) if u.ndim and df.shape[-1] == u.shape[-1] else df.reshape(-1)[0]
            )
            return InverseChi(own).log_density(jnp.exp(u)) + u

        return student
    return lambda u: mixing.log_density(jnp.exp(u)) + u


class Table(NamedTuple):
    """log φ and its slope on a grid of log t, for cubic interpolation (to about 1e-9)."""

    value: Array
    slope: Array

    @staticmethod
    def of(mixing: Mixing, dtype: Any) -> "Table":
        """One table for all cells."""
        low, high, count = _TABLE
        v = jnp.linspace(low, high, count, dtype=dtype)
        value, slope = jax.jvp(lambda v: log_characteristic(mixing, jnp.exp(v)), (v,), (v * 0 + 1,))
        # far out in float32 both overflow, where e^value is 0 anyway
        value = jnp.maximum(jnp.nan_to_num(value, nan=-_HUGE), -_HUGE)
        slope = jnp.maximum(jnp.nan_to_num(slope, nan=0.0, neginf=-_HUGE), -_HUGE)
        return Table(value, slope)

    def __call__(self, v: Array) -> Array:
        """log φ(e^v)."""
        low, high, count = _TABLE
        h = (high - low) / (count - 1)
        place = jnp.clip((v - low) / h, 0, count - 1)
        k = jnp.minimum(place.astype(jnp.int32), count - 2)
        s = place - k
        y0, y1, d0, d1 = self.value[k], self.value[k + 1], self.slope[k] * h, self.slope[k + 1] * h
        cubic = y0 + s * (d0 + s * (3 * (y1 - y0) - 2 * d0 - d1 + s * (2 * (y0 - y1) + d0 + d1)))
        return cubic + (jnp.maximum(v, high) - high) * self.slope[-1]


def log_phi(mixing: Mixing, dtype: Any) -> Callable[[Array], Array]:
    """t ↦ log φ(t), t ≥ 0, where many are asked for: from a table if it is not cheap."""
    if log_mgf_of(mixing) is not None:
        return partial(log_characteristic, mixing)
    table = Table.of(mixing, dtype)
    return lambda t: table(jnp.log(t))


@in_float64
def host_log_phi(mixing: Mixing) -> Callable[[np.ndarray], np.ndarray]:
    """The same on the host, in float64."""
    if isinstance(mixing, Rayleigh):
        return lambda t: -np.log1p(np.square(t))
    value, slope = (np.asarray(part) for part in _compiled_table(mixing))
    low, high, count = _TABLE
    spline = scipy.interpolate.CubicHermiteSpline(np.linspace(low, high, count), value, slope)

    def at(t: np.ndarray) -> np.ndarray:
        v = np.log(np.maximum(t, 1e-300))
        return spline(np.clip(v, low, high)) + np.maximum(v - high, 0) * slope[-1]

    return at


_compiled_table = jax.jit(lambda mixing: Table.of(mixing, jnp.result_type(float)))


# what the draws of scales need


@in_float64
def inverse_moment(mixing: Mixing) -> float:
    """E 1/s, on the host."""
    u, g = log_scale_line(mixing, np.float64)
    return float(jnp.exp(logsumexp(g - u) - logsumexp(g)))


def slope(function: Callable[[Array], Array], u: Array) -> Array:
    """The derivative, elementwise."""
    return jax.jvp(function, (u,), (jnp.ones_like(u),))[1]


# which laws can be drawn, and how far

WAY_OUT = (
    "Exact draws need a `mixing` on (0, ∞) whose logarithm has a log-concave density (Gamma, "
    "LogNormal, Weibull, HalfCauchy, InverseGamma have). Its log_prob is exact: draw with NUTS."
)


def one_law(mixing: Mixing) -> bool:
    """Whether all cells have the same mixing law, seen from shapes."""
    return all(np.ndim(leaf) == 0 or np.shape(leaf) == (1,) for leaf in jax.tree.leaves(mixing))


def law_numbers(mixing: Mixing, n: int) -> tuple[int, ...]:
    """Which of the distinct laws each of n cells has; () where there is one. For concrete laws."""
    if one_law(mixing):
        return ()
    assert isinstance(mixing, InverseChi)
    df = np.broadcast_to(np.asarray(mixing.df), (n,))
    return tuple(np.unique(df, return_inverse=True)[1].tolist())


def distinct(mixing: Mixing, numbers: tuple[int, ...]) -> list[Mixing]:
    """The distinct laws, in the order of their numbers."""
    if not numbers:
        return [mixing]
    first = [numbers.index(number) for number in range(max(numbers) + 1)]
    return [of_cells(mixing, np.array([cell])) for cell in first]


def of_cells(mixing: Mixing, cells: Any) -> Mixing:
    """The laws of some of the cells (None: all)."""
    if cells is None or one_law(mixing):
        return mixing
    cells = np.asarray(cells) if _checks.is_concrete(cells) else cells
    return jax.tree.map(lambda leaf: leaf[..., cells], mixing)


def require_known(mixing: Mixing) -> None:
    """Raise where no characteristic function of these laws is at hand."""
    if one_law(mixing) or (isinstance(mixing, InverseChi) and _whole(mixing.df)):
        return
    raise _checks.UnsupportedError(
        f"cdp.Conditioned of {mixing.family} noise needs one mixing law for all cells (or, for "
        "Student-t, whole numbers df). Put sizes into `scale`."
    )


def has_variance(mixing: Mixing) -> Any:
    """Whether a cell given its total has a variance: a density's tail is squared by it."""
    return jnp.asarray(mixing.df) > 0.5 if isinstance(mixing, InverseChi) else jnp.asarray(True)


@in_float64
def drawable(mixing: Mixing) -> bool:
    """Whether log s has a log-concave density on the whole line, seen on a fine grid."""
    if not isinstance(mixing, Given):
        return True
    if mixing.law.support not in (constraints.positive, constraints.nonnegative):
        return False
    u, g = log_scale_line(mixing, np.float64)
    g1 = np.asarray(slope(log_density_of_log(mixing), u))
    g1 = g1[np.isfinite(np.asarray(g)) & np.isfinite(g1)]
    return bool(np.all(np.diff(g1) <= 1e-8 * (1 + np.abs(g1[1:]))))
