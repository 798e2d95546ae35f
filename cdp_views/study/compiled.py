"""A view whose draws and losses run compiled, in blocks of one shape."""

from functools import partial
from typing import Any, final

import jax
import numpy as np
from scipy import sparse

from cdp_views._float64 import in_float64

_BLOCK = 200  # draws at once: a pilot's, and no more memory than a cache holds
_AT_ONCE = 2**22  # numbers in a block: 32 MiB
_MOST_CELLS = 5_000  # above it, drawing only the groups that a difference touches is quicker


@final
class Compiled:
    """`view`, unchanged in law: everything but draws is its own.

    Views of one kind and shape share what is compiled, so that scales, keys and numbers of draws
    cost no compilation.

    Args:
        view: a view of Laplace noise with batch shape ().
    """

    def __init__(self, view: Any) -> None:
        self._view = view
        self._size = max(1, min(_BLOCK, _AT_ONCE // view.loc.shape[-1]))

    def __getattr__(self, name: str) -> Any:
        if name == "loss_draws" and hasattr(self._view, name):
            few = self._view.loc.shape[-1] <= _MOST_CELLS
            return self._loss_draws if few else self._view.loss_draws
        return getattr(self._view, name)

    # Each use in one and the same JAX context: what is compiled is kept by context.
    @in_float64
    def sample_noise(self, key: Any, sample_shape: tuple[int]) -> np.ndarray:
        """Draws of the noise, (draws, n), on the host."""
        (draws,) = sample_shape
        keys = jax.random.split(key, -(-draws // self._size))
        blocks = [np.asarray(_draw(self._view, k, self._size)) for k in keys]
        return np.concatenate(blocks)[:draws]

    @in_float64
    def _loss_draws(self, key: Any, differences: sparse.csr_array, draws: int) -> np.ndarray:
        moves = differences.toarray()
        losses = []
        for k in jax.random.split(key, -(-draws // self._size)):
            x = _draw(self._view, k, self._size)
            here = np.asarray(_density(self._view, x))
            losses.append([here - np.asarray(_density(self._view, x + v)) for v in moves])
        return np.concatenate(losses, axis=1)[:, :draws]


@partial(jax.jit, static_argnums=2)
def _draw(view: Any, key: Any, size: int) -> Any:
    return view.sample_noise(key, (size,))


@jax.jit
def _density(view: Any, noise: Any) -> Any:
    # Noise and moves keep the totals: no check of the support is needed.
    return view._log_density(noise)
