"""log_prob with its gradient, support check on, against independent noise of the same shape."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.harness import Case, Run
from benchmarks.tables import BASES, VIEWS, Layout, Noise, Scales, base, layouts, view


def cases(cells: int) -> Iterator[Case]:
    """Every layout, noise, view and kind of scale."""
    for layout in layouts(cells):
        for noise in BASES:
            for view_name in VIEWS:
                for kind in ("equal", "unequal"):
                    yield Case(
                        f"log_prob+grad {noise} {view_name} {kind}, {layout.name}",
                        f"dist.{noise.capitalize()}",
                        30.0 if (noise, view_name) == ("laplace", "imaged") else 2.0,
                        partial(prepare, layout, noise, view_name, kind),
                        layout.sizes,
                    )


def prepare(layout: Layout, noise: Noise, view_name: str, kind: Scales) -> tuple[Run, Run]:
    """Value and gradient at a draw of the view, which both densities get."""
    subject = view(layout, noise, kind, view_name, jax.config.jax_enable_x64)
    table = subject.sample(jax.random.key(0))
    if not bool(jnp.isfinite(subject.log_prob(table))):
        raise AssertionError("the view refuses its own draw: the gradient would measure nothing")
    independent = (
        base(layout, noise, kind).to_event(1)
        if kind == "unequal"
        else base(layout, noise, kind).expand((layout.cells,)).to_event(1)
    )
    return partial(_slope, subject, table), partial(_slope, independent, table)


@jax.jit
def _slope(law: Any, value: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda y: law.log_prob(y))(value)
