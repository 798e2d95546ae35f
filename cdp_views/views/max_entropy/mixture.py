"""Maximum entropy for scale mixtures: independent random scales, made to fit the totals."""

from dataclasses import replace
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views import _checks
from cdp_views._lanes import Lanes
from cdp_views._segments import once
from cdp_views.deviation import Deviation
from cdp_views.invariants import Totals
from cdp_views.noise import Mixing
from cdp_views.precision.balanced_noise import balanced_noise
from cdp_views.precision.fibre import segmented_cumsum
from cdp_views.views._mixture import MixtureView, disjoint, host_scale, is_disjoint
from cdp_views.views.max_entropy.density import DensityEstimate, estimate
from cdp_views.views.max_entropy.estimated import estimated_loss
from cdp_views.views.max_entropy.marginal import loss_of_cell
from cdp_views.views.max_entropy.pairs import independent_pairs

_MOST_ROUNDS = 1_000


class MaxEntropyMixture(MixtureView):
    """Given σ_i = λ_i s_i, X is the Gaussian of largest entropy with standard deviations σ.

    It exists where each group's |b_i|σ_i are in balance; a subclass says what to do with the
    independent scales that aren't.
    """

    kind = "max-entropy"
    pytree_data_fields = ("mixing", "lanes")
    way_out: ClassVar[str] = 'Use scales="shared", or draws of sample_noise.'

    def __init__(
        self,
        invariant: Any,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        mixing: Mixing,
        *,
        validate_args: bool | None = None,
    ) -> None:
        if not is_disjoint(invariant):
            raise _checks.UnsupportedError(
                f"`scales` of {type(self).__name__} need disjoint or nested totals. Use "
                'scales="couple" or "shared" where totals overlap.'
            )
        self.mixing = mixing
        # no such law even at equal s: raises
        disjoint(invariant).equalize(jnp.asarray(scale) ** 2)
        self.lanes = Lanes.of(disjoint(invariant).segments)
        super().__init__(invariant, loc, scale, batch_shape, validate_args=validate_args)

    @property
    def noise_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.mixing.family

    def _scales(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Draws of the standardised scales s (*shape), in balance: given them X is Gaussian."""
        raise NotImplementedError

    def _scales_and_normals(self, key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Such s, and independent standard normals, where noise lies in rows (see `Lanes`)."""
        one, two = jax.random.split(key)
        s = self.lanes.taken(self._scales(one, shape))
        return s, once(jax.random.normal(two, s.shape, s.dtype))

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        s, z = self._scales_and_normals(key, self.shape(sample_shape))
        groups, lanes = self.groups, self.lanes
        scale = jnp.asarray(self.scale, s.dtype)
        b = None if groups.weights is None else groups._weights_like(s.dtype)
        b = b if b is None else jnp.where(groups.segments.member, b, 1)
        c = s if self.alike else s * lanes.taken(scale if b is None else jnp.abs(b) * scale)
        x = lanes.given(balanced_noise(lanes, lanes.kept(c), z))
        if self.alike:  # the equation knows no unit
            return x * (scale if b is None else jnp.sign(b) * scale)
        return x if b is None else x / b

    def _independent(self, key: Array, shape: tuple[int, ...]) -> Array:
        return once(self.mixing.sample(key, shape, jnp.result_type(float)))

    def _balanced(self, s: Array) -> Array:
        """Whether λ∘s is in balance, group by group: (…, G)."""
        groups, seg = self.groups, self.groups.segments
        weights = jnp.abs(groups._weights_like(s.dtype))
        c = weights * jnp.asarray(self.scale, s.dtype) * s
        largest = seg.max(c)
        return (seg.sum(c) - largest > largest * _slack(seg.sizes, s.dtype)) | (seg.sizes == 1)

    def _log_density(self, noise: Array) -> Array:
        raise self._refuse("log_prob", self.way_out)

    @property
    def variance(self) -> Array:
        raise self._refuse("variance", self.way_out)

    def covariance_product(self, x: Any) -> Array:
        raise self._refuse("covariance_product", self.way_out)

    def entropy(self) -> Array:
        """Not in closed form."""
        raise self._refuse("entropy", 'Use scales="shared", whose entropy is exact.')

    def loss(self, differences: Any, query: Any = None) -> Any:
        """No guarantee of the joint release is proved, in the paper or here."""
        raise self._refuse(
            "loss", "No guarantee is proved for it: release cdp.Conditioned or cdp.Imaged instead."
        )

    def deviation(self, workload: Any = None) -> Deviation:
        """Known from draws only; evaluators estimate it when given `key=`."""
        raise self._refuse("deviation", "Pass key= to the evaluator for an estimate from draws.")


@final
class MaxEntropyCoupled(MaxEntropyMixture):
    """Every cell exactly the base's law, A X = 0 with probability one: `scales="couple"`.

    Draws whose scales fail a test that is symmetric in s are *coupled*: the whole group takes one
    s. Given failure every s_i has the same law as the one that replaces them, so marginals are
    exact; `coupled_share` says how often it happens.
    """

    pytree_data_fields = ("needed",)

    def __init__(self, invariant: Any, loc: Any, scale: Any, *args: Any, **kwargs: Any) -> None:
        groups, lam = disjoint(invariant), jnp.asarray(scale)
        alike = groups.even and lam.shape[-1] == 1
        c = jnp.abs(groups._weights_like(lam.dtype)) * lam
        self.needed = jnp.ones(()) if alike else needed_cells(c, groups.segments)
        super().__init__(invariant, loc, scale, *args, **kwargs)
        require_one_law(self.mixing, groups.segments)

    def _scales_and_normals(self, key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
        lanes, rows = self.lanes, self.lanes.rows
        s, z = independent_pairs(self.mixing, lanes, key, shape)
        s = lanes.kept(s)
        keeps = self._accepts(lanes.sum(_itself, (s,)), lanes.max(s)[0])
        any_place = rows.place(jnp.ones(rows.n, bool))
        common = lanes.at(s, any_place, jnp.zeros_like(any_place))
        keep = (rows.spread(keeps.astype(jnp.int32)) > 0) | ~rows.member
        return jnp.where(keep[..., None, :], s, lanes.spread(common)), z

    def coupled_share(self, key: Array, draws: int = 1000) -> np.ndarray:
        """Share (G,) of draws whose group takes one common scale, from `draws` draws."""
        return np.asarray(
            1 - jnp.mean(self._accept(self._independent(key, self.shape((draws,)))), 0)
        )

    def _accept(self, s: Array) -> Array:
        """Whether each group keeps its own scales: (…, G).

        The test must be symmetric in s for the marginals to stay exact: then, given rejection,
        every s_i has the same law as the one s that replaces them. Whatever their order, scales
        with sum S and maximum s₁ balance the largest c if (S − s₁)/s₁ exceeds the number of the
        group's smallest other c that add up to it (1 where all c are equal).
        """
        seg = self.groups.segments
        return self._accepts(seg.sum(s), seg.max(s))

    def _accepts(self, total: Array, largest: Array) -> Array:
        slack = _slack(self.groups.segments.sizes, total.dtype)
        return total - largest > self.needed * largest * slack

    def log_prob_estimate(self, value: Any, key: Array, *, draws: int = 10_000) -> DensityEstimate:
        """log p(value) by simulation, with its standard error; exact where no group exceeds two.

        p = p_coupled + p_independent, group by group (groups are independent). The first is a
        one-dimensional integral over the common s; the second an average over directions of s
        drawn from the *independent* posterior given the cells, their common size integrated out.

        Args:
            value: (n,) or (…, n), on the subspace; elsewhere the density is 0.
            key: a JAX key.
            draws: of the scales, per value.

        Returns:
            (log_density, stderr, largest_share), each (…): `stderr` is of log_density;
            `largest_share` the share of one draw in its group's density: distrust both if it is
            above a few per cent.

        Raises:
            ValueError: for a batch of mechanisms.

        Example:
            >>> import cdp_views as cdp, jax, numpy as np, numpyro.distributions as dist
            >>> view = cdp.MaxEntropy(dist.Laplace(np.zeros(2), 1.0), cdp.totals(["a", "a"]))
            >>> got = view.log_prob_estimate(np.zeros(2), jax.random.key(0))  # exact for pairs
            >>> round(float(got.log_density), 4), float(got.stderr)
            (-1.0397, 0.0)
        """
        return estimate(self, value, key, draws)

    def _log_density(self, noise: Array) -> Array:
        raise self._refuse(
            "log_prob",
            "Use log_prob_estimate(value, key), which gives its standard error, or "
            'scales="shared", whose density is exact.',
        )

    @property
    def variance(self) -> Array:
        """λ² E s²; inf where the base has none."""
        alone = self.groups.segments.spread(self.groups.segments.sizes) == 1
        square = self.mixing.second_moment * jnp.asarray(self.scale) ** 2
        return jnp.broadcast_to(jnp.where(alone, 0, square), self.shape())

    def covariance_product(self, x: Any) -> Array:
        if not self.alike:
            raise self._refuse(
                "covariance_product", "Estimate it from sample_noise draws, or use equal scales."
            )
        # exchangeable cells that sum to 0: their covariance is fixed by the variance
        square = finite_second_moment(self) * jnp.asarray(self.scale) ** 2
        return self.groups.equalize(square).covariance_product(jnp.asarray(x))

    def loss_estimates(self, key: Array, differences: Any, draws: int) -> Any:
        """The loss of every difference by simulation, with the error of its densities."""
        return estimated_loss(self, key, differences, draws)

    def on_cells(self, part: Totals, scale: np.ndarray, cells: np.ndarray) -> "MaxEntropyCoupled":
        """The same noise on some of the groups alone."""
        n = self.invariant.n
        mixing = jax.tree.map(lambda a: a[cells] if np.shape(a)[-1:] == (n,) else a, self.mixing)
        return MaxEntropyCoupled(
            part, np.zeros(part.n), scale[:1] if np.ptp(scale) == 0 else scale, (), mixing
        )

    def loss(self, differences: Any, query: Any = None) -> Any:
        """Of a query of one cell alone, exactly the base's; of anything more nothing is proved."""
        if query is not None:
            scale = host_scale(self, "loss")
            found = loss_of_cell(self.mixing, differences, query, scale)
            if found is not None:
                return found
        return super().loss(differences, query)

    def deviation(self, workload: Any = None) -> Deviation:
        """The error of every cell has exactly the base's law; other queries from draws."""
        if workload is not None:
            return super().deviation(workload)
        scale = np.where(self.groups.determined, 0, host_scale(self, "deviation"))
        return self.mixing.deviation(scale)


@final
class MaxEntropyResampled(MaxEntropyMixture):
    """Independent scales *given* that they are in balance: `scales="resample"`.

    A X = 0 always, but marginals are **not** the base's: scales far from each other are drawn again
    (Laplace, n = 3: E|X| is 1.04 λ instead of λ). After 1,000 rounds a group takes one common
    scale.
    """

    way_out = 'Use scales="couple", which keeps the marginals, or draws of sample_noise.'

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_pairs(self.groups.segments, "resample")

    def _scales(self, key: Array, shape: tuple[int, ...]) -> Array:
        seg = self.groups.segments

        def again(state: tuple[Array, ...]) -> tuple[Array, ...]:
            key, s, done, rounds = state
            key, one = jax.random.split(key)
            new = self._independent(one, shape)
            keep = seg.spread(done.astype(s.dtype)) > 0
            s = jnp.where(keep | (~seg.member & (rounds > 0)), s, new)
            return key, s, done | self._balanced(s), rounds + 1

        start = jnp.ones(shape, jnp.result_type(float))
        done = jnp.zeros((*shape[:-1], seg.count), bool)
        state = (key, start, done, jnp.zeros((), jnp.int32))
        _, s, done, _ = lax.while_loop(
            lambda state: (~jnp.all(state[2]) & (state[3] < _MOST_ROUNDS)) | (state[3] < 1),
            again,
            state,
        )
        keep = (seg.spread(done.astype(s.dtype)) > 0) | ~seg.member
        return jnp.where(keep, s, self.groups._at_anchor(s))


@final
class MaxEntropyChecked(MaxEntropyMixture):
    """Independent scales, and an error at the first draw out of balance: `scales="raise"`.

    Keeps nothing silently: what it returns has A X = 0 and scales that are what was drawn.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_pairs(self.groups.segments, "raise")

    def _scales(self, key: Array, shape: tuple[int, ...]) -> Array:
        s = self._independent(key, shape)
        if not _checks.is_concrete(s, self.scale):
            raise _checks.UnsupportedError(
                '`scales="raise"` can only raise outside jit. Sample it there, or use '
                'scales="couple".'
            )
        balanced = np.asarray(self._balanced(s))
        if not balanced.all():
            bad = ~balanced
            group = int(np.argwhere(bad)[0][-1])
            raise _checks.InfeasibleError(
                f"`scales` drawn for group {self._called(group)} are out of balance in "
                f"{int(bad[..., group].sum())} of {bad[..., group].size} draws: one is at least "
                'the sum of the others. Use scales="couple", which keeps the marginals.'
            )
        return s

    def _called(self, group: int) -> str:
        names = self.groups.names
        return str(group) if names is None else str(names[group])


def _itself(s: Array) -> Array:
    return s


def _slack(sizes: Array, dtype: Any) -> Array:
    """1 and a few roundings: what passes must be strictly in balance for the solver too."""
    return 1 + 8 * (8 + jnp.sqrt(sizes.astype(dtype))) * jnp.finfo(dtype).eps


def needed_cells(c: Array, seg: Any) -> Array:
    """How many of a group's smallest other c add up to its largest, with a fraction: (…, G)."""
    c = jnp.broadcast_to(c, (*c.shape[:-1], seg.n))
    labels = jnp.broadcast_to(seg.labels, c.shape)
    _, c = lax.sort((labels, c), num_keys=2)
    ordered = replace(seg, labels=jnp.sort(seg.labels))
    change = ordered.labels[1:] != ordered.labels[:-1]
    first, last = jnp.append(True, change), jnp.append(change, True)
    below = segmented_cumsum(c, first) - c
    missing = ordered.spread(ordered.max(c)) - below
    count = jnp.where(last, 0, jnp.clip(missing / jnp.where(c > 0, c, 1), 0, 1))
    return ordered.sum(count)


def require_one_law(mixing: Mixing, seg: Any = None) -> None:
    """Raise where cells that must take one common s have different laws of it."""
    for leaf in jax.tree.leaves(mixing):
        if jnp.ndim(leaf) == 0 or leaf.shape[-1] == 1:
            continue
        if seg is not None and _checks.is_concrete(leaf, seg):
            cells, labels = np.asarray(leaf), np.asarray(seg.labels)
            order = np.argsort(labels, kind="stable")
            cells, labels = cells[..., order], labels[order]
            within = (labels[1:] == labels[:-1]) & (labels[1:] < seg.count)
            if not np.any((cells[..., 1:] != cells[..., :-1]) & within):
                continue
        raise _checks.UnsupportedError(
            f"`base` has a different law of its {mixing.family} scales in cells that must take "
            "one in common, so the marginals could not be kept. Give all cells of a group one df "
            "(or mixing); unequal sizes belong in scale."
        )


def refuse_pairs(seg: Any, policy: str) -> None:
    """Raise where two cells share a total: their independent scales are never equal."""
    if np.any(np.asarray(seg.sizes) == 2):
        raise _checks.InfeasibleError(
            f'`scales="{policy}"` has no draw in a group of two cells, whose independent scales '
            'are never in balance. Use scales="couple" or "shared".'
        )


def finite_second_moment(view: Any) -> Any:
    """E s², refused where it is infinite: then there is no covariance."""
    value = view.mixing.second_moment
    if _checks.is_concrete(value) and not np.all(np.isfinite(np.asarray(value))):
        raise _checks.UnsupportedError(
            f"`base` of {view.noise_name} noise has no variance, so there is no covariance. Use a "
            "law with a second moment (df above 2)."
        )
    return value
