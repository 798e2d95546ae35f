"""Imaging, the belief update: every noisy world moves to its closest world where totals hold."""

from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from cdp_views import _checks
from cdp_views.invariants import Bounds, Invariant, Region, region_of
from cdp_views.views import _shared
from cdp_views.views._gaussian import GaussianView
from cdp_views.views._pushed import PushedView
from cdp_views.views.imaged.cheapest import CheapestLaplace, CheapestNormal
from cdp_views.views.imaged.image import Image
from cdp_views.views.imaged.laplace import ImagedLaplace
from cdp_views.views.imaged.mixture import ImagedLogistic, ImagedScaleMixture, ImagedStudentT
from cdp_views.views.imaged.region import ImagedRegion
from cdp_views.views.imaged.whole import ImagedWhole


class ImagedNormal(GaussianView):
    """The projection of N(loc, diag σ²) onto {A y = total}; build it with `cdp.Imaged`."""

    kind = "imaged"

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Image:
        weight = jnp.ones((1,), scale.dtype) if weights is None else weights
        return Image.of(invariant, scale**2, weight)

    @staticmethod
    def moved(law: Image, shift: Array) -> Array:
        return shift - law.metric.covariance_product(law.weight * shift)


_PLAIN = ("normal", "laplace", "discrete-laplace", "discrete-normal")

_CLASSES: dict[str, Any] = {
    "normal": ImagedNormal,
    "laplace": ImagedLaplace,
    "student-t": ImagedStudentT,
    "logistic": ImagedLogistic,
    "scale mixture": ImagedScaleMixture,
    "discrete-laplace": partial(ImagedWhole, family="discrete-laplace"),
    "discrete-normal": partial(ImagedWhole, family="discrete-normal"),
}

_CHEAPEST: dict[str, Any] = {
    "normal": CheapestNormal,
    "laplace": CheapestLaplace,
    "student-t": partial(ImagedStudentT, metric="l1"),
    "logistic": partial(ImagedLogistic, metric="l1"),
    "scale mixture": partial(ImagedScaleMixture, metric="l1"),
}


def Imaged(
    base: Any,
    invariant: Invariant | Bounds | Region,
    *,
    metric: Literal["l2", "l1"] = "l2",
    weights: Any = None,
    total: Any = None,
    validate_args: bool | None = None,
) -> PushedView | ImagedWhole | ImagedRegion:
    """The base distribution with every world moved to its closest world (belief *update*).

    The law of argmin_{z : A z = total} Σ w_i (y_i − z_i)², or Σ w_i |y_i − z_i|, y ~ base.

    Normal: Σ = ΠΔΠᵀ with Δ = diag σ² and Π the projection; w = 1/σ² gives the conditioned Normal.

    Laplace: moments as for Normal with σ² = 2λ²; the density by integrating along each group's
    fibre, in closed form. Pure ε of a difference v is min_w ‖(v + uw)/λ‖₁, exact.

    StudentT, Logistic, ScaleMixture: Σ = E s² · ΠΛ²Πᵀ (inf where E s² is); the density by
    quadrature along the fibre, to 1e-9 (`ImagedMixture` says where).

    These densities are for disjoint or nested totals. Overlapping ones are drawn exactly; their
    density has an estimate, `log_prob_estimate(value, key)`, and in a model
    `cdp.observe_imaged(name, view, value)` is exact. Where at most two cells of a group move
    entropy() is exact, elsewhere an estimate: `entropy_estimate(key)`.

    metric="l1" (disjoint or nested totals): the cells of largest |b_i|/w_i in their group move,
    since each unit of the total is cheapest there. A single such cell takes the whole residual
    (all others keep the base's noise as it is); tied ones take equal shares of it, which makes a
    plain total without weights the same as "l2".

    DiscreteLaplace, DiscreteNormal (plain totals): each cell of a group of m moves by ⌊s/m⌋ for the
    group's residual s, and s mod m cells drawn at random by one more: all such worlds are equally
    close, so the draw is part of the mechanism. Totals hold with `==`.

    Args:
        base: dist.Normal, dist.Laplace, dist.StudentT, dist.Logistic, cdp.ScaleMixture,
            cdp.DiscreteLaplace or cdp.DiscreteNormal over the cells, loc = the true answers
            (…, n), scale a number or (…, n).
        invariant: what must hold exactly; joined by `&` with cdp.nonnegative(n) or
            cdp.bounds(B, lower), the closest table within the bounds is taken (`ImagedRegion`).
        metric: "l2", the squared distance, or "l1".
        weights: w (n,), positive: what moving each cell costs; `None` for equal.
        total: `None` for the base's own totals A·loc (a release); else (k,) or (…, k), public and
            fixed whatever the data: computed from the table it is published, and no guarantee of
            `additions` counts that. Nothing here can see where it comes from.

    Returns:
        A NumPyro distribution on {y : A y = total} with batch shape (…) and event shape (n,).

    Raises:
        ValueError: for a wrong shape, a scale or weight ≤ 0, or contradictory totals.
        UnsupportedError: for another base or metric.

    Example:
        >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
        >>> inv = cdp.totals(["a", "a", "a"])
        >>> view = cdp.Imaged(dist.Normal(0.0, np.array([1.0, 2.0, 3.0])), inv)
        >>> [round(float(v), 4) for v in view.variance]
        [1.8889, 2.8889, 4.5556]

    Reference: Two Views of Constrained Differential Privacy, §3 (imaging) and Lemma 3.7
    (imaging onto a public invariant is post-processing).
    """
    _checks.choice("metric", metric, ("l2", "l1"))
    if isinstance(invariant, Bounds | Region):
        if weights is not None or total is not None or metric != "l2":
            raise _checks.UnsupportedError(
                "`weights`, `total` and `metric` do not go with bounds. Leave them out: the "
                "closest table in the Euclidean sense, with the totals of loc."
            )
        region = region_of(invariant)
        flat = Imaged(base, region.equalities, validate_args=validate_args)
        return ImagedRegion(region, flat, validate_args=validate_args)
    table = _CLASSES if metric == "l2" else _CHEAPEST
    cls, pieces = _shared.choose(base, invariant, table, "Imaged")
    more = {} if pieces.family in _PLAIN else {"mixing": pieces.mixing}
    if weights is not None:
        if np.shape(weights) not in ((), (1,), (invariant.n,)):
            raise ValueError(
                f"`weights` must have shape ({invariant.n},), one per cell; got "
                f"{np.shape(weights)}."
            )
        _checks.positive("weights", weights, "Every cell needs a cost above 0 of being moved.")
        if not isinstance(weights, Array):
            weights = np.atleast_1d(np.asarray(weights, dtype=np.float64))
    shift = _shared.shift_to(invariant, pieces.loc, total)
    return cls(
        invariant,
        pieces.loc,
        pieces.scale,
        pieces.batch_shape,
        weights=weights,
        shift=shift,
        validate_args=validate_args,
        **more,
    )
