"""Statistics that try to tell a table's releases from its neighbour's, without a density."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]
"""Watched numbers of r releases (r, c) ↦ one number each (r,), larger for the neighbour's."""

_NULL = 1e-10  # of the largest eigenvalue of a correlation: below it a direction is held exact


@dataclass(frozen=True)
class Watched:
    """What is kept of a release: some cells less their true answers, then sums of the others.

    Args:
      cells: (c,) the cells, those that the difference touches first.
      touched: how many of them it touches.
      sums: (k, n) weights of the sums.
      shift: (c + k,) how far the neighbour moves each of these numbers.
    """

    cells: np.ndarray
    touched: int
    sums: np.ndarray
    shift: np.ndarray

    @staticmethod
    def of(v: np.ndarray, variance: np.ndarray, most: int = 64) -> "Watched":
        """For a difference v (n,): its largest changes first, then cells in the table's order.

        Of the cells beyond `most` two sums are kept, along v/variance and along 1/variance.
        """
        order = np.argsort(-np.abs(v), kind="stable")
        cells = order[:most]
        weight = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
        weight[cells] = 0.0
        sums = np.stack([weight * v, weight]) if len(v) > most else np.zeros((0, len(v)))
        sums = sums[np.any(sums != 0, axis=1)]
        shift = np.concatenate([v[cells], sums @ v])
        return Watched(cells, int(np.count_nonzero(v[cells])), sums, shift)

    def see(self, noise: np.ndarray) -> np.ndarray:
        """Releases less the true answers (r, n) ↦ the watched numbers (r, c + k)."""
        return np.concatenate([noise[:, self.cells], noise @ self.sums.T], axis=1)


def black_box(table: np.ndarray, neighbour: np.ndarray, watched: Watched) -> dict[str, Statistic]:
    """Statistics fitted on releases of the table and of its neighbour, both (r, s), by name.

    "linear": x ↦ vᵀΣ̂⁺x, best for Normal noise. "cell i": the value of one touched cell.
    "clipped": Σ (|x_i| − |x_i − v_i|)/λ̂_i over touched cells, best for independent Laplace noise.
    "discriminant": Fisher's, of all these numbers together, with the means as they are observed.
    The pseudo-inverse leaves out what the totals hold exactly.

    Reference: Fisher 1936 (discriminant); Nasr et al. 2021, "Adversary instantiation" (auditing by
    attacks of growing knowledge).
    """
    centre = table.mean(axis=0)
    inner = 0.5 * (_covariance(table) + _covariance(neighbour))
    weights = _solve(inner, watched.shift)
    statistics: dict[str, Statistic] = {"linear": lambda x: x @ weights}
    for column in range(watched.touched):
        statistics[f"cell {watched.cells[column]}"] = _one(column, watched.shift[column])
    clipped = _clipped(table, watched)
    statistics["clipped"] = lambda x: clipped(x).sum(axis=1)

    def numbers(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x - centre, clipped(x)], axis=1)

    one, other = numbers(table), numbers(neighbour)
    pooled = 0.5 * (_covariance(one) + _covariance(other))
    direction = _solve(pooled, other.mean(axis=0) - one.mean(axis=0))
    statistics["discriminant"] = lambda x: numbers(x) @ direction
    return statistics


def threshold_tests(
    table: Mapping[str, np.ndarray], neighbour: Mapping[str, np.ndarray], count: int
) -> list[tuple[str, float, int, int]]:
    """Tests "neighbour's if statistic > threshold" with their errors on these draws.

    Args:
      table: statistic name ↦ its values (r,) at releases of the table.
      neighbour: the same at releases of the neighbour.
      count: thresholds for each statistic, at quantiles of both together.

    Returns:
      (name, threshold, false positives, false negatives); thresholds ascend within a name.
    """
    tests = []
    for name, values in table.items():
        here, there = np.sort(values), np.sort(neighbour[name])
        both = np.sort(np.concatenate([here, there]))
        # just above and below a value: a density with a bounded loss has values of its own weight
        margin = 1e-9 * max(float(np.ptp(both[np.isfinite(both)])), 1e-300)
        places = np.linspace(0, len(both) - 1, count).astype(int)
        knots = np.unique(both[places])
        knots = knots[np.isfinite(knots)]
        thresholds = np.unique(np.concatenate([knots - margin, knots + margin]))
        above = len(here) - np.searchsorted(here, thresholds, side="right")
        below = np.searchsorted(there, thresholds, side="right")
        tests += [
            (name, float(t), int(a), int(b))
            for t, a, b in zip(thresholds, above, below, strict=True)
        ]
    return tests


def _one(column: int, shift: float) -> Statistic:
    return lambda x: np.sign(shift) * x[:, column]


def _clipped(table: np.ndarray, watched: Watched) -> Statistic:
    part, shift = slice(0, watched.touched), watched.shift[: watched.touched]
    size = np.abs(table[:, part]).mean(axis=0)
    size = np.where(size > 0, size, 1.0)
    return lambda x: (np.abs(x[:, part]) - np.abs(x[:, part] - shift)) / size


def _covariance(x: np.ndarray) -> np.ndarray:
    return np.atleast_2d(np.cov(x, rowvar=False))


def _solve(covariance: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Σ⁺ r, judged on unit variances so that no column's unit of measurement matters."""
    variance = np.diag(covariance)
    unit = np.sqrt(np.where(variance > 0, variance, 1.0))
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    kept = values > _NULL * max(values[-1], 1e-300)
    along = vectors[:, kept].T @ (right / unit)
    return vectors[:, kept] @ (along / values[kept]) / unit
