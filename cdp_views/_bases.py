"""A base distribution over cells: its last axis is the n cells, whatever was passed."""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from cdp_views._checks import UnsupportedError


def over_cells(base: Any, n: int) -> dist.Distribution:
    """`base` with event shape (n,): a scalar or length-1 base is repeated over the cells."""
    if not isinstance(base, dist.Distribution):
        raise TypeError(
            f"`base` must be a NumPyro distribution over the cells, such as dist.Normal(counts, "
            f"scale); got {type(base).__name__}."
        )
    shape = base.shape()
    if base.event_dim > 1 or (shape and shape[-1] not in (1, n)):
        raise ValueError(
            f"`base` must have the invariant's {n} cells on its last axis; got shape {shape}. "
            "Give loc and scale the shape (…, n)."
        )
    if base.event_dim == 1 and shape[-1] == n:
        return base
    if base.event_dim == 1:
        raise ValueError(f"`base` is one event of length 1, not {n} cells. Drop its to_event(1).")
    return base.expand((*shape[:-1], n)).to_event(1)


def without(base: dist.Distribution, cells: Any) -> dist.Distribution:
    """`base` over cells (…, n) whose density leaves out those where `cells` (…, n) is true."""
    if not isinstance(base, dist.Independent) or base.base_dist.event_dim:
        raise UnsupportedError(
            "The prior's cells must be independent where a cell can only be 0; got a joint "
            f"{type(base).__name__}. Write it as independent cells, given latents that they share."
        )
    return base.base_dist.mask(~jnp.asarray(cells)).to_event(1)
