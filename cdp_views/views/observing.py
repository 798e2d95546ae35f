"""A table that was drawn from a view, observed in a model: with latents where it takes some."""

from typing import Any

import numpyro

from cdp_views.views._mixture import is_disjoint
from cdp_views.views.imaged.fibre import observe_imaged
from cdp_views.views.imaged.laplace import ImagedLaplace
from cdp_views.views.max_entropy.augmented import needs_scales, observe_max_entropy


def observe_view(name: str, view: Any, value: Any) -> Any:
    """A site that says `value` was drawn from `view`, exactly. Inside a model.

    `numpyro.sample(name, view, obs=value)` where the view has a density; else its augmented model:
    `observe_max_entropy` for random scales, `observe_imaged` for Laplace noise moved onto totals
    that overlap.

    Args:
        name: of the site.
        view: any law of a table.
        value: the table (…, n).

    Returns:
        The value.
    """
    if needs_scales(view):
        return observe_max_entropy(name, view, value)
    if isinstance(view, ImagedLaplace) and not is_disjoint(view.invariant):
        return observe_imaged(name, view, value)
    return numpyro.sample(name, view, obs=value)
