"""Regression from five noisy sums: the data stay at the agency, their moments are published.

An agency holds n pairs (x_j, z_j) of persons and releases t = sum (x, x^2, z, xz, z^2), with noise;
n is public. The line of z on x is wanted:

    x_j ~ Normal(centre, width),  z_j ~ Normal(alpha + beta x_j, sigma)
    t ~ Normal(n E[f], n Cov[f]),  f = (x, x^2, z, xz, z^2), the central limit theorem
    y - t ~ the published view of the published noise

**The sums are random too.** To solve the normal equations with the released sums treats noise as
signal: the noisy matrix of moments need not even be positive definite, and no standard error knows
of the noise. Here the true sums are a latent whose law follows from the parameters, so the
posterior has both errors, sampling and noise.

**Exact totals fit in.** If the sum of x is published exactly elsewhere (people, taxes), it is a
row (1, 0, 0, 0, 0) of the invariant: that sum keeps its value and the posterior uses it as data
about `centre` and, through the correlations, about the other four. Without any,
`cdp.linear(np.zeros((1, 5)))` and `view="independent"`.

**Where no sum is exact, sums are drawn from their law** (`sums_unit`, standard normal), not as
release minus noise: the parameters move all five together, and noise that had to follow them made
draws that diverged and a third as many effective ones.

**Clip first.** The noise is scaled to what one person can change in the sums, so x and z have to
lie in known ranges, here about -1 to 1; the model takes no notice of the clipping, which is right
where it hardly ever bites. n should be above about 100 for the central limit to hold.

Several releases of the same sums: `model(first, n, second, ...)`.
Try it: `python -m cdp_views.models.sufficient_statistics --noise laplace`

Reference: Bernstein and Sheldon 2019, Differentially private Bayesian linear regression.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro
import numpyro.distributions as dist
from jax import Array

import cdp_views as cdp
from cdp_views.models import fitting


def model(release: Any, n: int, *more: Any) -> None:
    """Line of z on x from the released sums of (x, x^2, z, xz, z^2) over n persons.

    - `release`, `more`: `cdp.Release` or `cdp.Observed` of the five sums, in this order.
    - `n`: persons, public.

    Sites: `unit` (5,) and what it stands for, `centre`, `width`, `alpha`, `beta`, `sigma`; and
    `sums` (5,), the true ones.
    """
    # in units of the prior, or a chain starts where sums are off by a thousand standard errors
    unit = jnp.asarray(numpyro.sample("unit", dist.Normal().expand((5,)).to_event(1)))
    line = parameters(unit)
    for name, value in line.items():
        numpyro.deterministic(name, value)
    mean, covariance = moments(**line)
    if release.invariant.rank > 0:
        sums = release.latent("sums", dist.MultivariateNormal(n * mean, n * covariance))
    else:
        root = jnp.sqrt(n) * jnp.linalg.cholesky(covariance)
        free = jnp.asarray(numpyro.sample("sums_unit", dist.Normal().expand((5,)).to_event(1)))
        sums = jnp.asarray(numpyro.deterministic("sums", n * mean + root @ free))
        release.observe("release", sums)
    for index, other in enumerate(more, start=2):
        other.observe(f"release_{index}", sums)


def parameters(unit: Array) -> dict[str, Array]:
    """The line and the law of x by name, from five standard normal numbers: their prior."""
    return {
        "centre": 0.3 * unit[0],
        "width": jnp.exp(-1.0 + 0.5 * unit[1]),
        "alpha": 0.5 * unit[2],
        "beta": unit[3],
        "sigma": jnp.exp(-1.0 + 0.5 * unit[4]),
    }


def moments(centre: Any, width: Any, alpha: Any, beta: Any, sigma: Any) -> tuple[Array, Array]:
    """Mean (5,) and covariance (5, 5) of f = (x, x^2, z, xz, z^2) of one person.

    x = centre + width u and z = a + b u + sigma v with u, v standard normal, so f is quadratic in
    (u, v): f = m + L (u, v) + (Q_1 u^2 + Q_2 uv + Q_3 v^2), and u^2, uv, v^2 are uncorrelated with
    each other and with u, v, with variances 2, 1, 2.
    """
    a, b = alpha + beta * centre, beta * width
    zero = jnp.zeros_like(a)
    x, z = (centre, width, zero), (a, b, sigma)
    linear, square = [], []
    for first, second in ((x, None), (x, x), (z, None), (x, z), (z, z)):
        if second is None:
            linear.append(jnp.stack(first))
            square.append(jnp.zeros(3))
            continue
        (p, q, r), (k, m, s) = first, second
        linear.append(jnp.stack([p * k, p * m + q * k, p * s + r * k]))
        square.append(jnp.stack([q * m, q * s + r * m, r * s]))
    line, curve = jnp.stack(linear), jnp.stack(square)
    mean = line[:, 0] + curve[:, 0] + curve[:, 2]
    spread = line[:, 1:] @ line[:, 1:].T + (curve * jnp.array([2.0, 1.0, 2.0])) @ curve.T
    return mean, spread


def sums_of(x: npt.ArrayLike, z: npt.ArrayLike) -> np.ndarray:
    """The five sums of data, as the agency computes them: (5,)."""
    x, z = np.asarray(x), np.asarray(z)
    return np.stack([x, x**2, z, x * z, z**2]).sum(axis=-1)


def simulate(key: Array, mechanism: cdp.Mechanism, n: int) -> tuple[dict[str, Array], Array]:
    """Truth and release from the model: `(truth, released (5,))`; the sums from their normal law.

    Noise is to be real: these sums are not whole.
    """
    of_unit, of_sums, of_noise = jax.random.split(key, 3)
    truth = parameters(jax.random.normal(of_unit, (5,)))
    mean, covariance = moments(**truth)
    sums = dist.MultivariateNormal(n * mean, n * covariance).sample(of_sums)
    truth["sums"] = jnp.asarray(sums)
    return truth, jnp.asarray(mechanism.law(truth["sums"]).sample(of_noise))


def main() -> None:
    """Release the five sums of 10,000 persons and find the line again."""
    chosen = fitting.options(main.__doc__ or "")
    fitting.in_float64()
    if chosen.noise.startswith("discrete"):
        raise SystemExit("these sums are not whole: take --noise normal or laplace")
    random, n = np.random.default_rng(chosen.seed), 10_000
    truth = {"alpha": 0.1, "beta": 0.6, "sigma": 0.25}
    x = np.clip(random.normal(0.1, 0.35, n), -1, 1)
    z = np.clip(random.normal(truth["alpha"] + truth["beta"] * x, truth["sigma"]), -1, 1)
    sums, free = sums_of(x, z), cdp.linear(np.zeros((1, 5)))
    # no total is exact: the three views are one, independent noise
    # one person more changes each sum by at most 1, all five at the corners
    corners = cdp.differences([sums_of([a], [b]) for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    base = dist.Laplace if chosen.noise == "laplace" else dist.Normal
    scale = cdp.calibrate(
        lambda scale: cdp.Imaged(base(np.zeros(5), scale), free), corners,
        epsilon=chosen.epsilon, delta=0.0 if chosen.noise == "laplace" else 1e-6,
    )  # fmt: skip
    mechanism = cdp.Mechanism("independent", chosen.noise, scale, free)
    released = mechanism.law(sums).sample(jax.random.key(chosen.seed + 1))

    mcmc = fitting.fit(
        jax.random.key(chosen.seed), model, cdp.Observed(mechanism, np.asarray(released)), n,
        num_samples=chosen.num_samples,
    )  # fmt: skip
    print(f"noise of scale {scale:.3g} in sums of {np.round(sums, 1)}")
    fitting.report(mcmc.get_samples(), truth | {"sums": sums})
    fitting.diagnose(mcmc)


if __name__ == "__main__":
    main()
