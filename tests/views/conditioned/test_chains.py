"""Gibbs chains of conditioned noise: their law by quadrature, and that they say if they fail."""

from dataclasses import replace

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from scipy import stats

import cdp_views as cdp
from cdp_views.precision.chains import mixed

pytestmark = pytest.mark.usefixtures("float64")
slow = pytest.mark.slow
DRAWS = 4_000
A = np.array([[1.0, 1, 1, 0], [0, 2, 1, 1]])
SCALE = np.array([1.0, 2.0, 0.5, 1.5])
BASES = {
    "laplace": (dist.Laplace, stats.laplace),
    "student-t": (lambda loc, scale: dist.StudentT(5.0, loc, scale), stats.t(5)),
    "logistic": (dist.Logistic, stats.logistic),
}


class Plane:
    """The base on {A x = total}, a plane, by 601² points of the trapezoid rule in sinh."""

    def __init__(self, law, total):
        basis = scipy.linalg.null_space(A)
        origin = np.linalg.lstsq(A, total)[0]
        v = np.linspace(-7, 7, 601)
        one, two = (a.ravel() for a in np.meshgrid(np.sinh(v), np.sinh(v)))
        x = origin + one[:, None] * basis[:, 0] + two[:, None] * basis[:, 1]
        log_p = np.sum(law.logpdf(x / SCALE), -1)
        p = np.exp(log_p - log_p.max()) * np.sqrt((1 + one**2) * (1 + two**2))
        self.p, self.x = p / p.sum(), x

    def mean(self, function):
        return self.p @ function(self.x)


@jax.jit
def draws(view, key):
    return view.sample(key, (DRAWS,))


def told_by(x, plane, factor=1.0):
    """Standardised gaps between draws and quadrature, of means, sizes and products of cells."""
    gaps = []
    functions = (lambda x: x, np.abs, np.square, lambda x: np.minimum(np.abs(x), 1))
    for f in (*functions, lambda x: x[:, :1] * x[:, 1:]):
        value = f(factor * x)
        error = value.std(0) / np.sqrt(len(value))
        # what one draw could change: a rare event may have no draw at all
        gaps.append((value.mean(0) - plane.mean(f)) / np.maximum(error, 1 / len(value)))
    return np.abs(np.concatenate(gaps)).max()


@pytest.mark.parametrize(
    ("base", "total"),
    [
        ("student-t", None),
        pytest.param("laplace", [12.0, -9.0], marks=slow),
        pytest.param("logistic", None, marks=slow),
    ],
)
def test_the_ends_of_chains_have_the_law(base, total, key):
    """Chains are forced where rejection would do: means, sizes, squares, products of cells."""
    make, law = BASES[base]
    view = cdp.Conditioned(make(np.zeros(4), SCALE), cdp.linear(A), total=total)
    view.parts = tuple(replace(part, way="gibbs", chance=0.0) for part in view.parts)
    assert view.sampler == "MCMC (Gibbs)"
    plane = Plane(law, np.zeros(2) if total is None else total)
    x = np.asarray(draws(view, key))
    assert told_by(x, plane) < 5
    assert told_by(x, plane, 1.1) > 5


@slow
def test_many_totals_with_heavy_tails(key):
    """Both margins of a 9 × 10 table of Student-t noise: against a long chain of another kind."""
    inv = cdp.margins((9, 10), [(0,), (1,)])
    view = cdp.Conditioned(dist.StudentT(4.0, np.zeros(90), 1.0), inv)
    view.parts = tuple(replace(part, way="gibbs", chance=0.0) for part in view.parts)
    r_hat, ess = view.parts[0].mixed(view.mixing, None)
    assert r_hat < 1.01 and ess > 0.3
    x = np.asarray(jax.jit(lambda k: view.sample_noise(k, (4000,)))(key))
    assert np.abs(x @ inv.matrix.toarray().T).max() < 1e-9
    # Metropolis moves of 2 × 2 corners, which keep both margins
    rng, y = np.random.default_rng(0), np.zeros((400, 9, 10))
    kept = []
    rows = np.arange(400)

    def two_of(m):
        first = rng.integers(m, size=400)
        return first, (first + rng.integers(1, m, size=400)) % m

    def log_t(x):
        return -2.5 * np.log1p(x * x / 4)

    for sweep in range(6000):
        i, j, step = two_of(9), two_of(10), 1.5 * rng.standard_normal(400)
        corners = [(i[a], j[b], 1 if a == b else -1) for a in (0, 1) for b in (0, 1)]
        change = sum(log_t(y[rows, r, c] + s * step) - log_t(y[rows, r, c]) for r, c, s in corners)
        accepted = np.log(rng.random(400)) < change
        for r, c, s in corners:
            y[rows, r, c] += np.where(accepted, s * step, 0)
        if sweep >= 2000 and sweep % 200 == 0:
            kept.append(np.mean(np.minimum(np.abs(y), 3), (1, 2)))
    theirs = np.concatenate(kept)
    ours = np.mean(np.minimum(np.abs(x), 3), 1)
    error = np.hypot(ours.std() / np.sqrt(4000), np.array(kept).mean(0).std() / np.sqrt(400))
    assert abs(ours.mean() - theirs.mean()) < 5 * error
    independent = np.mean(np.minimum(np.abs(rng.standard_t(4, size=(4000, 90))), 3), 1)
    assert abs(independent.mean() - theirs.mean()) > 5 * error


def test_diagnostics_of_chains_whose_law_is_known():
    """Autoregressions: R-hat near 1 and the effective size (1 − ρ)/(1 + ρ); moved apart: not."""
    rng = np.random.default_rng(1)
    for rho in (0.0, 0.5, 0.9):
        x = np.zeros((1200, 32))
        for t in range(1, 1200):
            x[t] = rho * x[t - 1] + rng.normal(size=32)
        r_hat, ess = mixed(x[100:])
        assert r_hat < (1.03 if rho == 0.9 else 1.01)  # halves of 550 hold 30 such draws each
        assert abs(np.log(ess / (1100 * 32) / ((1 - rho) / (1 + rho)))) < (
            0.25 if rho == 0.9 else 0.1
        )
    assert mixed(x[100:] + np.arange(32) % 2)[0] > 1.01
    assert mixed(np.cumsum(rng.normal(size=(1200, 32)), 0))[0] > 1.1


def test_chains_that_do_not_mix_say_so():
    """Cauchy noise far out: one cell takes the total, and a chain stays with that cell.

    Of scales 10 and 1 the second takes it once in eleven times: chains that all start in the
    middle go to the first, and agree with each other.
    """
    scale = np.array([10.0, 1, 10, 1])
    base = dist.StudentT(1.0, np.zeros(4), scale)
    with pytest.warns(UserWarning, match=r"has not mixed: R-hat \d+\.\d+, .* effective draws"):
        view = cdp.Conditioned(base, cdp.linear(A), total=[1e5, 0.0])
    assert view.sampler == "MCMC (Gibbs)"
    assert view.r_hat > 1.05 and view.ess_per_sweep < 0.1


def test_a_needle_is_not_passed_off_as_a_sample():
    """Bounds that leave a needle across both axes: moves along them are a hundred-thousandth."""
    rows = np.array([[1.0, -1], [-1, 1]])
    base = dist.Normal(np.zeros(2), 1.0)
    with pytest.warns(UserWarning, match=r"within bounds have not mixed: R-hat"):
        view = cdp.Conditioned(base, cdp.bounds(rows, np.full(2, -1e-5)))
    assert view.sampler == "MCMC (hit and run)" and view.sweeps == 2000
    with pytest.raises(cdp.UnsupportedError, match="`entropy_estimate` within these bounds"):
        view.entropy_estimate(jax.random.key(0))


@pytest.mark.parametrize(
    ("base", "size"),
    [  # of size 1, cells alone, are moved in pairs; other bounds by hit and run
        ("student-t", 2.0),
        pytest.param("laplace", 1.0, marks=slow),
        pytest.param("logistic", 1.0, marks=slow),
    ],
)
def test_chains_within_bounds_have_the_law(base, size, key):
    """{y ≥ 0, Σ y = 4.5} by the midpoint rule, with chains where rejection would do."""
    make, law = BASES[base]
    loc = np.array([1.0, 3.0, 0.5])
    region = cdp.totals([0, 0, 0]) & cdp.bounds(size * np.eye(3), np.zeros(3))
    view = cdp.Conditioned(make(loc, 1.5), region)
    assert view.sampler == "exact"
    view._set_up_chains()
    assert view.sampler == ("MCMC (Gibbs)" if size == 1 else "MCMC (hit and run)")
    assert view.r_hat < 1.05 and view.ess_per_sweep > 0.1
    side = (np.arange(600) + 0.5) / 600 * 4.5
    one, two = (a.ravel() for a in np.meshgrid(side, side))
    y = np.stack([one, two, 4.5 - one - two], -1)[one + two < 4.5]
    p = np.exp(np.sum(law.logpdf((y - loc) / 1.5), -1))
    many = 10_000
    x = np.asarray(jax.jit(lambda key: view.sample(key, (many,)))(key))

    def gap(f, shift=0.0):
        want, own = p @ f(y) / p.sum(), f(x + shift)
        return np.abs((own.mean(0) - want) / (own.std(0) / np.sqrt(many) + 0.001)).max()

    for f in (lambda y: y, lambda y: y**2, lambda y: np.abs(y - loc)):
        assert gap(f) < 5
    assert gap(lambda y: y, 0.1) > 5
