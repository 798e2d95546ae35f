"""A released table inside a NumPyro model: the true table behind it, and what it says of one."""

import warnings
from dataclasses import dataclass, field
from typing import Any, final

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

from cdp_views import _checks
from cdp_views._bases import over_cells, without
from cdp_views._float64 import float64, in_float64
from cdp_views.invariants import Invariant
from cdp_views.releases.mechanism import NOISES, Mechanism
from cdp_views.releases.noise.closing import slack_of, totals_of
from cdp_views.releases.rounded import Rounded
from cdp_views.releases.zeros import rows_of_zeros
from cdp_views.support import AffineSubspace, NonnegativeTotals, Restricted
from cdp_views.views import needs_scales, observe_max_entropy, observe_view


@final
@dataclass(frozen=True, eq=False, repr=False)
class Observed:
    """A released table and the mechanism that made it: what a model conditions on.

    A `cdp.Release` has the same two methods, `latent` and `observe`; this one is for tables that
    come from elsewhere: simulated ones, traced ones, another agency's.

    Args:
        mechanism: the law it was made by.
        released: y (n,), counts; may be traced.
        totals: the exact totals A q (k,), counts; `None` for those of the released table, which has
            them unless the noise is independent.
        rounding: the table was rounded to multiples of this many counts after the noise was added;
            0 for none. The likelihood is then that of the interval.
        coords: coordinates of the cells for labelled arrays, as `cdp.Release.coords`.
        zeros: (n,) cells that can only be 0 (`cdp.structural_zeros`); no prior is asked of them.

    Raises:
        ValueError: a table of another length, or exact totals that are missing, or not those of the
            released table where the mechanism keeps them.
        UnsupportedError: rounding of a table whose noise keeps totals (rounding broke them), or of
            whole noise.

    Example:
        >>> import cdp_views as cdp, jax, numpyro.distributions as dist, numpyro
        >>> inv = cdp.totals(["a", "a", "b", "b"])
        >>> seen = cdp.Observed(cdp.Mechanism("imaged", "normal", 2.0, inv), [4.0, 4.0, 8.0, 1.0])
        >>> with numpyro.handlers.seed(rng_seed=0):
        ...     q = seen.latent("q", dist.Normal(5.0, 5.0))
        >>> [round(float(total), 4) for total in inv.evaluate(q)]
        [8.0, 9.0]
    """

    mechanism: Mechanism
    released: Any
    totals: Any = None
    rounding: float = 0.0
    coords: dict[str, Any] = field(default_factory=dict)
    zeros: Any = None

    def __post_init__(self) -> None:
        n = self.invariant.n
        if np.shape(self.released) != (n,):
            raise ValueError(
                f"`released` must have shape ({n},), one count per cell; got "
                f"{np.shape(self.released)}."
            )
        self._check_rounding()
        if not _checks.is_concrete(self.released):
            return
        _checks.finite("released", self.released, "A cell that was not published is no cell.")
        if self.totals is None:
            if not self.mechanism.keeps_totals and self.invariant.rank > 0:
                raise ValueError(
                    "`totals` must be given with independent noise, whose table does not have the "
                    "exact totals; got None. Or use an invariant without totals."
                )
        elif self.mechanism.keeps_totals and _checks.is_concrete(self.totals):
            _require_same(self.invariant, self.released, self.totals)

    def _check_rounding(self) -> None:
        if self.rounding == 0:
            return
        _checks.positive("rounding", self.rounding, "Give the multiple, such as 5; 0 for none.")
        if self.mechanism.keeps_totals or NOISES[self.mechanism.noise].whole:
            raise _checks.UnsupportedError(
                f"`rounding` goes with independent Normal or Laplace noise; got "
                f"{self.mechanism.view} {self.mechanism.noise} noise. Where the steps are small "
                "against the noise, move the table to its totals and state no rounding."
            )

    def __repr__(self) -> str:
        m, zeros = self.mechanism, 0 if self.zeros is None else int(np.sum(self.zeros))
        totals = int(np.sum(~rows_of_zeros(self.invariant, self.zeros)))
        but = f", {zeros} that can only be 0" if zeros else ""
        view = f"{m.view} view of" if m.keeps_totals else m.view
        rounded = f", rounded to multiples of {self.rounding:g}" if self.rounding else ""
        return (
            f"Observed({self.invariant.n} cells{but}, {totals} exact "
            f"total{'s' if totals != 1 else ''}, {view} {m.noise} noise{rounded})"
        )

    @property
    def invariant(self) -> Invariant:
        """What is exact."""
        return self.mechanism.invariant

    @property
    def scale(self) -> Any:
        """The base noise's scale, () or (n,), counts."""
        return self.mechanism.scale

    @property
    def start(self) -> Any:
        """A table x₀ (n,) with the exact totals: the released one, or the closest to it."""
        y = self.released
        return y if self.totals is None else _moved(self.invariant, y, self.totals)

    def latent(self, name: str, prior: Any, *, scale: Any = None) -> Array:
        """A site `name` (n,): the true table behind this release, under a prior. Inside a model.

        The prior says what its density says, restricted to the exact totals and **not**
        renormalised (`cdp.Restricted`), so that they are data about its parameters. Two forms:

        - a prior on the real line: the latent is the noise, site `name_noise`, and q = y − noise a
          deterministic of it. Counts of millions then lose nothing in float32.
        - a prior on [0, ∞): the latent is q, by log shares of each total (`cdp.NonnegativeTotals`),
          whose coordinates start at the released table with steps of the noise.

        Structural zeros are 0 in every draw, and the prior says nothing of them.

        Args:
            name: of the site.
            prior: a continuous distribution over cells (n,), or of one cell.
            scale: of the noise, where it is a parameter; `None` for the published one.

        Returns:
            q (n,), counts, with A q exact.

        Raises:
            UnsupportedError: a discrete prior (use `cdp.ContinuousPoisson` and the like), or a
                nonnegative one under totals that overlap; a joint one where there are zeros.
        """
        if self.zeros is not None:
            prior = without(over_cells(prior, self.invariant.n), self.zeros)
        at = Restricted(prior, self.invariant, self._totals())
        if isinstance(at.support, NonnegativeTotals):
            self._warn_if_noise_drowns()
            near, spread = self._near(scale)
            support = NonnegativeTotals(self.invariant, self._totals(), near=near, spread=spread)
            flat = dist.ImproperUniform(support, (), (self.invariant.n,))
            q = jnp.asarray(numpyro.sample(name, flat))
            self.observe(f"{name}_released", q, scale=scale)
        else:
            noise = self._sampled_noise(name, scale)
            start = jnp.asarray(self.released, noise.dtype)
            q = jnp.asarray(numpyro.deterministic(name, start - noise))
        numpyro.factor(f"{name}_prior", at.log_prob(q))
        return q

    def observe(self, name: str, q: Any, *, scale: Any = None) -> Array:
        """A site `name`: this table was released from true counts q (n,). Inside a model.

        Max-entropy Laplace noise has latents of its own, `name_scales` (`observe_max_entropy`), and
        so has imaged Laplace noise on totals that overlap, `name_fibre` (`observe_imaged`).

        Args:
            name: of the site.
            q: true counts (n,) that have the exact totals, such as another release's `latent`.
            scale: of the noise, where it is a parameter; `None` for the published one.

        Returns:
            The released table (n,).
        """
        self._warn_if_noise_drowns()
        law = (
            self._independent(q, scale).to_event(1)
            if self.rounding
            else self.mechanism.density(q, scale=scale)
        )
        return jnp.asarray(observe_view(name, law, jnp.asarray(self.released)))

    def _totals(self) -> Any:
        if self.totals is not None:
            return self.totals
        return _evaluate(self.invariant, self.released)

    def _sampled_noise(self, name: str, scale: Any) -> Array:
        """A site `name_noise` (n,), y − q."""
        law = self._noise(scale)
        if not needs_scales(law):
            return jnp.asarray(numpyro.sample(f"{name}_noise", law))
        flat = dist.ImproperUniform(AffineSubspace(self.invariant), (), (self.invariant.n,))
        noise = jnp.asarray(numpyro.sample(f"{name}_noise", flat))
        observe_max_entropy(f"{name}_released", law, noise)
        return noise

    def _noise(self, scale: Any) -> dist.Distribution:
        """The law of y − q; for independent noise on {x : A x = A y − c}, not renormalised."""
        zero = np.zeros(self.invariant.n)
        if self.mechanism.keeps_totals:
            return self.mechanism.density(zero, scale=scale)
        over = _evaluate(self.invariant, self.released) - self._totals()
        return Restricted(self._independent(zero, scale), self.invariant, over)

    def _independent(self, q: Any, scale: Any) -> dist.Distribution:
        """Noise around q that keeps no total, rounded as the table was."""
        base = NOISES[self.mechanism.noise].density(q, self.scale if scale is None else scale)
        base = base.expand((self.invariant.n,))
        return Rounded(base, self.rounding) if self.rounding else base

    def _near(self, scale: Any) -> tuple[Any, Any]:
        """A positive table near the released one, and how far off the truth may be, (n,) each."""
        scale = self.scale if scale is None or not _checks.is_concrete(scale) else scale
        spread = jnp.broadcast_to(jnp.asarray(scale, float), (self.invariant.n,))
        near = jnp.maximum(jnp.asarray(self.start, spread.dtype), 0.5 * spread)
        return near, jnp.minimum(spread, near)

    def _warn_if_noise_drowns(self) -> None:
        known = _checks.is_concrete(self.released, self.scale)
        if jnp.result_type(float) != jnp.float32 or not known:
            return
        step = np.spacing(np.float32(np.abs(self.released).max()))
        if step > 0.1 * np.min(self.scale):
            warnings.warn(
                f"The released counts are so large that float32 rounds them in steps of {step:.2g}"
                ", coarse against the noise. Enable 64-bit JAX first: "
                'jax.config.update("jax_enable_x64", True).',
                stacklevel=4,
            )


def _evaluate(invariant: Invariant, x: Any) -> Any:
    """A x, in float64 on the host where x is known."""
    return (
        totals_of(invariant, np.asarray(x, np.float64))
        if _checks.is_concrete(x)
        else (invariant.evaluate(x))
    )


def _moved(invariant: Invariant, y: Any, totals: Any) -> Any:
    """The closest table to y with these totals."""
    if _checks.is_concrete(y, totals):
        return _moved_on_host(invariant, y, totals)
    return y + invariant.lift(jnp.asarray(totals) - invariant.evaluate(y))


@in_float64
def _moved_on_host(invariant: Invariant, y: Any, totals: Any) -> np.ndarray:
    y = np.asarray(y, np.float64)
    return y + np.asarray(invariant.lift(float64(np.asarray(totals) - totals_of(invariant, y))))


def _require_same(invariant: Invariant, y: Any, totals: Any) -> None:
    y, totals = np.asarray(y, np.float64), np.asarray(totals, np.float64)
    seen = totals_of(invariant, y)
    if totals.shape != seen.shape:
        raise ValueError(
            f"`totals` must have one number per total, {seen.size}; got shape {totals.shape}."
        )
    bad = np.abs(seen - totals) > slack_of(invariant, y) + 1e-6 * np.abs(totals)
    if bad.any():
        row = int(np.argmax(bad))
        names = invariant.names
        called = f"total {row}" if names is None else f'total "{names[row]}"'
        raise ValueError(
            f"`released` does not have the exact totals: {called} sums to {seen[row]:.15g}, stated "
            f'as {totals[row]:.15g}. Noise that keeps no total is view="independent".'
        )
