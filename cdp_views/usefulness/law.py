"""The law of the errors of a view: exact where the view knows it, else from draws on request."""

from typing import Any

import jax
import numpy as np
import scipy.sparse as sp

from cdp_views._checks import UnsupportedError
from cdp_views._float64 import in_float64
from cdp_views.deviation import Deviation, SampledDeviation
from cdp_views.usefulness.pooled import PooledDeviation, laws

# 2 GiB of float64: beyond it a person would wait for a machine that swaps.
_LARGEST = 2**28


def error_law(view: Any, workload: sp.csr_array | None, key: Any, draws: int) -> Deviation:
    """The law of W (Y - loc), exact if `view.deviation` gives one, else estimated with `key`.

    Raises:
        UnsupportedError: nothing exact exists and no key was given.
    """
    try:
        return view.deviation(workload)
    except (AttributeError, NotImplementedError) as missing:
        if hasattr(view, "deviation") and isinstance(missing, AttributeError):
            raise
        if key is None:
            raise UnsupportedError(
                f"{_name(view)} has no exact law of its errors. Pass key=jax.random.key(...) for "
                "an estimate from draws, with its standard error."
            ) from missing
    errors = drawn_errors(view, workload, key, draws)
    classes = laws(view) if workload is None else None
    return SampledDeviation(errors) if classes is None else PooledDeviation(errors, classes)


@in_float64
def exact_moments(view: Any) -> dict[str, np.ndarray]:
    """`bias`, `sd` and `rmse` of the cells from the view's own mean and variance; {} without."""
    try:
        # Not through JAX where it can be helped: float32 would round a large count.
        mean = np.asarray(view.centre if hasattr(view, "centre") else view.mean, dtype=np.float64)
        variance = np.asarray(view.variance, dtype=np.float64)
    except (AttributeError, NotImplementedError):
        return {}
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        return {}
    bias = mean - np.asarray(view.loc, dtype=np.float64)
    sd = np.sqrt(np.broadcast_to(variance, bias.shape))
    return {"bias": bias, "sd": sd, "rmse": np.hypot(bias, sd)}


def drawn_errors(view: Any, workload: sp.csr_array | None, key: Any, draws: int) -> np.ndarray:
    """Draws of the errors, (draws, q), in batches that fit in memory."""
    cells = int(np.shape(view.loc)[-1])
    queries = cells if workload is None else workload.shape[0]
    if draws < 2:
        raise ValueError(f"`draws` must be at least 2; got {draws}.")
    if draws * queries > _LARGEST:
        raise ValueError(
            f"`draws` times queries must be at most {_LARGEST}; got {draws} × {queries}. "
            "Ask for fewer draws, or pass a workload of sums."
        )
    batches = -(-draws * cells // _LARGEST)
    size = -(-draws // batches)
    out = []
    # Float64 throughout: a count of 10⁸ in float32 would swallow its noise.
    with jax.enable_x64(True):
        for batch in jax.random.split(key, batches):
            noise = _noise(view, batch, size)
            out.append(noise if workload is None else (workload @ noise.T).T)
    return np.concatenate(out)[:draws]


def _noise(view: Any, key: Any, size: int) -> np.ndarray:
    """Y - loc; a view that can leave the counts out does."""
    if hasattr(view, "sample_noise"):
        return np.asarray(view.sample_noise(key, (size,)), dtype=np.float64)
    sample = np.asarray(view.sample(key, (size,)), dtype=np.float64)
    return sample - np.asarray(view.loc, dtype=np.float64)


def _name(view: Any) -> str:
    return f"The view {type(view).__name__}"
