"""Laplace errors against quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from cdp_views.deviation import LaplaceDeviation

GRID = [(b, s) for b in (0.0, 1e-8, -0.3, 1.0, -7.5, 300.0) for s in (1e-3, 1.0, 41.0)]


@pytest.mark.parametrize(("bias", "scale"), GRID)
def test_moments_are_integrals(bias, scale):
    law = LaplaceDeviation([bias], [scale])
    ends = {bias - 40 * scale, bias, bias + 40 * scale}
    ends = sorted(ends | ({0.0} if abs(bias) < 40 * scale else set()))

    def moment(f):
        return sum(
            quad(lambda e: f(e) * laplace.pdf(e, bias, scale), a, b, epsabs=0, epsrel=1e-12)[0]
            for a, b in pairwise(ends)
        )

    np.testing.assert_allclose(law.mae, moment(abs), rtol=1e-9)
    np.testing.assert_allclose(law.rmse**2, moment(lambda e: e**2), rtol=1e-9)
    np.testing.assert_allclose(law.sd, laplace.std(0, scale), rtol=1e-12)
    assert law.bias[0] == bias
    assert (law.kind, law.stderr, law.margin_stderr(0.9)) == ("exact", None, None)


@pytest.mark.parametrize("level", [1e-9, 0.01, 0.3, 0.5, 0.90, 0.999])
@pytest.mark.parametrize(("bias", "scale"), GRID)
def test_margin_holds_the_error_with_the_level(bias, scale, level):
    margin = LaplaceDeviation([bias], [scale]).margin(level)[0]
    inside = laplace.cdf(margin, bias, scale) - laplace.cdf(-margin, bias, scale)
    assert inside == pytest.approx(level, abs=2e-13 * (1 + abs(bias) / scale))


def test_margin_grows_with_the_level_across_the_bias():
    levels = np.linspace(0.001, 0.999, 999)
    margins = np.concatenate([LaplaceDeviation([2.0], [1.5]).margin(x) for x in levels])
    assert (np.diff(margins) > 0).all() and margins[0] < 2 < margins[-1]


def test_a_fixed_error_has_its_bias_as_every_figure():
    law = LaplaceDeviation(np.array([0.0, -3.0]), np.zeros(2))
    for figures in (law.mae, law.rmse, law.margin(0.9), law.margin(0.1)):
        np.testing.assert_array_equal(figures, [0.0, 3.0])
    assert LaplaceDeviation([1e300], [1e-300]).margin(0.9)[0] == 1e300


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_a_level_outside_the_unit_interval_is_refused(level):
    with pytest.raises(ValueError, match="`level` must be between 0 and 1"):
        LaplaceDeviation([0.0], [1.0]).margin(level)


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(ValueError, match="`scale` at least 0"):
        LaplaceDeviation([0.0], [scale])
