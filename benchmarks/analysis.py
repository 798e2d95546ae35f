"""Effective draws per second of an analysis, against what one would write without this library.

`python -m benchmarks.analysis` prints what is behind the ratios: effective draws, seconds, and how
far the two posteriors are apart. Ratios are of CPU seconds per effective draw (bulk, the least over
all quantities): 0.2 is five times as many effective draws per second.
"""

from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array, lax
from numpyro.infer import NUTS

import cdp_views as cdp
from benchmarks.harness import Row
from benchmarks.memory import Wanted
from cdp_views.models import fitting, latent_counts, sufficient_statistics

_DENSE, _PLAIN = 1 / 5, 1 / 50  # the goals, as ratios
_PERSONS, _NOISE = 1000, 20.0


class Drawn(NamedTuple):
    """Draws of scalar quantities (draw, quantity), and the CPU seconds that they took."""

    draws: np.ndarray
    seconds: float
    gradients: int = 0

    @property
    def effective(self) -> float:
        """The least over quantities."""
        tree = cdp.to_datatree({"x": self.draws[None]}, cells=())
        return float(cdp.summarise(tree)["ess_bulk"].min())

    @property
    def each(self) -> float:
        """CPU seconds per effective draw."""
        return self.seconds / self.effective


def rows(cells: int, dtypes: tuple[str, ...], wanted: Wanted) -> Iterator[Row | str]:
    """One row per comparison, in float64, and the minutes that 3,000 counties take."""
    if "float64" not in dtypes:
        return
    n = min(1000, max(cells // 20, 100))
    with jax.enable_x64(True):
        for name, rival, target, sizes, both in (
            (f"effective draws, {n} cells", "dense MultivariateNormal", _DENSE, {"cells": n},
             partial(against_dense, n)),
            ("effective draws, regression", "augmentation of all records", _PLAIN,
             {"persons": _PERSONS}, against_augmentation),
        ):  # fmt: skip
            if wanted(name, "float64"):
                mine, theirs = both()
                raw = [mine.each], [theirs.each]
                yield Row(name, rival, target, "float64", sizes, *raw)
        counties = min(3000, cells)
        name = f"CPU minutes, {counties} counties in 50 states"
        if wanted(name, "float64"):
            minutes, _ = of_counties(counties)
            size = {"cells": counties}
            yield Row(name, "one minute", None, "float64", size, [minutes], [1.0])


def against_dense(n: int, warmup: int = 300, draws: int = 1000) -> tuple[Drawn, Drawn]:
    """A table with a normal prior: this library, and null-space coordinates with a dense law."""
    random = np.random.default_rng(0)
    invariant = cdp.totals(np.repeat(np.arange(n // 20), 20))
    scale = np.exp(0.3 * random.normal(size=n).clip(-2, 2)) * 10
    mechanism = cdp.Mechanism("max-entropy", "normal", scale, invariant)
    truth = random.normal(100.0, 20.0, n)
    law: Any = mechanism.law(truth)
    seen = cdp.Observed(mechanism, np.asarray(law.sample(jax.random.key(0))))

    def population() -> dist.Distribution:
        mean = numpyro.sample("mean", dist.Normal(100.0, 50.0))
        return dist.Normal(mean, numpyro.sample("spread", dist.LogNormal(3.0, 0.5)))

    def ours() -> None:
        seen.latent("q", population())

    basis = np.asarray(jax.vmap(invariant.embed)(jnp.eye(invariant.dim))).T
    root = np.linalg.cholesky(basis.T @ np.asarray(law.covariance_matrix) @ basis)

    def dense() -> None:
        prior = population()
        noise = dist.MultivariateNormal(np.zeros(invariant.dim), scale_tril=jnp.asarray(root))
        z = jnp.asarray(numpyro.sample("z", noise))
        q = numpyro.deterministic("q", seen.released - basis @ z)
        numpyro.factor("q_prior", jnp.sum(jnp.asarray(prior.log_prob(q))))

    return tuple(_nuts(model, ("mean", "spread", "q"), warmup, draws) for model in (ours, dense))  # type: ignore[return-value]


def against_augmentation(draws: int = 40_000) -> tuple[Drawn, Drawn]:
    """Regression from five noisy sums: `sufficient_statistics`, and all records as latents."""
    random = np.random.default_rng(0)
    x = random.normal(0.1, 0.35, _PERSONS)
    z = random.normal(0.1 + 0.6 * x, 0.25)
    noise = random.laplace(0, _NOISE, 5)
    released = sufficient_statistics.sums_of(x, z) + noise
    mechanism = cdp.Mechanism("independent", "laplace", _NOISE, cdp.linear(np.zeros((1, 5))))
    seen = cdp.Observed(mechanism, released)
    sites = ("centre", "width", "alpha", "beta", "sigma")
    ours = _nuts(lambda: sufficient_statistics.model(seen, _PERSONS), sites, 500, 1000)
    run = jax.jit(partial(augmentation, jnp.asarray(released), _PERSONS, draws))
    jax.block_until_ready(run(jax.random.key(1)))
    start = process_time()
    chain = np.asarray(run(jax.random.key(2)))
    return ours, Drawn(chain[draws // 4 :], 0.75 * (process_time() - start))


def augmentation(released: Array, n: int, draws: int, key: Array) -> Array:
    """Ju, Awan, Gong and Rao 2022, Algorithm 1: (draws, 5), centre, width, alpha, beta, sigma.

    Records are latents. In turn: parameters given all records, as if these had been published; and
    each record by a proposal from the model, accepted by what the sums say of it.
    """

    def statistics(x: Array, z: Array) -> Array:
        return jnp.stack([x, x * x, z, x * z, z * z], -1)

    def fit(noise: Array) -> Array:
        return -jnp.sum(jnp.abs(noise)) / _NOISE

    def sweep(state: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], Array]:
        theta, f = state
        of_theta, of_x, of_z, of_u = jax.random.split(key, 4)
        theta = given_records(of_theta, theta, jnp.sum(f, 0), n)
        centre, width, alpha, beta, sigma = theta
        x = centre + width * jax.random.normal(of_x, (n,))
        z = alpha + beta * x + sigma * jax.random.normal(of_z, (n,))
        log_u = jnp.log(jax.random.uniform(of_u, (n,)))

        def record(total: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            old, new, log_u = at
            moved = total - old + new
            accept = log_u < fit(released - moved) - fit(released - total)
            return jnp.where(accept, moved, total), jnp.where(accept, new, old)

        _, f = lax.scan(record, jnp.sum(f, 0), (f, statistics(x, z), log_u))
        return (theta, f), theta

    one, two = jax.random.split(key)
    start = jnp.array([0.0, 0.37, 0.0, 0.0, 0.37])
    x, noise = jax.random.normal(one, (2, n)) * 0.37
    return lax.scan(sweep, (start, statistics(x, noise)), jax.random.split(two, draws))[1]


def given_records(key: Array, theta: Array, sums: Array, n: int) -> Array:
    """Parameters given the exact sums, under the priors of `sufficient_statistics`.

    Conjugate for centre and for (alpha, beta); ten Metropolis steps for each log sd.
    """
    centre, width, alpha, beta, sigma = theta
    sx, sxx, sz, sxz, szz = sums
    of_centre, of_width, of_line, of_sigma = jax.random.split(key, 4)
    precision = n / width**2 + 1 / 0.3**2
    centre = sx / width**2 / precision + jax.random.normal(of_centre) / jnp.sqrt(precision)
    width = _sd_given(of_width, width, sxx - 2 * centre * sx + n * centre**2, n)
    gram = jnp.array([[n, sx], [sx, sxx]]) / sigma**2 + jnp.diag(jnp.array([4.0, 1.0]))
    root = jnp.linalg.cholesky(gram)
    mean = jax.scipy.linalg.cho_solve((root, True), jnp.array([sz, sxz]) / sigma**2)
    step = jax.scipy.linalg.solve_triangular(
        root, jax.random.normal(of_line, (2,)), lower=True, trans=1
    )
    alpha, beta = mean + step
    square = szz - 2 * alpha * sz - 2 * beta * sxz + n * alpha**2 + 2 * alpha * beta * sx
    sigma = _sd_given(of_sigma, sigma, square + beta**2 * sxx, n)
    return jnp.stack([centre, width, alpha, beta, sigma])


def _sd_given(key: Array, sd: Array, square: Array, n: int) -> Array:
    """Ten Metropolis steps for sd with log sd ~ N(−1, ½) and Σ squares of n normals."""

    def log_p(v: Array) -> Array:
        return -n * v - 0.5 * square * jnp.exp(-2 * v) - 2 * (v + 1) ** 2

    def step(v: Array, key: Array) -> tuple[Array, None]:
        one, two = jax.random.split(key)
        new = v + 2.4 / jnp.sqrt(2 * n) * jax.random.normal(one)
        accept = jnp.log(jax.random.uniform(two)) < log_p(new) - log_p(v)
        return jnp.where(accept, new, v), None

    return jnp.exp(lax.scan(step, jnp.log(sd), jax.random.split(key, 10))[0])


def of_counties(n: int, num_samples: int = 1000) -> tuple[float, Any]:
    """CPU minutes of `latent_counts` at its default settings, compilation included."""
    random = np.random.default_rng(0)
    counts = np.rint(random.lognormal(np.log(400.0), 0.7, n)) + 1
    mechanism = cdp.Mechanism("imaged", "normal", 20.0, cdp.totals(np.arange(n) % 50))
    law: Any = mechanism.law(counts)
    seen = cdp.Observed(mechanism, np.asarray(law.sample(jax.random.key(0))))
    start = process_time()
    mcmc = fitting.fit(
        jax.random.key(0), latent_counts.model, seen, typical=300.0, num_samples=num_samples
    )
    jax.block_until_ready(mcmc.get_samples())
    minutes = (process_time() - start) / 60
    return minutes, cdp.diagnose(cdp.to_datatree(mcmc))


def _nuts(model: Callable[[], None], sites: tuple[str, ...], warmup: int, draws: int) -> Drawn:
    """One chain; only draws after warm-up are timed, and nothing is compiled while they are.

    (`MCMC.run` compiles anew when it goes on from `post_warmup_state`: ten times what 300 draws of
    200 cells take.)
    """
    kernel = NUTS(model, target_accept_prob=0.9)

    def step(state: Any, _: None) -> tuple[Any, Any]:
        state = kernel.sample(state, (), {})
        return state, (state.z, state.num_steps)

    state = kernel.init(jax.random.key(0), warmup, None, (), {})
    state, _ = jax.jit(lambda state: lax.scan(step, state, length=warmup))(state)
    run = jax.jit(lambda state: lax.scan(step, state, length=draws))
    state, _ = jax.block_until_ready(run(state))
    start = process_time()
    _, (z, steps) = jax.block_until_ready(run(state))
    seconds = process_time() - start
    found = jax.vmap(kernel.postprocess_fn((), {}))(z)
    flat = [np.asarray(found[site]).reshape(draws, -1) for site in sites]
    return Drawn(np.concatenate(flat, axis=1), seconds, int(steps.sum()))


def main() -> None:
    """Every comparison in words."""
    with jax.enable_x64(True):
        for name, both in (
            ("regression, all records", against_augmentation),
            ("200 cells, dense", partial(against_dense, 200)),
            ("1,000 cells, dense", partial(against_dense, 1000)),
        ):
            mine, theirs = both()
            apart = np.abs(mine.draws.mean(0) - theirs.draws.mean(0)) / mine.draws.std(0)
            print(
                f"{name}: {mine.effective:.0f} effective draws in {mine.seconds:.2f} s against "
                f"{theirs.effective:.0f} in {theirs.seconds:.2f} s, {theirs.each / mine.each:.1f} "
                f"times as many per second; means {apart.max():.2f} sd apart at most",
                flush=True,
            )
        minutes, said = of_counties(3000)
        print(f"3,000 counties in 50 states: {minutes:.1f} CPU minutes. {said.text}")


if __name__ == "__main__":
    main()
