"""Households behind a feeder: its load is exact in every period, each meter is noisy.

The grid operator measures what a feeder delivers, period by period, and publishes it exactly. The
meters of its households are released with noise that keeps these sums. Which household uses how
much, and when?

    log q_hp = level + between household_h + swing shape_p + spread * noise_hp
    q restricted to the exact load of the feeder in every period
    y - q ~ the published view of the published noise

household is standard normal, shape sums to zero over the day: the shape is what all have in
common, `swing` how strong it is.

**The feeder tells the shape almost exactly, the meters hardly anything of it.** The sum of hundreds
of households is known without error, a single one is buried in noise. `release.latent` keeps what
the sums say (a prior conditioned on them would not), so the shape comes from the feeder and the
meters only divide it up.

**Noise of one period does not average out within the period** (it sums to zero over households),
but it does over the periods of one household: its level is found from its day, or its month.

**Energy is positive.** The released value of a fridge at night often is not; log-normal loads never
are, and a released negative value is as good an observation as any.

**Noise may be wider than a load, not very much wider than what loads differ by.** Beyond that the
posterior of single loads is the prior, its width depends on `spread`, and that is a funnel: with
noise of sd 24 on loads of 15 +- 6, 35 of 600 draws diverged; with 24 on 150 +- 60 none. Sum over
periods first, or use more days.

Successive days: give `model` a list of releases; household levels and the shape are those of all
days. Released whole watt-hours (discrete noise) are treated as real numbers.
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
    """Household levels and daily shape, given the release of one day or several.

    - `releases`: a `cdp.Release` or `cdp.Observed` of households x periods, flattened in C order,
      with the total of every period exact; or a sequence of them, one a day.
    - `periods`: periods of a day.
    - `typical`: order of magnitude of one household's energy in one period, Wh.

    Sites: `level`, `between`, `swing`, `spread`, `household` (households,), `shape` (periods,),
    and `q` (n,), or `q_0`, `q_1`, ... for days, Wh.
    """
    days = {f"q_{day}": release for day, release in enumerate(releases)} if isinstance(
        releases, Sequence
    ) else {"q": releases}  # fmt: skip
    households = next(iter(days.values())).invariant.n // periods
    level = numpyro.sample("level", dist.Normal(jnp.log(typical), 1.0))
    between = numpyro.sample("between", dist.HalfNormal(1.0))
    swing = numpyro.sample("swing", dist.HalfNormal(1.0))
    spread = numpyro.sample("spread", dist.LogNormal(jnp.log(0.5), 0.5))
    household = numpyro.sample("household", dist.Normal().expand((households,)).to_event(1))
    shape = numpyro.sample("shape", dist.ZeroSumNormal(1.0, (periods,)))
    mean = _log_mean(level, between, household, swing, shape)
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
    truth = {
        "level": dist.Normal(jnp.log(typical), 1.0).sample(keys[0]),
        "between": dist.HalfNormal(1.0).sample(keys[1]),
        "swing": dist.HalfNormal(1.0).sample(keys[2]),
        "spread": dist.LogNormal(jnp.log(0.5), 0.5).sample(keys[3]),
        "household": jax.random.normal(keys[4], (households,)),
        "shape": dist.ZeroSumNormal(1.0, (periods,)).sample(keys[5]),
    }
    truth = {name: jnp.asarray(value) for name, value in truth.items()}
    names = ("level", "between", "household", "swing", "shape")
    mean = _log_mean(*(truth[name] for name in names))
    q = jnp.asarray(dist.LogNormal(mean, truth["spread"]).sample(keys[6]))
    truth["q"] = jnp.round(q) if mechanism.noise.startswith("discrete") else q
    return truth, jnp.asarray(mechanism.law(truth["q"]).sample(keys[7]))


def _log_mean(level: Any, between: Any, household: Any, swing: Any, shape: Any) -> Array:
    """The mean of log q, households x periods in C order: (n,)."""
    return (level + between * household[:, None] + swing * shape).ravel()


def main() -> None:
    """Publish a day of 20 meters in 8 periods, and give the shape and the households back."""
    chosen = fitting.options(main.__doc__ or "")
    fitting.in_float64()
    households, periods = 20, 8
    random = np.random.default_rng(chosen.seed)
    household = random.normal(size=households)
    shape = np.array([-1.5, -1.2, 0.3, 0.2, 0.0, 0.4, 1.3, 0.5])
    truth = {"level": np.log(1500.0), "between": 0.5, "swing": 0.6, "spread": 0.4}
    mean = _log_mean(truth["level"], 0.5, household, 0.6, shape)
    # a record is one unit of what is counted, here ten watt-hours
    load = np.rint(random.lognormal(np.asarray(mean), truth["spread"]) / 10.0)
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
    draws["shape"] = draws["swing"][:, None] * draws["shape"]
    found = {"between": 0.5, "spread": 0.4, "shape": 0.6 * shape, "q": load}
    fitting.report(draws, found | {"in all": load.reshape(households, periods).sum(-1)})
    fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
