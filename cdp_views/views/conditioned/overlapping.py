"""Conditioned noise with random scales where totals overlap: independent draws where possible."""

import warnings
from dataclasses import replace
from functools import lru_cache
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cdp_views import _checks
from cdp_views._float64 import float64, in_float64
from cdp_views._segments import once
from cdp_views.invariants import Invariant, Totals
from cdp_views.invariants.blocks import Blocks
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import InverseChi, Rayleigh
from cdp_views.precision import chains
from cdp_views.views._estimate import Estimate
from cdp_views.views.conditioned import characteristic as law_of
from cdp_views.views.conditioned.laplace import ConditionedLaplace
from cdp_views.views.conditioned.mixture import ConditionedMixture
from cdp_views.views.conditioned.part import Part
from cdp_views.views.conditioned.scales import ConditionedScales

_DRAWS = 4096
_KEPT = 10**6  # entries of the rows of a part that is kept for the next call: 8 MB


@final
class ConditionedOverlapping(ConditionedScales):
    """Π p(x_i) given A y = total for any A, cells loc_i + λ_i s_i Z_i; build it with `Conditioned`.

    Scales have the law ∝ Π h(s_i) N(τ; 0, A D² Aᵀ), D = diag(λs), and given them noise is the
    Gaussian given A x = τ. Scales are drawn by exact rejection, by way of ω or of pivot cells,
    whichever accepts more (`chances`); where both are hopeless, by a Gibbs sampler (`sampler` says
    "MCMC"; `r_hat` and `ess_per_sweep` whether it mixes). `log_prob` rests on an estimated
    constant with standard error `log_normalizer_stderr`. Laplace: ‖X/λ‖₁ is Gamma(d, 1) for τ = 0.
    """

    pytree_data_fields = ("parts",)
    pytree_aux_fields = ("r_hat", "ess_per_sweep")

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
        _require_concrete(invariant, scale, mixing)
        if shift is not None:
            batch_shape = jnp.broadcast_shapes(batch_shape, jnp.shape(shift)[:-1])
        self.parts: tuple[Any, ...] = tuple(
            _made(
                geometry,
                _cells(scale, cells),
                law_of.of_cells(mixing, cells),
                _cells(shift, cells),
                batch_shape,
            )
            for geometry, cells in _geometries(invariant)
        )
        self.r_hat, self.ess_per_sweep = 1.0, 1.0
        super().__init__(
            invariant, loc, scale, batch_shape, mixing, shift=shift, validate_args=validate_args
        )
        if self.sampler != "exact":
            self._see_whether_mixed()

    @property
    def sampler(self) -> str:
        """How draws are made: "exact", or "MCMC (Gibbs)", each the end of its own 60 sweeps."""
        return "exact" if all(self.chances) else "MCMC (Gibbs)"

    @property
    def chances(self) -> tuple[float, ...]:
        """The acceptance of every part whose totals overlap; 0 for a Markov chain."""
        return tuple(part.chance for part in self.parts if isinstance(part, Part))

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        whole: list[Array] = []
        for number, (own, mixing, scale, shift, geometry) in enumerate(self._each()):
            key_of = jax.random.fold_in(key, number)
            if isinstance(own, Part):
                shape = (*self.shape(sample_shape)[:-1], geometry.n)
                whole.append(_drawn(key_of, own, mixing, geometry, scale, shift, shape))
            else:
                whole.append(own.sample_noise(key_of, sample_shape))
        blocks = self.invariant.core
        return blocks.join(whole) if isinstance(blocks, Blocks) else whole[0]

    def _each(self) -> list[tuple[Any, Mixing, Any, Any, Any]]:
        """Every part with its mixing law, scale, shift and geometry."""
        return [
            (
                own,
                law_of.of_cells(self.mixing, cells),
                _cells(self.scale, cells),
                _cells(self.shift, cells),
                geometry,
            )
            for own, (geometry, cells) in zip(self.parts, _geometries(self.invariant), strict=True)
        ]

    def _log_density(self, noise: Array) -> Array:
        self._require_exact("log_prob", "Use dist.Normal, or cdp.Restricted (unnormalised).")
        return jnp.sum(self._base(noise), -1) - self._log_f(noise.dtype)[0]

    def _log_f(self, dtype: Any) -> tuple[Array, Array]:
        """log of the density of all totals' noise at τ, times √det AAᵀ, and its standard error."""
        value, variance = jnp.zeros((), dtype), jnp.zeros((), dtype)
        for own, mixing, scale, shift, geometry in self._each():
            if not isinstance(own, Part):
                zero = jnp.zeros(geometry.n, dtype)
                x = zero if shift is None else jnp.asarray(shift, dtype)
                value = value + _log_cells(mixing, x, scale) - own._log_density(zero)
                continue
            value, variance = value + own.log_f, variance + jnp.asarray(own.stderr, dtype) ** 2
            if shift is not None:
                more, error = own.log_ratio(own.rho(shift, jnp.asarray(scale, dtype)))
                value, variance = value + more, variance + error**2
        return value, jnp.sqrt(variance)

    @property
    def log_normalizer(self) -> np.ndarray:
        """log ∫ Π p_i(x_i)/p_i(0) over the support, on the host: (…)."""
        return self._host_log_f()[0] - self._host_peak()

    @property
    def log_normalizer_stderr(self) -> np.ndarray:
        """The standard error of `log_normalizer`, and of `log_prob`: (…)."""
        return self._host_log_f()[1]

    @property
    def _density_error(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.log_normalizer_stderr

    @in_float64
    def _host_log_f(self) -> tuple[np.ndarray, np.ndarray]:
        value, error = self._log_f(np.float64)
        return np.asarray(value), np.asarray(error)

    @in_float64
    def _host_peak(self) -> np.ndarray:
        zero = float64(np.zeros(self.invariant.n))
        return np.asarray(_log_cells(self.mixing, zero, self.scale))

    @property
    def mean(self) -> Array:
        if self.shift is not None:
            raise self._refuse("mean", "Use moments_estimate(key).")
        return super().mean

    @property
    def variance(self) -> Array:
        """Not in closed form where totals overlap."""
        raise self._refuse("variance", "Use moments_estimate(key), with its standard error.")

    def covariance_product(self, x: Any) -> Array:
        """Not in closed form where totals overlap."""
        raise self._refuse("covariance_product", "Estimate it from sample_noise draws.")

    @in_float64
    def moments_estimate(self, key: Array, *, draws: int = _DRAWS) -> tuple[Estimate, Estimate]:
        """The mean and the variance of every cell, (…, n) each, with standard errors.

        Args:
            key: a JAX key: passing one is the request for an estimate.
            draws: of the table.

        Example:
            >>> import cdp_views as cdp, jax, numpyro.distributions as dist
            >>> inv = cdp.linear([[1, 1, 1, 0], [0, 1, 1, 1]])
            >>> view = cdp.Conditioned(dist.Laplace(0.0, 1.0), inv)
            >>> mean, variance = view.moments_estimate(jax.random.key(0))
            >>> variance.value.shape, bool(max(variance.standard_error) < 0.05)
            ((4,), True)
        """
        x = np.asarray(jax.jit(lambda key: self.sample_noise(key, (draws,)))(key))
        middle = x.mean(0)
        square = (x - middle) ** 2
        root = np.sqrt(draws)
        mean = Estimate(np.asarray(self.centre) + middle, x.std(0, ddof=1) / root)
        variance = Estimate(square.sum(0) / (draws - 1), square.std(0, ddof=1) / root)
        return mean, variance

    def entropy(self) -> Array:
        """Laplace: differential entropy on the subspace, in nats: d + log normaliser (…).

        Its standard error is `log_normalizer_stderr`.
        """
        self._require_exact("entropy", "Use dist.Normal.")
        if self.shift is not None or not isinstance(self.mixing, Rayleigh):
            raise self._refuse("entropy", "Use entropy_estimate(key), with its standard error.")
        value = self.invariant.dim + jnp.asarray(self.log_normalizer)
        return jnp.broadcast_to(value, self.batch_shape)

    def _require_exact(self, what: str, way_out: str) -> None:
        if self.sampler != "exact":
            raise self._refuse(what, f"Draws are MCMC and leave the normaliser unknown. {way_out}")

    def _see_whether_mixed(self) -> None:
        """Worst split R-hat, and effective draws per sweep, of 32 chains of 1200 sweeps."""
        found = []
        for own, mixing, scale, shift, _ in self._each():
            if isinstance(own, Part) and own.way == "gibbs":
                rho = None if shift is None else _host_rho(own, shift, scale)
                found.append(own.mixed(mixing, rho))
        self.r_hat = max(r for r, _ in found)
        self.ess_per_sweep = min(ess for _, ess in found)
        if self.r_hat > 1.01 or self.ess_per_sweep < 0.1:
            warnings.warn(
                f"The Gibbs sampler of cdp.Conditioned has not mixed: R-hat {self.r_hat:.3f}, "
                f"{self.ess_per_sweep:.3f} effective draws per sweep. Use fewer totals, "
                "dist.Normal, or cdp.Imaged.",
                stacklevel=4,
            )


def _drawn(
    key: Array,
    part: Part,
    mixing: Mixing,
    geometry: Any,
    scale: Any,
    shift: Any,
    shape: tuple[int, ...],
) -> Array:
    """Noise of a part (*shape), that is, of Y − centre."""
    one, two = jax.random.split(key)
    dtype = jnp.result_type(float)
    lam = jnp.asarray(scale, dtype)
    rho = None if shift is None else part.rho(shift, lam)
    square = once(part.squares(one, mixing, rho, shape, dtype))
    noise = geometry.restrict(1 / (lam**2 * square)).colour(jax.random.normal(two, shape, dtype))
    if rho is None:
        return noise
    q = jnp.asarray(part.q, dtype)
    root = jnp.linalg.cholesky(jnp.einsum("...nk,...n,...nl->...kl", q, square, q))
    pull = chains.pull(q, square, root, jnp.broadcast_to(rho, (*shape[:-1], rho.shape[-1])))
    return noise + geometry.project(lam * pull - jnp.asarray(shift, dtype))


def _log_cells(mixing: Mixing, x: Array, scale: Any) -> Array:
    """The base's log-density at noise x of these cells: (…)."""
    scale = jnp.broadcast_to(jnp.asarray(scale, x.dtype), (*np.shape(scale)[:-1], x.shape[-1]))
    return jnp.sum(law_of.log_base(mixing, x / scale) - jnp.log(scale), -1)


def _require_concrete(invariant: Invariant, scale: Any, mixing: Mixing) -> None:
    if not _checks.is_concrete(invariant, scale, mixing):
        raise _checks.UnsupportedError(
            "`scale` is traced: where totals overlap, the normaliser is estimated from concrete "
            "scales. Build the view outside jit; loc may be traced."
        )
    per_cell = isinstance(mixing, InverseChi) and np.ndim(mixing.df) == 1
    if not law_of.one_law(mixing) and not per_cell:
        raise _checks.UnsupportedError(
            f"cdp.Conditioned of {mixing.family} noise on totals that overlap needs one mixing law "
            "for all cells (or, for Student-t, one `df` for each). Put sizes into `scale`, or use "
            "disjoint totals or cdp.Imaged."
        )
    if not law_of.drawable(mixing):
        raise _checks.UnsupportedError(
            "`mixing` has a logarithm without a log-concave density, and then totals must not "
            "overlap. Use Gamma, LogNormal, Weibull, HalfCauchy or InverseGamma, or cdp.Imaged."
        )


def _made(
    geometry: Any, scale: Any, mixing: Mixing, shift: Any, batch_shape: tuple[int, ...]
) -> Any:
    """A view of disjoint totals, or a `Part`."""
    if isinstance(geometry, Totals):
        zero = np.zeros(geometry.n)
        if shift is None and isinstance(mixing, Rayleigh):
            return ConditionedLaplace(geometry, zero, scale, batch_shape)
        return ConditionedMixture(geometry, zero, scale, batch_shape, mixing, shift=shift)
    scales = np.broadcast_to(np.asarray(scale, np.float64), (*np.shape(scale)[:-1], geometry.n))
    if shift is None:
        asked = _Asked(geometry, scales, mixing)
        return _kept(asked) if scales.size * geometry.rank <= _KEPT else asked.part()
    part = Part.of(geometry, scales, mixing, True)
    if not _checks.is_concrete(shift):
        return part
    way, chance = part.at(_host_rho(part, shift, scales))
    return replace(part, way=way, chance=chance)


class _Asked:
    """Totals, scales and noise of a part; equal where the totals are the same object."""

    def __init__(self, geometry: Any, scales: np.ndarray, mixing: Mixing) -> None:
        leaves, structure = jax.tree.flatten(mixing)
        numbers = (scales, *(np.asarray(leaf) for leaf in leaves))
        bits = tuple((a.shape, a.dtype.str, a.tobytes()) for a in numbers)
        self.geometry, self.scales, self.mixing = geometry, scales, mixing
        self.known_by = (id(geometry), structure, bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self.known_by == other.known_by

    def __hash__(self) -> int:
        return hash(self.known_by)

    def part(self) -> Part:
        """Its constant is an estimate that takes seconds."""
        return Part.of(self.geometry, self.scales, self.mixing, False)


@lru_cache(maxsize=8)  # a sampler traces its model several times; each holds its totals alive
def _kept(asked: _Asked) -> Part:
    return asked.part()


@in_float64
def _host_rho(part: Part, shift: Any, scale: Any) -> np.ndarray:
    return np.asarray(part.rho(float64(shift), float64(scale)))


def _geometries(invariant: Invariant) -> list[tuple[Any, Array | None]]:
    """The parts that share no total, and the cells of each."""
    geometry = invariant.core
    if isinstance(geometry, Blocks):
        return list(zip(geometry.parts, geometry.cells, strict=True))
    return [(geometry, None)]


def _cells(values: Any, cells: Array | None) -> Any:
    """A part's own entries of (…, n); one number for all cells (…, 1) stays that."""
    if values is None or cells is None or np.shape(values)[-1] == 1:
        return values
    return values[..., np.asarray(cells) if _checks.is_concrete(cells) else cells]
