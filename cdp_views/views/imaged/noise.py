"""What imaged noise that isn't Normal shares: its fibre, its entropy, what is only estimated."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cdp_views import _checks
from cdp_views.invariants import Totals
from cdp_views.views._pushed import PushedView
from cdp_views.views.imaged.entropy import Standard, exact_entropy
from cdp_views.views.imaged.fibre import DensityEstimate, log_prob_estimate
from cdp_views.views.imaged.moves import Along

_INNER, _TOGETHER = 1024, 16


class ImagedNoise(PushedView):
    """The image of independent noise of any law on {A y = total}; build it with `cdp.Imaged`."""

    kind = "imaged"
    pytree_data_fields = ()

    @property
    @abstractmethod
    def standard_cells(self) -> Standard | None:
        """The base's cells of scale 1; None where no one number tells them apart."""

    @abstractmethod
    def log_cells(self, noise: Array) -> Array:
        """The log-density of the base's noise in every cell: (…, n)."""

    @property
    def disjoint(self) -> Totals:
        """The disjoint totals behind the invariant.

        Raises:
            UnsupportedError: they overlap.
        """
        groups = self.invariant.disjoint_groups
        if groups is None:
            raise _checks.UnsupportedError(
                f"This number of imaged {self.noise_name} noise on overlapping totals is an "
                "integral without a closed form. For log_prob use log_prob_estimate(value, key), "
                "or in a model cdp.observe_imaged(name, view, value), which is exact."
            )
        return groups

    def fibre(self, groups: Totals) -> np.ndarray:
        """The direction u (n,) in which worlds move, in float64."""
        move = getattr(self._push.law, "move", None)
        if isinstance(move, Along):
            return np.asarray(move.u, np.float64)
        b = np.ones(groups.n) if groups.weights is None else np.asarray(groups.weights, np.float64)
        costs = self._push.weights
        return b if costs is None else b / np.asarray(costs, np.float64)

    def log_prob_estimate(self, value: Any, key: Array, *, draws: int = 4096) -> DensityEstimate:
        """The log-density at one table on any totals: `fibre.log_prob_estimate`."""
        return log_prob_estimate(self, value, key, draws=draws)

    def entropy(self) -> Array:
        """Differential entropy, in nats: where at most two cells of every group move (…).

        Groups add up, and each such is an integral on a line, to about 1e-8 (`entropy`).
        """
        value = exact_entropy(self)
        if value is None:
            raise self._refuse("entropy", "Use entropy_estimate(key), with its standard error.")
        return jnp.asarray(value, jnp.result_type(float))

    def _height(self, noise: Array, key: Array) -> Array:
        if self.invariant.disjoint_groups is not None:
            return super()._height(noise, key)

        def one(at: tuple[Array, Array]) -> Array:
            found = log_prob_estimate(self, at[0] + self.centre, at[1], draws=_INNER)
            # E log p̂ = log p − ½ Var p̂/p² to second order
            return -found.log_density - found.standard_error**2 / 2

        keys = jax.random.split(jax.random.fold_in(key, 1), len(noise))
        return lax.map(one, (noise, keys), batch_size=_TOGETHER)

    def deviation(self, workload: Any = None) -> Any:
        """Not exact for this noise: evaluators estimate it from draws when given `key=`."""
        raise self._refuse("deviation", "Pass key= to the evaluator for an estimate from draws.")
