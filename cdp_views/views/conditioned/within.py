"""Real noise *given* exact totals and bounds: truncation, whose normaliser depends on the table."""

import math
import warnings
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views._float64 import in_float64
from cdp_views.invariants import Invariant, Region
from cdp_views.loss import BoundedLoss, SampledLoss
from cdp_views.noise import Mixing
from cdp_views.precision import chains, hit_and_run
from cdp_views.precision.pool import fill_parts
from cdp_views.support import WithinRegion
from cdp_views.views._estimate import Estimate, entropy_of_draws
from cdp_views.views.conditioned import characteristic as law_of
from cdp_views.views.conditioned import giving, tilted
from cdp_views.views.conditioned.region import (
    Labels,
    components,
    directions_of,
    groups_of,
    inner_point,
    of_rows,
    require_a_table,
)

_SMALLEST = 1e-4  # chance of a part's bounds below which a Markov chain is used
_HITS, _ENOUGH = 8, 2000
_MOST_DRAWS, _MOST_NUMBERS = 2**17, 2**26
_CHAINS, _TRIAL, _MATCHINGS = 32, 600, 3
_FEWEST, _MOST = 60, 2000  # sweeps behind each draw


class ConditionedWithin(dist.Distribution):
    """The base given A y = A loc and B y ≥ lower; build it with `cdp.Conditioned`.

    Density of the view without bounds over Z = P(B y ≥ lower). `sampler` is "exact" where parts of
    the table that share no total and no bound meet their bounds at least once in 10,000 draws:
    rejection, and `log_chance` = log Z is an estimate with `log_chance_stderr`. Else "MCMC (…)":
    scales given noise, then moves along ker A, each draw the end of its own `sweeps` sweeps, with
    `r_hat` and `ess_per_sweep`; then Z is not known.

    Z depends on the true table, and so do errors (bias included: `cdp.utility(view, key=…)`) and
    guarantee: |log Z(q) − log Z(q ± v)| comes on top of what the noise loses (Gong and Meng 2020).
    `loss` bounds both; `loss_estimate`, with a key, estimates them for this table.
    """

    kind = "conditioned"
    pytree_data_fields = ("flat", "mixing", "start")
    pytree_aux_fields = (
        "region",
        "labels",
        "chance",
        "log_chance",
        "log_chance_stderr",
        "sweeps",
        "r_hat",
        "ess_per_sweep",
    )

    def __init__(
        self,
        region: Region,
        flat: Any,
        mixing: Mixing | None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        if flat.batch_shape or not _checks.is_concrete(flat.loc, flat.scale, mixing):
            raise _checks.UnsupportedError(
                "`loc` and `scale` of noise with bounds must be those of one concrete table: the "
                "bounds make every number depend on it. Build one view per table, outside jit."
            )
        self.region, self.flat, self.mixing = region, flat, mixing
        require_a_table(region, flat.loc)
        self.labels = Labels(components(region))
        super().__init__(flat.batch_shape, flat.event_shape, validate_args=validate_args)
        hits, draws = self._pilot()
        self.start = np.zeros(region.n)
        self.sweeps, self.r_hat, self.ess_per_sweep = 0, 1.0, 1.0
        p = hits / draws
        self.chance = float(np.min(p, initial=1.0))
        self.log_chance = self.log_chance_stderr = math.nan
        if self.chance >= _SMALLEST and np.min(hits, initial=_HITS) >= _HITS:
            self.log_chance = float(np.sum(np.log(p)))
            self.log_chance_stderr = float(np.sqrt(np.sum((1 - p) / hits)))
        else:
            self._set_up_chains()

    @property
    def invariant(self) -> Invariant:
        """The totals."""
        return self.region.equalities

    @property
    def loc(self) -> Any:
        """The true answers (n,)."""
        return self.flat.loc

    @property
    def scale(self) -> Any:
        """The base's scale."""
        return self.flat.scale

    @property
    def noise_name(self) -> str:
        """The base's family."""
        return self.flat.noise_name

    @property
    def sampler(self) -> str:
        """How draws are made: "exact", or "MCMC (Gibbs)" or "MCMC (hit and run)"."""
        if self.sweeps == 0:
            return "exact"
        return "MCMC (hit and run)" if groups_of(self.region) is None else "MCMC (Gibbs)"

    @property
    def support(self) -> WithinRegion:  # pyright: ignore[reportIncompatibleMethodOverride]
        return WithinRegion(self.region, self.loc)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        noise = self.sample_noise(key, sample_shape)
        return jnp.asarray(self.loc, noise.dtype) + noise

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of Y − loc; its mean is the bias: (*sample_shape, n)."""
        x = self.noise_of(key, math.prod(sample_shape), self._room, self.start)
        return x.reshape(*sample_shape, self.region.n)

    def noise_of(self, key: Array, count: int, room: np.ndarray, start: np.ndarray) -> Array:
        """`count` draws of the noise of a table with this `room` to its bounds (m,): (count, n).

        `start` is where Markov chains start, which must keep the bounds.
        """
        if self.sweeps:
            # thousands of moves leave their rounding in the totals
            return self.invariant.project(self._chains(key, count, self.sweeps, room, start)[0])

        def propose(key: Array, wide: int) -> tuple[Array, Array]:
            x = self.flat.sample_noise(key, (wide,))
            return x, self._kept(x, room)

        shape, labels = (max(count, 1), self.region.n), jnp.asarray(self.labels.array)
        return fill_parts(key, propose, labels, shape, self.chance)[:count]

    def _kept(self, x: Array, room: np.ndarray) -> Array:
        """Whether each part of the noise keeps its bounds: (…, n) → (…, parts)."""
        rows, parts = self.region.bounds, self.labels.count
        value = x if rows.cellwise else x @ jnp.asarray(rows.matrix.toarray().T, x.dtype)
        broken = value < -jnp.asarray(room, x.dtype)
        of_row = jnp.asarray(of_rows(rows.matrix, self.labels.array))
        count = jnp.zeros((*x.shape[:-1], parts), jnp.int32).at[..., of_row].add(broken)
        return count == 0

    @cached_property
    def _room(self) -> np.ndarray:
        """B loc − lower of every bound: (m,)."""
        rows = self.region.bounds
        return np.maximum(rows.matrix @ np.asarray(self.loc, np.float64) - rows.lower, 0)

    @in_float64
    def _pilot(self) -> tuple[np.ndarray, int]:
        """How often every part keeps its bounds, and of how many draws."""
        size, room = int(np.clip(2**22 // self.region.n, 64, 2**14)), self._room
        run = jax.jit(lambda k: jnp.sum(self._kept(self.flat.sample_noise(k, (size,)), room), 0))
        hits, draws, key = np.zeros(self.labels.count), 0, jax.random.key(0)
        while np.min(hits, initial=_ENOUGH) < _ENOUGH:
            if draws and (draws + size > _MOST_DRAWS or draws * self.region.n > _MOST_NUMBERS):
                break
            hits, draws = hits + np.asarray(run(jax.random.fold_in(key, draws))), draws + size
        return hits, max(draws, 1) if self.labels.count else 1

    @in_float64
    def _set_up_chains(self) -> None:
        if self.mixing is not None and not law_of.drawable(self.mixing):
            raise _checks.UnsupportedError(f"`mixing` cannot be drawn. {law_of.WAY_OUT}")
        self.start = inner_point(self.region, np.asarray(self.loc, np.float64))
        key = jax.random.key(0)
        room, start = self._room, self.start
        run = jax.jit(lambda k: self._chains(k, _CHAINS, _FEWEST + _TRIAL, room, start)[1])
        trace = np.asarray(run(key))[_FEWEST:]
        found = [chains.mixed(trace[..., i]) for i in range(trace.shape[-1])]
        self.r_hat = max(r for r, _ in found)
        self.ess_per_sweep = min(ess for _, ess in found) / (_CHAINS * _TRIAL)
        self.sweeps = int(np.clip(math.ceil(20 / self.ess_per_sweep), _FEWEST, _MOST))
        if self.r_hat > 1.05 or 20 / self.ess_per_sweep > _MOST:
            warnings.warn(
                f"The Markov chains of cdp.Conditioned within bounds have not mixed: R-hat "
                f"{self.r_hat:.3f}, {self.ess_per_sweep:.4f} effective draws per sweep. Use fewer "
                "bounds, a smaller scale, or cdp.Imaged.",
                stacklevel=5,
            )

    def _chains(
        self, key: Array, count: int, sweeps: int, room: np.ndarray, start: Any
    ) -> tuple[Array, Array]:
        """The ends (count, n) of `count` chains, and a trace (sweeps, count, 4) of them."""
        dtype, n = jnp.result_type(float), self.region.n
        lam = jnp.broadcast_to(jnp.asarray(self.scale, dtype), (n,))
        probes = np.random.default_rng(0).normal(size=(n, 3)) / math.sqrt(n)
        probes = jnp.asarray(probes, dtype) / lam[:, None]
        move = self._moves(jnp.asarray(room, dtype), dtype)

        def sweep(x: Array, key: Array) -> tuple[Array, Array]:
            one, two = jax.random.split(key)
            square = jnp.ones_like(x)
            if self.mixing is not None:
                square = tilted.draw_squares_given(one, self.mixing, x / lam)
            x = move(two, x, 1 / (lam**2 * jnp.maximum(square, jnp.finfo(dtype).tiny ** 0.5)))
            size = jnp.sum(jnp.abs(x / lam), -1, keepdims=True)
            return x, jnp.concatenate([size, x @ probes], -1)

        first = jnp.broadcast_to(jnp.asarray(start, dtype), (count, n))
        return jax.lax.scan(sweep, first, jax.random.split(key, sweeps))

    def _moves(self, room: Array, dtype: Any) -> Any:
        """One sweep of moves of x (count, n) given the precisions ν."""
        groups = groups_of(self.region)
        if groups is not None:
            free = bool(np.any(np.asarray(groups.segments.labels) == groups.segments.count))

            def by_pairs(key: Array, x: Array, nu: Array) -> Array:
                b, seg = groups._weights_like(dtype), groups.segments

                def matched(x: Array, key: Array) -> tuple[Array, None]:
                    return hit_and_run.pairs(key, x, nu, seg, b, room, free=free), None

                return jax.lax.scan(matched, x, jax.random.split(key, _MATCHINGS))[0]

            return by_pairs
        matrix = self.region.bounds.matrix
        rows = None if self.region.bounds.cellwise else jnp.asarray(matrix.toarray(), dtype)
        directions = jnp.asarray(directions_of(self.invariant), dtype)

        def by_directions(key: Array, x: Array, nu: Array) -> Array:
            one, two, three, four = jax.random.split(key, 4)
            z = jax.random.normal(one, x.shape, dtype) / jnp.sqrt(nu)
            x = hit_and_run.along(two, x, self.invariant.project(z), nu, rows, room)

            def step(x: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
                key, v = at
                return hit_and_run.along(key, x, v, nu, rows, room), None

            order = jax.random.permutation(three, len(directions))
            keys = jax.random.split(four, len(directions))
            return jax.lax.scan(step, x, (keys, directions[order]))[0]

        return by_directions

    @classmethod
    def infer_shapes(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError  # NumPyro's default answers ((), ())

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """Log-density, with standard error `log_chance_stderr`; −inf off totals and bounds."""
        self._require_constant("log_prob")
        density = self.flat.log_prob(value) - self.log_chance
        return jnp.where(self.support(value), density, -jnp.inf)

    def _require_constant(self, what: str) -> None:
        if self.sweeps:
            raise _checks.UnsupportedError(
                f"`{what}` within these bounds is not known: draws are MCMC and leave the "
                "normaliser unknown. Use cdp.Restricted (unnormalised), or fewer bounds."
            )

    @property
    def mean(self) -> Array:
        """loc and a bias that depends on the table: from draws."""
        raise self._from_draws("mean")

    @property
    def variance(self) -> Array:
        """From draws."""
        raise self._from_draws("variance")

    def entropy(self) -> Array:
        """From draws."""
        raise _checks.UnsupportedError(
            f"`entropy` of {self.noise_name} noise within bounds has no closed form. Use "
            "entropy_estimate(key), with its standard error, where `sampler` is exact."
        )

    def entropy_estimate(self, key: Array, *, draws: int = 4000) -> Estimate:
        """The entropy as the mean of −log p over own draws, in nats, with its standard error."""
        self._require_constant("entropy_estimate")
        return entropy_of_draws(self, key, draws)

    def _heights(self, key: Array, count: int) -> tuple[Array, None]:
        noise = self.sample_noise(key, (count,))
        return self.log_chance - self.flat._log_density(noise), None

    @property
    def _density_error(self) -> float:
        return math.hypot(self.log_chance_stderr, float(np.asarray(self.flat._density_error)))

    def deviation(self, workload: Any = None) -> Any:
        """Estimated, given `key=`: bias and errors depend on the true table."""
        raise self._from_draws("deviation")

    @property
    def exposure(self) -> np.ndarray:
        """Of every cell: that without bounds, and once more where bounds hold it (n,)."""
        if self.mixing is None:
            raise self._of_no_table()
        return self.flat.exposure * np.where(giving.held(self), 2.0, 1.0)

    def _from_draws(self, what: str) -> _checks.UnsupportedError:
        return _checks.UnsupportedError(
            f"`{what}` of {self.noise_name} noise within bounds has no closed form. Estimate it "
            "from draws: cdp.utility(view, key=…), bias included."
        )

    # what it gives away

    def loss(self, differences: sparse.csr_array, query: Any = None) -> BoundedLoss:
        """At most 2 sup Σ log p(x_i)/p(x_i − v_i) for every difference v: `giving.bound`."""
        if query is not None:
            raise _checks.UnsupportedError(
                "`loss(query=)` within bounds is not known. Ask for the whole release, which "
                "bounds every query."
            )
        return giving.bound(self, differences)

    def loss_anywhere(self, differences: sparse.csr_array, query: Any = None) -> BoundedLoss:
        """`loss` whatever the table; of Normal noise nothing bounds it."""
        if self.mixing is not None:
            return self.loss(differences, query)
        raise self._of_no_table()

    def _of_no_table(self) -> _checks.UnsupportedError:
        return _checks.UnsupportedError(
            "`loss` of normal noise within bounds depends on the table: nothing bounds it for all "
            "tables. For a guarantee: Laplace noise, and no key=. Of this table alone, without "
            'guarantee and as confidential as it: differences(V) with table="this" and no key= (a '
            "bound), or view.loss_estimate(V, key)."
        )

    def loss_scope(self, differences: sparse.csr_array) -> str:
        """For which tables `loss` holds, in words, where it isn't all of them."""
        del differences
        return "" if self.mixing is not None else "holds for this table and its bounds"

    def loss_draws(self, key: Array, differences: sparse.csr_array, draws: int) -> np.ndarray:
        """Refused: they would be taken for draws of a loss that is the same both ways."""
        raise _checks.UnsupportedError(
            "`key` gives no estimate here: within bounds neighbours lose differently. Use "
            "view.loss_estimate(differences, key), or leave key= out for what is proved."
        )

    def loss_estimate(self, differences: Any, key: Array, *, draws: int = 4000) -> SampledLoss:
        """The loss of every neighbour of this table, both ways, from draws: `giving.estimate`."""
        return giving.estimate(self, differences, key, draws)

    def log_ratio(self, differences: Any) -> tuple[np.ndarray, np.ndarray]:
        """log Z(q + v)/Z(q) of every row v (m, n), and its standard error."""
        return giving.log_ratio(self, differences)

    @cached_property
    def _ratio_draws(self) -> np.ndarray:
        return giving.ratio_draws(self)

    def _one(self, what: str) -> Any:
        return self.scale
