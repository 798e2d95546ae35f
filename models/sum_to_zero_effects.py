"""Effects that sum to zero in each block, with tails of one's choice: no privacy here.

Schools of a district, varieties of a field, machines of a plant: effects of the n units are
deviations from their block, so they sum to zero in each. What is their prior?

    effect_i = scale * s_b * g_i,  g the Gaussian of largest entropy with unit variances and block
                                   sums of zero, b the block of i
    s_b = 1: Normal;  s_b ~ Rayleigh(1): Laplace;  s_b^2 ~ InverseGamma(df/2, df/2): Student-t
    y_k ~ Normal(mu_b + effect_i, sigma) for an observation k of unit i in block b

**Every effect has exactly that marginal**, Normal, Laplace or Student-t with this scale, whatever
the size of its block, and each block sums to zero with probability one. `dist.ZeroSumNormal`
cannot: its effects have variance scale^2 (1 - 1/n_b), so that a scale means another thing in a
block of two (half the variance) than in one of fifty, and centred Laplace effects, x - mean(x), are
not Laplace. The same law with the random scales integrated out is, block by block,

    cdp.MaxEntropy(dist.Laplace(jnp.zeros(n_b), scale), cdp.totals([0] * n_b), scales="shared")

whose density is exact (and unbounded at zero from three effects on, the reason why the model
samples s and g apart). `scales="couple"` has the same marginals and effects that are nearly
independent, but a density that can only be estimated.

**What the tails are for.** s belongs to a block: some blocks are calm and some are wild, and a wild
one does not loosen the prior of the calm ones. It does not single out one effect in a block.

Try it: `python -m cdp_views.models.sum_to_zero_effects`
"""

import argparse
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

import cdp_views as cdp
from cdp_views.models import fitting

Tails = Literal["normal", "laplace", "student-t"]


def model(
    y: ArrayLike | None,
    unit: ArrayLike,
    block: ArrayLike,
    *,
    tails: Tails = "student-t",
    df: float = 4.0,
) -> None:
    """Means of blocks and effects of units that sum to zero in their block.

    - `y`: (m,) observations, varying by about one; `None` to draw them.
    - `unit`: (m,) whole numbers, the unit of each observation.
    - `block`: (n,) whole numbers 0, 1, ..., the block of each unit; at least two units in each.
    - `tails`: the marginal law of an effect; `df` degrees of freedom, for Student-t.

    Sites: `mu` (blocks,), `scale`, `unit_free` (n,), `s` (blocks,) without Normal tails, `effect`
    (n,), `sigma`.
    """
    unit, block = np.asarray(unit), np.asarray(block)
    blocks = int(block.max()) + 1
    mu = jnp.asarray(numpyro.sample("mu", dist.Normal().expand((blocks,)).to_event(1)))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    gaussian = cdp.MaxEntropy(dist.Normal(np.zeros(block.size), 1.0), cdp.totals(block))
    free = jnp.asarray(numpyro.sample("unit_free", gaussian))
    s = jnp.ones(blocks)
    if tails != "normal":
        s = jnp.asarray(numpyro.sample("s", _mixing(tails, df).expand((blocks,)).to_event(1)))
    effect = scale * s[block] * free
    numpyro.deterministic("effect", effect)
    sigma = numpyro.sample("sigma", dist.LogNormal(-1.0, 0.5))
    numpyro.sample("y", dist.Normal(mu[block[unit]] + effect[unit], sigma).to_event(1), obs=y)


def _mixing(tails: str, df: float) -> Any:
    """The law of s, for which s times a standard normal is standard Laplace or Student-t."""
    if tails == "laplace":
        return dist.Weibull(np.sqrt(2.0), 2.0)
    if tails == "student-t":
        square_root = dist.transforms.PowerTransform(0.5)
        return dist.TransformedDistribution(dist.InverseGamma(df / 2, df / 2), square_root)
    raise ValueError(f'`tails` must be one of normal, laplace, student-t; got "{tails}".')


def simulate(
    key: Array, unit: ArrayLike, block: ArrayLike, *, tails: Tails = "student-t", df: float = 4.0
) -> tuple[dict[str, Array], Array]:
    """Truth and data from the model: `(truth, y (m,))`."""
    seeded = numpyro.handlers.seed(model, key)
    trace = numpyro.handlers.trace(seeded).get_trace(None, unit, block, tails=tails, df=df)
    truth = {name: jnp.asarray(site["value"]) for name, site in trace.items()}
    return truth, truth.pop("y")


def zero_sum_normal(y: ArrayLike, unit: ArrayLike, block: ArrayLike) -> None:
    """The same analysis with NumPyro's `ZeroSumNormal` for each block, to compare with."""
    unit, block = np.asarray(unit), np.asarray(block)
    blocks = int(block.max()) + 1
    mu = jnp.asarray(numpyro.sample("mu", dist.Normal().expand((blocks,)).to_event(1)))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    effect = jnp.zeros(block.size)
    for b in range(blocks):
        cells = np.flatnonzero(block == b)
        free = numpyro.sample(f"unit_free_{b}", dist.ZeroSumNormal(1.0, (cells.size,)))
        effect = effect.at[cells].set(scale * jnp.asarray(free))
    numpyro.deterministic("effect", effect)
    sigma = numpyro.sample("sigma", dist.LogNormal(-1.0, 0.5))
    numpyro.sample("y", dist.Normal(mu[block[unit]] + effect[unit], sigma).to_event(1), obs=y)


def main() -> None:
    """Six calm blocks and two wild ones: Laplace tails against `ZeroSumNormal`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    # of a hundred R-hats from 1,000 draws a chain one now and then exceeds 1.01 by chance
    parser.add_argument("--num-samples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    fitting.in_float64()
    random = np.random.default_rng(chosen.seed)
    block = np.repeat(np.arange(8), 5)
    effect = random.normal(size=40) * np.where(block < 6, 0.1, 2.0)
    effect -= (np.bincount(block, effect) / 5)[block]
    unit = np.tile(np.arange(40), 2)
    y = random.normal(effect[unit], 0.5)

    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "Laplace": (model, {"tails": "laplace"}),
        "ZeroSumNormal": (zero_sum_normal, {}),
    }
    for name, (chosen_model, how) in kinds.items():
        mcmc = fitting.fit(
            jax.random.key(chosen.seed), chosen_model, y, unit, block,
            num_samples=chosen.num_samples, **how,
        )  # fmt: skip
        draws = np.asarray(mcmc.get_samples()["effect"])
        error = (draws.mean(0) - effect) ** 2
        calm, wild = (np.sqrt(error[part].mean()) for part in (block < 6, block >= 6))
        print(f"{name}: calm blocks off by {calm:.3g}, wild ones by {wild:.3g} (rms)")
        fitting.report({"effect": jnp.asarray(draws)}, {"effect": effect})
        fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
