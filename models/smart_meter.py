"""Households behind a feeder: its load is exact in every period, each meter is noisy.

The grid operator measures what a feeder delivers, period by period, and publishes it exactly. The
meters of its households are released with noise that keeps these sums. Which household uses how
much, and when?

    level ~ Normal(log typical, 1),  between, swing, spread ~ LogNormal(log 0.5, 0.5)
    usual_h ~ Normal(level, between),  course ~ ZeroSumNormal(swing)
    log q_hp ~ Normal(usual_h + course_p, spread)
    q restricted to the exact load of the feeder in every period
    y - q ~ the published view of the published noise

course sums to zero over the day: it is what all have in common, `swing` how strong it is.

**The feeder tells the course almost exactly, the meters hardly anything of it.** The sum of
hundreds of households is known without error, a single one is buried in noise. `release.latent`
keeps what the sums say (a prior conditioned on them would not), so the course comes from the feeder
and the meters only divide it up.

**Effects are latents as they stand, not multiples of their sd.** A day of meters tells `usual` and
`course` well. Written as level + between household_h + swing shape_p with standard normal household
and shape, what is known are products and sums: raise the level, lower all households, and hardly
anything changes. R-hat of the level was 1.035, and 80 of 2,000 draws effective, on a real table.
With effects as they stand an sd near 0 would be a funnel; loads do differ, and the priors say so.

**Noise of one period does not average out within the period** (it sums to zero over households),
but it does over the periods of one household: its level is found from its day, or its month.

**Energy is positive.** The released value of a fridge at night often is not; log-normal loads never
are, and a released negative value is as good an observation as any.

**Noise may be wider than a load, not very much wider than what loads differ by.** Beyond that the
posterior of single loads is the prior, its width depends on `spread`, and that is a funnel: with
noise of sd 24 on loads of 15 +- 6, 35 of 600 draws diverged; with 24 on 150 +- 60 none. Sum over
periods first, or use more days.

Successive days: give `model` a list of releases; household levels and the course are those of all
days. Released whole watt-hours (discrete noise) are treated as real numbers; see
`latent_counts` for scales below 1.
Try it: `python -m cdp_views.models.smart_meter --noise laplace`
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

import cdp_views as cdp
from cdp_views.models import fitting


def model(releases: Any, periods: int, *, typical: float = 300.0) -> None:
    """Household levels and the course of the day, given the release of one day or several.

    - `releases`: a `cdp.Release` or `cdp.Observed` of households x periods, flattened in C order,
      with the total of every period exact; or a sequence of them, one a day.
    - `periods`: periods of a day.
    - `typical`: order of magnitude of one household's energy in one period, Wh.

    Sites: `level`, `between`, `swing`, `spread`, `usual` (households,) and `course` (periods,),
    log Wh, and `q` (n,), or `q_0`, `q_1`, ... for days, Wh.
    """
    days = {f"q_{day}": release for day, release in enumerate(releases)} if isinstance(
        releases, Sequence
    ) else {"q": releases}  # fmt: skip
    households = next(iter(days.values())).invariant.n // periods
    level = numpyro.sample("level", dist.Normal(jnp.log(typical), 1.0))
    between, swing, spread = (
        numpyro.sample(name, dist.LogNormal(jnp.log(0.5), 0.5))
        for name in ("between", "swing", "spread")
    )
    usual = dist.Normal(level, between).expand((households,)).to_event(1)
    usual = jnp.asarray(numpyro.sample("usual", usual))
    course = jnp.asarray(numpyro.sample("course", dist.ZeroSumNormal(swing, (periods,))))
    mean = (usual[:, None] + course).ravel()
    for name, release in days.items():
        release.latent(name, dist.LogNormal(mean, spread))


def simulate(
    key: Array, mechanism: cdp.Mechanism, periods: int, *, typical: float = 300.0
) -> tuple[dict[str, Array], Array]:
    """Truth and release of one day from the model: `(truth, released (n,))`, Wh.

    Energy is whole where the noise is.
    """
    keys = jax.random.split(key, 8)
    households = mechanism.invariant.n // periods
    truth = {"level": jnp.asarray(dist.Normal(jnp.log(typical), 1.0).sample(keys[0]))}
    for name, of_sd in zip(("between", "swing", "spread"), keys[1:4], strict=True):
        truth[name] = jnp.asarray(dist.LogNormal(jnp.log(0.5), 0.5).sample(of_sd))
    truth["usual"] = truth["level"] + truth["between"] * jax.random.normal(keys[4], (households,))
    truth["course"] = jnp.asarray(dist.ZeroSumNormal(truth["swing"], (periods,)).sample(keys[5]))
    mean = (truth["usual"][:, None] + truth["course"]).ravel()
    q = jnp.asarray(dist.LogNormal(mean, truth["spread"]).sample(keys[6]))
    truth["q"] = jnp.round(q) if mechanism.noise.startswith("discrete") else q
    return truth, jnp.asarray(mechanism.law(truth["q"]).sample(keys[7]))


def main() -> None:
    """Publish a day of 20 meters in 8 periods, and give the course and the households back."""
    chosen = fitting.options(main.__doc__ or "")
    fitting.in_float64()
    households, periods = 20, 8
    random = np.random.default_rng(chosen.seed)
    course = 0.6 * np.array([-1.5, -1.2, 0.3, 0.2, 0.0, 0.4, 1.3, 0.5])
    # a record is one unit of what is counted, here ten watt-hours
    usual = np.log(150.0) + 0.5 * random.normal(size=households)
    load = np.rint(random.lognormal((usual[:, None] + course).ravel(), 0.4))
    invariant = cdp.totals(np.tile(np.arange(periods), households))
    release = fitting.publish(load, invariant, chosen)

    mcmc = fitting.fit(
        jax.random.key(chosen.seed), model, release, periods,
        typical=100.0, num_samples=chosen.num_samples,
    )  # fmt: skip
    draws = dict(mcmc.get_samples())
    error = np.sqrt(np.mean((release.released - load) ** 2))
    print(f"the release itself is off by {error:.3g} (ten Wh, rms)")
    draws["in all"] = draws["q"].reshape(-1, households, periods).sum(-1)
    found = {"between": 0.5, "spread": 0.4, "usual": usual, "course": course, "q": load}
    fitting.report(draws, found | {"in all": load.reshape(households, periods).sum(-1)})
    fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
