"""The tables that are measured: cells in groups of unequal sizes, and the views on them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import cdp_views as cdp

type Noise = Literal["normal", "laplace"]
type Scales = Literal["equal", "unequal"]

BASES: dict[str, Any] = {"normal": dist.Normal, "laplace": dist.Laplace}
VIEWS: dict[str, Callable[..., Any]] = {
    "max-entropy": cdp.MaxEntropy,
    "conditioned": cdp.Conditioned,
    "imaged": cdp.Imaged,
}
_SMALLEST = 10  # with scales within e^±1 no cell reaches half of its group: always in balance


@dataclass(frozen=True)
class Layout:
    """`cells` in `groups` of unequal sizes, in the order of the groups or scrambled."""

    name: str
    cells: int
    groups: int
    order: Literal["scrambled", "sorted"] = "scrambled"

    @property
    def sizes(self) -> dict[str, int]:
        """What is recorded beside the numbers."""
        return {"cells": self.cells, "groups": self.groups}


def layouts(cells: int) -> tuple[Layout, ...]:
    """A national table of 5·10⁶ cells, and one group of 10⁶; smaller for smaller `cells`."""
    groups = max(cells // 100, 1)
    return (
        Layout("scrambled", cells, groups),
        Layout("sorted", cells, groups, "sorted"),
        Layout("one group", max(cells // 5, _SMALLEST), 1),
    )


@cache
def labels(layout: Layout) -> np.ndarray:
    """Integer labels (cells,): group sizes spread around their mean like a Gamma(2)."""
    random = np.random.default_rng(0)
    free = layout.cells - _SMALLEST * layout.groups
    share = random.gamma(2.0, size=layout.groups)
    sizes = _SMALLEST + random.multinomial(free, share / share.sum())
    sorted_labels = np.repeat(np.arange(layout.groups), sizes)
    return sorted_labels if layout.order == "sorted" else random.permutation(sorted_labels)


@cache
def invariant(layout: Layout, x64: bool) -> Any:
    """The totals of this layout, built in that precision."""
    with jax.enable_x64(x64):
        return cdp.totals(labels(layout))


def scales(layout: Layout, kind: Scales) -> Any:
    """2 for all cells, or log-normal with sd ½, cut at two sd."""
    if kind == "equal":
        return 2.0
    log_scale = 0.5 * np.random.default_rng(1).standard_normal(layout.cells)
    return jnp.asarray(np.exp(np.clip(log_scale, -1, 1)), float)


def base(layout: Layout, noise: Noise, kind: Scales) -> Any:
    """The unconstrained noise around counts up to 100."""
    counts = np.random.default_rng(2).integers(0, 100, layout.cells)
    return BASES[noise](jnp.asarray(counts, float), scales(layout, kind))


@lru_cache(2)  # a draw and a density, in both dtypes, come one after the other
def view(layout: Layout, noise: Noise, kind: Scales, view_name: str, x64: bool) -> Any:
    """The view of that noise on that table."""
    return VIEWS[view_name](base(layout, noise, kind), invariant(layout, x64))
