"""Any base on overlapping totals, at its own totals or given ones: against quadrature on a line."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy import integrate, stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64")
slow = pytest.mark.slow
DRAWS = 10_000
A = np.array([[1.0, 1, 0], [0, 1, 2]])
SCALE = np.array([1.0, 2.0, 0.7])
LINE = scipy.linalg.null_space(A)[:, 0]
BASES = {
    "laplace": (dist.Laplace, stats.laplace),
    "student-t": (lambda loc, scale: dist.StudentT(3.0, loc, scale), stats.t(3)),
    "between": (lambda loc, scale: dist.StudentT(2.5, loc, scale), stats.t(2.5)),
    "logistic": (dist.Logistic, stats.logistic),
    "scale mixture": (
        lambda loc, scale: cdp.ScaleMixture(dist.Weibull(np.sqrt(2.0), 2.0), loc, scale=scale),
        stats.laplace,
    ),
}
TOTAL = np.array([2.0, -1.5])


class Line:
    """The base along {A x = total}, by the trapezoid rule."""

    def __init__(self, law, total, rows=A, scale=SCALE):
        line = scipy.linalg.null_space(rows)[:, 0]
        self.origin = np.linalg.lstsq(rows, total)[0]
        r = np.sinh(np.linspace(-12, 12, 24_001))
        cells = law.logpdf((self.origin + r[:, None] * line) / scale) - np.log(scale)
        value = np.exp(np.sum(cells, -1))
        self.log_mass = np.log(integrate.trapezoid(value, r))
        cdf = integrate.cumulative_trapezoid(value, r, initial=0)
        self.line, self.cdf = line, lambda x: np.interp(x, r, cdf / cdf[-1])

    def log_prob(self, law, x, scale=SCALE):
        return np.sum(law.logpdf(x / scale) - np.log(scale), -1) - self.log_mass

    def agrees(self, y):
        place = (np.asarray(y) - self.origin) @ self.line
        wrong = stats.kstest(1.25 * place, self.cdf).pvalue < 1e-6
        return stats.kstest(place, self.cdf).pvalue > 1e-6 and wrong


@jax.jit
def draws(view, key):
    return view.sample(key, (DRAWS,))


@pytest.mark.parametrize(
    ("base", "total"),
    [
        ("student-t", TOTAL),
        pytest.param("laplace", TOTAL, marks=slow),
        pytest.param("between", None, marks=slow),
        pytest.param("logistic", TOTAL, marks=slow),
        pytest.param("scale mixture", None, marks=slow),
    ],
)
def test_density_and_draws_on_a_line(base, total, key):
    make, law = BASES[base]
    view = cdp.Conditioned(make(np.zeros(3), SCALE), cdp.linear(A), total=total)
    want = Line(law, np.zeros(2) if total is None else total)
    assert view.sampler == "exact" and view.noise_name == base.replace("between", "student-t")
    assert 0 < view.log_normalizer_stderr < 0.05
    y = want.origin + np.array([[-3.0], [0.2], [5.0]]) * LINE
    assert_allclose(view.log_prob(y), want.log_prob(law, y), atol=5 * view.log_normalizer_stderr)
    assert np.isneginf(view.log_prob(y[0] + np.eye(3)[0]))
    x = draws(view, key)
    assert np.all(view.support(x))
    assert want.agrees(x)


@pytest.mark.parametrize("base", ["laplace", pytest.param("logistic", marks=slow)])
def test_a_far_total_is_drawn_by_a_markov_chain_that_says_so(base, key):
    make, law = BASES[base]
    view = cdp.Conditioned(make(np.zeros(3), SCALE), cdp.linear(A), total=[25.0, -20.0])
    assert view.sampler == "MCMC (Gibbs)"
    assert view.r_hat < 1.01 and view.ess_per_sweep > 0.1
    assert Line(law, [25.0, -20.0]).agrees(draws(view, key))
    with pytest.raises(cdp.UnsupportedError, match="Draws are MCMC and leave the normaliser"):
        view.log_prob(np.zeros(3))


@slow
def test_pivot_cells_where_omega_has_no_envelope(key):
    """Three totals of four cells, a leverage above 2/3: the chord's law does not exist."""
    rows = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 3]])
    scale = np.array([1.0, 2.0, 0.7, 1.3])
    view = cdp.Conditioned(dist.Laplace(np.zeros(4), scale), cdp.linear(rows))
    assert view.sampler == "exact" and view.parts[0].way == "pivots"
    assert view.chances[0] > np.pi**-1.5
    want = Line(stats.laplace, np.zeros(3), rows, scale)
    error = 5 * view.log_normalizer_stderr
    assert_allclose(
        view.log_prob(np.zeros(4)), want.log_prob(stats.laplace, np.zeros(4), scale), atol=error
    )
    assert want.agrees(draws(view, key))


def test_the_constant_follows_a_traced_location():
    """log f(total − A loc) under jit: the concrete one, and its slope by differences."""
    inv, y = cdp.linear(A), np.array([1.0, 1.0, -1.25])

    def density(loc):
        return cdp.Conditioned(dist.Laplace(loc, SCALE), inv, total=A @ y).log_prob(y)

    loc = jnp.asarray([0.3, -0.2, 0.1])
    view = cdp.Conditioned(dist.Laplace(np.asarray(loc), SCALE), inv, total=A @ y)
    value, slope = jax.jit(jax.value_and_grad(density))(loc)
    assert_allclose(value, view.log_prob(y), rtol=1e-6)
    h = 1e-3

    def exact(loc):
        total = A @ (y - loc)
        return Line(stats.laplace, total).log_prob(stats.laplace, y - loc)

    want = [(exact(loc + h * e) - exact(loc - h * e)) / (2 * h) for e in np.eye(3)]
    assert_allclose(slope, want, atol=0.05)
    base = np.sign(y - loc) / SCALE  # without the constant
    assert np.max(np.abs(base - np.array(want))) > 0.2
    with pytest.raises(cdp.UnsupportedError, match="`mean` of the conditioned view"):
        _ = view.mean


@slow
def test_parts_at_given_totals_multiply(key):
    """A part of disjoint totals beside one of overlapping ones, and moments by draws."""
    rows = scipy.linalg.block_diag(A, np.ones((1, 2)))
    scale, total = np.append(SCALE, [1.0, 2.0]), np.append(TOTAL, 3.0)
    view = cdp.Conditioned(dist.Logistic(np.zeros(5), scale), cdp.linear(rows), total=total)
    pair = cdp.Conditioned(
        dist.Logistic(np.zeros(2), scale[3:]), cdp.totals([0, 0]), total=np.array([3.0])
    )
    want = Line(stats.logistic, TOTAL)
    y = np.append(want.origin, [1.0, 2.0])
    assert_allclose(
        view.log_prob(y),
        want.log_prob(stats.logistic, want.origin) + pair.log_prob(y[3:]),
        atol=5 * view.log_normalizer_stderr,
    )
    x = draws(view, key)
    assert want.agrees(np.asarray(x)[:, :3])
    mean, variance = view.moments_estimate(key)
    off = (mean.value[3:] - pair.mean) / mean.standard_error[3:]
    assert np.all(np.abs(off) < 5) and np.all(np.abs(mean.value[3:]) > 5 * mean.standard_error[3:])
    off = (variance.value[3:] - pair.variance) / variance.standard_error[3:]
    assert np.all(np.abs(off) < 5)


def test_refusals():
    inv = cdp.linear(A)
    several = dist.StudentT(np.array([[2.0, 3, 3], [3, 3, 3]]), np.zeros((2, 3)), 1.0)
    with pytest.raises(cdp.UnsupportedError, match="needs one mixing law for all cells"):
        cdp.Conditioned(several, inv)
    with pytest.raises(cdp.UnsupportedError, match="totals must not overlap"):
        cdp.Conditioned(cdp.ScaleMixture(dist.Uniform(1.0, 2.0), np.zeros(3)), inv)
