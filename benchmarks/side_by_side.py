"""Posteriors of many data sets at once: Hamiltonian Monte Carlo, one chain each, all in step.

NUTS gives each chain its own number of steps. Side by side every chain waits for the longest, and
one after the other each operation works on a dozen numbers. Here all chains take equally many
steps, of their own random length, so that one operation serves all of them: 200 posteriors of a
small model take a second, after one compilation with a single copy of the model's gradient.
It targets the same posteriors; where its chains are slow, the autocorrelation of ranks says so.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import constrain_fn, initialize_model

_DIVERGES = 1000.0  # an error of the energy that NumPyro calls a divergence, too


class _State(NamedTuple):
    """Positions of R chains (R, d), and what adapts their steps: by dual averaging, and variances.

    Steps (R,): `log_step` the next, `log_mean` averaged, `error` of acceptance, `center`.
    Variances (R, d): `variance` in use; `mean` and `squares` since the last window.
    """

    z: Array
    log_step: Array
    log_mean: Array
    error: Array
    center: Array
    variance: Array
    mean: Array
    squares: Array


def run_side_by_side(
    key: Array,
    model: Callable[[Any], Any],
    data: Any,
    *,
    draws: int,
    warmup: int,
    thin: int = 1,
    sites: Sequence[str],
    steps: int = 15,
    accept: float = 0.9,
) -> tuple[dict[str, Array], Array]:
    """Draws by site (R, draws, ...) and which diverged (R, draws), as `inference.run_many`.

    - `model`: `model(data)`, without discrete latents; the same function is compiled once.
    - `data`: a pytree whose leaves have a leading axis R.
    - `steps`: of each trajectory; their length varies from it to it by a factor of 2.
    - `accept`: wanted share of accepted proposals, at the varying length.
    """
    return _program(model, draws, warmup, thin, tuple(sites), steps, accept)(key, data)


@lru_cache(maxsize=2)  # a program holds tens of MB
def _program(
    model: Callable[[Any], Any],
    draws: int,
    warmup: int,
    thin: int,
    sites: tuple[str, ...],
    steps: int,
    accept: float,
) -> Callable[[Array, Any], tuple[dict[str, Array], Array]]:
    closes, since = _windows(warmup, warmup + draws * thin)

    def run(key: Array, data: Any) -> tuple[dict[str, Array], Array]:
        count = jax.tree.leaves(data)[0].shape[0]
        one = jax.tree.map(lambda x: x[0], data)
        # only the shapes of its latents are used, and what is not used is not compiled
        info = initialize_model(
            jax.random.key(0), model, model_args=(one,), dynamic_args=True, validate_grad=False
        )
        flat, unravel = ravel_pytree(info.param_info.z)
        potential = info.potential_fn
        down = jax.vmap(jax.value_and_grad(lambda z, d: potential(d)(unravel(z))))

        def energy(z: Array) -> tuple[Array, Array]:
            value, slope = down(z, data)
            bad = ~(jnp.isfinite(value) & jnp.all(jnp.isfinite(slope), axis=1))
            return jnp.where(bad, jnp.inf, value), jnp.where(bad[:, None], 0.0, slope)

        def step(state: _State, at: tuple[Array, ...]) -> tuple[_State, tuple[Array, Array]]:
            t, key, close, since = at
            z, chance, diverged = _trajectory(key, state, energy, steps, t < warmup)
            return _adapted(state._replace(z=z), chance - accept, close, since), (z, diverged)

        def sites_at(z: Array, d: Any) -> dict[str, Array]:
            # not by `info`, whose transforms are those of the first data set
            every = constrain_fn(model, (d,), {}, unravel(z), return_deterministic=True)
            return {site: every[site] for site in sites}

        to_start, to_run = jax.random.split(key)
        zero = jnp.zeros(count)
        z = jax.random.uniform(to_start, (count, flat.size), minval=-2.0, maxval=2.0)
        none = jnp.zeros_like(z)
        first = jnp.full(count, jnp.log(0.1))
        start = _State(z, first, first, zero, first + jnp.log(10.0), none + 1.0, none, none)
        total = warmup + draws * thin
        at = (jnp.arange(total), jax.random.split(to_run, total), closes, since)
        _, (z, diverged) = jax.lax.scan(step, start, at)
        kept = z[warmup + thin - 1 :: thin].swapaxes(0, 1)
        found = jax.vmap(lambda z, d: jax.vmap(lambda z: sites_at(z, d))(z))(kept, data)
        return found, diverged[warmup + thin - 1 :: thin].T

    return jax.jit(run)


def _trajectory(
    key: Array, state: _State, energy: Callable[[Array], Any], steps: int, warm: Array
) -> tuple[Array, Array, Array]:
    """The next positions (R, d), chance of acceptance (R,), and who diverged (R,).

    Leapfrog with half kicks first and last, so that the loop has the only gradient of the program.
    A chain that starts where the density is 0 moves on freely until it is not.
    """
    of_momentum, of_length, of_acceptance = jax.random.split(key, 3)
    shape = state.z.shape
    # adaptation ends where a tenth of the longest steps is unstable: afterwards none is so long
    log_step = jnp.where(warm, state.log_step, state.log_mean + jnp.log(0.8))
    length = jnp.exp(log_step) * jax.random.uniform(of_length, shape[:1], minval=0.5)
    length = length[:, None]
    momentum = jax.random.normal(of_momentum, shape) / jnp.sqrt(state.variance)

    def kinetic(momentum: Array) -> Array:
        return 0.5 * jnp.sum(state.variance * momentum**2, axis=1)

    def kick(i: Array, at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        z, momentum, first, _ = at
        value, slope = energy(z)
        end = (i == 0) | (i == steps)
        momentum = momentum - jnp.where(end, 0.5, 1.0) * length * slope
        z = jnp.where(i < steps, z + length * state.variance * momentum, z)
        return z, momentum, jnp.where(i == 0, value, first), value

    zero = jnp.zeros(shape[0])
    z, end, before, after = jax.lax.fori_loop(0, steps + 1, kick, (state.z, momentum, zero, zero))
    gained = after + kinetic(end) - before - kinetic(momentum)
    gained = jnp.where(jnp.isnan(gained), jnp.inf, gained)
    gained = jnp.where(jnp.isinf(before), 0.0, gained)
    chance = jnp.exp(-jnp.maximum(gained, 0.0))
    moves = jax.random.uniform(of_acceptance, shape[:1]) < chance
    return jnp.where(moves[:, None], z, state.z), chance, gained > _DIVERGES


def _adapted(state: _State, error: Array, close: Array, since: Array) -> _State:
    """Steps by dual averaging (Hoffman and Gelman 2014, §3.2), variances by windows.

    `since`: steps since the last window closed, (); `close`: whether this one closes, ().
    """
    m = since + 1.0
    weight = 1.0 / (m + 10.0)
    mean_error = (1 - weight) * state.error - weight * error
    log_step = state.center - jnp.sqrt(m) / 0.05 * mean_error
    share = m**-0.75
    log_mean = share * log_step + (1 - share) * state.log_mean
    off = state.z - state.mean
    mean = state.mean + off / m
    squares = state.squares + off * (state.z - mean)
    # shrunk as in Stan
    variance = (m / (m + 5.0)) * squares / jnp.maximum(m - 1.0, 1.0) + 5e-3 / (m + 5.0)
    going = _State(
        state.z, log_step, log_mean, mean_error, state.center, state.variance, mean, squares
    )
    none = jnp.zeros_like(mean)
    anew = _State(
        state.z, log_mean, log_mean, jnp.zeros_like(error), log_mean + jnp.log(10.0), variance,
        none, none,
    )  # fmt: skip
    return jax.tree.map(lambda a, b: jnp.where(close, a, b), anew, going)


def _windows(warmup: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a window closes (total,), and how long each step's window has been open (total,)."""
    ends, width = [int(0.15 * warmup)], max(warmup // 12, 10)
    while ends[-1] + 3 * width < 0.75 * warmup:
        ends.append(ends[-1] + width)
        width *= 2
    ends += [int(0.75 * warmup), total]
    closes = np.zeros(total, bool)
    closes[np.array(ends[:-1]) - 1] = True
    opened = np.concatenate([[0], ends[:-1]])
    since = np.arange(total) - opened[np.searchsorted(ends, np.arange(total), side="right")]
    return closes, since.astype(float)
