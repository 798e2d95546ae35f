"""Bases with their scipy laws, and the line {b·x = τ} of two cells to integrate along."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats

import cdp_views as cdp

SCALE = np.array([1.0, 2.5])
WEIGHTS = np.array([1.0, -2.0])
LINE = np.array([2.0, 1.0]) / np.sqrt(5)

BASES = {
    "laplace": (dist.Laplace, stats.laplace),
    "student-t": (lambda loc, scale: dist.StudentT(3.0, loc, scale), stats.t(3)),
    "cauchy": (lambda loc, scale: dist.StudentT(1.0, loc, scale), stats.t(1)),
    "between": (lambda loc, scale: dist.StudentT(2.5, loc, scale), stats.t(2.5)),
    "logistic": (dist.Logistic, stats.logistic),
}


class Along:
    """The base along {b·x = τ}, parametrised by signed distance from the point nearest to 0."""

    def __init__(self, law, tau):
        self.law, self.origin = law, WEIGHTS * tau / (WEIGHTS @ WEIGHTS)
        knots = np.sinh(np.linspace(-12, 12, 48_001))
        value = np.exp(self.log(knots))
        self.mass = integrate.simpson(value, knots)
        mean = integrate.simpson(value * knots, knots) / self.mass
        square = integrate.simpson(value * knots**2, knots) / self.mass
        self.mean, self.variance = self.origin + mean * LINE, (square - mean**2) * LINE**2
        cdf = integrate.cumulative_trapezoid(value, knots, initial=0) / self.mass
        self.cdf = lambda r: np.interp(r, knots, cdf / cdf[-1])

    def point(self, r):
        return self.origin + np.asarray(r)[:, None] * LINE

    def log(self, r):
        return np.sum(self.law.logpdf(self.point(r) / SCALE) - np.log(SCALE), -1)


@pytest.fixture
def along():
    return Along


@pytest.fixture
def two():
    """(base, total) → the view of two weighted cells with one total."""

    def make(base, total=None):
        inv = cdp.totals([0, 0], WEIGHTS)
        return cdp.Conditioned(
            base(np.zeros(2), SCALE), inv, total=None if total is None else np.array([total])
        )

    return make


@pytest.fixture
def bases():
    return BASES


@pytest.fixture
def line():
    return LINE


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield
