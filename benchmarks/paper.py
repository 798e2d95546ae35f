"""The exact maximum-entropy answer against the paper's Algorithm 2 run to 1e-6, both in float64.

`python -m benchmarks.paper` prints how many times faster and how much more accurate.
"""

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import jax
import numpy as np

import cdp_views as cdp
from benchmarks.harness import Case, Run, compare
from cdp_views.maxent.reference import ReferenceResult, projected_gradient

CELLS, PENALTY, TOLERANCE = 100, 1e-2, 1e-6
_TARGETS = {
    PENALTY: 1e-3,
    0.0: None,
}  # a thousand times faster; without penalty R is another matrix


def cases(_: int) -> Iterator[Case]:
    """The size of the paper's own example, whatever the other rows' size."""
    for name, penalty in (("with entropy penalty", PENALTY), ("without penalty", 0.0)):
        yield Case(
            f"solve 100 cells / Algorithm 2, {name}",
            "maxent.reference.projected_gradient",
            _TARGETS[penalty],
            partial(prepare, penalty),
            {"cells": CELLS},
            ("float64",),
        )


def prepare(penalty: float) -> tuple[Run, Run]:
    """Precisions of the exact law, compiled; and Algorithm 2 in plain NumPy."""
    sigma = scales()
    geometry = cdp.totals(np.zeros(CELLS, int))
    return partial(_solve, geometry, jax.numpy.asarray(sigma)), partial(algorithm_2, sigma, penalty)


def scales() -> np.ndarray:
    """Rayleigh scales: those of one Laplace draw of the paper's Figure 1."""
    return np.random.default_rng(0).rayleigh(size=CELLS)


def algorithm_2(sigma: np.ndarray, penalty: float) -> ReferenceResult:
    """With adaptive steps, which are several times faster than the paper's fixed ones."""
    return projected_gradient(sigma, penalty=penalty, tolerance=TOLERANCE)


def accuracy(R: np.ndarray, sigma: np.ndarray) -> float:
    """The larger of max |R_ii − 1| and max |R b|/|b|."""
    invariant = np.abs(R @ sigma).max() / np.linalg.norm(sigma)
    return float(max(np.abs(np.diag(R) - 1).max(), invariant))


@jax.jit
def _solve(geometry: Any, scale: jax.Array) -> jax.Array:
    return geometry.equalize(scale**2).nu


def main() -> None:
    """Time, and errors of both against the definition of the answer."""
    sigma = scales()
    exact = cdp.solve_max_entropy(cdp.totals(np.zeros(CELLS, int)), sigma).correlation()
    best = accuracy(exact, sigma)
    print(f"exact: error {best:.1e}")
    with jax.enable_x64(True):
        for penalty in _TARGETS:
            answer = algorithm_2(sigma, penalty)
            error = accuracy(answer.correlation, sigma)
            row = compare("solve", *prepare(penalty), 9)
            print(
                f"Algorithm 2, tau = {penalty:g}: {answer.status} after {answer.iterations} steps; "
                f"exact is {1 / median(row.ratios):,.0f} times faster (best pair "
                f"{1 / row.ratios[0]:,.0f}), {error / best:.0e} times more accurate ({error:.1e}); "
                f"distance of the two R {np.abs(answer.correlation - exact).max():.1e}"
            )


if __name__ == "__main__":
    main()
