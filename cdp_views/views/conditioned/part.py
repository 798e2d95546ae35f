"""One part of a table whose totals overlap: exact scales by rejection, or a Markov chain."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant
from cdp_views.invariants.orthonormal import Orthonormal
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import Rayleigh
from cdp_views.precision import chains, omega_overlapping, pivots
from cdp_views.precision.pool import fill
from cdp_views.views.conditioned import characteristic as law_of
from cdp_views.views.conditioned import tilted

SMALLEST = 1e-3  # mean acceptance below which a Markov chain is cheaper
_GOOD = 0.05  # of ω, above which pivots are not tried
_LARGEST = 2 * 10**7  # entries of a part's dense rows
SWEEPS = 60
_CHAINS, _TRIAL = 32, 1200
_SCALES = 2**14  # draws of the scales behind f(τ)/f(0)

Way = Literal["omega", "pivots", "gibbs"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["q", "log_f", "stderr", "roots"],
    meta_fields=["way", "chance", "numbers"],
)
@dataclass(frozen=True)
class Part:
    """Scales of standardised noise z = Λ⁻¹x given Qᵀz = ρ, for ΛAᵀ = Q T; leading axes are batches.

    `log_f` is the log-density of the totals' noise at 0, times √det AAᵀ, `stderr` its error and
    `chance` the acceptance. `roots` are inverse Cholesky factors of Qᵀ diag(s²) Q for scales drawn
    at ρ = 0 (none where no other ρ is asked for), and f(ρ)/f(0) = E exp(−½ ρᵀ(Qᵀ diag(s²) Q)⁻¹ρ).
    """

    q: Any
    log_f: Any
    stderr: Any
    roots: Any
    way: Way
    chance: float
    numbers: tuple[int, ...] = ()
    """Which of several laws each cell has; () for one law."""

    @staticmethod
    def of(geometry: Invariant, scales: np.ndarray, mixing: Mixing, moved: bool) -> "Part":
        """Of concrete scales (…, n); `moved` if totals other than the base's own are asked for."""
        rows = _dense_rows(geometry)
        lead = scales.shape[:-1]
        flat = [np.linalg.qr((rows * own).T) for own in scales.reshape(-1, geometry.n)]
        q = np.stack([q for q, _ in flat])
        k = q.shape[-1]
        way, found = _best(q, mixing)
        chance = min((one for one, _, _ in found), default=0.0)
        volume = 0.5 * np.linalg.slogdet(rows @ rows.T)[1]
        triangles = [np.sum(np.log(np.abs(np.diag(r)))) for _, r in flat]
        log_f = np.array([f for _, _, f in found]) - triangles + volume if found else np.nan
        stderr = np.array([error / one for one, error, _ in found]) if found else np.nan
        part = Part(
            q.reshape(*lead, geometry.n, k),
            np.reshape(np.broadcast_to(log_f, len(flat)), lead),
            np.reshape(np.broadcast_to(stderr, len(flat)), lead),
            None,
            way,
            chance,
            law_of.law_numbers(mixing, geometry.n),
        )
        if not moved or way == "gibbs":
            return part
        return replace(part, roots=part._drawn_roots(mixing))

    def rho(self, shift: Any, scale: Array) -> Array:
        """Qᵀz of any x with the totals of `shift`: (…, k)."""
        q = jnp.asarray(self.q, scale.dtype)
        return jnp.einsum("...nk,...n->...k", q, jnp.asarray(shift, scale.dtype) / scale)

    def log_ratio(self, rho: Array) -> tuple[Array, Array]:
        """log f(ρ)/f(0) and its standard error: (…)."""
        roots = jnp.asarray(self.roots, rho.dtype)
        length = jnp.sum(jnp.einsum("...mij,...j->...mi", roots, rho) ** 2, -1)
        least = jnp.min(length, -1, keepdims=True)
        w = jnp.exp((least - length) / 2)
        mean = jnp.mean(w, -1)
        error = jnp.std(w, -1) / mean / math.sqrt(_SCALES)
        return jnp.log(mean) - least[..., 0] / 2, error

    def at(self, rho: np.ndarray) -> tuple[Way, float]:
        """How to draw at these concrete ρ (…, k), and the acceptance there."""
        if self.way == "gibbs":
            return "gibbs", 0.0
        chance = self.chance * float(np.exp(np.min(self._exact_log_ratio(rho)[0], initial=0)))
        return ("gibbs", 0.0) if chance < SMALLEST else (self.way, chance)

    @in_float64
    def _exact_log_ratio(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, error = self.log_ratio(float64(rho))
        return np.asarray(value), np.asarray(error)

    def squares(
        self, key: Array, mixing: Mixing, rho: Array | None, shape: tuple[int, ...], dtype: Any
    ) -> Array:
        """Draws of s² for every cell: `shape` = (…, *lead, n) with the batch axes last."""
        q = jnp.asarray(self.q, dtype)
        lead = jnp.broadcast_shapes(q.shape[:-2], () if rho is None else rho.shape[:-1])
        lead = shape[len(shape) - 1 - len(lead) : -1]  # ones in it may stand for more
        each = math.prod(shape[: len(shape) - 1 - len(lead)])
        q = jnp.broadcast_to(q, (*lead, *q.shape[-2:])).reshape(-1, *q.shape[-2:])
        keys = jax.random.split(key, len(q))
        if rho is None:
            rows = jax.lax.map(lambda x: self._one(x[0], mixing, x[1], None, each), (keys, q))
        else:
            rho = jnp.broadcast_to(rho, (*lead, rho.shape[-1])).reshape(-1, rho.shape[-1])
            rows = jax.lax.map(lambda x: self._one(x[0], mixing, x[1], x[2], each), (keys, q, rho))
        return jnp.moveaxis(rows, 1, 0).reshape(shape)

    def _one(self, key: Array, mixing: Mixing, q: Array, rho: Array | None, count: int) -> Array:
        n = q.shape[0]
        if self.way == "gibbs":
            return _chains(key, mixing, q, rho, count, SWEEPS)[0]
        if rho is None and self.way == "omega":
            one, two = jax.random.split(key)
            a = fill(one, lambda k, wide: self._omega(k, mixing, q, wide), (count, n), self.chance)
            return tilted.draw_squares(two, mixing, a)

        def propose(key: Array, wide: int) -> tuple[Array, Array]:
            if self.way == "omega":
                one, two = jax.random.split(key)
                a, ratio = self._omega(one, mixing, q, wide)
                square = tilted.draw_squares(two, mixing, a)
            else:
                square, ratio = pivots.propose(key, q, wide, *_pivot_draws(mixing, q.dtype))
            if rho is None:
                return square, ratio
            root = jnp.linalg.cholesky(jnp.einsum("nk,wn,nl->wkl", q, square, q))
            half = solve_triangular(
                root, jnp.broadcast_to(rho, (wide, len(rho)))[..., None], lower=True
            )
            return square, ratio - 0.5 * jnp.sum(half[..., 0] ** 2, -1)

        least = self.chance if rho is None else min(self.chance, SMALLEST)
        return fill(key, propose, (count, n), self.chance, least=least)

    def _omega(self, key: Array, mixing: Mixing, q: Array, wide: int) -> tuple[Array, Array]:
        """Proposals of a = Qη (wide, n), and the log of their chance to be kept."""
        if isinstance(mixing, Rayleigh):
            return omega_overlapping.propose_laplace(key, q, wide)
        laws = _laws(mixing, self.numbers, lambda law: law_of.log_phi(law, q.dtype))
        return omega_overlapping.propose(key, q, wide, laws)

    @in_float64
    def _drawn_roots(self, mixing: Mixing) -> np.ndarray:
        """(…, 16384, k, k) at ρ = 0."""
        q = float64(self.q)

        def row(key: Array, q: Array) -> Array:
            square = self._one(key, mixing, q, None, _SCALES)
            root = jnp.linalg.cholesky(jnp.einsum("nk,mn,nl->mkl", q, square, q))
            eye = jnp.broadcast_to(jnp.eye(q.shape[-1], dtype=q.dtype), root.shape)
            return solve_triangular(root, eye, lower=True)

        flat = q.reshape(-1, *q.shape[-2:])
        keys = jax.random.split(jax.random.key(0), len(flat))
        roots = jax.jit(lambda keys, q: jax.lax.map(lambda x: row(*x), (keys, q)))(keys, flat)
        return np.asarray(roots).reshape(*q.shape[:-2], *roots.shape[1:])

    @in_float64
    def mixed(self, mixing: Mixing, rho: np.ndarray | None) -> tuple[float, float]:
        """Worst split R-hat, and effective draws per sweep, of 32 chains of 1200 sweeps."""
        found = []
        lead = self.q.shape[:-2] if rho is None else np.shape(rho)[:-1]
        wide = np.broadcast_to(self.q, (*lead, *self.q.shape[-2:]))
        for i in np.ndindex(lead):
            q, own = float64(wide[i]), None if rho is None else float64(rho[i])
            trace = _trace(jax.random.key(0), mixing, q, own)
            found.append(chains.mixed(trace[SWEEPS:]))
        worst = min(ess for _, ess in found) / (_CHAINS * _TRIAL)
        return max(r for r, _ in found), worst


def _best(q: np.ndarray, mixing: Mixing) -> tuple[Way, list[tuple[float, float, float]]]:
    """One way for all rows: for each acceptance, its error, and log f of Qᵀz at 0 (without T)."""
    by_omega = [_by_omega(row, mixing) for row in q]
    least = min(found[0] for found in by_omega)
    if least >= _GOOD:
        return "omega", by_omega
    by_pivots = [_by_pivots(row, mixing) for row in q]
    if min(found[0] for found in by_pivots) > least:
        by_omega, least, way = by_pivots, min(found[0] for found in by_pivots), "pivots"
    else:
        way = "omega"
    return (way, by_omega) if least >= SMALLEST else ("gibbs", [])


def _by_omega(q: np.ndarray, mixing: Mixing) -> tuple[float, float, float]:
    k, h = q.shape[1], float(np.max(np.sum(q * q, 1)))
    laws = _laws(mixing, law_of.law_numbers(mixing, len(q)), law_of.host_log_phi)
    if isinstance(mixing, Rayleigh):
        law = omega_overlapping.laplace_chord(h, k)
    else:
        law = omega_overlapping.chord(h, k, laws)
    if law is None:
        return 0.0, 0.0, 0.0
    chance, error = omega_overlapping.acceptance(q, law, laws)
    log_f = omega_overlapping.log_density_at_zero(k, law, chance) if chance > 0 else 0.0
    return chance, error, log_f


def _laws(mixing: Mixing, numbers: tuple[int, ...], log_phi: Any) -> omega_overlapping.Laws:
    each = tuple(log_phi(law) for law in law_of.distinct(mixing, numbers))
    return omega_overlapping.Laws(each, np.array(numbers, int))


def _by_pivots(q: np.ndarray, mixing: Mixing) -> tuple[float, float, float]:
    if not law_of.one_law(mixing):  # pivot cells are chosen as if all were alike
        return 0.0, 0.0, 0.0
    inverse, k = law_of.inverse_moment(mixing), q.shape[1]
    if not np.isfinite(inverse) or k > 16:  # hopeless: π^{−8} is 1e-4
        return 0.0, 0.0, 0.0
    chance, error = pivots.acceptance(q, *_pivot_draws(mixing, np.float64))
    return chance, error, pivots.log_density_at_zero(k, inverse, chance) if chance > 0 else 0.0


def _pivot_draws(mixing: Mixing, dtype: Any) -> tuple[pivots.Draw, pivots.Draw]:
    def plain(key: Array, shape: tuple[int, ...]) -> Array:
        return mixing.sample(key, shape, dtype) ** 2

    def pivot(key: Array, shape: tuple[int, ...]) -> Array:
        return tilted.draw_squares_given(key, mixing, jnp.zeros(shape, dtype))

    return plain, pivot


def _chains(
    key: Array,
    mixing: Mixing,
    q: Array,
    rho: Array | None,
    count: int,
    sweeps: int,
    *,
    apart: bool = False,
) -> tuple[Array, Array]:
    if rho is None:
        draw = partial(_swapped, tilted.draw_squares, mixing)
        return chains.by_omega(key, q, count, sweeps, draw)
    draw = partial(_swapped, tilted.draw_squares_given, mixing)
    return chains.by_noise(key, q, rho, count, sweeps, draw, apart=apart)


def _swapped(draw: Any, mixing: Mixing, key: Array, a: Array) -> Array:
    return draw(key, mixing, a)


@jax.jit
def _trace(key: Array, mixing: Mixing, q: Array, rho: Array | None) -> Array:
    return _chains(key, mixing, q, rho, _CHAINS, SWEEPS + _TRIAL, apart=True)[1]


def _dense_rows(geometry: Any) -> np.ndarray:
    """Independent rows (rank, n) with the same kernel."""
    if isinstance(geometry, Orthonormal):
        return np.asarray(geometry.table, np.float64)
    if geometry.n * geometry.rank > _LARGEST:
        raise _checks.UnsupportedError(
            f"Conditioned noise on {geometry.rank} overlapping totals of {geometry.n} cells needs "
            "their dense rows. Use dist.Normal, or cdp.Imaged."
        )
    return np.asarray(Orthonormal.of(geometry.matrix.toarray()).table, np.float64)
