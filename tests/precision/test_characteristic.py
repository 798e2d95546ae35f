"""Densities of sums of Laplace variables at zero: 40 digits, closed forms, and differences."""

from math import comb

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate

from cdp_views._segments import Segments
from cdp_views.precision.characteristic import (
    average,
    equal_log_density_at_zero,
    log_density_at_zero,
    node_count,
)

density = jax.jit(log_density_at_zero, static_argnames="nodes")
equal = jax.jit(equal_log_density_at_zero)
slope = jax.jit(jax.grad(lambda c, seg: log_density_at_zero(c, seg).sum()))
DECADES = [1e-6, 1.0, 1e6]
TOLERANCE = {jnp.float32: 3e-6, jnp.float64: 2e-14}


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def one_group(n):
    """One total of the first n of 12 cells: one shape, so one compilation."""
    return Segments.of(np.where(np.arange(12) < n, 0, 1), 1)


def padded(c, dtype=None):
    return jnp.asarray(np.append(c, np.zeros(12 - len(c))), dtype)


def digits(c):
    """log f(0) of distinct c at 60 digits, by partial fractions of Π(1 + c²t²)⁻¹."""
    terms = [
        x ** (2 * len(c) - 3) / mp.fprod(x * x - y * y for j, y in enumerate(c) if j != i)
        for i, x in enumerate(c)
    ]
    return mp.log(mp.fsum(terms) / 2)


def exact(c):
    with mp.workdps(60):
        return float(digits([mp.mpf(float(x)) for x in c]))


def exact_slope(c):
    """Its gradient, by differences at 60 digits."""
    with mp.workdps(60):
        c, out = [mp.mpf(float(x)) for x in c], []
        for i, x in enumerate(c):
            h = x * mp.mpf(10) ** -18
            up, down = ([*c[:i], x + e, *c[i + 1 :]] for e in (h, -h))
            out.append(float((digits(up) - digits(down)) / (2 * h)))
        return out


CELLS = {
    "one": [1.7],
    "two": [1.0, 3.0],
    "three": [1.0, 1.3, 1.7],
    "ten": list(np.linspace(0.5, 3.0, 10)),
    "one dominant": [1000.0, 1.0, 1.1, 1.2, 0.9, 0.8, 0.7, 1.4, 1.6, 2.0],
    "two giants": [1e6, 0.9e6, 1.0, 2.0, 3.0],
    "twelve decades": list(10.0 ** np.linspace(-6, 6, 10)),
}


def test_the_oracle_is_the_integral():
    """Partial fractions against the integral itself, in log t, where it is smooth."""
    for name in ("two", "three", "ten"):
        c = np.array(CELLS[name])
        area, _ = integrate.quad(
            lambda v, c=c: np.exp(v - np.log1p((c * np.exp(v)) ** 2).sum()), -30, 30, epsrel=1e-12
        )
        assert_allclose(np.log(area / np.pi), exact(c), rtol=1e-10)


@pytest.mark.parametrize("name", CELLS)
def test_density_at_zero(name, precision):
    c = np.array(CELLS[name])
    for size in DECADES:
        got = density(padded(size * c, precision), one_group(c.size))
        assert got.dtype == precision and got.shape == (1,)
        assert_allclose(got[0] + np.log(size), exact(c), rtol=0, atol=20 * TOLERANCE[precision])


def test_two_cells_by_hand(float64):
    """f(0) = 1/(2(c₁ + c₂)); one cell 1/(2c); equal cells C(2m − 2, m − 1) 4^{1 − m}/(2c)."""
    for c in ([1.0, 3.0], [2.0, 2.0]):
        assert_allclose(density(padded(c), one_group(2)), [-np.log(8.0)], rtol=1e-14)
    assert_allclose(density(padded([1.7]), one_group(1)), [-np.log(3.4)], rtol=1e-15)
    for m in (2, 3, 4, 5, 8, 11):
        want = np.log(comb(2 * m - 2, m - 1) / 4.0 ** (m - 1) / 2 / 1.7)
        assert_allclose(density(padded(np.full(m, 1.7)), one_group(m)), [want], rtol=1e-13)


def test_the_nodes_asked_for_are_enough(float64):
    """`node_count` saves work without losing a digit, and asks for more where a cell dominates."""
    counts = {}
    for name in ("two", "three", "ten", "one dominant", "twelve decades"):
        c = np.array(CELLS[name])
        seg = one_group(c.size)
        counts[name] = node_count(padded(c), seg)
        assert_allclose(density(padded(c), seg, nodes=counts[name])[0], exact(c), atol=4e-13)
    whole = Segments.of(np.zeros(1000, dtype=int), 1)
    even = node_count(np.ones(1000), whole)
    assert even == 24 < counts["three"] < counts["one dominant"] <= 240
    assert_allclose(
        density(jnp.ones(1000), whole, nodes=even)[0],
        equal(jnp.ones(1), jnp.array([1000]))[0],
        atol=1e-13,
    )


def test_scrambled_groups_and_cells_in_none(precision):
    """Groups of 1, 2, 3 and 4 cells, interleaved, with free cells; and a batch in front."""
    labels = np.array([2, 4, 1, 3, 2, 0, 3, 4, 1, 3, 2, 3])
    seg = Segments.of(labels, 4)
    c = np.stack([np.linspace(0.5, 3, 12), np.linspace(4, 0.7, 12) ** 2])
    inside = np.where(labels == 4, 0.0, c)
    got = density(jnp.asarray(inside, precision), seg)
    want = [[exact(row[labels == g]) for g in range(4)] for row in c]
    assert_allclose(got, want, rtol=0, atol=20 * TOLERANCE[precision])


@pytest.mark.parametrize("name", ["two", "three", "ten", "one dominant"])
def test_gradient(name, float64):
    c = np.array(CELLS[name])
    got = slope(padded(c), one_group(c.size))
    assert_allclose(got[: c.size], exact_slope(c), rtol=1e-10)
    assert not np.any(got[c.size :])
    # scaling all c by a moves log f(0) by −log a
    assert_allclose(np.sum(got[: c.size] * c), -1.0, rtol=1e-12)


def test_gradient_of_a_cell_alone_and_of_none(precision):
    seg = Segments.of(np.array([0, 1, 1, 2]), 2)
    c = jnp.array([2.0, 1.0, 3.0, 0.0], precision)
    got = slope(c, seg)
    assert got.dtype == precision
    assert_allclose(got, [-0.5, -0.25, -0.25, 0.0], rtol=1e-5)


def test_gradient_of_a_compiled_density(float64):
    """The groups may themselves be arguments of the compiled function."""
    seg = one_group(2)
    got = jax.grad(lambda c: density(c, seg)[0])(padded([1.0, 3.0]))
    assert_allclose(got[:2], [-0.25, -0.25], rtol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 30, 31, 32, 33, 1000, 10**6])
def test_equal_cells(m, precision):
    """The ratio of gammas at 40 digits; in float32 a difference of gammas would lose all."""
    with mp.workdps(40):
        want = mp.loggamma(m - 0.5) - mp.loggamma(m) - mp.log(mp.pi) / 2 - mp.log(2)
    for c in (1e-6, 1.0, 1e6):
        got = equal(jnp.array([c], precision), jnp.array([m]))
        assert got.dtype == precision
        tolerance = 1e-13 if precision == jnp.float64 else 4e-6
        assert_allclose(got[0] + np.log(c), float(want), rtol=tolerance, atol=tolerance)


def test_averages_under_omega(float64):
    """E h(ω) cell by cell, against quadrature of the same one-dimensional law."""
    c = np.array([0.7, 1.0, 2.5, 0.4])
    seg = Segments.of(np.array([0, 1, 0, 1]), 2)
    got = average(jnp.asarray(c), seg, 120, lambda t: 1 / (1 + (c * t) ** 2))
    for cells in ([0, 2], [1, 3]):

        def weight(t, cells=cells):
            return np.prod(1 / (1 + (c[cells] * t) ** 2))

        mass, _ = integrate.quad(weight, 0, np.inf, epsrel=1e-12)
        for i in cells:
            part, _ = integrate.quad(
                lambda t, i=i: weight(t) / (1 + (c[i] * t) ** 2), 0, np.inf, epsrel=1e-12
            )
            assert_allclose(got[i], part / mass, rtol=1e-9)
