"""Normal errors against quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import foldnorm, ncx2, norm

from cdp_views.deviation import NormalDeviation

GRID = [(b, s) for b in (0.0, 1e-8, -0.3, 1.0, -7.5, 300.0) for s in (1e-3, 1.0, 41.0)]


@pytest.mark.parametrize(("bias", "sd"), GRID)
def test_mean_absolute_error_is_the_integral(bias, sd):
    parts = [bias - 40 * sd, bias - 5 * sd, bias, bias + 5 * sd, bias + 40 * sd]
    if parts[0] < 0 < parts[-1]:
        parts = sorted({*parts, 0.0})
    oracle = sum(
        quad(lambda e: abs(e) * norm.pdf(e, bias, sd), a, b, epsabs=0, epsrel=1e-12)[0]
        for a, b in pairwise(parts)
    )
    np.testing.assert_allclose(NormalDeviation([bias], [sd]).mae, oracle, rtol=1e-10)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.90, 0.999])
@pytest.mark.parametrize(("bias", "sd"), GRID)
def test_margin_holds_the_error_with_the_level(bias, sd, level):
    margin = NormalDeviation([bias], [sd]).margin(level)[0]
    inside = norm.cdf((margin - bias) / sd) - norm.cdf((-margin - bias) / sd)
    assert inside == pytest.approx(level, abs=2e-13 * (1 + abs(bias) / sd))


def test_margin_agrees_with_the_noncentral_chi_square():
    beta = np.array([0.0, 0.2, 1.0, 3.0])
    margin = NormalDeviation(beta, np.ones(4)).margin(0.9)
    np.testing.assert_allclose(margin**2, ncx2.ppf(0.9, 1, beta**2 + 1e-300), rtol=1e-8)
    np.testing.assert_allclose(NormalDeviation(beta, 1).mae, foldnorm.mean(beta), rtol=1e-12)


def test_a_fixed_error_has_its_bias_as_every_figure():
    law = NormalDeviation(np.array([0.0, -3.0]), np.zeros(2))
    for figures in (law.mae, law.rmse, law.margin(0.9)):
        np.testing.assert_array_equal(figures, [0.0, 3.0])


def test_a_million_errors_and_the_extremes():
    law = NormalDeviation(np.full(1_000_000, 2.0), np.geomspace(1e-9, 1e9, 1_000_000))
    margin = law.margin(0.9)
    assert np.isfinite(margin).all() and (np.diff(margin) >= -1e-9).all()
    assert NormalDeviation([1e300], [1e-300]).margin(0.9)[0] == 1e300


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 2, float("nan")])
def test_a_level_outside_the_unit_interval_is_refused(level):
    with pytest.raises(ValueError, match="`level` must be between 0 and 1"):
        NormalDeviation([0.0], [1.0]).margin(level)


@pytest.mark.parametrize("sd", [-1.0, float("nan"), float("inf")])
def test_a_bad_sd_is_refused(sd):
    with pytest.raises(ValueError, match="`sd` at least 0"):
        NormalDeviation([0.0], [sd])
