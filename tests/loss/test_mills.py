import mpmath as mp
import numpy as np
import pytest

from cdp_views.loss.mills import mills_difference, mills_ratio


def exact_ratio(t):
    return mp.erfc(t / mp.sqrt(2)) / 2 / mp.npdf(t)


@pytest.mark.parametrize("t", [-5.0, -0.5, 0.0, 1.0, 5.0, 30.0])
def test_ratio(t):
    with mp.workdps(40):
        assert abs(mills_ratio(t) / exact_ratio(mp.mpf(t)) - 1) < 1e-14


@pytest.mark.parametrize("x", [-0.5, 0.0, 0.7, 2.0, 3.999, 4.0, 7.0, 37.0])
def test_difference_never_cancels(x):
    widths = np.array([1e-300, 1e-12, 1e-5, 2e-3, 0.3, 0.999, 1.0, 1.001, 3.0, 40.0])
    got = mills_difference(np.full(widths.shape, x), widths)
    with mp.workdps(400):
        want = [exact_ratio(mp.mpf(x)) - exact_ratio(mp.mpf(x) + mp.mpf(float(w))) for w in widths]
        error = [abs(mp.mpf(float(g)) / w - 1) for g, w in zip(got, want, strict=True)]
    assert max(error) < 1e-14


def test_infinite_step_gives_the_ratio_itself():
    x = np.array([0.0, 3.0, 5.0])
    np.testing.assert_allclose(mills_difference(x, np.full(3, np.inf)), mills_ratio(x), rtol=1e-14)
