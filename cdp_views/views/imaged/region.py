"""Imaging onto exact totals and bounds: the projection of noisy tables onto a polyhedron."""

import warnings
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from scipy import sparse

from cdp_views import _checks
from cdp_views.invariants import Invariant, Linear, Region, Totals
from cdp_views.loss import GaussianLoss, Loss
from cdp_views.precision.polyhedron import project_to_polyhedron
from cdp_views.precision.simplex import project_to_simplex
from cdp_views.support import WithinRegion
from cdp_views.views._pushed import PushedView
from cdp_views.views.conditioned.region import require_a_table

_SWAMPED = 1.0  # standard deviations by which cells that no bound holds are moved


class ImagedRegion(dist.Distribution):
    """argmin {Σ (y_i − z_i)² : A z = A loc, B z ≥ lower}, y ~ base; build it with `cdp.Imaged`.

    Post-processing of `cdp.Imaged(base, totals)`, whose guarantee it keeps. It is biased (cells
    near a bound are pushed off it, others pay), which `cdp.utility(view, key=…)` reports, and it
    has atoms on the faces, so there is no density.

    Nonnegative cells under plain or positively weighted totals: exact, in O(n) a round, under jit.
    Any other bounds: on the host, active bounds by Clarabel and the point by least squares.
    """

    kind = "imaged"
    pytree_data_fields = ("flat",)
    pytree_aux_fields = ("region",)

    def __init__(self, region: Region, flat: Any, *, validate_args: bool | None = None) -> None:
        if not isinstance(flat, PushedView):
            raise _checks.UnsupportedError(
                f"cdp.Imaged of {flat.noise_name} noise onto bounds would leave the whole numbers. "
                "Use real noise, or cdp.Conditioned, which is exact in whole numbers."
            )
        self.region, self.flat = region, flat
        if _checks.is_concrete(flat.loc):
            require_a_table(region, flat.loc)
        super().__init__(flat.batch_shape, flat.event_shape, validate_args=validate_args)

    @property
    def invariant(self) -> Invariant:
        """The totals."""
        return self.region.equalities

    @property
    def loc(self) -> Any:
        """The true answers (…, n)."""
        return self.flat.loc

    @property
    def noise_name(self) -> str:
        """The base's family."""
        return self.flat.noise_name

    @property
    def support(self) -> WithinRegion:  # pyright: ignore[reportIncompatibleMethodOverride]
        return WithinRegion(self.region, self.loc)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws; warns where noise swamps the table, naming the cells that pay most."""
        noisy = self.flat.sample(key, sample_shape)
        table = self.project(noisy)
        if _checks.is_concrete(table):
            self._warn_if_swamped(np.asarray(noisy), np.asarray(table))
        return table

    def project(self, table: Any) -> Array:
        """The closest table with these totals and bounds: (…, n) → (…, n)."""
        y = jnp.asarray(table)
        total = self.invariant.evaluate(jnp.asarray(self.loc, y.dtype))
        groups = _simplex(self.region)
        if groups is not None:
            combined = self._group_totals(groups, total)
            b = groups._weights_like(y.dtype)
            return project_to_simplex(y, b, combined, groups.segments)
        shape = jax.ShapeDtypeStruct(y.shape, y.dtype)
        args = (y, jnp.broadcast_to(total, (*y.shape[:-1], total.shape[-1])))
        if _checks.is_concrete(args):
            return jnp.asarray(self._host(*map(np.asarray, args)))
        return jax.pure_callback(self._host, shape, *args, vmap_method="expand_dims")

    def active(self, table: Any) -> np.ndarray:
        """Which bounds a table lies on: (…, m)."""
        rows, x = self.region.bounds, np.asarray(table, np.float64)
        # to a millionth of the bound's own numbers, or of the noise in them: 0 has no size
        spread = np.broadcast_to(np.asarray(self.flat.scale, np.float64), x.shape)
        size = (np.abs(x) + spread) @ abs(rows.matrix).T + np.abs(rows.lower)
        return x @ rows.matrix.T - rows.lower <= 1e-6 * size

    @classmethod
    def infer_shapes(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError  # NumPyro's default answers ((), ())

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Refused: a projection onto a polyhedron has atoms on its faces."""
        raise _checks.UnsupportedError(
            "`log_prob` does not exist: the projection piles mass on the bounds. Release and "
            "analyse cdp.Imaged(base, totals) without bounds, or condition: "
            "cdp.Conditioned(cdp.DiscreteLaplace(...), totals & cdp.nonnegative(n))."
        )

    @property
    def mean(self) -> Any:
        """loc and a bias that depends on the table: from draws."""
        raise self._from_draws("mean")

    @property
    def variance(self) -> Any:
        """From draws."""
        raise self._from_draws("variance")

    def entropy(self) -> Any:
        """Refused: a law with atoms has none."""
        raise _checks.UnsupportedError(
            "`entropy` does not exist: the projection piles mass on the bounds. Compare errors "
            "instead, cdp.utility(view, key=…), bias included."
        )

    def loss(self, differences: sparse.csr_array, query: Any = None) -> Loss:
        """At most the loss of the same noise imaged on the totals alone (post-processing)."""
        law: Any = self.flat.loss(differences, query)  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(law, GaussianLoss):
            return replace(law, kind="bound")
        return replace(law, kind="bound", sup_kind="bound")

    @property
    def exposure(self) -> np.ndarray:
        """As without bounds."""
        return self.flat.exposure

    def deviation(self, workload: Any = None) -> Any:
        """Estimated, given `key=`: bias and errors depend on the true table."""
        raise self._from_draws("deviation")

    def _from_draws(self, what: str) -> _checks.UnsupportedError:
        return _checks.UnsupportedError(
            f"`{what}` of a table with bounds has no closed form. Estimate it from draws: "
            "cdp.utility(view, key=…), bias included."
        )

    def _group_totals(self, groups: Totals, total: Array) -> Array:
        geometry = self.invariant
        return geometry.combination.times(total) if isinstance(geometry, Linear) else total

    def _host(self, y: Any, total: Any) -> np.ndarray:
        y, total = np.asarray(y), np.asarray(total, np.float64)
        A, rows = self.invariant.matrix, self.region.bounds
        batch = int(np.prod(y.shape[:-1]))
        flat = zip(y.reshape(batch, -1), total.reshape(batch, total.shape[-1]), strict=True)
        found = [
            project_to_polyhedron(row.astype(np.float64), A, c, rows.matrix, rows.lower)
            for row, c in flat
        ]
        return np.reshape(found, y.shape).astype(y.dtype)

    def _warn_if_swamped(self, noisy: np.ndarray, table: np.ndarray) -> None:
        sd = np.sqrt(np.broadcast_to(np.asarray(self.flat.variance), self.flat.shape()))
        moved = np.abs(table - noisy) / np.where(sd > 0, sd, np.inf)
        if self.region.bounds.cellwise:  # a cell on its own bound is moved by its own noise
            moved = np.where(self.active(table), 0, moved)
        worst = moved.reshape(-1, moved.shape[-1]).mean(0)
        cells = np.flatnonzero(worst > _SWAMPED)
        if cells.size:
            shown = ", ".join(map(str, cells[np.argsort(-worst[cells])][:5]))
            warnings.warn(
                f"The bounds move {cells.size} cells by more than one standard deviation of their "
                f"noise, on average (cells {shown}{', …' if cells.size > 5 else ''}): the noise "
                "swamps the table, and the result is mostly bias. Use a larger budget, or coarser "
                "cells.",
                stacklevel=3,
            )


def _simplex(region: Region) -> Totals | None:
    """The disjoint totals of positive weights behind a region that is x ≥ 0 beside them."""
    groups = region.equalities.disjoint_groups
    if groups is None or not region.bounds.cellwise or region.bounds.lower.any():
        return None
    if groups.weights is not None and np.any(np.asarray(groups.weights) < 0):
        return None
    return groups
