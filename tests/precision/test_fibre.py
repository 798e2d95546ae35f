"""Integrals along a fibre against 40 digits, their gradients, and both precisions."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views._segments import Segments
from cdp_views.precision.fibre import log_fibre_integral, segmented_cumsum

fibre = jax.jit(log_fibre_integral)
slopes = jax.jit(
    jax.grad(lambda x, u, r, seg: log_fibre_integral(x, u, r, seg).sum(), argnums=(0, 1, 2))
)
running = jax.jit(segmented_cumsum)
RNG = np.random.default_rng(7)
LABELS = np.array([0, 2, 1, 0, 2, 1, 3, 0, 2, 1, 3, 0])  # 3 is no group
SEG = Segments.of(LABELS, 3)
X = RNG.normal(size=12)
U = np.array([1.0, -2, 0.5, 1, 3, -1, 0, 1, 1, 1, 0, -1])
RATE = np.exp(RNG.normal(size=12))


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def exact(x, u, rate):
    """log ∫ exp(−Σ r|x + s u|) ds: an antiderivative on each piece, at 40 digits."""
    with mp.workdps(40):
        x, u, rate = ([mp.mpf(float(v)) for v in a] for a in (x, u, rate))
        cuts = sorted({-a / b for a, b in zip(x, u, strict=True)})
        whole = sum(abs(b) * r for b, r in zip(u, rate, strict=True))

        def f(s):
            return mp.exp(-sum(r * abs(a + s * b) for a, b, r in zip(x, u, rate, strict=True)))

        area = (f(cuts[0]) + f(cuts[-1])) / whole
        for low, high in pairwise(cuts):
            middle = (low + high) / 2
            slope = -sum(
                r * b * mp.sign(a + middle * b) for a, b, r in zip(x, u, rate, strict=True)
            )
            flat = abs(slope) < mp.mpf(10) ** -25
            area += f(middle) * (high - low) if flat else (f(high) - f(low)) / slope
        return float(mp.log(area))


def by_group(x, u=U, rate=RATE):
    return [exact(*(a[g == LABELS] for a in (x, u, rate))) for g in range(3)]


def test_the_oracle_is_the_integral():
    for g in range(3):
        x, u, r = (a[g == LABELS] for a in (X, U, RATE))
        cuts = sorted(-x / u)
        area = mp.quad(
            lambda s, x=x, u=u, r=r: mp.exp(-float(np.sum(r * np.abs(x + float(s) * u)))),
            [-mp.inf, *cuts, mp.inf],
        )
        assert_allclose(float(mp.log(area)), exact(x, u, r), rtol=1e-8)


@pytest.mark.parametrize("size", [1e-6, 1e-2, 1.0, 30.0])
def test_against_forty_digits(size, precision):
    got = fibre(*(jnp.asarray(a, precision) for a in (size * X, U, RATE)), SEG)
    assert got.dtype == precision and got.shape == (3,)
    eps = float(jnp.finfo(precision).eps)
    assert_allclose(got, by_group(size * X), rtol=20 * eps, atol=20 * eps)


def test_units_do_not_matter(precision):
    """Scales of 1e-6 … 1e6, and noise far in the tail, also in float32."""
    eps = float(jnp.finfo(precision).eps)
    want = np.array(by_group(X))
    for unit in (1e-6, 1e6):
        got = fibre(*(jnp.asarray(a, precision) for a in (X * unit, U, RATE / unit)), SEG)
        assert_allclose(got - np.log(unit), want, atol=100 * eps)
    far = fibre(*(jnp.asarray(a, precision) for a in (3e3 * X, U, RATE)), SEG)
    assert_allclose(far, by_group(3e3 * X), rtol=20 * eps)


@pytest.mark.parametrize("case", ["random", "all zero", "ties", "flat bottom"])
def test_special_points(case, float64):
    x = {
        "random": X,
        "all zero": np.zeros(12),
        "ties": np.where(LABELS == 0, 1.0, X),
        "flat bottom": np.where(LABELS == 0, [1, 0, 0, -1, 0, 0, 0, 1, 0, 0, 0, 1.0], X),
    }[case]
    rate = np.ones(12) if case == "flat bottom" else RATE
    assert_allclose(fibre(x, U, rate, SEG), by_group(x, rate=rate), rtol=1e-13)


def test_two_equal_cells_by_hand(float64):
    """∫ e^{−|s| − |a + s|} ds = (1 + |a|) e^{−|a|}."""
    seg = Segments.of(np.zeros(2, dtype=int), 1)
    for a in (0.0, 1e-9, 0.3, -5.0, 40.0):
        got = fibre(jnp.array([0.0, a]), jnp.ones(2), jnp.ones(2), seg)
        assert_allclose(got, [np.log1p(abs(a)) - abs(a)], rtol=1e-14, atol=1e-15)


def test_moving_along_the_fibre_changes_nothing(float64):
    """The integral depends on x only across the fibre, so its gradient along u is 0."""
    shift = np.array([0.7, -2.0, 5.0, 0.0])[LABELS]
    assert_allclose(fibre(X + shift * U, U, RATE, SEG), fibre(X, U, RATE, SEG), rtol=1e-12)
    gradient = slopes(X, U, RATE, SEG)[0]
    assert_allclose(np.bincount(LABELS, gradient * U, 4), 0, atol=1e-12)


def test_gradients(float64):
    """In x, u and rate, against central differences."""
    inside = LABELS < 3
    h = 1e-6
    got = slopes(X, U, RATE, SEG)
    for k in range(3):
        args = [X, U, RATE]

        def value(step, k=k, args=args):
            moved = [a + step if j == k else a for j, a in enumerate(args)]
            return float(fibre(*moved, SEG).sum())

        want = np.array([(value(e) - value(-e)) / (2 * h) for e in h * np.eye(12)])
        assert_allclose(np.asarray(got[k])[inside], want[inside], atol=2e-7)
        assert np.all(np.isfinite(got[k]))


@pytest.mark.parametrize("x", [np.zeros(12), U], ids=["zero", "on one fibre"])
def test_gradients_are_numbers_at_ties(x, precision):
    assert all(
        np.all(np.isfinite(g))
        for g in slopes(*(jnp.asarray(a, precision) for a in (x, U, RATE)), SEG)
    )


def test_gradients_in_float32_are_those_of_float64():
    with jax.enable_x64(True):
        want = [np.asarray(g) for g in slopes(X, U, RATE, SEG)]
    with jax.enable_x64(False):
        got = slopes(*(jnp.asarray(a, jnp.float32) for a in (X, U, RATE)), SEG)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == jnp.float32
        assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_batch_is_its_rows(float64):
    x = np.stack([X, 2 * X, X[::-1]])
    assert_allclose(fibre(x, U, RATE, SEG), [by_group(row) for row in x], rtol=1e-12)


@pytest.mark.slow
def test_a_large_group_in_float32():
    """10⁵ cells in one group: no cancellation of running sums."""
    n = 100_000
    x, rate = RNG.laplace(size=n), np.exp(0.5 * RNG.normal(size=n))
    seg = Segments.of(np.zeros(n, dtype=int), 1)
    with jax.enable_x64(True):
        want = float(fibre(x, np.ones(n), rate, seg)[0])
    with jax.enable_x64(False):
        got = fibre(*(jnp.asarray(a, jnp.float32) for a in (x, np.ones(n), rate)), seg)
    assert_allclose(got[0], want, rtol=2e-6)


def test_running_sums_start_again(precision):
    x = jnp.asarray(np.arange(1.0, 7.0), precision)
    first = jnp.array([True, False, False, True, False, True])
    want = [1, 3, 6, 4, 9, 6]
    assert_allclose(running(x, first), want)
    assert_allclose(running(jnp.stack([x, 2 * x]), first), [want, 2 * np.array(want)])


@pytest.mark.parametrize(
    "x", [[0.0, 1, 2, 4], [0.0, 0, 0, 0], [1.0, 1, -2, -2]], ids=["flat", "zero", "ties"]
)
def test_slopes_where_several_points_are_equally_low(float64, x):
    """Equal rates in an even group: the integrand has a flat top, and its slopes are smooth."""
    seg, one = Segments.of(np.zeros(4, int), 1), np.ones(4)
    x, step = np.array(x), 1e-4
    got = slopes(x, one, one, seg)
    assert_allclose(fibre(x, one, one, seg), [exact(x, one, one)], rtol=1e-13)
    for which, slope in ((0, got[0]), (2, got[2])):
        for i, e in enumerate(step * np.eye(4)):
            up, down = ([x, one, one] for _ in range(2))
            up[which], down[which] = up[which] + e, down[which] - e
            assert_allclose(slope[i], (exact(*up) - exact(*down)) / (2 * step), atol=1e-7)
