"""The view protocol: what a mechanism tells the evaluators, and NumPyro, about itself."""

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jax import Array
from scipy import sparse

from cdp_views.deviation import Deviation
from cdp_views.invariants import Invariant
from cdp_views.loss import Loss

Kind = Literal["max-entropy", "conditioned", "imaged"]


@runtime_checkable
class View(Protocol):
    """A NumPyro distribution Y = loc + X with A X = 0 that can be evaluated exactly.

    Every number may instead raise `UnsupportedError`. The evaluators see nothing else: `loss`
    answers what a release gives away, `deviation` what it is still good for.
    """

    invariant: Invariant

    @property
    def kind(self) -> Kind:
        """Which of the three views."""
        ...

    @property
    def noise_name(self) -> str:
        """The base's family, such as "normal"."""
        ...

    @property
    def loc(self) -> Any:
        """The true answers (…, n)."""
        ...

    @property
    def mean(self) -> Array:
        """E Y, (…, n)."""
        ...

    @property
    def variance(self) -> Array:
        """Marginal variances, (…, n)."""
        ...

    def covariance_product(self, x: Any) -> Array:
        """Cov(Y) x without forming the covariance: (…, n) → (…, n)."""
        ...

    def entropy(self) -> Array:
        """Differential entropy with respect to d-dimensional Hausdorff measure, in nats."""
        ...

    def sample_noise(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of X alone, so that adding it to large counts can wait for float64."""
        ...

    @property
    def exposure(self) -> np.ndarray:
        """One number per cell (n,): a group's worst difference lies at its largest ones."""
        ...

    def loss(self, differences: sparse.csr_array, query: sparse.csr_array | None = None) -> Loss:
        """Law of the privacy loss for each row of `differences` (m, n)."""
        ...

    def deviation(self, workload: sparse.csr_array | None = None) -> Deviation:
        """Law of the error W(Y − loc) for each row of the workload, or each cell."""
        ...
