"""What offices do today to make noisy counts add up: post-processing of unconstrained noise.

Each keeps the guarantee of the noise it starts from, as long as neighbours share their totals: it
looks at the noisy table and at the exact totals only. Only the remainder is unbiased.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views._segments import Segments
from cdp_views.precision.simplex import project_to_simplex


def raked(noisy: np.ndarray, total: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Negative cells to 0, then every group scaled to its total: z_i = c y_i⁺ / Σ_g y⁺.

    A group without any positive cell is spread evenly.

    Args:
        noisy: (d, n) tables; total: (G,) of the groups; labels: (n,) group of each cell.

    Example:
        >>> raked(np.array([[3.0, 1.0, -2.0]]), np.array([8.0]), np.zeros(3, dtype=int)).tolist()
        [[6.0, 2.0, 0.0]]

    Reference: Deming and Stephan 1940 (iterative proportional fitting, one margin).
    """
    above = np.maximum(noisy, 0.0)
    sums = _sums(above, labels, total.size)
    sizes = np.bincount(labels, minlength=total.size)
    nothing = sums == 0
    factor = np.where(nothing, 0.0, total / np.where(nothing, 1.0, sums))
    even = np.where(nothing, total / sizes, 0.0)
    return above * factor[:, labels] + even[:, labels]


def remainder(noisy: np.ndarray, total: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The last cell of every group is the total less all others: it bears all their noise.

    Args:
        noisy: (d, n) tables; total: (G,) of the groups; labels: (n,) group of each cell.

    Example:
        >>> remainder(np.array([[3.0, 1.0, 9.0]]), np.array([8.0]), np.zeros(3, dtype=int)).tolist()
        [[3.0, 1.0, 4.0]]

    Reference: none; it is what a spreadsheet does.
    """
    last = _last(labels, total.size)
    found = noisy.copy()
    found[:, last] = 0.0
    found[:, last] = total - _sums(found, labels, total.size)
    return found


def rounded(noisy: np.ndarray, total: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The nearest table without negative cells, rounded to whole numbers that keep the total.

    argmin ‖z − y‖₂ with z ≥ 0 and Σ_g z = c; then all are rounded down, and the largest
    remainders get the ones that are missing.

    Args:
        noisy: (d, n) tables; total: (G,) whole; labels: (n,) group of each cell.

    Example:
        >>> with jax.enable_x64(True):
        ...     z = rounded(np.array([[3.2, 1.4, -2.0]]), np.array([5.0]), np.zeros(3, dtype=int))
        >>> z.tolist()
        [[3.0, 2.0, 0.0]]

    Reference: Abowd et al. 2022, "The 2020 Census Disclosure Avoidance System TopDown Algorithm"
    (nonnegative least squares, then a controlled rounding; one level of it).
    """
    segments = Segments.of(labels, total.size)
    near = np.asarray(_nearest(noisy, total, segments))
    # What differs from a whole number by rounding is that number, not one less and a remainder.
    whole = np.floor(near + 1e-9)
    missing = np.rint(total - _sums(whole, labels, total.size)).astype(np.int64)
    rest = near - whole
    for group in range(total.size):
        cells = np.flatnonzero(labels == group)
        order = np.argsort(-rest[:, cells], axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        whole[:, cells] += rank < missing[:, group, None]
    return whole


Adjust = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
BASELINES: dict[str, Adjust] = {"raked": raked, "remainder": remainder, "rounded": rounded}


@final
@dataclass(frozen=True, eq=False)
class Baseline:
    """Noise that was put on every cell, then adjusted to the exact totals.

    As much of a view as errors need: its law is known through draws only.

    Args:
        view: unconstrained noise around the true counts.
        adjust: one of `BASELINES`.
        total: (G,) exact totals; labels: (n,) group of each cell.
    """

    view: Any = field(repr=False)
    adjust: Adjust
    total: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)

    @property
    def loc(self) -> np.ndarray:
        return np.asarray(self.view.loc, dtype=np.float64)

    def sample_noise(self, key: Any, sample_shape: tuple[int]) -> np.ndarray:
        """Draws of the release less the truth, (draws, n): of mean other than 0."""
        noise = np.asarray(self.view.sample_noise(key, sample_shape), dtype=np.float64)
        return self.adjust(self.loc + noise, self.total, self.labels) - self.loc


@final
@dataclass(frozen=True, eq=False)
class LinearBaseline:
    """`Baseline` of a linear adjustment, error = M noise: unbiased, its moments in closed form.

    Args:
        drawn: the same, known through draws.
        matrix: M (n, n).
    """

    drawn: Baseline
    matrix: sparse.csr_array = field(repr=False)

    @property
    def loc(self) -> np.ndarray:
        return self.drawn.loc

    @property
    def mean(self) -> np.ndarray:
        return self.loc

    @property
    def variance(self) -> np.ndarray:
        return self.matrix.power(2) @ self._cells

    def covariance_product(self, x: np.ndarray) -> np.ndarray:
        """M Σ Mᵀ x for rows x (q, n)."""
        return ((x @ self.matrix) * self._cells) @ self.matrix.T

    def sample_noise(self, key: Any, sample_shape: tuple[int]) -> np.ndarray:
        """Draws of the release less the truth, (draws, n)."""
        return self.drawn.sample_noise(key, sample_shape)

    def deviation(self, workload: sparse.csr_array | None = None) -> Any:
        """The law of W M noise, where the noise knows that of sums."""
        return self.drawn.view.deviation(
            self.matrix if workload is None else sparse.csr_array(workload @ self.matrix)
        )

    @property
    def _cells(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.drawn.view.variance, dtype=float), self.loc.shape)


def baseline(name: str, view: Any, inv: Any) -> Baseline | LinearBaseline:
    """The baseline of this name over unconstrained noise.

    Raises:
        UnsupportedError: totals that overlap or have weights, or, for "rounded", are not whole.
    """
    groups = inv.plain_groups
    labels = np.zeros(0, dtype=np.int64) if groups is None else np.asarray(groups.labels)
    if groups is None or labels.max(initial=0) >= groups.count:
        raise UnsupportedError(
            f'"{name}" needs plain totals of groups that share no cell and leave none out. '
            "Use a view."
        )
    truth = np.asarray(view.loc, dtype=np.float64)
    total = np.bincount(labels, truth, groups.count)
    if name == "rounded" and np.any(total != np.rint(total)):
        raise UnsupportedError('"rounded" needs totals that are whole numbers. Use a view.')
    drawn = Baseline(view, BASELINES[name], total, labels)
    if name != "remainder":
        return drawn
    last = _last(labels, total.size)
    kept = np.ones(labels.size)
    kept[last] = 0.0
    others = np.flatnonzero(kept)
    rows = np.append(others, last[labels[others]])
    values = np.append(np.ones(others.size), -np.ones(others.size))
    shape = (labels.size, labels.size)
    return LinearBaseline(
        drawn, sparse.csr_array((values, (rows, np.tile(others, 2))), shape=shape)
    )


def _last(labels: np.ndarray, groups: int) -> np.ndarray:
    """The last cell of each group, (G,)."""
    last = np.zeros(groups, dtype=np.int64)
    last[labels] = np.arange(labels.size)  # later cells overwrite earlier ones
    return last


def _sums(x: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    """Sums of the groups, (d, G)."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(groups))
    return np.add.reduceat(x[:, order], starts, axis=1)


@jax.jit
def _nearest(noisy: Any, total: Any, segments: Segments) -> Any:
    return project_to_simplex(noisy, jax.numpy.ones_like(noisy[0]), total, segments)
