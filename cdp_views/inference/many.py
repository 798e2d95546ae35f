"""NUTS over many data sets, one compilation for all."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from numpyro.infer import NUTS

Model = Callable[[Any], Any]
Sites = dict[str, Array]


def run_many(
    key: Array,
    model: Model,
    data: Any,
    *,
    draws: int,
    warmup: int,
    thin: int = 1,
    sites: Sequence[str] | None = None,
    kernel: Callable[[Model], Any] = NUTS,
    lanes: int = 1,
) -> tuple[Sites, Array]:
    """One chain for each of R data sets, all in one compiled program.

    Args:
        key: a typed JAX key; data set r gets the r-th of its R parts.
        model: `model(data)`, a NumPyro model of one data set.
        data: a pytree whose leaves have a leading axis R.
        draws: kept for each data set.
        warmup: steps of adaptation before the first.
        thin: steps between kept draws.
        sites: which sites to keep, latent or deterministic; `None` for all.
        kernel: makes the sampler, such as `functools.partial(NUTS, target_accept_prob=0.9)`.
        lanes: how many data sets advance together. On a CPU 1 is best: side by side, every data set
            waits for the longest trajectory, and compiling takes three times as long.

    Returns:
        The draws by site, (R, draws, …), and which diverged, (R, draws).

    Raises:
        ValueError: a site that the model does not have.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        ...     numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        >>> found, _ = run_many(jax.random.key(0), model, jnp.arange(3.0), draws=5, warmup=50)
        >>> found["mu"].shape
        (3, 5)
    """
    count = jax.tree.leaves(data)[0].shape[0]
    kept = None if sites is None else tuple(sites)
    run = _runner(model, kernel, draws, warmup, thin, kept, lanes)
    return run(jax.random.split(key, count), data)


@lru_cache(maxsize=16)
def _runner(
    model: Model,
    kernel: Callable[[Model], Any],
    draws: int,
    warmup: int,
    thin: int,
    sites: tuple[str, ...] | None,
    lanes: int,
) -> Callable[[Array, Any], tuple[Sites, Array]]:
    def one(pair: tuple[Array, Any]) -> tuple[Sites, Array]:
        key, data = pair
        sampler = kernel(model)
        state = sampler.init(key, warmup, None, (data,), {})

        # `sample` is traced once: warm-up is the long way to the first kept draw. Each copy of
        # NUTS costs seconds of compilation.
        def until_kept(state: Any, steps: Array) -> tuple[Any, tuple[Any, Array]]:
            state = jax.lax.fori_loop(0, steps, lambda _, s: sampler.sample(s, (data,), {}), state)
            return state, (state.z, state.diverging)

        steps = jnp.full(draws, thin).at[0].add(warmup)
        _, (z, diverging) = jax.lax.scan(until_kept, state, steps)
        found = jax.vmap(sampler.postprocess_fn((data,), {}))(z)
        missing = [] if sites is None else [site for site in sites if site not in found]
        if missing:
            raise ValueError(
                f"`sites` has no {', '.join(missing)} in the model; it has {', '.join(found)}."
            )
        return (found if sites is None else {site: found[site] for site in sites}), diverging

    batch = None if lanes == 1 else lanes
    return jax.jit(lambda keys, data: jax.lax.map(one, (keys, data), batch_size=batch))
