"""Conditioned Student-t, logistic and mixtures, and all at a given total: against quadrature."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64")
slow = pytest.mark.slow
DRAWS = 40_000
CASES = [
    ("logistic", 3.0),
    pytest.param("laplace", 3.0, marks=slow),
    pytest.param("student-t", None, marks=slow),
    pytest.param("cauchy", 3.0, marks=slow),
    pytest.param("between", None, marks=slow),
]


@pytest.mark.parametrize(("base", "total"), CASES)
def test_density_moments_and_draws_on_a_line(base, total, two, bases, along, line, key):
    make, law = bases[base]
    view, want = two(make, total), along(law, total or 0.0)
    r = np.array([-20.0, -3.0, 0.5, 0.0, 6.0])
    assert_allclose(view.log_prob(want.point(r)), want.log(r) - np.log(want.mass), atol=1e-8)
    assert np.isneginf(view.log_prob(want.point(r[:1]) + np.array([0.1, 0])))[0]
    assert_allclose(view.mean, want.mean, atol=1e-6)
    assert_allclose(view.variance, want.variance, rtol=1e-3 if base == "cauchy" else 1e-6)
    assert_allclose(np.diag(view.covariance_matrix), view.variance, rtol=1e-10)
    sign = np.sign(line[0] * line[1])
    root = sign * np.sqrt(np.prod(view.variance))  # on a line the correlation is ±1
    assert_allclose(view.covariance_matrix[0, 1], root, rtol=1e-8)
    x = np.asarray(view.sample(key, (DRAWS,)))
    assert np.all(view.support(x))
    place = (x - want.origin) @ line
    assert stats.kstest(place, want.cdf).pvalue > 1e-6
    assert stats.kstest(1.1 * place, want.cdf).pvalue < 1e-6


def test_far_totals_keep_relative_accuracy(two, bases, along):
    """150 scales out, where f(τ) is e^{−60}; exact draws are then refused, and say why."""
    make, law = bases["laplace"]
    view = two(make, 300.0)
    want = along(law, 300.0)
    # the integrand's mass lies between the two kinks, far from the grid's fine middle
    r = np.linspace(-400, 400, 800_001)
    value = want.log(r)
    mass = np.sum(np.exp(value - value.max())) * (r[1] - r[0])
    got = view.log_prob(want.point(np.array([3.0])))
    assert_allclose(got, want.log(np.array([3.0])) - value.max() - np.log(mass), atol=1e-5)
    with pytest.raises(cdp.UnsupportedError, match="`total` is so far from loc's own"):
        view.sample(jax.random.key(0))


@pytest.mark.parametrize("base", ["logistic", pytest.param("student-t", marks=slow)])
def test_gradients_at_a_given_total(base, bases, key):
    """In loc (which moves τ) and in scale, against central differences."""
    make = bases[base][0]
    inv = cdp.totals([0, 0, 0, 1, 1], [1.0, 1, 2, 1, -1])
    y = jnp.asarray([1.0, 2.0, -0.5, 3.0, 2.5])
    total = inv.evaluate(y)
    at = jnp.asarray([0.5, 1.0, 0.2, 2.0, 2.2, 1.0, 2.0, 1.5, 0.7, 1.1])

    @jax.jit
    def density(p):
        return cdp.Conditioned(make(p[:5], p[5:]), inv, total=total).log_prob(y)

    got, h = jax.jit(jax.grad(density))(at), 1e-5
    want = [(density(at + h * e) - density(at - h * e)) / (2 * h) for e in np.eye(10)]
    assert_allclose(got, want, rtol=1e-5, atol=1e-7)
    concrete = cdp.Conditioned(make(np.asarray(at[:5]), np.asarray(at[5:])), inv, total=total)
    assert_allclose(concrete.log_prob(y), density(at), rtol=1e-9)


def test_draws_agree_with_the_density_in_seven_dimensions(key):
    """E_p[q/p] = 1 over draws of p, with q the density of a tighter view; p's own twin is not 1."""
    inv = cdp.totals([0, 0, 0, 0, 1, 1, 1, 1, None], missing="free")
    scale = np.array([1.0, 2, 1, 0.5, 1, 1.5, 0.7, 1, 2])
    p = cdp.Conditioned(dist.Logistic(np.zeros(9), scale), inv)
    q = cdp.Conditioned(dist.Logistic(np.zeros(9), 0.85 * scale), inv)
    ratio = jax.jit(lambda p, q, x: jnp.exp(q.log_prob(x) - p.log_prob(x)))
    x = p.sample(key, (DRAWS,))
    w = np.asarray(ratio(p, q, x))
    assert abs(w.mean() - 1) < 5 * w.std() / np.sqrt(DRAWS) < 0.05
    wrong = np.asarray(
        ratio(p, q, inv.project(dist.Logistic(np.zeros(9), scale).sample(key, (DRAWS,))))
    )
    assert abs(wrong.mean() - 1) > 5 * wrong.std() / np.sqrt(DRAWS)
    again = pickle.loads(pickle.dumps(p))
    assert_allclose(again.log_prob(x[:3]), p.log_prob(x[:3]))
    loss = cdp.privacy_loss(p, cdp.relocations(inv))
    assert_allclose(loss.pure_epsilon, 1 / 0.5 + 1)


def test_refusals():
    inv = cdp.totals([0, 0, 0])
    beta = cdp.Conditioned(cdp.ScaleMixture(dist.Uniform(1.0, 2.0), np.zeros(3)), inv)
    with pytest.raises(cdp.UnsupportedError, match="whose logarithm has a log-concave density"):
        beta.sample(jax.random.key(0))
    with pytest.raises(cdp.UnsupportedError, match="needs one mixing law for all cells"):
        cdp.Conditioned(dist.StudentT(np.array([2.5, 3, 3]), np.zeros(3), 1.0), inv)
