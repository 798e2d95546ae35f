"""Draws of every view and noise, against independent draws of the same shape."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax

from benchmarks.harness import Case, Run
from benchmarks.tables import VIEWS, Layout, Noise, Scales, layouts, view

_RIVALS = {"normal": jax.random.normal, "laplace": jax.random.laplace}


def target(noise: Noise, view_name: str, kind: Scales) -> float:
    """Largest median ratio that is good enough."""
    if view_name == "imaged":
        return 1.5
    if noise == "normal":
        return 1.3 if kind == "equal" else 1.7
    if view_name == "max-entropy":
        return 5.0
    return 2.0 if kind == "equal" else 10.0


def cases(cells: int) -> Iterator[Case]:
    """Every layout, noise, view and kind of scale."""
    for layout in layouts(cells):
        for noise in _RIVALS:
            for view_name in VIEWS:
                for kind in ("equal", "unequal"):
                    yield Case(
                        f"draw {noise} {view_name} {kind}, {layout.name}",
                        f"jax.random.{noise}",
                        target(noise, view_name, kind),
                        partial(prepare, layout, noise, view_name, kind),
                        layout.sizes,
                    )


def prepare(layout: Layout, noise: Noise, view_name: str, kind: Scales) -> tuple[Run, Run]:
    """A compiled draw of the view (its solve done, its counts added), and the rival's."""
    key = jax.random.key(0)
    subject = view(layout, noise, kind, view_name, jax.config.jax_enable_x64)
    return (
        partial(_draw, subject, key),
        partial(jax.jit(_RIVALS[noise], static_argnums=1), key, (layout.cells,)),
    )


@jax.jit
def _draw(view: Any, key: jax.Array) -> jax.Array:
    return view.sample(key)
