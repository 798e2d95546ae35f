"""The only place that looks at a base's type: family, location and scale of independent cells."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from cdp_views import _checks
from cdp_views._bases import over_cells
from cdp_views.noise.discrete import DiscreteLaplace, DiscreteNormal
from cdp_views.noise.mixing import InverseChi, Mixing, Rayleigh
from cdp_views.noise.numerical import DoubledKolmogorov, Given
from cdp_views.noise.scale_mixture import ScaleMixture

FAMILIES: dict[type, str] = {
    dist.Normal: "normal",
    dist.Laplace: "laplace",
    dist.StudentT: "student-t",
    dist.Logistic: "logistic",
    ScaleMixture: "scale mixture",
    DiscreteLaplace: "discrete-laplace",
    DiscreteNormal: "discrete-normal",
}

_MIXING: dict[str, Callable[[Any, int], Mixing]] = {
    "laplace": lambda _base, _n: Rayleigh(),
    "student-t": lambda base, n: InverseChi(_scale(_floating(base.df), n)),
    "logistic": lambda _base, _n: DoubledKolmogorov(),
    "scale mixture": lambda base, _n: Given(base.mixing),
}


class Parts(NamedTuple):
    """Independent noise around `loc` (…, n) with `scale` (…, n), or (…, 1) where all are equal.

    `mixing` is the law of the random scale s of loc + scale·s·Z; `None` for normal noise, s = 1.
    """

    family: str
    loc: Any
    scale: Any
    batch_shape: tuple[int, ...]
    mixing: Mixing | None = None


def parts(base: Any, n: int) -> Parts:
    """Take a base over n cells apart, leaving NumPy float64 arrays on the host as they are.

    Args:
        base: a NumPyro distribution, scalar or with the n cells on its last axis.
        n: number of cells.

    Returns:
        Family, loc, scale, batch shape and mixing law.

    Raises:
        UnsupportedError: a family that has no views.
        ValueError: another number of cells, a loc that is not finite, a scale not positive.

    Example:
        >>> import numpyro.distributions as dist
        >>> parts(dist.Laplace(0.0, 2.0), 3).family
        'laplace'
    """
    cells = over_cells(base, n)
    inner = cells
    while isinstance(inner, dist.Independent | dist.ExpandedDistribution):
        inner = inner.base_dist
    family = FAMILIES.get(type(inner))
    if family is None:
        raise _checks.UnsupportedError(
            f"`base` of type {type(inner).__name__} has no views. Use dist.Normal, dist.Laplace, "
            "dist.StudentT, dist.Logistic, cdp.ScaleMixture, cdp.DiscreteLaplace or DiscreteNormal."
        )
    loc, scale = _floating(inner.loc), _floating(inner.scale)  # pyright: ignore[reportAttributeAccessIssue]
    _checks.finite("loc", loc, "Fill the missing counts before adding noise.")
    _checks.positive("scale", scale, "Use a scale above 0 for every cell.")
    shape = cells.shape()
    module = np if isinstance(loc, np.ndarray) else jnp
    mixing = _MIXING[family](inner, n) if family in _MIXING else None
    loc = module.broadcast_to(loc, shape)
    return Parts(family, loc, _scale(scale, n), cells.batch_shape, mixing)


def _floating(value: Any) -> Any:
    """Python and NumPy numbers as host float64, JAX arrays as they are."""
    if not isinstance(value, jax.Array):
        return np.asarray(value, dtype=np.float64)
    return (
        value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(jnp.result_type(float))
    )


def _scale(scale: Any, n: int) -> Any:
    """The scale with last axis n, or 1 where one number serves all cells (cheaper everywhere)."""
    if scale.ndim == 0:
        return scale[None]
    if scale.shape[-1] == n and n > 1 and _checks.is_concrete(scale):
        host = np.asarray(scale)
        if np.all(host == host[..., :1]):
            return scale[..., :1]
    return scale
