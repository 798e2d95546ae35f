"""Maximum entropy: every cell keeps its marginal exactly, and cells are as free as they can be."""

from typing import Any, Literal

from jax import Array

from cdp_views import _checks
from cdp_views.invariants import Invariant, Precision
from cdp_views.views import _shared
from cdp_views.views._gaussian import GaussianView
from cdp_views.views.max_entropy_laplace import MaxEntropyLaplace


class MaxEntropyNormal(GaussianView):
    """The Gaussian on ker A with marginals N(loc_i, σ_i²) and the largest entropy."""

    kind = "max-entropy"

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Precision:
        return invariant.equalize(scale**2)


_CLASSES: dict[str, Any] = {"normal": MaxEntropyNormal, "laplace": MaxEntropyLaplace}


def MaxEntropy(
    base: Any,
    invariant: Invariant,
    *,
    scales: Literal["couple", "shared", "resample", "raise"] = "couple",
    validate_args: bool | None = None,
) -> GaussianView | MaxEntropyLaplace:
    """The law of largest entropy among those with *exactly* the base's marginals and A X = 0.

    Normal: X ~ N(0, D R D), D = diag σ, with R the correlation matrix of largest determinant on
    ker A among those with R D Aᵀ = 0; a Gaussian with diagonal precision ν, re-tuned so that
    every marginal variance is σ_i² again: conditioning with other scales. Exact privacy.

    Laplace: given independent scales σ_i = λ_i s_i (s Rayleigh) X is that Gaussian, so the entropy
    is the largest *given the scales*; scales out of balance are coupled within their group, which
    keeps every marginal exactly Laplace. It has no closed density, and no privacy guarantee of
    the joint release is proved.

    Args:
        base: dist.Normal or dist.Laplace over the cells, loc = the true answers (…, n), scale a
            number or (…, n).
        invariant: weighted totals of disjoint or nested groups; any invariant of constant
            leverage (such as all margins of a table) where the scale is one number.
        scales: what to do with random scales that are out of balance; matters only for scale
            mixtures such as Laplace. Normal noise has fixed scales, which must be in balance.

    Returns:
        A NumPyro distribution on {y : A y = A loc} with batch shape (…) and event shape (n,). A
        cell that is alone in its group is constant.

    Raises:
        InfeasibleError: if in some group of three or more one cell's |weight|·scale is at least
            the sum of all the others' (in a pair: if the two differ), so that no such law with a
            density exists; names cell and group.
            Traced scales give log_prob −inf instead.
        ValueError: for a wrong last axis or a scale ≤ 0.
        UnsupportedError: for another base, or overlapping totals with unequal leverage.

    Example:
        >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
        >>> inv = cdp.totals(["a", "a", "a"])
        >>> view = cdp.MaxEntropy(dist.Normal(0.0, np.array([1.0, 2.0, 2.5])), inv)
        >>> [round(float(v), 4) for v in view.variance]
        [1.0, 4.0, 6.25]

    Reference: Lafferty et al., problem (6) and Corollary 1. (Their remark that fixing the
    conditional marginal variances is "challenging" is answered by ν.)
    """
    _checks.choice("scales", scales, ("couple", "shared", "resample", "raise"))
    if scales != "couple":
        raise _checks.UnsupportedError(
            f'`scales="{scales}"` is not in this version. Use scales="couple", which keeps every '
            "marginal exactly and the totals with probability one."
        )
    cls, pieces = _shared.choose(base, invariant, _CLASSES, "MaxEntropy")
    return cls(invariant, pieces.loc, pieces.scale, pieces.batch_shape, validate_args=validate_args)
