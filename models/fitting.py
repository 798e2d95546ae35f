"""What every model's `main` does: publish a simulated table, read it back, fit, say how it went.

Nothing here is about a particular model. The fit is NumPyro's NUTS with two settings that matter
for tables: float64, since counts of millions lose the noise in float32, and a target acceptance of
0.95, since the sd of a population and its members are correlated.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpyro.infer import MCMC, NUTS

import cdp_views as cdp


def fit(
    key: Array,
    model: Callable[..., None],
    *args: Any,
    num_samples: int = 1000,
    num_warmup: int | None = None,
    num_chains: int = 2,
    **kwargs: Any,
) -> MCMC:
    """Posterior draws by NUTS: chains vectorised, half as many warm-up steps, at least 500.

    - `key`: JAX key. `model`, `args`, `kwargs`: the model and what it is given.
    - `num_samples`: draws of each of the `num_chains` chains.
    """
    warmup = max(500, num_samples // 2) if num_warmup is None else num_warmup
    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=warmup,
        num_samples=num_samples,
        num_chains=num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(key, *args, extra_fields=("diverging",), **kwargs)
    return mcmc


def options(what: str, *, num_samples: int = 1000) -> argparse.Namespace:
    """The command line of a model: `--num-samples`, `--seed`, `--view`, `--noise`, `--epsilon`."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--num-samples", type=int, default=num_samples)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--view", choices=["max-entropy", "conditioned", "imaged"], default="imaged"
    )
    parser.add_argument(
        "--noise",
        choices=["normal", "laplace", "discrete-normal", "discrete-laplace"],
        default="normal",
    )
    parser.add_argument("--epsilon", type=float, default=0.2)
    chosen = parser.parse_args()
    if chosen.view == "max-entropy" and chosen.noise.startswith("discrete"):
        parser.error("there is no max-entropy view of whole noise: take another of the two")
    return chosen


def publish(
    counts: ArrayLike,
    invariant: Any,
    chosen: argparse.Namespace,
    neighbours: Any = None,
    *,
    moved: float = 2.0,
) -> cdp.Release | cdp.Observed:
    """The counts as an office would publish them, written to files and read back.

    No guarantee is proved for max-entropy Laplace noise, so that no office publishes it: it is
    drawn here with the scale that independent cells would need.

    - `neighbours`: the unit of privacy; one record that moves within a group if left out.
    - `moved`: by how much a step to a neighbour changes all cells together.
    """
    if (chosen.view, chosen.noise) == ("max-entropy", "laplace"):
        print("max-entropy Laplace noise has no proved guarantee: drawn for the analysis only")
        return drawn(counts, invariant, chosen, moved / chosen.epsilon)
    pure = chosen.noise in ("laplace", "discrete-laplace")
    made = cdp.release(
        np.asarray(counts),
        invariant,
        view=chosen.view,
        noise=chosen.noise,
        epsilon=chosen.epsilon,
        delta=0.0 if pure else 1e-6,
        neighbours=cdp.relocations(invariant) if neighbours is None else neighbours,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "released.csv"
        made.save(path)
        return cdp.read_release(path)


def drawn(
    counts: ArrayLike, invariant: Any, chosen: argparse.Namespace, scale: float
) -> cdp.Observed:
    """The counts with noise of a stated scale, and no statement about privacy."""
    mechanism = cdp.Mechanism(chosen.view, chosen.noise, scale, invariant)
    noisy: Any = mechanism.law(np.asarray(counts, float))
    return cdp.Observed(mechanism, np.asarray(noisy.sample(jax.random.key(chosen.seed + 1))))


def report(draws: Mapping[str, Array], truth: Mapping[str, ArrayLike]) -> None:
    """Posterior mean and 90 % interval of each number, coverage of each array, beside the truth."""
    for name, true in truth.items():
        low, middle, high = np.quantile(np.asarray(draws[name]), [0.05, 0.5, 0.95], axis=0)
        true = np.asarray(true)
        if true.ndim == 0:
            print(f"{name}: {middle:.3g}, 90% interval {low:.3g} to {high:.3g} (true {true:.3g})")
            continue
        inside = np.mean((low <= true) & (true <= high))
        error = np.sqrt(np.mean((np.mean(np.asarray(draws[name]), axis=0) - true) ** 2))
        print(f"{name}: {inside:.0%} of 90% intervals hold the truth; error {error:.3g} (rms)")


def diagnose(mcmc: MCMC) -> None:
    """Say whether the draws may be used: R-hat, effective draws, divergences."""
    print(cdp.diagnose(cdp.to_datatree(mcmc, cells=())).text)


def in_float64() -> None:
    """64-bit JAX for the whole program; a `main` calls it first."""
    jax.config.update("jax_enable_x64", True)
