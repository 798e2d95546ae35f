"""Regression on privatised counts: errors in variables, done right.

For each area an outcome z_i is public, such as the price of a flat or votes; the covariate is a
count q_i, such as the unemployed, released with noise, y_i. The slope of z on q is wanted:

    level ~ Normal(log typical, 1),  spread ~ LogNormal(log 0.5, 0.5)
    q_i ~ LogNormal(level, spread),  restricted to the exact totals
    y - q ~ the published view of the published noise
    z_i ~ Normal(alpha + beta q_i / typical, sigma)

**To put y in the place of q attenuates.** Noise of variance s2 in a covariate of variance v pulls
the least-squares slope to beta v / (v + s2), however many areas there are, and its standard error
says nothing of it. Here q is a latent, so the slope is that of the true counts.

**The covariate needs a law.** q_i ~ LogNormal(level, spread) tells how far y_i is to be pulled to
the others; without it (a flat prior on q) the slope would be as attenuated as before. The law
should be roughly that of the counts: check it by drawing tables from it.

**z knows about q, and has to.** Each count is drawn given its release *and* its outcome. To draw
counts from the release alone (`latent_counts`) and to regress z on such draws attenuates again:
they were made as if there were no line. Regression on their *means* has the right slope (regression
calibration) but a standard error that is too small.

z is taken in units in which it varies by about one.
Whole counts and their noise are treated as real numbers; `latent_counts` says what that costs
below scale 1.
Several releases of the same counts: `model(first, outcome, second, ...)`.
Try it: `python -m cdp_views.models.regression --noise laplace --epsilon 0.05`
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

import cdp_views as cdp
from cdp_views.models import fitting


def model(release: Any, outcome: ArrayLike, *more: Any, typical: float = 100.0) -> None:
    """Line of a public outcome on counts that were released with noise.

    - `release`, `more`: `cdp.Release` or `cdp.Observed` of n areas, all with the same totals.
    - `outcome`: z (n,), varying by about one.
    - `typical`: order of magnitude of a count, known beforehand; beta is per so many.

    Sites: `level`, `spread`, `alpha`, `beta`, `sigma`, and `q` (n,).
    """
    level = numpyro.sample("level", dist.Normal(jnp.log(typical), 1.0))
    spread = numpyro.sample("spread", dist.LogNormal(jnp.log(0.5), 0.5))
    q = release.latent("q", dist.LogNormal(level, spread))
    for index, other in enumerate(more, start=2):
        other.observe(f"release_{index}", q)
    alpha = numpyro.sample("alpha", dist.Normal(0.0, 1.0))
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.LogNormal(jnp.log(0.5), 0.5))
    line = dist.Normal(alpha + beta * q / typical, sigma)
    numpyro.sample("outcome", line.to_event(1), obs=jnp.asarray(outcome))


def simulate(
    key: Array, mechanism: cdp.Mechanism, *, typical: float = 100.0
) -> tuple[dict[str, Array], tuple[Array, Array]]:
    """Truth and data from the model: `(truth, (released (n,), outcome (n,)))`.

    Counts are whole where the noise is.
    """
    keys = jax.random.split(key, 8)
    truth = {
        "level": dist.Normal(jnp.log(typical), 1.0).sample(keys[0]),
        "spread": dist.LogNormal(jnp.log(0.5), 0.5).sample(keys[1]),
        "alpha": dist.Normal(0.0, 1.0).sample(keys[2]),
        "beta": dist.Normal(0.0, 1.0).sample(keys[3]),
        "sigma": dist.LogNormal(jnp.log(0.5), 0.5).sample(keys[4]),
    }
    truth = {name: jnp.asarray(value) for name, value in truth.items()}
    counts = dist.LogNormal(truth["level"], truth["spread"])
    q = jnp.asarray(counts.sample(keys[5], (mechanism.invariant.n,)))
    truth["q"] = jnp.round(q) if mechanism.noise.startswith("discrete") else q
    released = mechanism.law(truth["q"]).sample(keys[6])
    line = truth["alpha"] + truth["beta"] * truth["q"] / typical
    outcome = dist.Normal(line, truth["sigma"]).sample(keys[7])
    return truth, (jnp.asarray(released), jnp.asarray(outcome))


def naive_slope(released: ArrayLike, outcome: ArrayLike, *, typical: float = 100.0) -> float:
    """The least-squares slope with the released counts in the place of the true ones."""
    return float(np.polyfit(np.asarray(released) / typical, np.asarray(outcome), 1)[0])


def main() -> None:
    """Publish 60 counts, regress a public outcome on them, and see what noise does to the slope."""
    chosen = fitting.options(main.__doc__ or "")
    fitting.in_float64()
    random = np.random.default_rng(chosen.seed)
    truth = {"alpha": -1.0, "beta": 1.0, "sigma": 0.3}
    counts = np.rint(random.lognormal(np.log(100.0), 0.6, 60))
    outcome = random.normal(truth["alpha"] + truth["beta"] * counts / 100.0, truth["sigma"])
    release = fitting.publish(counts, cdp.totals(np.repeat(np.arange(6), 10)), chosen)

    mcmc = fitting.fit(
        jax.random.key(chosen.seed), model, release, outcome, num_samples=chosen.num_samples
    )
    print(f"least squares on the true counts: {naive_slope(counts, outcome):.3g}")
    print(f"least squares on the released counts: {naive_slope(release.released, outcome):.3g}")
    fitting.report(mcmc.get_samples(), truth | {"q": counts})
    fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
