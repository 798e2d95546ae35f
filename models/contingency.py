"""Association in a two-way table whose margins are exact and whose cells are noisy.

Rows i, columns j: say education by income in a town. Both margins are published exactly, the cells
with noise. Does one go up with the other, and which cells stand out?

    log lambda_ij = level + row_i + column_j + beta u_i v_j + tau e_ij
    q_ij ~ Normal(lambda_ij, sqrt(lambda_ij)), restricted to both margins of the release
    y - q ~ the published view of the published noise

u and v are scores of rows and columns, from -1 to 1, so that beta is the association that follows
their order (linear by linear; 4 beta is the log odds ratio of the four corners). e sums to zero in
every row and column and tau shrinks it: what else there is.

**tau is not 0, and e is as wide as the counts allow.** A tau that may be 0 and an e of unit size
are known by their product only, and where cells tell it well both go along its ridge into corners
that no step size fits: with a half-normal tau 2 to 5 of 8,000 draws diverged. Hence
tau ~ LogNormal(log 0.15, 0.8), and the latent is tau^t e, with t near 1 where cells tell it.

**The margins are data about row and column effects, and about nothing else here.** `row` and
`column` must be in the model, although nobody asks for them: without them lambda would have to
match the margins through beta. (Or condition on the margins as Fisher did, which needs the
noncentral hypergeometric law.)

**The cells are on the real line.** Tables with two exact margins and no negative cell have no
coordinates as simple as log shares, so the Poisson is replaced by the Normal with its mean and
variance. That costs nothing to speak of where all lambda are above about 20, where a Normal falls
below 0 with probability 4e-6; with lambda = 5 it does so with 1 %, and small cells look too certain
of being small. Merge categories first.

**A noise that overlapping totals make hard.** Imaged noise is y - q = P u with u independent in
all cells: u is sampled and nothing else is needed, so every imaged noise works
(`TransformReparam`). Conditioned Laplace noise needs its density only up to a constant, known
scale (the constant is estimated once, in some seconds). Max-entropy Laplace has the scales of the
noise as latents of their own; on margins of small tables they are coupled, one for all cells.

Whole counts and their noise are treated as real numbers; `latent_counts` says what that costs
below scale 1.
Several releases of the same table: `model(first, shape, second, ...)`.
Try it: `python -m cdp_views.models.contingency --noise laplace`
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro.infer.reparam import Reparam, TransformReparam

import cdp_views as cdp
from cdp_views.models import fitting

_TAU = dist.LogNormal(np.log(0.15), 0.8)  # cells are off by some per cent, or by half


def model(release: Any, shape: Sequence[int], *more: Any, typical: float = 100.0) -> None:
    """Association and true cells, given one release of a table, or several of the same one.

    - `release`, `more`: `cdp.Release` or `cdp.Observed` of rows x columns, flattened in C order,
      with `cdp.margins(shape, [(0,), (1,)])` exact.
    - `shape`: (rows, columns).
    - `typical`: order of magnitude of a cell, known beforehand.

    Sites: `level`, `row` and `column` (they sum to zero), `beta`, `tau`, `cell` (shape, sums to
    zero in rows and columns), tau^t e, `odds` (shape), the log association beta u v + tau e, and
    `q` (n,).
    """
    rows, columns = shape
    level = numpyro.sample("level", dist.Normal(jnp.log(typical), 1.0))
    row = jnp.asarray(numpyro.sample("row", dist.ZeroSumNormal(0.5, (rows,))))
    column = jnp.asarray(numpyro.sample("column", dist.ZeroSumNormal(0.5, (columns,))))
    beta = numpyro.sample("beta", dist.Normal(0.0, 0.5))
    tau, told = numpyro.sample("tau", _TAU), _told(release)
    cell = numpyro.sample("cell", dist.ZeroSumNormal(tau**told, (rows, columns)))
    odds = beta * _scores(shape) + tau ** (1 - told) * cell
    numpyro.deterministic("odds", odds)
    expected = jnp.exp(level + row[:, None] + column + odds).ravel()
    # an imaged release: its noise before imaging is the latent, independent in all cells
    imaged = release.mechanism.view == "imaged"
    config: dict[str, Reparam] = {"q_noise": TransformReparam()} if imaged else {}
    with numpyro.handlers.reparam(config=config):
        q = release.latent("q", dist.Normal(expected, jnp.sqrt(expected)))
    for index, other in enumerate(more, start=2):
        other.observe(f"release_{index}", q)


def _told(release: Any) -> Array:
    """t, from 0 to 1: the share of the variance of log cells, 0.15 squared, that counts tell."""
    scale = jnp.mean(jnp.asarray(release.scale, float))
    count = jnp.maximum(jnp.mean(jnp.asarray(release.released)), scale)
    return 0.0225 / (0.0225 + 1 / count + (scale / count) ** 2)


def simulate(
    key: Array, mechanism: cdp.Mechanism, shape: Sequence[int], *, typical: float = 100.0
) -> tuple[dict[str, Array], Array]:
    """Truth and release from the model: `(truth, released (n,))`, counts, whole as the noise is."""
    keys = jax.random.split(key, 8)
    rows, columns = shape
    truth = {
        "level": dist.Normal(jnp.log(typical), 1.0).sample(keys[0]),
        "row": dist.ZeroSumNormal(0.5, (rows,)).sample(keys[1]),
        "column": dist.ZeroSumNormal(0.5, (columns,)).sample(keys[2]),
        "beta": dist.Normal(0.0, 0.5).sample(keys[3]),
        "tau": _TAU.sample(keys[4]),
        "cell": dist.ZeroSumNormal(1.0, (rows, columns)).sample(keys[5]),
    }
    truth = {name: jnp.asarray(value) for name, value in truth.items()}
    truth["odds"] = truth["beta"] * _scores(shape) + truth["tau"] * truth["cell"]
    log_expected = truth["level"] + truth["row"][:, None] + truth["column"] + truth["odds"]
    expected = jnp.exp(log_expected).ravel()
    q = jnp.asarray(dist.Normal(expected, jnp.sqrt(expected)).sample(keys[6]))
    truth["q"] = jnp.round(q) if mechanism.noise.startswith("discrete") else q
    return truth, jnp.asarray(mechanism.law(truth["q"]).sample(keys[7]))


def _scores(shape: Sequence[int]) -> ArrayLike:
    """u_i v_j, equally spaced from -1 to 1 in both directions."""
    u, v = (np.linspace(-1.0, 1.0, size) for size in shape)
    return u[:, None] * v


def main() -> None:
    """Publish a 4 x 5 table with a slope and one odd cell, and find both again."""
    chosen = fitting.options(main.__doc__ or "")
    fitting.in_float64()
    shape, random = (4, 5), np.random.default_rng(chosen.seed)
    odds = 0.4 * np.asarray(_scores(shape))
    row, column = 0.3 * random.normal(size=4), 0.3 * random.normal(size=5)
    counts = random.poisson(np.exp(5.0 + row[:, None] + column + odds))
    invariant = cdp.margins(shape, [(0,), (1,)])
    # two records that change places touch four cells by one: epsilon is at most 4 / scale
    if chosen.noise.endswith("laplace"):
        release = fitting.drawn(counts.ravel(), invariant, chosen, 4.0 / chosen.epsilon)
    else:
        release = fitting.publish(counts.ravel(), invariant, chosen, cdp.exchanges(invariant))

    mcmc = fitting.fit(
        jax.random.key(chosen.seed), model, release, shape, num_samples=chosen.num_samples
    )
    draws = mcmc.get_samples()
    error = np.sqrt(np.mean((release.released - counts.ravel()) ** 2))
    print(f"the release itself is off by {error:.3g} per cell (rms)")
    fitting.report(draws, {"beta": 0.4, "odds": odds, "q": counts.ravel()})
    print(f"probability of a positive association: {np.mean(np.asarray(draws['beta']) > 0):.3f}")
    fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
