"""Conditioned Laplace noise where totals overlap: exact independent draws by way of ω."""

import math
import warnings
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views._pairs import exponential_and_normal
from cdp_views._segments import once
from cdp_views.invariants import Invariant, Linear, Totals
from cdp_views.invariants.blocks import Blocks
from cdp_views.invariants.orthonormal import Orthonormal
from cdp_views.loss import BoundedLoss
from cdp_views.precision import omega_overlapping
from cdp_views.views._mixture import NoiseView, host_scale, scale_like, squared_unit_scales
from cdp_views.views.conditioned.laplace import ConditionedLaplace, _c, draw_omega

_SMALLEST = 1e-3  # mean acceptance below which a Markov chain is cheaper
_LARGEST = 2 * 10**7  # entries of a part's dense rows
_SWEEPS = 60
_CHAINS, _TRIAL = 32, 400


class Part(NamedTuple):
    """One part of the table whose totals overlap: Q (n, k) of ΛAᵀ = QT, by its acceptance."""

    q: np.ndarray
    chance: float  # mean acceptance, 0 where a Markov chain is used
    log_f: float  # of the totals' noise at 0, times √det AAᵀ
    stderr: float  # of log_f


@final
class ConditionedOverlapping(NoiseView):
    """Π Laplace(loc_i, λ_i) given A y = A loc for any A; build it with `cdp.Conditioned`.

    Given ω (k numbers per part) cells are independent: σ_i² = 2λ_i² e_i/(1 + a_i²), a = ΛAᵀω, and
    the rest is the Gaussian on ker A. ω is drawn by exact rejection; where that is hopeless, by a
    Gibbs sampler (`sampler` says "MCMC"; `r_hat` and `ess_per_sweep` whether it mixes). ‖X/λ‖₁ is
    Gamma(d, 1). `log_prob` rests on an estimated constant with standard error
    `log_normalizer_stderr`.
    """

    kind = "conditioned"
    noise_name = "laplace"
    pytree_data_fields = ("q", "log_normalizer", "log_normalizer_stderr")
    pytree_aux_fields = ("chances", "r_hat", "ess_per_sweep")

    def __init__(
        self,
        invariant: Invariant,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        *,
        shift: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if shift is not None:
            raise _checks.UnsupportedError(
                "`total` with Laplace noise needs totals that do not overlap. Leave it out (the "
                "base's own totals), use dist.Normal, or cdp.Imaged."
            )
        if not _checks.is_concrete(invariant, scale):
            raise _checks.UnsupportedError(
                "`scale` is traced: where totals overlap, the normaliser is estimated from "
                "concrete scales. Build the view outside jit; loc may be traced."
            )
        scales = np.broadcast_to(scale, (*np.shape(scale)[:-1], invariant.n))
        made = [_prepared(invariant, row) for row in scales.reshape(-1, invariant.n)]
        rows = [
            _normalizer(invariant, row, own) for row, own in zip(_flat(scales), made, strict=True)
        ]
        lead = scales.shape[:-1]
        self.log_normalizer = np.reshape([value for value, _ in rows], lead)
        self.log_normalizer_stderr = np.reshape([error for _, error in rows], lead)
        self.q = tuple(
            np.reshape([own[i].q for own in made], (*lead, *made[0][i].q.shape))
            for i in range(len(made[0]))
        )
        # one way of drawing for all rows of a batch
        self.chances = tuple(min(own[i].chance for own in made) for i in range(len(made[0])))
        self.r_hat, self.ess_per_sweep = 1.0, 1.0
        super().__init__(invariant, loc, scale, batch_shape, validate_args=validate_args)
        if self.sampler != "exact":
            self._see_whether_mixed()

    @property
    def sampler(self) -> str:
        """How draws are made: "exact", or "MCMC (Gibbs)", each the end of its own 60 sweeps."""
        return "exact" if all(self.chances) else "MCMC (Gibbs)"

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        one, two = jax.random.split(key)
        shape = self.shape(sample_shape)
        e, u = once(exponential_and_normal(two, shape))
        lam = scale_like(self, e.dtype)  # pyright: ignore[reportArgumentType]
        a = self._cells_omega(one, shape, lam)
        return self.invariant.restrict((1 + a * a) / (lam**2 * squared_unit_scales(e))).colour(u)

    def _cells_omega(self, key: Array, shape: tuple[int, ...], lam: Array) -> Array:
        """λ_i (Aᵀω)_i of every cell: (*shape)."""
        whole: list[Array] = []
        overlapping = iter(zip(self.q, self.chances, strict=True))
        for number, (geometry, cells) in enumerate(_parts(self.invariant)):
            key_of = jax.random.fold_in(key, number)
            wide = (*shape[:-1], geometry.n)
            if isinstance(geometry, Totals):
                own = lam if cells is None or lam.shape[-1] == 1 else lam[..., cells]
                whole.append(draw_omega(key_of, _c(geometry, own), geometry.segments, wide))
            else:
                q, chance = next(overlapping)
                whole.append(_drawn(key_of, jnp.asarray(q, lam.dtype), chance, wide))
        blocks = _geometry(self.invariant)
        return blocks.join(whole) if isinstance(blocks, Blocks) else whole[0]

    def _log_density(self, noise: Array) -> Array:
        if self.sampler != "exact":
            raise self._refuse(
                "log_prob", "Use dist.Normal, or cdp.Restricted (the base's own density)."
            )
        scale = scale_like(self, noise.dtype)  # pyright: ignore[reportArgumentType]
        return jnp.sum(-jnp.abs(noise) / scale, -1) - jnp.asarray(self.log_normalizer, noise.dtype)

    @property
    def variance(self) -> Array:
        """Not in closed form where totals overlap."""
        raise self._refuse("variance", "Estimate it from sample_noise draws.")

    def covariance_product(self, x: Any) -> Array:
        """Not in closed form where totals overlap."""
        raise self._refuse("covariance_product", "Estimate it from sample_noise draws.")

    def entropy(self) -> Array:
        """Differential entropy, in nats: d + log normaliser, with that one's standard error."""
        if self.sampler != "exact":
            raise self._refuse("entropy", "Use dist.Normal.")
        value = self.invariant.dim + jnp.asarray(self.log_normalizer)
        return jnp.broadcast_to(value, self.batch_shape)

    def loss(self, differences: sparse.csr_array, query: Any = None) -> BoundedLoss:
        """The largest loss Σ|v_i|/λ_i of every difference v: pure ε, exact."""
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        return BoundedLoss(abs(differences) @ (1 / host_scale(self, "loss")))

    @in_float64
    def loss_draws(self, key: Array, differences: sparse.csr_array, draws: int) -> np.ndarray:
        """Draws of the privacy loss of every difference, (m, draws): no normaliser is needed."""
        scale = host_scale(self, "loss_draws")
        x = np.asarray(jax.jit(lambda key: self.sample_noise(key, (draws,)))(key)) / scale
        here = np.sum(np.abs(x), -1)
        moved = np.asarray(differences.toarray()) / scale
        return np.stack([np.sum(np.abs(x + v), -1) - here for v in moved])

    def deviation(self, workload: Any = None) -> Any:
        """Not exact: evaluators estimate it from draws when given `key=`."""
        raise self._refuse("deviation", "Pass key= to the evaluator for an estimate from draws.")

    @in_float64
    def _see_whether_mixed(self) -> None:
        """Worst split R-hat, and effective draws per sweep, of 32 chains of 400 sweeps."""
        found = []
        for part, chance in zip(self.q, self.chances, strict=True):
            for q in () if chance else part.reshape(-1, *part.shape[-2:]):
                trace = _trace(jax.random.key(0), float64(q))
                found.append(omega_overlapping.mixed(trace[_SWEEPS:]))
        self.r_hat = max(r for r, _ in found)
        self.ess_per_sweep = min(ess for _, ess in found) / (_CHAINS * _TRIAL)
        if self.r_hat > 1.01 or self.ess_per_sweep < 0.1:
            warnings.warn(
                f"The Gibbs sampler of cdp.Conditioned has not mixed: R-hat {self.r_hat:.3f}, "
                f"{self.ess_per_sweep:.3f} effective draws per sweep. Use fewer totals, "
                "dist.Normal, or cdp.Imaged.",
                stacklevel=5,
            )


@jax.jit
def _trace(key: Array, q: Array) -> Array:
    return omega_overlapping.gibbs(key, q, _CHAINS, _SWEEPS + _TRIAL)[1]


def _geometry(invariant: Invariant) -> Any:
    return invariant.geometry if isinstance(invariant, Linear) else invariant


def _parts(invariant: Invariant) -> list[tuple[Invariant, Array | None]]:
    geometry = _geometry(invariant)
    if isinstance(geometry, Blocks):
        return list(zip(geometry.parts, geometry.cells, strict=True))
    return [(geometry, None)]


def _prepared(invariant: Invariant, scale: np.ndarray) -> list[Part]:
    """The parts whose totals overlap, for one row of scales."""
    return [
        _part(_dense_rows(geometry), scale if cells is None else scale[np.asarray(cells)])
        for geometry, cells in _parts(invariant)
        if not isinstance(geometry, Totals)
    ]


def _part(rows: np.ndarray, scale: np.ndarray) -> Part:
    q, triangle = np.linalg.qr((rows * scale).T)
    k = q.shape[1]
    if np.max(np.sum(q * q, 1)) >= 2 / k * (1 - 1e-6):
        return Part(q, 0.0, np.nan, np.nan)
    chance, error = omega_overlapping.acceptance(q)
    if chance < _SMALLEST:
        return Part(q, 0.0, np.nan, np.nan)
    log_f = omega_overlapping.log_density_at_zero(q, triangle, chance)
    return Part(q, chance, log_f + 0.5 * np.linalg.slogdet(rows @ rows.T)[1], error / chance)


def _dense_rows(geometry: Any) -> np.ndarray:
    """Independent rows (rank, n) with the same kernel."""
    if isinstance(geometry, Orthonormal):
        return np.asarray(geometry.table, np.float64)
    if geometry.n * geometry.rank > _LARGEST:
        raise _checks.UnsupportedError(
            f"Laplace noise on {geometry.rank} overlapping totals of {geometry.n} cells needs "
            "their dense rows. Use dist.Normal, or cdp.Imaged."
        )
    return np.asarray(Orthonormal.of(geometry.matrix.toarray()).table, np.float64)


def _normalizer(
    invariant: Invariant, scale: np.ndarray, overlapping: list[Part]
) -> tuple[float, float]:
    """log ∫ exp(−Σ|x_i|/λ_i) over ker A, and its standard error."""
    value, variance, rest = 0.0, 0.0, iter(overlapping)
    for geometry, cells in _parts(invariant):
        own = scale if cells is None else scale[np.asarray(cells)]
        if isinstance(geometry, Totals):
            value += float(
                ConditionedLaplace(geometry, np.zeros(geometry.n), own, ()).log_normalizer
            )
        else:
            part = next(rest)
            value += float(np.sum(np.log(2 * own))) + part.log_f
            variance += part.stderr**2
    return value, math.sqrt(variance)


def _flat(scales: np.ndarray) -> np.ndarray:
    return scales.reshape(-1, scales.shape[-1])


def _drawn(key: Array, q: Array, chance: float, shape: tuple[int, ...]) -> Array:
    """a = Qη for every draw: (*shape, n) with Q (…, n, k) of a batch."""
    lead = q.shape[:-2]
    each = math.prod(shape[: len(shape) - 1 - len(lead)])

    def one(key: Array, q: Array) -> Array:
        if chance == 0:
            return omega_overlapping.gibbs(key, q, each, _SWEEPS)[0]
        h = jnp.max(jnp.sum(q * q, -1))
        return omega_overlapping.accepted(key, q, h, each, chance)

    if not lead:
        return one(key, q).reshape(shape)
    flat = q.reshape(-1, *q.shape[-2:])
    rows = jax.lax.map(lambda pair: one(*pair), (jax.random.split(key, len(flat)), flat))
    return jnp.moveaxis(rows, 1, 0).reshape(shape)
