"""The true table behind a release whose totals are exact.

An agency publishes y = q + X: the true counts q plus noise X that leaves some totals as they are,
A y = A q. The reader knows y, the totals, and the law of X, which is public. What may be said
about q, and about the population that it comes from?

    mu ~ Normal(typical, typical),  tau ~ HalfNormal(typical)
    q_i ~ Normal(mu, tau), independent, restricted to A q = A y
    y - q ~ the published view of Normal(0, scale) noise

Two choices matter, and both are easy to get wrong.

**The prior is restricted, not conditioned.** The exact totals are data: they say something about
mu and tau. `cdp.Restricted` is the density of the independent prior on {A q = A y} and keeps what
they say. A prior that is *conditioned* on the totals divides by their density, so it throws that
away: with one total and equal cells nothing at all would be learned about mu.

**The noise is the latent variable, and q = y - X follows.** Both live on a subspace of the same
shape, and the change of variables is a shift, so nothing is added to the density. But noise is of
the size of its scale, while counts may be in the millions: in float32 a latent *count* would lose
the noise to rounding, without a divergence to tell.

Counts are modelled as real numbers; where cells hold only a few persons this is too coarse.
Try it: `python -m cdp_views.models.latent_counts --view imaged`
"""

import argparse
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro.infer import MCMC, NUTS

import cdp_views as cdp

View = Literal["max-entropy", "conditioned", "imaged"]


def noise_law(loc: ArrayLike, scale: ArrayLike, invariant, view: View) -> dist.Distribution:
    """The named view of Normal noise around `loc`, standard deviation `scale`, () or (n,) each."""
    factories = {
        "max-entropy": cdp.MaxEntropy,
        "conditioned": cdp.Conditioned,
        "imaged": cdp.Imaged,
    }
    if view not in factories:
        raise ValueError(f"`view` must be one of {', '.join(factories)}; got {view!r}.")
    return factories[view](dist.Normal(loc, scale), invariant)


def model(
    released: Array,
    invariant,
    scale: ArrayLike,
    *,
    typical: float,
    view: View = "conditioned",
) -> None:
    """Latent true counts, their mean and their spread, given a release with exact totals.

    - `released`: (n,) the published counts, persons.
    - `invariant`: what is exact in it, such as `cdp.totals(groups)`.
    - `scale`: () or (n,) the published standard deviation of the base noise, persons.
    - `typical`: order of magnitude of a count, known before the release was seen.
    - `view`: how the noise was made to keep the totals.

    Sites: `mu`, `tau`, `noise` (n,), and the deterministic `truth` (n,) = released - noise.
    """
    mu = numpyro.sample("mu", dist.Normal(typical, typical))
    tau = numpyro.sample("tau", dist.HalfNormal(typical))
    noise = numpyro.sample("noise", noise_law(0.0, scale, invariant, view))
    truth = numpyro.deterministic("truth", released - noise)
    prior = cdp.Restricted(
        dist.Normal(mu, tau).expand((invariant.n,)), invariant, invariant.evaluate(released)
    )
    numpyro.factor("prior", prior.log_prob(truth))


def simulate(
    key: Array,
    invariant,
    scale: ArrayLike,
    *,
    mean: float = 500.0,
    spread: float = 30.0,
    view: View = "conditioned",
) -> tuple[Array, Array]:
    """A true table (n,) from the model and its release (n,): `(truth, released)`, persons."""
    of_truth, of_noise = jax.random.split(key)
    truth = mean + spread * jax.random.normal(of_truth, (invariant.n,))
    return truth, jnp.asarray(noise_law(truth, scale, invariant, view).sample(of_noise))


def fit(
    key: Array,
    released: Array,
    invariant,
    scale: ArrayLike,
    *,
    typical: float,
    view: View = "conditioned",
    num_samples: int = 1000,
) -> MCMC:
    """Draw from the posterior with NUTS; half as many warm-up steps, at least 200."""
    mcmc = MCMC(
        NUTS(model),
        num_warmup=max(200, num_samples // 2),
        num_samples=num_samples,
        progress_bar=False,
    )
    mcmc.run(key, released, invariant, scale, typical=typical, view=view)
    return mcmc


def main() -> None:
    """Simulate a table of five groups, release it, and say how much of the truth comes back."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--num-samples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--view", choices=get_args(View), default="conditioned")
    options = parser.parse_args()

    invariant = cdp.totals([group for group in "abcde" for _ in range(10)])
    scale = np.linspace(20.0, 60.0, invariant.n)  # standard deviations: some cells are noisier
    to_simulate, to_fit = jax.random.split(jax.random.key(options.seed))
    truth, released = simulate(to_simulate, invariant, scale, view=options.view)
    mcmc = fit(
        to_fit, released, invariant, scale,
        typical=500.0, view=options.view, num_samples=options.num_samples,
    )  # fmt: skip

    draws = mcmc.get_samples()
    low, high = jnp.quantile(draws["truth"], jnp.array([0.05, 0.95]), axis=0)
    covered = jnp.mean((low <= truth) & (truth <= high))
    print(f"mean of the population {draws['mu'].mean():.1f} +/- {draws['mu'].std():.1f} (true 500)")
    print(f"its spread {draws['tau'].mean():.1f} +/- {draws['tau'].std():.1f} (true 30)")
    print(f"error of the release {_rms(released - truth):.1f} persons per cell (root mean square)")
    print(f"error of the posterior mean {_rms(draws['truth'].mean(axis=0) - truth):.1f}")
    print(f"90% intervals that hold the true count: {covered:.0%}")


def _rms(error: Array) -> Array:
    return jnp.sqrt(jnp.mean(error**2))


if __name__ == "__main__":
    main()
