"""Integrals along fibres on the host: against 40 digits, and as JAX sees them."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from cdp_views._segments import Segments
from cdp_views.precision import fibre_host, fibre_rows
from cdp_views.precision.fibre import log_fibre_integral
from cdp_views.precision.fibre_rows import fibre_integrals

RNG = np.random.default_rng(3)
LABELS = RNG.permutation(np.repeat(np.arange(7), [1, 2, 3, 4, 4, 7, 3]))  # 6 is no group
T = RNG.laplace(size=LABELS.size)
W = np.exp(RNG.normal(size=LABELS.size))


def exact(t, w):
    """log ∫ exp(−Σ w|s − t|) ds at 40 digits, and its slopes w E sign(s − t_i)."""
    with mp.workdps(40):
        t, w = ([mp.mpf(float(v)) for v in a] for a in (t, w))
        cuts, whole = sorted(set(t)), sum(w)

        def f(s):
            return mp.exp(-sum(b * abs(s - a) for a, b in zip(t, w, strict=True)))

        below = {cuts[0]: f(cuts[0]) / whole}
        for low, high in pairwise(cuts):
            slope = sum(b * (1 if a <= low else -1) for a, b in zip(t, w, strict=True))
            flat = abs(slope) < mp.mpf(10) ** -25
            piece = f(low) * (high - low) if flat else (f(low) - f(high)) / slope
            below[high] = below[low] + piece
        area = below[cuts[-1]] + f(cuts[-1]) / whole
        slopes = [b * (1 - 2 * below[a] / area) for a, b in zip(t, w, strict=True)]
        return float(mp.log(area)), np.array([float(v) for v in slopes])


def check(t, w, labels, value, slope, tolerance):
    for g in range(value.size):
        want, slopes = exact(t[labels == g], np.broadcast_to(w, t.shape)[labels == g])
        assert_allclose(value[g], want, rtol=tolerance, atol=tolerance)
        assert_allclose(slope[labels == g], slopes, rtol=tolerance, atol=tolerance * w.max())
    assert np.all(slope[labels == value.size] == 0)


def test_the_oracle_is_the_integral():
    t, w = T[LABELS == 5], W[LABELS == 5]
    area = mp.quad(
        lambda s: mp.exp(-float(np.sum(w * np.abs(float(s) - t)))), [-mp.inf, *sorted(t), mp.inf]
    )
    assert_allclose(float(mp.log(area)), exact(t, w)[0], rtol=1e-8)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", ["random", "ties", "zero", "far", "small"])
def test_against_forty_digits(case, dtype, large, monkeypatch):
    """Both ways of solving a group, also with weights all equal."""
    monkeypatch.setattr(fibre_rows, "_LARGE", 2 if large else 100)
    monkeypatch.setattr(fibre_rows, "_SAMPLE", 2)
    monkeypatch.setattr(fibre_rows, "_kept", [])
    t = {"random": T, "ties": np.round(T), "zero": 0 * T, "far": 3e3 * T, "small": 1e-6 * T}[case]
    t, tolerance = t.astype(dtype), 30 * np.finfo(dtype).eps
    for w in (W.astype(dtype), np.ones(1, dtype)):
        value, slope = fibre_integrals(t, w, LABELS, 6, slopes=True)
        assert slope.dtype == dtype
        check(t, w, LABELS, value, slope, tolerance)
        assert_allclose(fibre_integrals(t, w, LABELS, 6, slopes=False)[0], value, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_a_large_group_of_which_few_cells_are_sorted(scale):
    """Against the same sums in long double, all cells sorted."""
    n = 3 * fibre_rows._LARGE
    t, w = scale * RNG.laplace(size=n), np.exp(RNG.normal(size=n))
    value, slope = fibre_integrals(t, w, np.zeros(n, int), 1, slopes=True)
    low, high = fibre_rows._window(t, w, w.sum())
    assert np.mean((t >= low) & (t <= high)) < (0.5 if scale == 1 else 1.1)
    order = np.argsort(t)
    s, v = t[order].astype(np.longdouble), w[order].astype(np.longdouble)
    rise = (2 * np.cumsum(v) - v.sum())[:-1] * np.diff(s)
    height = np.append(0, np.cumsum(rise))
    bottom = s[np.argmin(height)]
    f = np.exp(height.min() - height)
    pieces = np.maximum(f[1:], f[:-1]) * np.diff(s) * -np.expm1(-abs(rise)) / abs(rise)
    left = np.cumsum(np.append(f[0] / v.sum(), pieces))
    total = left[-1] + f[-1] / v.sum()
    assert_allclose(value[0], np.log(total) - np.sum(v * abs(s - bottom)), rtol=1e-14)
    assert_allclose(slope[order], v * (1 - 2 * left / total), atol=1e-10)


def test_nothing_but_a_number_in_its_own_group():
    t = np.where(LABELS == 3, np.nan, T)
    value, slope = fibre_integrals(t, W, LABELS, 6, slopes=True)
    assert np.array_equal(np.isnan(value), np.arange(6) == 3)
    assert np.all(np.isfinite(slope[LABELS != 3]))


def test_rows_are_remembered_by_their_labels():
    a = fibre_integrals(T, W, LABELS, 6, slopes=False)[0]
    other = LABELS[::-1].copy()
    b = fibre_integrals(T, W, other, 6, slopes=False)[0]
    assert abs(a - b).max() > 0.1
    assert np.array_equal(fibre_integrals(T, W, LABELS.copy(), 6, slopes=False)[0], a)


# As JAX sees them.

SEG = Segments.of(LABELS, 6)
U = np.where(LABELS == 6, 0, RNG.choice([-2.0, 0.5, 1.0], LABELS.size))


def on_host(x, u, rate):
    return fibre_host.log_fibre_product(x, u, rate, SEG)


def in_jax(x, u, rate):
    return log_fibre_integral(x, u, rate, SEG).sum(-1)


@pytest.fixture
def everywhere(monkeypatch):
    """Small tables too go to the host."""
    monkeypatch.setattr(fibre_host, "_HOST", 0)


def test_value_slopes_and_batches(precision, everywhere):
    """Compiled, within `vmap` over one argument or more, and as a batch: the same numbers."""
    x, u, rate = (jnp.asarray(a, precision) for a in (T, U, W))
    tolerance = 100 * float(jnp.finfo(precision).eps)
    both = [jax.value_and_grad(f, argnums=(0, 1, 2)) for f in (on_host, in_jax)]
    got, want = (jax.jit(jax.vmap(f, in_axes=(0, None, None)))(jnp.stack([x, 2 * x]), u, rate)
                 for f in both)  # fmt: skip
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == precision
        assert_allclose(a, b, rtol=tolerance, atol=20 * tolerance)
    assert_allclose(on_host(jnp.stack([x, 2 * x]), u, rate), got[0], rtol=tolerance)
    rates = jnp.stack([rate[:1], 2 * rate[:1]])
    assert_allclose(
        jax.vmap(on_host, in_axes=(None, None, 0))(x, u, rates),
        [in_jax(x, u, r) for r in rates],
        rtol=tolerance,
    )


def test_second_derivatives(everywhere):
    with jax.enable_x64(True):
        v = RNG.normal(size=T.size)
        got, want = (
            jax.jvp(jax.grad(f), (T, U, W), (v, 0 * v, 0 * v))[1] for f in (on_host, in_jax)
        )
        step = 1e-5
        up, down = (jax.grad(on_host)(T + sign * step * v, U, W) for sign in (1, -1))
        assert_allclose(got, want, atol=1e-12)
        assert_allclose(got, (up - down) / (2 * step), atol=1e-7)


def test_float64_where_only_this_thread_has_it(everywhere):
    """A callback's thread does not see `enable_x64`: the numbers travel as bits."""
    with jax.enable_x64(True):
        got = jax.jit(on_host)(T, U, W)
        assert got.dtype == jnp.float64
        assert_allclose(got, in_jax(T, U, W), rtol=1e-14)
