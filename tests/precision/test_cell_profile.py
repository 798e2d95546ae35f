"""One cell of Student-t or logistic noise against quadrature of its own hockey stick."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from cdp_views.precision.cell_profile import logistic_cell, student_cell

A = (0.3, 2.0, 11.0)


def hockey_stick(law, a, epsilon):
    def excess(x):
        return max(law.pdf(x) - np.exp(epsilon) * law.pdf(x + a), 0.0)

    ends = np.concatenate([[-400.0], np.linspace(-40, 40, 33) - a / 2, [400.0]])
    return sum(quad(excess, left, right, epsabs=1e-13)[0] for left, right in pairwise(ends))


@pytest.mark.parametrize("a", A)
def test_against_quadrature(a):
    for share in (0.0, 0.3, 0.9):
        law, sup = stats.logistic(), a
        got = logistic_cell(np.array(share * sup), np.array([a]))
        assert_allclose(got, hockey_stick(law, a, share * sup), atol=1e-9)
        for df in (1.0, 5.0):
            law, sup = stats.t(df), (df + 1) * np.arcsinh(a / (2 * np.sqrt(df)))
            got = student_cell(np.array(share * sup), np.array([a]), df)
            tail = 2 * law.sf(400) if share == 0 else 0  # beyond the integral
            assert_allclose(got, hockey_stick(law, a, share * sup), atol=1e-8 + tail)


def test_ends():
    a = np.array([0.0, 1e-9, 1.0, 700.0])
    assert_allclose(logistic_cell(np.array(0.0), a), np.tanh(a / 4), rtol=1e-13)
    assert_allclose(student_cell(np.array(0.0), a, 3.0), 2 * stats.t(3).cdf(a / 2) - 1, atol=3e-14)
    sup = 4 * np.arcsinh(a / (2 * np.sqrt(3)))
    assert np.all(student_cell(sup, a, 3.0) < 1e-12) and np.all(logistic_cell(a, a) == 0)
