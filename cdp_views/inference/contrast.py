"""What ignoring the noise, or the exact totals, would cost: two analyses of the same releases."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax import Array
from numpyro.infer import NUTS

from cdp_views.inference.calibrated import Simulate, check_shapes, simulated
from cdp_views.inference.diagnosis import INTERVAL
from cdp_views.inference.many import Model, run_many

ANALYSES = ("naive", "aware")


def naive_and_aware(
    key: Array,
    simulate: Simulate,
    model: Model,
    naive: Model,
    *,
    sites: Sequence[str],
    repetitions: int = 100,
    draws: int = 400,
    warmup: int = 400,
    kernel: Callable[[Model], Any] = NUTS,
    lanes: int = 1,
) -> xr.Dataset:
    """Coverage, bias and width of 90 % intervals of two models, fitted to the same releases.

    Args:
        key: a typed JAX key.
        simulate: `simulate(key)` → (truth by site, data), traceable.
        model: `model(data)`, which knows how the data were made.
        naive: `naive(data)`, which does not.
        sites: what both models have, and the truth.
        repetitions: number of simulated releases.
        draws: of one chain for each release and model.
        warmup: steps of adaptation of each chain.
        kernel: see `run_many`, and `lanes`.

    Returns:
        Dimensions `analysis` (naive, aware), `site` and `repetition`. For each repetition, averages
        over the site's cells: `covered90`, `error` (posterior mean − truth), `width90`. Over
        repetitions: `coverage90`, `bias`, `mean_width90`, `rmse`, each but the last with `_se`, the
        standard error of a mean of independent releases (cells of one release are not
        independent). `divergences` by analysis.

    Raises:
        ValueError: a site that the truth or a model lacks, or fewer than 2 repetitions.

    Example:
        >>> import jax, numpyro, numpyro.distributions as dist
        >>> def fit(sd):
        ...     def model(y):
        ...         mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        ...         numpyro.sample("y", dist.Normal(mu, sd), obs=y)
        ...     return model
        >>> def simulate(key):
        ...     mu, noise = jax.random.normal(key, (2,))
        ...     return {"mu": mu}, mu + noise
        >>> found = naive_and_aware(jax.random.key(0), simulate, fit(1.0), fit(0.1), sites=["mu"],
        ...                         repetitions=40, draws=50, warmup=100)
        >>> bool(found["coverage90"].sel(analysis="naive", site="mu") < 0.5)
        True

    Reference: [TV] is about mechanisms, not about this; coverage with clustered standard errors,
    Cameron and Miller 2015.
    """
    if repetitions < 2:
        raise ValueError(
            f"`repetitions` must be at least 2 for standard errors; got {repetitions}."
        )
    to_simulate, *to_fit = jax.random.split(key, 3)
    truth, data = simulated(to_simulate, simulate, sites, repetitions)
    names = ("covered90", "error", "square_error", "width90")
    shape = (len(ANALYSES), len(sites), repetitions)
    raw = {name: np.empty(shape) for name in names}
    diverged = []
    for a, (part, fitted) in enumerate(zip(to_fit, (naive, model), strict=True)):
        found, diverging = run_many(
            part, fitted, data,
            draws=draws, warmup=warmup, sites=sites, kernel=kernel, lanes=lanes,
        )  # fmt: skip
        diverged.append(int(np.sum(np.asarray(diverging))))
        for s, site in enumerate(sites):
            x = np.asarray(found[site])
            check_shapes(site, x, truth[site])
            for name, value in zip(names, _judge(x, truth[site]), strict=True):
                raw[name][a, s] = value
    out = xr.Dataset(
        {name: (("analysis", "site", "repetition"), value) for name, value in raw.items()},
        coords={"analysis": list(ANALYSES), "site": list(sites)},
        attrs={"level": INTERVAL[1] - INTERVAL[0], "repetitions": repetitions, "draws": draws},
    )
    out["divergences"] = ("analysis", diverged)
    for source, mean in (
        ("covered90", "coverage90"),
        ("error", "bias"),
        ("width90", "mean_width90"),
    ):
        out[mean] = out[source].mean("repetition")
        out[f"{mean}_se"] = out[source].std("repetition", ddof=1) / np.sqrt(repetitions)
    out["rmse"] = np.sqrt(out["square_error"].mean("repetition"))
    return out.drop_vars("square_error")


def _judge(draws: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, ...]:
    """Coverage, error, squared error and width, averaged over cells: (repetition,) each."""
    low, high = np.quantile(draws, INTERVAL, axis=1)
    error = draws.mean(axis=1) - truth
    each = ((low <= truth) & (truth <= high), error, error**2, high - low)
    return tuple(np.asarray(e, float).reshape(truth.shape[0], -1).mean(axis=1) for e in each)
