"""A base distribution over cells: its last axis is the n cells, whatever was passed."""

from typing import Any

import numpyro.distributions as dist


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
