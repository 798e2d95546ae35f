"""Maximum entropy: every cell keeps its marginal exactly, and cells are as free as they can be."""

from typing import Any, Literal

from jax import Array

from cdp_views import _checks
from cdp_views.invariants import Invariant, Precision
from cdp_views.views import _shared
from cdp_views.views._gaussian import GaussianView
from cdp_views.views._mixture import is_disjoint
from cdp_views.views.max_entropy.mixture import (
    MaxEntropyChecked,
    MaxEntropyCoupled,
    MaxEntropyMixture,
    MaxEntropyResampled,
)
from cdp_views.views.max_entropy.overlapping import MaxEntropyWhole
from cdp_views.views.max_entropy.shared import MaxEntropyShared


class MaxEntropyNormal(GaussianView):
    """The Gaussian on ker A with marginals N(loc_i, σ_i²) and the largest entropy."""

    kind = "max-entropy"

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Precision:
        return invariant.equalize(scale**2)


_CLASSES: dict[str, Any] = {
    "normal": MaxEntropyNormal,
    "laplace": None,
    "student-t": None,
    "logistic": None,
    "scale mixture": None,
}
_MIXTURES: dict[str, Any] = {
    "couple": MaxEntropyCoupled,
    "shared": MaxEntropyShared,
    "resample": MaxEntropyResampled,
    "raise": MaxEntropyChecked,
}


def MaxEntropy(
    base: Any,
    invariant: Invariant,
    *,
    scales: Literal["couple", "shared", "resample", "raise"] = "couple",
    validate_args: bool | None = None,
) -> GaussianView | MaxEntropyMixture | MaxEntropyWhole | MaxEntropyShared:
    """The law of largest entropy among those with *exactly* the base's marginals and A X = 0.

    Normal: X ~ N(0, D R D), D = diag σ, with R the correlation matrix of largest determinant on
    ker A among those with R D Aᵀ = 0; a Gaussian with diagonal precision ν, re-tuned so that
    every marginal variance is σ_i² again: conditioning with other scales. Exact privacy.

    Laplace, Student-t, logistic, cdp.ScaleMixture: given random scales σ_i = λ_i s_i X is that
    Gaussian, so the entropy is the largest *given the scales*. Independent s_i may be out of
    balance with the totals, and `scales` says what then. No privacy guarantee of the joint
    release is proved; calibration and release refuse these.

    | scales     | marginals         | A X = 0 | density                 | loses                  |
    |------------|-------------------|---------|-------------------------|------------------------|
    | "couple"   | exactly the base's| always  | `log_prob_estimate`     | independence of scales |
    |            |                   |         |                         | in the `coupled_share` |
    | "shared"   | exactly the base's| always  | exact (elliptical)      | independence of scales |
    |            |                   |         |                         | always: one s for all  |
    | "resample" | **not** the base's| always  | none                    | scales far from equal  |
    | "raise"    | what was drawn    | always  | none                    | an error, not a draw   |

    Args:
        base: dist.Normal, dist.Laplace, dist.StudentT, dist.Logistic or cdp.ScaleMixture over the
            cells, loc = the true answers (…, n), scale a number or (…, n).
        invariant: any; for "resample" and "raise" weighted totals of disjoint or nested groups.
            With "couple" and totals that overlap the whole table takes one s together, unless a
            bound on leverages shows every order of the scales feasible: seldom with few cells
            per total (see `coupled_share`), and each draw costs a solve.
        scales: what to do with random scales that are out of balance: "couple" gives the whole
            group one of them; "shared" gives all cells one always; "resample" draws them again;
            "raise" raises. Normal noise has fixed scales, which must be in balance.

    Returns:
        A NumPyro distribution on {y : A y = A loc} with batch shape (…) and event shape (n,). A
        cell that is alone in its group is constant.

    Raises:
        InfeasibleError: if in some group of three or more one cell's |weight|·scale is at least
            the sum of all the others' (in a pair: if the two differ), so that no such law with a
            density exists; names cell and group. Traced scales give log_prob −inf instead.
            With "raise": when a draw is out of balance. With "resample" and "raise": for pairs.
        ValueError: for a wrong last axis or a scale ≤ 0.
        UnsupportedError: for another base, for a law of s that differs between cells that must
            share one, or "resample" and "raise" on overlapping totals.

    Example:
        >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
        >>> inv = cdp.totals(["a", "a", "a"])
        >>> view = cdp.MaxEntropy(dist.Normal(0.0, np.array([1.0, 2.0, 2.5])), inv)
        >>> [round(float(v), 4) for v in view.variance]
        [1.0, 4.0, 6.25]

    Reference: Lafferty et al., problem (6) and Corollary 1. (Their remark that fixing the
    conditional marginal variances is "challenging" is answered by ν.)
    """
    _checks.choice("scales", scales, _MIXTURES)
    cls, pieces = _shared.choose(base, invariant, _CLASSES, "MaxEntropy")
    options = {"validate_args": validate_args}
    if pieces.mixing is None:
        return cls(invariant, pieces.loc, pieces.scale, pieces.batch_shape, **options)
    cls = _MIXTURES[scales]
    if scales == "couple" and not is_disjoint(invariant):
        cls = MaxEntropyWhole
    return cls(invariant, pieces.loc, pieces.scale, pieces.batch_shape, pieces.mixing, **options)
