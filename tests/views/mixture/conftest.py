"""Maximum entropy of scale mixtures: bases, and policies, by name."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import cdp_views as cdp

BASES = {
    "laplace": (lambda loc, scale: dist.Laplace(loc, scale), stats.laplace),
    "student-t": (lambda loc, scale: dist.StudentT(5.0, loc, scale), stats.t(5)),
    "logistic": (lambda loc, scale: dist.Logistic(loc, scale), stats.logistic),
    "scale mixture": (
        lambda loc, scale: cdp.ScaleMixture(dist.Weibull(np.sqrt(2.0), 2.0), loc, scale=scale),
        stats.laplace,
    ),
}


SLOW = ("logistic", "scale mixture")  # their quadratures take long to compile


@pytest.fixture(
    params=[pytest.param(b, marks=pytest.mark.slow if b in SLOW else ()) for b in BASES]
)
def base(request):
    """(make a base of loc and scale, the scipy law of one standardised cell)."""
    return BASES[request.param]


@pytest.fixture
def laplace():
    return BASES["laplace"]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield
