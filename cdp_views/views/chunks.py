"""Many draws in little memory: chunk by chunk into one array on the host."""

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from cdp_views import _checks


def draws_in_chunks(
    view: Any, key: Array, draws: int, *, chunk: int | None = None, noise: bool = False
) -> np.ndarray:
    """`draws` independent draws of a view, (draws, …, n) in host memory, made `chunk` at a time.

    The sampler's own memory is about 15 times that of one chunk, so peak memory is the result
    and 15·chunk/draws of it: 3 % at the default, a 500th.

    Args:
        view: any distribution whose `sample` can be compiled.
        key: a JAX key; every chunk has its own, so results depend on `chunk`.
        draws: how many, at least 1.
        chunk: draws made at once; `None` for a 500th, at least 1.
        noise: give X = Y − loc instead, by `sample_noise`, so that adding it to large counts can
            wait for float64.

    Returns:
        Draws (draws, …, n) in counts, NumPy, in the precision of JAX.

    Raises:
        ValueError: `draws` or `chunk` below 1, or a traced key.

    Example:
        >>> import cdp_views as cdp, jax, numpy as np, numpyro.distributions as dist
        >>> from cdp_views.views import draws_in_chunks
        >>> view = cdp.MaxEntropy(dist.Laplace(np.zeros(3), 1.0), cdp.totals(["a", "a", "a"]))
        >>> draws_in_chunks(view, jax.random.key(0), 1000, chunk=100).shape
        (1000, 3)
    """
    chunk = max(1, draws // 500) if chunk is None else chunk
    for name, value in (("draws", draws), ("chunk", chunk)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1; got {value}. Ask for some draws.")
    if not _checks.is_concrete(key):
        raise ValueError("`key` is traced: draws on the host are made outside jit.")
    chunk = min(chunk, draws)
    out: np.ndarray | None = None
    for start in range(0, draws, chunk):
        part = np.asarray(_draw(view, jax.random.fold_in(key, start // chunk), chunk, noise))
        if out is None:
            out = np.empty((draws, *part.shape[1:]), part.dtype)
        stop = min(start + chunk, draws)
        out[start:stop] = part[: stop - start]
    assert out is not None
    return out


@partial(jax.jit, static_argnames=("chunk", "noise"))
def _draw(view: Any, key: Array, chunk: int, noise: bool) -> Array:
    return (view.sample_noise if noise else view.sample)(key, (chunk,))
