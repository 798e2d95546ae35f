"""The registry of invariants, each with its rows written out by hand for dense algebra.

Nearly all have six cells, so that JAX compiles every operation once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import pytest
import scipy.linalg

import cdp_views as cdp

_RANDOM = np.random.default_rng(7).normal(size=(2, 6))


@dataclass(frozen=True)
class Case:
    """How to build an invariant, its rows, and which scales (n,) maximum entropy accepts."""

    build: Callable
    rows: list
    balanced: tuple | None = None  # `None`: tried elsewhere

    @property
    def A(self):
        return np.array(self.rows, dtype=float).reshape(-1, 6)


CASES = {
    "equal groups": Case(
        lambda: cdp.totals([0, 0, 0, 1, 1, 1]),
        [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]],
        (1.0, 1.2, 1.9, 3.0, 3.0, 1.0),
    ),
    "one plain total": Case(
        lambda: cdp.totals([0] * 6), [[1] * 6], (1.0, 2.0, 3.0, 4.0, 6.0, 15.0)
    ),
    "unequal groups, scrambled, strings": Case(
        lambda: cdp.totals(["IL", "OH", "IL", "OH", "IL", "IL"]),
        [[1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 0]],
        (1.0, 2.0, 0.7, 2.0, 2.0, 3.0),
    ),
    "a cell of its own group": Case(
        lambda: cdp.totals([4, 2, 2, 2, 2, 2]),
        [[1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]],
        (5.0, 2.0, 0.7, 2.0, 2.0, 3.0),
    ),
    "weights of both signs": Case(
        lambda: cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1.0, -3.0, 0.5, 1.5, 4.0]),
        [[2, 0, -3, 0, 1.5, 0], [0, -1, 0, 0.5, 0, 4]],
        (1.0, 1.0, 0.9, 3.0, 1.0, 0.5),
    ),
    "equal weights up to sign": Case(
        lambda: cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -3.0, -2.0, 3.0, 2.0, -3.0]),
        [[2, 0, -2, 0, 2, 0], [0, -3, 0, 3, 0, -3]],
        (1.0, 2.0, 1.5, 3.0, 2.0, 3.0),
    ),
    "zero weights": Case(
        lambda: cdp.totals([0, 0, 0, 0, 1, 1], [1.0, 0.0, 2.0, 1.0, 3.0, 0.0]),
        [[1, 0, 2, 1, 0, 0], [0, 0, 0, 0, 3, 0]],
        (1.0, 9.0, 0.7, 1.0, 4.0, 7.0),
    ),
    "free cells": Case(
        lambda: cdp.totals(["a", None, "a", "a", None, "b"], missing="free"),
        [[1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]],
        (1.0, 9.0, 0.7, 1.0, 4.0, 2.0),
    ),
    "weights over ten decades": Case(
        lambda: cdp.totals([0, 0, 0, 1, 1, 1], [1e5, 1.0, -9.99995e4, 7e-4, 1e-4, -8e-4]),
        [[1e5, 1.0, -9.99995e4, 0, 0, 0], [0, 0, 0, 7e-4, 1e-4, -8e-4]],
        (1.0, 1.0, 1.0, 1.0, 2.0, 1.0),
    ),
    "no invariant": Case(
        lambda: cdp.linear(np.zeros((0, 6))),
        np.zeros((0, 6)).tolist(),
        (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
    ),
    "rows of zeros": Case(
        lambda: cdp.linear(np.zeros((2, 6))), [[0] * 6] * 2, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    ),
    "nested": Case(
        lambda: cdp.linear([[1] * 6, [1, 1, 0, 0, 0, 0], [-2, -2, 0, 0, 0, 0]]),
        [[1] * 6, [1, 1, 0, 0, 0, 0], [-2, -2, 0, 0, 0, 0]],
        (2.0, 2.0, 1.0, 1.0, 1.5, 2.0),
    ),
    "redundant, badly scaled": Case(
        lambda: cdp.linear([[1e9] * 6, [1e-9, 1e-9, 1e-9, 0, 0, 0], [0, 0, 0, 5, 5, 5]]),
        [[1e9] * 6, [1e-9, 1e-9, 1e-9, 0, 0, 0], [0, 0, 0, 5, 5, 5]],
        (1.0, 1.2, 1.9, 3.0, 3.0, 1.0),
    ),
    "overlapping": Case(
        lambda: cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]]),
        [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]],
        (1.0, 1.2, 1.1, 1.5, 1.0, 2.0),
    ),
    "margins of a table": Case(
        lambda: cdp.totals([0, 0, 0, 1, 1, 1]) & cdp.totals([0, 1, 2, 0, 1, 2]),
        [
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 1, 1],
            [1, 0, 0, 1, 0, 0],
            [0, 1, 0, 0, 1, 0],
            [0, 0, 1, 0, 0, 1],
        ],
    ),
    "margins by axes": Case(
        lambda: cdp.margins((2, 3), [(0,), (1,)]),
        [
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 1, 1],
            [1, 0, 0, 1, 0, 0],
            [0, 1, 0, 0, 1, 0],
            [0, 0, 1, 0, 0, 1],
        ],
    ),
    "margins of margins, an axis of one": Case(
        lambda: cdp.margins((2, 1, 3), [(2, 1), (), (0,)]),
        [
            [1, 0, 0, 1, 0, 0],
            [0, 1, 0, 0, 1, 0],
            [0, 0, 1, 0, 0, 1],
            [1, 1, 1, 1, 1, 1],
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 1, 1],
        ],
    ),
    "one margin": Case(
        lambda: cdp.margins((2, 3), [(1,), ()]),
        [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1], [1, 1, 1, 1, 1, 1]],
        (1.0, 2.0, 3.0, 1.0, 2.0, 3.0),
    ),
    "overlapping, badly scaled": Case(
        lambda: cdp.linear([[1e9, 1e9, 1e9, 1e9, 0, 0], [0, 0, 1e-9, 1e-9, 1e-9, 1e-9]]),
        [[1e9, 1e9, 1e9, 1e9, 0, 0], [0, 0, 1e-9, 1e-9, 1e-9, 1e-9]],
    ),
    "a cell that overlaps determine": Case(
        lambda: cdp.linear([[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0]]),
        [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0]],
    ),
    "random rows": Case(lambda: cdp.linear(_RANDOM), _RANDOM.tolist()),
    "every cell fixed": Case(lambda: cdp.linear(np.eye(6)), np.eye(6).tolist(), (1.0,) * 6),
}
BALANCED = [name for name, case in CASES.items() if case.balanced is not None]


class Dense:
    """The same geometry by a basis of the null space; nothing of the library's."""

    def __init__(self, A):
        size = np.linalg.norm(A, axis=1, keepdims=True)
        self.A = A
        # `null_space` of no rows is the whole space
        scaled = (A / np.where(size > 0, size, 1))[size[:, 0] > 0]
        self.K = scipy.linalg.null_space(scaled, rcond=1e-13) if len(scaled) else np.eye(A.shape[1])
        self.P = self.K @ self.K.T
        self.n, self.dim = self.K.shape

    def precision(self, nu):
        return self.K.T @ (np.asarray(nu)[:, None] * self.K)

    def covariance(self, nu):
        return (
            self.K @ np.linalg.solve(self.precision(nu), self.K.T)
            if self.dim
            else np.zeros((self.n, self.n))
        )

    def logdet(self, nu):
        return np.linalg.slogdet(self.precision(nu))[1] if self.dim else 0.0


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return CASES[request.param]


@pytest.fixture(params=BALANCED, ids=str)
def balanced(request):
    return CASES[request.param]


@pytest.fixture
def inv(case):
    return case.build()


@pytest.fixture
def dense(case):
    return Dense(case.A)


@pytest.fixture(scope="session")
def dense_of():
    return Dense


@pytest.fixture(scope="session")
def cases():
    return CASES
