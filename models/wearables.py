"""Steps by the hour when each day's total is exact: when does a person walk, and how fast?

A watch uploads hourly steps with noise and the day's total exactly. Many hours have no steps to
speak of, and the noise is larger than such an hour: released values of -80 and 120 both may be
nothing. A mixture of rest and walking says so:

    active_h ~ Beta(2, 2), the chance that hour h of a day is walked in
    pace_h = level + swing profile_h, log steps of such an hour; profile sums to zero
    q_dh ~ active_h LogNormal(pace_h, spread) + (1 - active_h) LogNormal(log rest, 1)
    q restricted to the exact total of every day
    y - q ~ the published view of the published noise

**Rest is a law, not a zero.** A latent that is a real number cannot have an atom at 0 under a
sampler that follows gradients. A law of a few steps says the same as long as the noise is wider
than that. Which one matters to the sampler: between rest and a walk an exponential leaves nothing
(7 nats below either), so that chains hardly ever cross; a log-normal one has hours of some dozen
steps too, as days do, and chains cross.

An hour without a step is then outside every interval for it, as any law of positive numbers has it.

**Both components are summed out.** Whether an hour was walked in is no latent: the mixture's
density needs none. Its chance given a draw is `awake` (days, hours), computed afterwards.

**The day's total is an observation of its own.** Rest has to be made up for by walking: a day with
8,000 steps and ten quiet hours had busy ones. `release.latent` keeps that.

Several releases of the same days: `model(first, hours, second, ...)`. Whole steps (discrete noise)
are treated as real numbers; see `latent_counts` for scales below 1.
Try it: `python -m cdp_views.models.wearables --noise laplace`
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.nn import sigmoid

import cdp_views as cdp
from cdp_views.models import fitting


def model(release: Any, hours: int, *more: Any, typical: float = 500.0, rest: float = 10.0) -> None:
    """Hour-of-day profile and true steps, given one release of some days or several of the same.

    - `release`, `more`: `cdp.Release` or `cdp.Observed` of days x hours, flattened in C order,
      with `cdp.totals(day)` exact.
    - `hours`: hours of a day (24, or those the watch is worn).
    - `typical`: order of magnitude of the steps of an hour that is walked in.
    - `rest`: half of the hours at rest have fewer steps; below `typical` by far.

    Sites: `active` (hours,), `level`, `swing`, `profile` (hours,), `spread`, `q` (n,), and `awake`
    (days, hours), the chance of walking given q.
    """
    active = jnp.asarray(numpyro.sample("active", dist.Beta(2.0, 2.0).expand((hours,)).to_event(1)))
    level = numpyro.sample("level", dist.Normal(jnp.log(typical), 0.5))
    swing = numpyro.sample("swing", dist.HalfNormal(0.5))
    profile = jnp.asarray(numpyro.sample("profile", dist.ZeroSumNormal(1.0, (hours,))))
    spread = numpyro.sample("spread", dist.LogNormal(jnp.log(0.5), 0.5))
    days = release.invariant.n // hours
    chance, pace = jnp.tile(active, days), jnp.tile(level + swing * profile, days)
    walking = dist.LogNormal(pace, spread)
    resting = dist.LogNormal(jnp.full(pace.shape, jnp.log(rest)), 1.0)
    weights = dist.Categorical(probs=jnp.stack([chance, 1 - chance], axis=-1))
    mixture = dist.MixtureGeneral(weights, [walking, resting], support=dist.constraints.positive)
    q = release.latent("q", mixture)
    for index, other in enumerate(more, start=2):
        other.observe(f"release_{index}", q)
    odds = jnp.log(chance / (1 - chance)) + walking.log_prob(q) - resting.log_prob(q)
    numpyro.deterministic("awake", sigmoid(odds).reshape(days, hours))


def simulate(
    key: Array, mechanism: cdp.Mechanism, hours: int, *, typical: float = 500.0, rest: float = 10.0
) -> tuple[dict[str, Array], Array]:
    """Truth and release from the model: `(truth, released (n,))`, steps, whole as the noise is."""
    keys = jax.random.split(key, 9)
    n = mechanism.invariant.n
    truth = {
        "active": dist.Beta(2.0, 2.0).sample(keys[0], (hours,)),
        "level": dist.Normal(jnp.log(typical), 0.5).sample(keys[1]),
        "swing": dist.HalfNormal(0.5).sample(keys[2]),
        "profile": dist.ZeroSumNormal(1.0, (hours,)).sample(keys[3]),
        "spread": dist.LogNormal(jnp.log(0.5), 0.5).sample(keys[4]),
    }
    truth = {name: jnp.asarray(value) for name, value in truth.items()}
    pace = jnp.tile(truth["level"] + truth["swing"] * truth["profile"], n // hours)
    walks = jax.random.uniform(keys[5], (n,)) < jnp.tile(truth["active"], n // hours)
    walking = dist.LogNormal(pace, truth["spread"]).sample(keys[6])
    resting = dist.LogNormal(jnp.log(rest), 1.0).sample(keys[7], (n,))
    q = jnp.where(walks, jnp.asarray(walking), jnp.asarray(resting))
    truth["q"] = jnp.round(q) if mechanism.noise.startswith("discrete") else q
    return truth, jnp.asarray(mechanism.law(truth["q"]).sample(keys[8]))


def main() -> None:
    """Publish three weeks of 12 hours, and find the hours in which the person walks."""
    # an hour between rest and a slow walk moves slowly
    chosen = fitting.options(main.__doc__ or "", num_samples=3000)
    fitting.in_float64()
    days, hours = 21, 12
    random = np.random.default_rng(chosen.seed)
    active = np.array([0.1, 0.3, 0.9, 0.6, 0.3, 0.8, 0.5, 0.3, 0.4, 0.9, 0.4, 0.1])
    walks = random.uniform(size=(days, hours)) < active
    steps = np.where(walks, random.lognormal(np.log(400.0), 0.5, (days, hours)), 0.0)
    steps = np.rint(steps + random.lognormal(np.log(5.0), 1.0, (days, hours)))
    invariant = cdp.totals(np.repeat(np.arange(days), hours))
    release = fitting.publish(steps.ravel(), invariant, chosen)

    mcmc = fitting.fit(
        jax.random.key(chosen.seed), model, release, hours,
        rest=5.0, num_samples=chosen.num_samples,
    )  # fmt: skip
    draws = mcmc.get_samples()
    error = np.sqrt(np.mean((release.released - steps.ravel()) ** 2))
    print(f"the release itself is off by {error:.3g} steps per hour (rms)")
    fitting.report(draws, {"active": active, "q": steps.ravel()})
    said = np.asarray(draws["awake"]).mean(0) > 0.5
    print(f"walking or resting: right in {np.mean(said == walks):.0%} of the hours")
    fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
