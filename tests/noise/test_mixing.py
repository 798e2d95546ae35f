"""Mixing laws against scipy's own bases, Bessel K against mpmath, Kolmogorov against its series."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from cdp_views.noise import kolmogorov, parts
from cdp_views.noise.scale_mixture import ScaleMixture
from cdp_views.precision.bessel import log_power_bessel

LAWS = {
    "laplace": (dist.Laplace(0.0, 1.0), stats.laplace),
    "student-t": (dist.StudentT(3.0, 0.0, 1.0), stats.t(3)),
    "logistic": (dist.Logistic(0.0, 1.0), stats.logistic),
    "rayleigh, given": (ScaleMixture(dist.Weibull(np.sqrt(2.0), 2.0)), stats.laplace),
}


def mixing_of(base):
    return parts(base, 3).mixing


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=LAWS)
def law(request, float64):
    base, want = LAWS[request.param]
    return mixing_of(base), want


def bessel(order, x):
    with mpmath.workdps(40):
        return float(mpmath.log(mpmath.besselk(order, x)) + order * mpmath.log(x))


ORDERS = [0, 0.5, 1, 1.5, 7.5, 15.5, 16, 17, 200]
PLACES = [1e-300, 1e-3, 1.999, 2.001, 17.0, 300.0, 1e6]


def test_bessel_against_forty_digits(float64):
    order, x = (a.ravel() for a in np.meshgrid(ORDERS, PLACES))
    want = np.array([bessel(n, mpmath.mpf(float(a))) for n, a in zip(order, x, strict=True)])
    got = np.asarray(jax.jit(log_power_bessel)(order, x))
    assert_allclose(got, want, rtol=2e-14, atol=2e-14)
    assert np.abs(got * (1 + 1e-12) - want).max() > 1e-9  # the tolerance means something
    slope = jax.jit(jax.vmap(jax.grad(log_power_bessel, argnums=1)))(order, x)
    want = [
        -float(mpmath.besselk(n - 1, a) / mpmath.besselk(n, a))
        for n, a in zip(order, x, strict=True)
    ]
    assert_allclose(slope, want, rtol=3e-9)


def test_bessel_at_zero_and_in_float32(precision):
    got = jax.jit(log_power_bessel)(jnp.array([0.0, 0.5, 1.0, 3.0, 40.0]), jnp.zeros(5))
    want = [np.inf, 0.5 * np.log(np.pi / 2), 0.0, np.log(8), 39 * np.log(2) + np.log(1.0)]
    want[4] = 39 * np.log(2) + float(mpmath.loggamma(40))
    assert got.dtype == precision
    assert_allclose(got, want, rtol=1e-6 if precision == jnp.float32 else 1e-13)
    assert np.isfinite(jax.grad(log_power_bessel, argnums=1)(1.5, 0.0))


def test_kolmogorov_density_and_draws(float64, key):
    def series(x):
        with mpmath.workdps(30):

            def term(j):
                return (-1) ** (int(j) - 1) * j**2 * mpmath.exp(-2 * j**2 * x**2)

            return float(mpmath.log(8 * x * mpmath.nsum(term, [1, 60])))

    x = np.array([0.25, 0.5, 0.8, 0.89, 0.91, 1.0, 2.0, 4.0])
    want = [series(mpmath.mpf(float(a))) for a in x]
    assert_allclose(kolmogorov.log_density(x), want, rtol=1e-12, atol=1e-12)
    assert np.isneginf(kolmogorov.log_density(jnp.zeros(()) - 1))
    draws = np.asarray(kolmogorov.sample(jax.random.fold_in(key, 1), (50_000,)))
    assert stats.kstest(draws, stats.kstwobign.cdf).pvalue > 1e-4
    assert stats.kstest(1.05 * draws, stats.kstwobign.cdf).pvalue < 1e-6
    # by inversion of P(K > x) = e^{−e}: the draw and its exponential agree, also far out
    e = np.asarray(jax.random.exponential(jax.random.fold_in(key, 1), (50_000,), float))
    assert_allclose(stats.kstwobign.logsf(draws), -e, atol=5e-9)


def test_scales_give_the_base_back(law, key):
    """Draws of s·Z have the base's law, and E s, E s² are what its E|X| and variance say."""
    mixing, want = law
    one, two = jax.random.split(key)
    s = np.asarray(mixing.sample(one, (40_000,), jnp.float64))
    x = s * np.asarray(jax.random.normal(two, s.shape))
    assert stats.kstest(x, want.cdf).pvalue > 1e-4
    assert stats.kstest(1.1 * x, want.cdf).pvalue < 1e-6
    assert_allclose(mixing.second_moment, want.var(), rtol=1e-9)
    mae = 2 * integrate.quad(lambda x: x * want.pdf(x), 0, np.inf)[0]
    assert_allclose(mixing.first_moment, mae * np.sqrt(np.pi / 2), rtol=1e-7)
    for level in (0.5, 0.9, 0.99):
        assert_allclose(mixing.margin(level), want.ppf((1 + level) / 2), rtol=1e-9)
    law_of_error = mixing.deviation(np.array([0.0, 2.0]))
    assert_allclose(law_of_error.sd, [0, 2 * want.std()], rtol=1e-9)
    assert_allclose(law_of_error.mae, [0, 2 * mae], rtol=1e-7)


def test_elliptical_densities(law):
    """d = 1 is the base; d = 3 by g₃(r²) = −g₁′(r)/(2πr), true of every elliptical law."""
    mixing, want = law
    z = np.array([1e-3, 0.3, 1.0, 4.0, 30.0])
    assert_allclose(mixing.log_elliptical(jnp.asarray(z**2), 1), want.logpdf(z), atol=1e-11)
    slope = {
        "laplace": lambda z: 0.5 * np.exp(-z),
        "logistic": lambda z: want.pdf(z) * np.tanh(z / 2),
        "student-t": lambda z: want.pdf(z) * 4 * z / (3 + z * z),
    }["laplace" if mixing.family == "scale mixture" else mixing.family](z)
    third = np.log(slope / (2 * np.pi * z))
    assert_allclose(mixing.log_elliptical(jnp.asarray(z**2), 3), third, atol=1e-10)


def test_scales_given_a_cell(law, key):
    """Against the law ∝ h(s) e^{−z²/2s²}/s on a fine grid, from z = 0 to far out."""
    mixing, _ = law
    z = np.array([0.0, 0.5, 5.0])
    s, ratio = (np.asarray(a) for a in mixing.given(key, jnp.asarray(z), 10_000))
    grid = np.linspace(-9, 6, 20_001)
    log_h = np.asarray(mixing.log_density(jnp.exp(jnp.asarray(grid))))
    for i in range(3):
        weight = np.exp(log_h - 0.5 * (z[i] * np.exp(-grid)) ** 2)  # ds/s = dv
        law_of_s = np.cumsum(weight) / weight.sum()
        place = np.interp(np.log(s[:, i]), grid, law_of_s)
        assert stats.kstest(place, "uniform").pvalue > 1e-4
        assert stats.kstest(np.minimum(place * 1.06, 1), "uniform").pvalue < 1e-4
    assert abs(np.exp(ratio).mean() - 1) < 2e-3


def test_no_second_moment(float64):
    cases = ((1.0, np.inf, np.inf), (2.0, np.sqrt(np.pi), np.inf), (3.0, None, 3.0))
    for df, first, second in cases:
        mixing = mixing_of(dist.StudentT(df, 0.0, 1.0))
        assert mixing.second_moment == second
        if first is not None:
            assert_allclose(mixing.first_moment, first)  # √(df/2) Γ((df−1)/2)/Γ(df/2)
    heavy = ScaleMixture(dist.HalfCauchy(1.0), np.zeros(3))
    assert np.all(np.isinf(heavy.variance))
    assert np.all(np.isfinite(heavy.sample(jax.random.key(0), (100,))))
