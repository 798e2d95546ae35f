"""Maximum entropy on totals that overlap: against a semidefinite solver, and at size.

`python -m benchmarks.overlapping` prints seconds, accuracy, and the peak memory of the large
solve in units of its n·k table (Linux), which the harness' ratios do not show.
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np

import cdp_views as cdp
from benchmarks.harness import Case, Run
from benchmarks.memory import _kilobytes
from cdp_views import UnsupportedError

_SMALL, _LARGE = (50, 3), (100_000, 5)


def cases(cells: int) -> Iterator[Case]:
    """n = 50 against cvxpy with Clarabel; n = 10⁵ (or a tenth of a smaller table), k = 5."""
    large = (min(_LARGE[0], max(cells // 10, 100)), _LARGE[1])
    for name, rival, target, (n, k), build in (
        ("n = 50 general", "cvxpy with Clarabel", 0.01, _SMALL, against_cvxpy),
        (f"n = {large[0]:,}, 5 overlapping totals", "jax.random.normal", None, large, at_size),
    ):
        yield Case(
            f"solve {name}",
            rival,
            target,
            partial(build, n, k),
            {"cells": n, "totals": k},
            ("float64",),
        )


@cache
def problem(n: int, k: int) -> tuple[Any, np.ndarray]:
    """Random rows of both signs (small), or totals each of which holds 40 % of the cells."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(k, n)) if n <= 50 else (random.random((k, n)) < 0.4).astype(float)
    sigma = np.exp(0.5 * random.normal(size=n).clip(-2, 2))
    if n > 50:
        sigma[:2] = 0.02 * sigma.sum()  # two cells of thousands: a negative precision
    return cdp.linear(rows), sigma


def against_cvxpy(n: int, k: int) -> tuple[Run, Run]:
    """The host solve, proof and checks included, once compiled; and the same problem in cvxpy."""
    try:
        import cvxpy as cp
    except ImportError:
        raise UnsupportedError("The rival cvxpy is not installed.") from None
    import scipy.linalg

    inv, sigma = problem(n, k)
    kernel = scipy.linalg.null_space(inv.matrix.toarray() * sigma)

    def rival() -> Any:
        Z = cp.Variable((kernel.shape[1],) * 2, symmetric=True)
        unit: Any = [cp.diag(kernel @ Z @ kernel.T) == 1]
        return cp.Problem(cp.Maximize(cp.log_det(Z)), unit).solve(solver=cp.CLARABEL)

    return partial(cdp.solve_max_entropy, inv, sigma), rival


def at_size(n: int, k: int) -> tuple[Run, Run]:
    """The host solve; and one draw of n normals."""
    inv, sigma = problem(n, k)
    draw = jax.jit(jax.random.normal, static_argnums=1)
    return partial(cdp.solve_max_entropy, inv, sigma), partial(draw, jax.random.key(0), (n,))


def main() -> None:
    """Seconds, accuracy and memory, in words."""
    for n, k in (_LARGE, _SMALL):
        inv, sigma = problem(n, k)
        start = perf_counter()
        cdp.solve_max_entropy(inv, sigma)
        first = perf_counter() - start
        before = _kilobytes("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        start = perf_counter()
        solution = cdp.solve_max_entropy(inv, sigma)
        seconds, rise = perf_counter() - start, 1024 * (_kilobytes("VmHWM") - before)
        print(
            f"n = {n:,}, k = {k}: {seconds:.3f} s ({first:.1f} s with compilation), "
            f"{solution.iterations} steps, {solution.status}, variances within "
            f"{solution.residual:.1e}, peak memory {rise / (8 * n * k):.1f} tables of n·k"
        )


if __name__ == "__main__":
    main()
