"""The maximum-entropy solve for unequal scales, against one normal draw of that size."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax

from benchmarks.harness import Case, Run
from benchmarks.tables import Layout, invariant, scales


def cases(cells: int) -> Iterator[Case]:
    """A fifth of the table's cells in one group, and in groups of 100."""
    cells = max(cells // 5, 100)
    for layout in (Layout("one group", cells, 1), Layout("many groups", cells, cells // 100)):
        yield Case(
            f"solve, {layout.name}",
            "jax.random.normal",
            10.0,
            partial(prepare, layout),
            layout.sizes,
        )


def prepare(layout: Layout) -> tuple[Run, Run]:
    """The precisions of the maximum-entropy law, compiled, from its scales."""
    geometry = invariant(layout, jax.config.jax_enable_x64)
    draw = jax.jit(jax.random.normal, static_argnums=1)
    return (
        partial(_solve, geometry, scales(layout, "unequal")),
        partial(draw, jax.random.key(0), (layout.cells,)),
    )


@jax.jit
def _solve(geometry: Any, scale: jax.Array) -> jax.Array:
    return geometry.equalize(scale**2).nu
