"""Conditioning, the Bayesian revision: the base noise *given* that the totals hold."""

from functools import partial
from typing import Any

from jax import Array

from cdp_views._checks import UnsupportedError
from cdp_views.invariants import Bounds, Invariant, Precision, Region, region_of
from cdp_views.noise import Mixing
from cdp_views.noise.mixing import Rayleigh
from cdp_views.views import _shared
from cdp_views.views._gaussian import GaussianView
from cdp_views.views._mixture import NoiseView, is_disjoint
from cdp_views.views.conditioned.laplace import ConditionedLaplace
from cdp_views.views.conditioned.mixture import ConditionedMixture
from cdp_views.views.conditioned.overlapping import ConditionedOverlapping
from cdp_views.views.conditioned.whole import ConditionedWhole
from cdp_views.views.conditioned.within import ConditionedWithin


class ConditionedNormal(GaussianView):
    """N(loc, diag σ²) given A y = total; build it with `cdp.Conditioned`."""

    kind = "conditioned"

    @staticmethod
    def law(invariant: Invariant, scale: Array, weights: Array | None) -> Precision:
        return invariant.restrict(1 / scale**2)

    @staticmethod
    def moved(law: Precision, shift: Array) -> Array:
        # the most probable step: from the shortest one, take off what lies in V in the metric ν
        return shift - law.covariance_product(law.nu * shift)


def _with_random_scales(
    invariant: Invariant, *args: Any, mixing: Mixing, shift: Any, **kwargs: Any
) -> NoiseView:
    if not is_disjoint(invariant):
        return ConditionedOverlapping(invariant, *args, mixing, shift=shift, **kwargs)
    if shift is None and isinstance(mixing, Rayleigh):
        return ConditionedLaplace(invariant, *args, **kwargs)
    return ConditionedMixture(invariant, *args, mixing, shift=shift, **kwargs)


_CLASSES: dict[str, Any] = {
    "normal": ConditionedNormal,
    "laplace": _with_random_scales,
    "student-t": _with_random_scales,
    "logistic": _with_random_scales,
    "scale mixture": _with_random_scales,
    "discrete-laplace": partial(ConditionedWhole, family="discrete-laplace"),
    "discrete-normal": partial(ConditionedWhole, family="discrete-normal"),
}


def Conditioned(
    base: Any,
    invariant: Invariant | Bounds | Region,
    *,
    total: Any = None,
    validate_args: bool | None = None,
) -> GaussianView | NoiseView | ConditionedWhole | ConditionedWithin:
    """The base distribution given that A y = total (Bayesian *revision*).

    Density ∝ p(y) on the subspace, with respect to Hausdorff measure. Marginal variances shrink.

    Normal: the Gaussian with the base's own precisions 1/σ² restricted to ker A,
    Σ = Δ − ΔAᵀ(AΔAᵀ)⁻¹AΔ with Δ = diag σ². Any invariant; exact privacy.

    Laplace: p(x)/(√det AAᵀ · f(0)), ‖X/λ‖₁ ~ Gamma(d, 1), pure ε Σ|v_i|/λ_i of a difference v.
    StudentT, Logistic, ScaleMixture: the same with their p, on disjoint or nested totals with
    moments and f(0) by quadrature. Exact independent draws; those of a ScaleMixture need a
    log-concave law of log s. Variances are finite for Student-t df > ½.

    Totals that overlap: one mixing law for all cells, f(0) an estimate with standard error
    `log_normalizer_stderr`. Where many totals make rejection hopeless, draws are the ends of Gibbs
    chains: `sampler` says "MCMC", `r_hat` and `ess_per_sweep` whether they mix.

    `total=`: density p(x)/(√det AAᵀ · f(total − A loc)). Exact draws while f there is above
    f(0)/1000; beyond, on disjoint totals `log_prob` stays exact (StudentT, ScaleMixture: or the
    view is refused), on overlapping ones draws are MCMC.

    A base that is itself a mixture, or one of several totals: dist.MixtureGeneral of the views,
    each weighed by e^h with h = base.log_prob(y).sum(-1) − view.log_prob(y), the same for every y
    on its total ([TV] Theorem 3.5; `cdp.Imaged` keeps the weights of a mixture, Theorem 3.9).

    Bounds, `inv & cdp.nonnegative(n)` or `inv & cdp.bounds(B, lower)`: the law above given
    B y ≥ lower, exact by rejection where that happens once in 10,000 draws, MCMC beyond; the
    constant, errors and guarantee depend on the true table (`ConditionedWithin`).

    DiscreteLaplace, DiscreteNormal: Π p_i(x_i)/P(A U = 0) on whole numbers; totals hold with `==`.
    Exact independent draws for disjoint or nested totals, and others that overlap in at most two
    free ways. Pure ε of discrete Laplace as above; `total=None` only. Bounds of single cells
    are exact as well.

    Args:
        base: dist.Normal, dist.Laplace, dist.StudentT, dist.Logistic, cdp.ScaleMixture,
            cdp.DiscreteLaplace or cdp.DiscreteNormal over the cells, loc = the true answers
            (…, n), scale a number or (…, n).
        invariant: what must hold exactly.
        total: `None` for the base's own totals A·loc (a release); else (k,) or (…, k), public and
            fixed whatever the data: computed from the table it is published, and no guarantee of
            `additions` counts that. Nothing here can see where it comes from.

    Returns:
        A NumPyro distribution on {y : A y = total} with batch shape (…) and event shape (n,).

    Raises:
        ValueError: for a wrong last axis, a scale ≤ 0, or totals that contradict each other.
        UnsupportedError: for another base, or one on invariants beyond those above.

    Example:
        >>> import cdp_views as cdp, numpy as np, numpyro.distributions as dist
        >>> inv = cdp.totals(["a", "a", "a"])
        >>> view = cdp.Conditioned(dist.Normal(np.array([10.0, 20.0, 30.0]), 1.0), inv)
        >>> round(float(view.variance[0]), 4)
        0.6667

    Reference: Two Views of Constrained Differential Privacy, Definition of conditioning and
    Lemma 3.3 (no extra privacy loss for totals computed from the data).
    """
    if isinstance(invariant, Bounds | Region):
        return _within(base, region_of(invariant), total, validate_args)
    cls, pieces = _shared.choose(base, invariant, _CLASSES, "Conditioned")
    shift = _shared.shift_to(invariant, pieces.loc, total)
    if pieces.mixing is not None:
        cls = partial(cls, mixing=pieces.mixing)
    return cls(
        invariant,
        pieces.loc,
        pieces.scale,
        pieces.batch_shape,
        shift=shift,
        validate_args=validate_args,
    )


def _within(
    base: Any, region: Region, total: Any, validate_args: bool | None
) -> ConditionedWhole | ConditionedWithin:
    cls, pieces = _shared.choose(base, region.equalities, _CLASSES, "Conditioned")
    if total is not None:
        raise UnsupportedError(
            "`total` does not go with bounds. Leave it out: the totals of loc are kept."
        )
    if not pieces.family.startswith("discrete"):
        flat = Conditioned(base, region.equalities, validate_args=validate_args)
        return ConditionedWithin(region, flat, pieces.mixing, validate_args=validate_args)
    if not region.bounds.cellwise:
        raise UnsupportedError(
            "cdp.Conditioned of discrete noise takes bounds of single cells only. Use real noise, "
            "or cdp.Imaged (a projection)."
        )
    return cls(
        region.equalities,
        pieces.loc,
        pieces.scale,
        pieces.batch_shape,
        lower=region.bounds.lower,
        validate_args=validate_args,
    )
