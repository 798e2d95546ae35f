"""Imaged Student-t, logistic and scale-mixture noise: exact draws, density by quadrature."""

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax
from jax.tree_util import Partial
from scipy import sparse

from cdp_views._checks import is_concrete
from cdp_views.loss import BoundedLoss
from cdp_views.noise.scale_mixture import ScaleMixture
from cdp_views.precision.along import kept_apart, log_integral_along
from cdp_views.views._common import proper
from cdp_views.views._mixture import host_scale
from cdp_views.views._suprema import along_fibre, by_row, student_exposure, student_supremum
from cdp_views.views.imaged import moves
from cdp_views.views.imaged.entropy import Standard
from cdp_views.views.imaged.laplace import fibre_sup
from cdp_views.views.imaged.noise import ImagedNoise


class ImagedMixture(ImagedNoise):
    """The image of Π p((y_i − loc_i)/scale_i)/scale_i on {A y = total}; build it with `cdp.Imaged`.

    Y = centre + Π(scale·U), Π the map to the closest point. On disjoint totals the density is

        p(x) = Π_g (b·u/|b|) ∫ Π_{i∈g} p((x_i + s u_i)/scale_i)/scale_i ds,

    one integral per group along its fibre u, by quadrature to 1e-9 in float64 (groups of up to 32
    cells; in larger ones wherever the cells' places lie within some twenty scales of each other).
    Overlapping totals have an estimate, `log_prob_estimate`, and an exact augmented model,
    `cdp.observe_imaged`.
    """

    nodes: ClassVar[int] = 40
    pytree_data_fields = ()
    pytree_aux_fields = ("metric",)

    def __init__(
        self,
        invariant: Any,
        loc: Any,
        scale: Any,
        batch_shape: tuple[int, ...],
        *,
        mixing: Any,
        metric: Literal["l2", "l1"] = "l2",
        **rest: Any,
    ) -> None:
        self.metric = metric
        self.base_dist = self.standard(mixing)  # `law` asks for it before NumPyro's own constructor
        super().__init__(invariant, loc, scale, batch_shape, **rest)

    @staticmethod
    @abstractmethod
    def standard(mixing: Any) -> dist.Distribution:
        """The base with loc 0 and scale 1."""

    @abstractmethod
    def width(self) -> Any:
        """How far the standard density is analytic around 0."""

    @property
    def standard_cells(self) -> Standard | None:
        if math.prod(self.unit.batch_shape) != 1 or not is_concrete(self.unit):
            return None
        return Standard(np.zeros(1), lambda _: self.unit, lambda _: self.width(), self.nodes)

    @property
    def unit(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The standardised base."""
        inner = self.base_dist
        while isinstance(inner, dist.Independent | dist.ExpandedDistribution):
            inner = inner.base_dist
        return inner

    def law(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, invariant: Any, scale: Array, weights: Array | None
    ) -> moves.Moved:
        second = jnp.asarray(self.unit.variance, scale.dtype)
        second = jnp.atleast_1d(jnp.where(jnp.isnan(second), jnp.inf, second))
        if self.metric == "l1":
            move = moves.Along.cheapest(invariant, weights, scale.dtype)
        else:
            move = moves.Nearest.of(invariant, weights, scale.dtype)
        return moves.Moved(move, scale, second)

    @staticmethod
    def moved(law: moves.Moved, shift: Array) -> Array:
        return shift - law.move.apply(shift)

    def log_cells(self, noise: Array) -> Array:
        """The log-density of the base's noise in every cell: (…, n)."""
        scale = jnp.asarray(proper(self.scale), noise.dtype)
        return self.unit.log_prob(noise / scale) - jnp.log(scale)

    def _log_density(self, noise: Array) -> Array:
        groups = self.disjoint
        u = jnp.asarray(self._push.law.move.direction(groups), noise.dtype)
        volume = jnp.sum(moves.log_volume(groups, u), -1)
        scale = jnp.asarray(proper(self.scale), noise.dtype)
        width = lax.stop_gradient(jnp.asarray(self.width(), noise.dtype)) * scale
        moving = groups.segments if self.metric == "l2" else kept_apart(groups.segments, u)
        # a cell that moves alone is integrated over all of its law
        alone = -jnp.log(moving.sum(jnp.abs(u)))
        along = jnp.broadcast_to(alone, (*noise.shape[:-1], groups.rank))
        if not (is_concrete(moving.sizes) and np.all(np.asarray(moving.sizes) == 1)):
            cells = Partial(type(self).log_cells, self)
            integral = log_integral_along(cells, noise, u, width, moving, nodes=self.nodes)
            along = jnp.where(moving.sizes == 1, along, integral)
        still = jnp.where(moving.member, 0, self.log_cells(noise))
        return jnp.sum(still, -1) + jnp.sum(along, -1) + volume

    def loss(self, differences: sparse.csr_array, query: Any = None) -> BoundedLoss:
        """At most min_w Σ S_i((v + uw)_i), S_i the largest loss of the base's cell i: a bound.

        Imaging is post-processing, and worlds that differ along the fibre u have one image. The
        base's own Σ S_i(v_i) where totals overlap.
        """
        if query is not None:
            raise self._refuse(
                "loss(query=)", "Ask for the whole release, which bounds every query."
            )
        scale = host_scale(self, "loss")

        def supremum(v: np.ndarray, cells: np.ndarray) -> np.ndarray:
            return self._cell_supremum(v / scale[cells], cells)

        groups = self.invariant.disjoint_groups
        if groups is None:
            found = by_row(differences, supremum(differences.data, differences.indices))
            return BoundedLoss(found, "bound")
        u = self.fibre(groups)
        labels = np.where(u == 0, groups.rank, np.asarray(groups.segments.labels))
        return BoundedLoss(self._least(differences, u, labels, groups.rank, supremum), "bound")

    def _cell_supremum(self, a: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """sup_x log p(x)/p(x + a) of the standardised base, of `cells`."""
        del a, cells
        raise self._refuse("loss", "Pass key= for an estimate from draws.")

    def _least(
        self, differences: sparse.csr_array, u: np.ndarray, labels: np.ndarray, count: int, of: Any
    ) -> np.ndarray:
        return along_fibre(differences, u, labels, count, of)


class ImagedStudentT(ImagedMixture):
    """Imaged Student-t noise; its variance is inf for df ≤ 2."""

    noise_name = "student-t"

    @staticmethod
    def standard(mixing: Any) -> dist.Distribution:
        return dist.StudentT(jnp.asarray(mixing.df), 0.0, 1.0)

    def width(self) -> Any:
        return jnp.sqrt(self.unit.df)

    @property
    def standard_cells(self) -> Standard | None:
        if not is_concrete(self.unit):
            return None
        df = np.asarray(self.unit.df, np.float64)
        return Standard(df, lambda df: dist.StudentT(df, 0.0, 1.0), jnp.sqrt, self.nodes)

    @property
    def exposure(self) -> np.ndarray:
        """1/scale (n,), or where several df are in use what orders the cells: S(1)."""
        return student_exposure(self.unit.df, super().exposure)

    def _cell_supremum(self, a: np.ndarray, cells: np.ndarray) -> np.ndarray:
        df = np.asarray(self.unit.df, np.float64)
        return student_supremum(df[cells] if df.size > 1 else df.reshape(-1)[0], a)


class ImagedLogistic(ImagedMixture):
    """Imaged logistic noise."""

    noise_name = "logistic"

    @staticmethod
    def standard(mixing: Any) -> dist.Distribution:
        del mixing
        return dist.Logistic(0.0, 1.0)

    def width(self) -> Any:
        return math.pi

    def _cell_supremum(self, a: np.ndarray, cells: np.ndarray) -> np.ndarray:
        del cells
        return np.abs(a)

    def _least(
        self, differences: sparse.csr_array, u: np.ndarray, labels: np.ndarray, count: int, of: Any
    ) -> np.ndarray:
        del of
        return fibre_sup(differences, u, 1 / host_scale(self, "loss"), labels, count)


class ImagedScaleMixture(ImagedMixture):
    """Imaged noise with a random scale of any law; its density may have a kink or a pole at 0."""

    noise_name = "scale mixture"
    nodes = 80

    @staticmethod
    def standard(mixing: Any) -> dist.Distribution:
        return ScaleMixture(mixing.law)

    def width(self) -> Any:
        return 1e-9 if jnp.result_type(float) == jnp.float64 else 1e-5
