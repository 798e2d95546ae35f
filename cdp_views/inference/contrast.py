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
        Dimensions `analysis` (naive, aware) and three more. By `repetition` and `site`, averages
        over the site's cells: `covered90`, `width90`. By `site`: `coverage90`, `mean_width90`, each
        with `_se`, the standard error of a mean of independent releases (cells of one release are
        not independent), and `rmse` of the posterior mean. By `quantity` (a scalar site, or one
        cell): `bias`, the mean error of the posterior mean, with `bias_se`; not averaged over
        cells, as errors that keep a total sum to 0 whatever is wrong. `divergences` by analysis.

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

    Reference: Cameron and Miller 2015, §II (standard errors clustered by release).
    """
    if repetitions < 2:
        raise ValueError(
            f"`repetitions` must be at least 2 for standard errors; got {repetitions}."
        )
    to_simulate, *to_fit = jax.random.split(key, 3)
    truth, data = simulated(to_simulate, simulate, sites, repetitions)
    shape = (len(ANALYSES), len(sites), repetitions)
    raw = {name: np.empty(shape) for name in ("covered90", "width90", "square")}
    errors: list[list[np.ndarray]] = [[] for _ in ANALYSES]
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
            low, high, error = _judge(x, truth[site])
            errors[a].append(error)
            raw["covered90"][a, s] = np.mean((low <= 0) & (high >= 0), axis=1)
            raw["width90"][a, s] = np.mean(high - low, axis=1)
            raw["square"][a, s] = np.mean(error**2, axis=1)
    out = xr.Dataset(
        {name: (("analysis", "site", "repetition"), value) for name, value in raw.items()},
        coords={"analysis": list(ANALYSES), "site": list(sites)},
        attrs={"level": 0.90, "repetitions": repetitions, "draws": draws},
    )
    out["divergences"] = ("analysis", diverged)
    cells = np.stack([np.concatenate(e, axis=1) for e in errors])
    names = [
        (site, site if truth[site].ndim == 1 else f"{site}[{i}]")
        for site, e in zip(sites, errors[0], strict=True)
        for i in range(e.shape[1])
    ]
    out = out.assign_coords(
        quantity=[name for _, name in names], site_of_quantity=("quantity", [s for s, _ in names])
    )
    out["bias"] = (("analysis", "quantity"), cells.mean(axis=1))
    out["bias_se"] = (
        ("analysis", "quantity"), cells.std(axis=1, ddof=1) / np.sqrt(repetitions)
    )  # fmt: skip
    for source, mean in (("covered90", "coverage90"), ("width90", "mean_width90")):
        out[mean] = out[source].mean("repetition")
        out[f"{mean}_se"] = out[source].std("repetition", ddof=1) / np.sqrt(repetitions)
    out["rmse"] = np.sqrt(out["square"].mean("repetition"))
    return out.drop_vars("square")


def _judge(draws: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of the 90 % interval and posterior mean, minus the truth: (repetition, cell) each.

    The ends lie at p (S + 1) of the S ordered draws: with exact posteriors the truth then falls
    between them in 90 % of cases whatever S. The usual p (S − 1) + 1 gives 88 % for 99 draws.
    """
    count, size = draws.shape[:2]
    off = draws.reshape(count, size, -1).astype(np.float64) - truth.reshape(count, 1, -1)
    low, high = np.quantile(off, INTERVAL, axis=1, method="weibull")
    return low, high, off.mean(axis=1)
