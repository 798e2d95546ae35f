"""Densities: shared against mpmath, scipy and its own integral; couple's estimate against truth."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.sparse import csr_array

import cdp_views as cdp
from cdp_views.noise.mixing import InverseChi, Rayleigh
from cdp_views.views.max_entropy.coupling import log_table

pytestmark = pytest.mark.usefixtures("lightly_compiled")
LABELS = [0, 1, 0, 1, 0, 1, 1]
SCALE = np.array([1.3, 1.3, 1.0, 1.5, 1.2, 1.1, 1.0])

log_prob = jax.jit(lambda view, x: view.log_prob(x))


def dense(view, x):
    """d, log pdet Σ and xᵀΣ⁺x of the Gaussian at s = 1, by dense algebra."""
    C = np.asarray(cdp.MaxEntropy(dist.Normal(0.0, view.scale), view.invariant).covariance_matrix)
    values, vectors = np.linalg.eigh(C)
    kept = values > 1e-10
    y = x @ vectors[:, kept]
    return kept.sum(), np.log(values[kept]).sum(), np.sum(y**2 / values[kept], -1)


@pytest.mark.parametrize(
    ("base", "overlap"),
    [
        ("laplace", False),
        ("laplace", True),
        ("student-t", False),
        pytest.param("logistic", True, marks=pytest.mark.slow),
        pytest.param("scale mixture", False, marks=pytest.mark.slow),
    ],
    indirect=["base"],
)
def test_shared_density(base, overlap, key):
    """Against an integral over s in 30 digits, from near 0 to far out."""
    A = np.array([[1.0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]])
    inv = cdp.linear(A) if overlap else cdp.totals(LABELS)
    make, _law = base
    view = cdp.MaxEntropy(make(np.zeros(7), SCALE), inv, scales="shared")
    x = np.asarray(view.sample_noise(key))
    x = np.stack([1e-3 * x, x, 30 * x])
    d, log_pdet, q = dense(view, x)
    log_h = {
        "laplace": lambda s: mpmath.log(s) - s * s / 2,
        "student-t": lambda s: (
            mpmath.log(2 * mpmath.mpf(2.5) ** 2.5 / mpmath.gamma(2.5))
            - 6 * mpmath.log(s)
            - 2.5 / (s * s)
        ),
    }.get("laplace" if view.noise_name == "scale mixture" else view.noise_name)
    got = view.log_prob(x)
    if log_h is not None:

        def density(q):
            def line(v):
                return log_h(mpmath.exp(v)) + (1 - d) * v - q * mpmath.exp(-2 * v) / 2

            top = max((mpmath.mpf(k) / 10 for k in range(-100, 100)), key=line)
            ends = mpmath.linspace(top - 5, top + 10, 46)
            # around 1 at its peak: mpmath judges errors absolutely
            area = mpmath.quad(lambda v: mpmath.exp(line(v) - line(top)), ends)
            return float(line(top) + mpmath.log(area))

        want = [density(mpmath.mpf(float(a))) for a in q] - d / 2 * np.log(2 * np.pi)
        assert_allclose(got, want - log_pdet / 2, rtol=1e-8)
    else:  # the logistic's own g_d: from draws, smoothed over the scale it is a mixture of
        s = np.asarray(view.mixing.sample(key, (200_000,), float))
        rows = -0.5 * q[:2, None] / s**2 - d * np.log(s) - d / 2 * np.log(2 * np.pi) - log_pdet / 2
        want = np.exp(rows - rows.max(-1, keepdims=True))
        error = want.std(-1) / want.mean(-1) / np.sqrt(s.size)
        assert np.all(np.abs(got[:2] - rows.max(-1) - np.log(want.mean(-1))) < 5 * error)


def test_shared_density_at_the_centre_and_far_out(laplace):
    """Laplace: infinite at 0 for d ≥ 2, ½ per unit length for d = 1; no overflow far out."""
    make, _ = laplace
    line = cdp.MaxEntropy(make(np.zeros(2), 1.0), cdp.totals([0, 0]), scales="shared")
    assert_allclose(log_prob(line, np.zeros(2)), np.log(0.5) - 0.5 * np.log(2))
    view = cdp.MaxEntropy(make(np.zeros(7), SCALE), cdp.totals(LABELS), scales="shared")
    assert np.isposinf(log_prob(view, np.zeros(7)))
    x = np.asarray(view.sample_noise(jax.random.key(0)))
    for size in (1e-100, 1e6, 1e100):
        assert np.isfinite(log_prob(view, size * x))
    slope = jax.jit(jax.grad(view.log_prob))(jnp.asarray(x))
    h = 1e-6
    e = np.asarray(view.invariant.project(np.eye(7)[2]))
    want = (log_prob(view, x + h * e) - log_prob(view, x - h * e)) / (2 * h)
    assert_allclose(slope @ e, want, rtol=1e-5)


def test_shared_moments_and_queries(base, key):
    make, law = base
    view = cdp.MaxEntropy(make(np.zeros(7), SCALE), cdp.totals(LABELS), scales="shared")
    normal = cdp.MaxEntropy(dist.Normal(np.zeros(7), SCALE), cdp.totals(LABELS))
    assert_allclose(view.covariance_matrix, law.var() * normal.covariance_matrix, rtol=1e-9)
    w = csr_array(
        np.array([[1.0, 1, 0, 0, 0, 0, 0], [0, 2, 0, -1, 0, 0, 1], [1, 0, 1, 0, 1, 0, 0]])
    )
    error = view.deviation(w)
    draws = np.asarray(view.sample_noise(key, (20_000,)))
    x = draws @ w.toarray().T
    square = np.diag(w @ np.asarray(normal.covariance_matrix) @ w.T)
    size = np.sqrt(np.maximum(square, 0))
    for i in range(2):
        assert stats.kstest(x[:, i] / size[i], law.cdf).pvalue > 1e-4
        assert stats.kstest(1.1 * x[:, i] / size[i], law.cdf).pvalue < 1e-4
    assert_allclose(error.margin(0.95)[:2], law.ppf(0.975) * size[:2], rtol=1e-8)
    assert error.sd[2] == 0  # a query of an exact total
    # entropy against the mean of −log p at draws with the scale's noise taken out
    minus, exact = -np.asarray(log_prob(view, draws)), view.entropy()
    assert abs(minus.mean() - exact) < 5 * minus.std() / np.sqrt(20_000)
    assert abs(minus.mean() + 0.5 - exact) > 5 * minus.std() / np.sqrt(20_000)


def test_entropy_of_a_line(laplace):
    """d = 1: Laplace on a line of length √2 per cell, 1 + log 2 + ½ log 2."""
    view = cdp.MaxEntropy(laplace[0](np.zeros(2), 1.0), cdp.totals([0, 0]), scales="shared")
    assert_allclose(view.entropy(), 1 + 1.5 * np.log(2), rtol=1e-9)


INFEASIBLE = {3: 1 - np.pi / (3 * np.sqrt(3)), 4: 0.0931006, 6: 0.0019411, 10: 7.9e-8}


@pytest.mark.parametrize("n", INFEASIBLE)
def test_chance_of_coupling_given_one_scale(n):
    """Averaged over that scale it is P(infeasible) of numerics.md; at points, by simulation."""
    start, step, table = log_table(Rayleigh(), n, 1.0)
    s = np.exp(start + step * np.arange(len(table)))
    mean = np.sum(s**2 * np.exp(-s * s / 2) * np.exp(table)) * step
    assert_allclose(mean, INFEASIBLE[n], rtol=7e-3 if n == 10 else 5e-4)


@pytest.mark.parametrize(("n", "q", "df"), [(4, 1.0, 3.0), (5, 1.7, None), (10, 3.3, None)])
def test_chance_of_coupling_by_simulation(n, q, df):
    law = Rayleigh() if df is None else InverseChi(np.float64(df))
    start, step, table = log_table(law, n, q)
    rng = np.random.default_rng(0)
    for i in (10, 80, 130):
        shape = (200_000, n)
        s = np.sqrt(2 * rng.exponential(size=shape))
        if df is not None:
            s = 1 / np.sqrt(rng.gamma(df / 2, 2 / df, size=shape))
        s[:, 0] = np.exp(start + step * i)
        most = s.max(-1)
        share = np.mean(s.sum(-1) - most <= q * most)
        assert abs(np.exp(table[i]) - share) < 5 * np.sqrt(share * (1 - share) / len(s)) + 1e-4


def test_pairs_are_exact(base, key):
    """Two cells share one scale always: the base's law on the line, no error at all."""
    make, law = base
    view = cdp.MaxEntropy(make(np.zeros(2), 1.0), cdp.totals([0, 0]))
    got = view.log_prob_estimate(np.array([0.7, -0.7]), key, draws=10)
    assert_allclose(got.log_density, law.logpdf(0.7) - 0.5 * np.log(2), rtol=1e-9)
    assert got.stderr == 0 == got.largest_share


def test_the_estimate_integrates_to_one_and_gives_the_moments(laplace, key):
    """E_q[f p/q] over conditioned Laplace q: 1, E|x_i| and E x_i² of the base, cell by cell."""
    scale, rows = np.array([1.0, 1.3, 1.7]), 1_500
    make, inv = laplace[0], cdp.totals([0, 0, 0])
    view = cdp.MaxEntropy(make(np.zeros(3), scale), inv)
    q = cdp.Conditioned(make(np.zeros(3), 1.4 * scale), inv)
    one, two = jax.random.split(key)
    x = q.sample(one, (rows,))
    got = view.log_prob_estimate(x, two, draws=100)
    assert got.log_density.shape == got.stderr.shape == (rows,)
    ratio = np.exp(np.asarray(got.log_density - q.log_prob(x)))
    x = np.asarray(x)
    for f, want in (
        (np.ones(rows), 1.0),
        (np.abs(x[:, 0]), 1.0),
        (np.abs(x[:, 2]), 1.7),
        (x[:, 0] ** 2, 2.0),
    ):
        error = (ratio * f).std() / np.sqrt(rows)
        assert abs((ratio * f).mean() - want) < 5 * error
    assert abs(1.3 * ratio.mean() - 1.0) > 5 * ratio.std() / np.sqrt(rows)  # a control


@pytest.mark.slow
@pytest.mark.parametrize("base", ["laplace", "student-t", "logistic"], indirect=True)
def test_the_density_is_that_of_the_draws(base, key):
    """n = 4: the mean estimate over draws in a small ball is their share of it, per volume."""
    make, _ = base
    view = cdp.MaxEntropy(make(np.zeros(4), 1.0), cdp.totals([0] * 4))
    draw = jax.jit(lambda key: view.sample_noise(key, (500_000,)))
    x = np.asarray(draw(key))
    centre = np.asarray(view.invariant.project(np.array([1.5, 0.5, -1.0, -1.0])))
    radius = 0.5
    inside = np.linalg.norm(x - centre, axis=-1) < radius
    rng = np.random.default_rng(0)
    u = rng.normal(size=(100, 3))
    u *= (radius * rng.random(100) ** (1 / 3) / np.linalg.norm(u, axis=-1))[:, None]
    points = centre + np.asarray(view.invariant.embed(u))
    p = np.exp(np.asarray(view.log_prob_estimate(points, key, draws=300).log_density))
    volume = 4 / 3 * np.pi * radius**3
    share, want = inside.mean(), p.mean() * volume
    error = np.hypot(np.sqrt(share / len(x)), p.std() * volume / 10)
    assert abs(share - want) < 5 * error and error < 0.1 * share


def test_standard_errors_are_true_and_small(laplace, key):
    """Repeated estimates spread as they say; per-draw sd near the table of numerics.md."""
    make = laplace[0]
    x = np.array([1.0, -0.4, 0.5, 0.3, -1.4])
    view = cdp.MaxEntropy(make(np.zeros(5), 1.0), cdp.totals([0] * 5))
    many = view.log_prob_estimate(np.tile(x, (64, 1)), key, draws=500)
    spread = np.asarray(many.log_density).std(ddof=1)
    assert 0.6 < spread / np.mean(many.stderr) < 1.6
    assert np.mean(many.stderr) * np.sqrt(500) < 0.4  # 0.18 at a typical point
    assert np.all(many.largest_share < 0.05)


@pytest.mark.slow
def test_groups_are_independent_and_constants_count_nothing(laplace, key):
    """log p adds over groups; free cells by their own density; off the totals it is −inf."""
    make = laplace[0]
    inv = cdp.totals(["a", "b", "a", None, "a", "c", "b", "b", "b"], missing="free")
    scale = np.array([1.0, 1.0, 1.2, 2.0, 1.1, 1.0, 1.0, 1.3, 1.0])
    view = cdp.MaxEntropy(make(np.zeros(9), scale), inv)
    x = np.asarray(view.sample_noise(jax.random.fold_in(key, 2)))
    got = view.log_prob_estimate(np.stack([x, x + np.eye(9)[0]]), key, draws=5_000)
    assert np.isneginf(got.log_density[1])
    want, square = stats.laplace.logpdf(x[3], scale=2.0), 0.0
    for cells in ([0, 2, 4], [1, 6, 7, 8]):
        part = cdp.MaxEntropy(
            make(np.zeros(len(cells)), scale[cells]), cdp.totals([0] * len(cells))
        )
        one = part.log_prob_estimate(x[cells], key, draws=5_000)
        want, square = want + one.log_density, square + one.stderr**2
    assert abs(got.log_density[0] - want) < 5 * np.sqrt(square + got.stderr[0] ** 2)


def test_what_the_estimate_refuses(laplace, key):
    view = cdp.MaxEntropy(laplace[0](np.zeros(3), 1.0), cdp.totals([0] * 3))
    with pytest.raises(cdp.UnsupportedError, match=r"log_prob_estimate\(value, key\).*shared"):
        view.log_prob(np.zeros(3))
    with pytest.raises(ValueError, match="`draws` must be at least 10"):
        view.log_prob_estimate(np.zeros(3), key, draws=1)
    batch = cdp.MaxEntropy(laplace[0](np.zeros((2, 3)), 1.0), cdp.totals([0] * 3))
    with pytest.raises(ValueError, match="is about one mechanism"):
        batch.log_prob_estimate(np.zeros(3), key)
