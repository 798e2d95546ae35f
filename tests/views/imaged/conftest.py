"""Bases under imaging by name, with the SciPy law of one standardised cell."""

from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from scipy import stats

import cdp_views as cdp

LABELS = [0, 1, 0, 1, 0, 1]
WEIGHTS = np.array([2.0, -1.0, -3.0, 1.5, 1.5, 2.0])
SCALE = np.array([1.3, 1.3, 1.0, 1.5, 1.2, 1.1])
COSTS = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.7])
BASES: dict[str, Any] = {
    "normal": (dist.Normal, stats.norm),
    "laplace": (dist.Laplace, stats.laplace),
    "student-t": (lambda loc, scale: dist.StudentT(3.0, loc, scale), stats.t(3)),
    "logistic": (dist.Logistic, stats.logistic),
    "scale mixture": (
        lambda loc, scale: cdp.ScaleMixture(dist.Weibull(np.sqrt(2.0), 2.0), loc, scale=scale),
        stats.laplace,
    ),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(
    params=[pytest.param(b, marks=pytest.mark.slow if b == "scale mixture" else ()) for b in BASES]
)
def base(request):
    """(make a base of loc and scale, the SciPy law of one standardised cell)."""
    return BASES[request.param]


@pytest.fixture(scope="session")
def bases():
    return BASES


@pytest.fixture
def inv():
    return cdp.totals(LABELS, WEIGHTS)


@pytest.fixture
def scale():
    return SCALE


@pytest.fixture
def costs():
    return COSTS


def shift_to_zero(A, y, u):
    """y moved along the columns of u (n, k) until A y = 0, dense."""
    return (
        y - u @ np.linalg.solve(A @ u, A @ y.T).T
        if y.ndim == 1
        else y - y @ (u @ np.linalg.solve(A @ u, A)).T
    )


def directions(A, costs, metric):
    """Dense fibre (n, k): W⁻¹Aᵀ, or for "l1" 1/b in the cells of largest |b|/w of a row."""
    if metric == "l2":
        return (A / costs).T
    worth = np.abs(A) / costs
    top = worth >= worth.max(1, keepdims=True) * (1 - 1e-12)
    return np.where(top, 1 / np.where(top, A, 1), 0).T


@pytest.fixture(scope="session")
def dense():
    """(dense directions, move of points onto ker A, log of the volume between x + u t and V)."""

    def volume(A, u):
        Q = scipy.linalg.orth(A.T)
        return np.linalg.slogdet(Q.T @ u)[1]

    return directions, shift_to_zero, volume
