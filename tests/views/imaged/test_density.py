"""Densities of imaged noise of any base on disjoint totals, in both metrics."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

log_prob = jax.jit(lambda view, y: view.log_prob(y))


def by_scipy(law, A, u, x, scale):
    """Σ over rows of the log-integral along u, by adaptive quadrature between the places."""
    total = np.sum(np.where(np.any(u != 0, 1), 0, law.logpdf(x / scale) - np.log(scale)))
    for column in u.T:
        cells = column != 0
        place = np.sort(-x[cells] / column[cells])

        def log_f(s, cells=cells, column=column):
            y = (x[cells] + s * column[cells]) / scale[cells]
            return np.sum(law.logpdf(y) - np.log(scale[cells]))

        def f(s, top, log_f=log_f):
            return np.exp(log_f(s) - top)

        rate = column[cells] / scale[cells]
        centre = -np.sum(rate * x[cells] / scale[cells]) / np.sum(rate**2)
        place = np.sort(np.append(place, centre))
        top = max(log_f(s) for s in place)
        ends = [-np.inf, *place, np.inf]
        pieces = [
            integrate.quad(f, a, b, (top,), epsabs=0, epsrel=1e-12, limit=400)[0]
            for a, b in itertools.pairwise(ends)
            if b > a
        ]
        total += top + np.log(sum(pieces))
    return total


# One base in every way, and every base in each metric, with and without costs.
WAYS = [
    (b, *way) for b in ("normal", "laplace", "logistic") for way in (("l2", True), ("l1", False))
]
WAYS += [("student-t", metric, weighted) for metric in ("l2", "l1") for weighted in (False, True)]
WAYS += [pytest.param("scale mixture", "l2", True, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("base", "metric", "weighted"), WAYS, indirect=["base"])
def test_density_against_adaptive_quadrature(base, inv, scale, costs, dense, metric, weighted):
    make, law = base
    directions, move, volume = dense
    w = costs if weighted else None
    view = cdp.Imaged(make(np.zeros(6), scale), inv, metric=metric, weights=w)
    A = inv.matrix.toarray()
    u = directions(A, costs if weighted else np.ones(6), metric)
    x = move(A, np.random.default_rng(3).normal(size=(4, 6)) * [[0.1], [1], [4], [12]], u)
    want = [by_scipy(law, A, u, row, scale) + volume(A, u) for row in x]
    assert_allclose(log_prob(view, x), want, atol=1e-8)
    assert_allclose(log_prob(view, x + 0), view.log_prob(x), atol=1e-10)


@pytest.mark.parametrize("df", [0.7, 1.0])
def test_two_cauchy_cells_by_hand(df):
    """Half the difference of two Cauchy variables is Cauchy; below df = 1 quadrature again."""
    x = np.array([0.0, 0.4, -30.0, 2e3])
    inv = cdp.totals([0, 0])
    got = cdp.Imaged(dist.StudentT(df, np.zeros(2), 1.7), inv).log_prob(np.stack([x, -x], -1))
    if df == 1:
        assert_allclose(got, stats.cauchy(scale=1.7).logpdf(x) - 0.5 * np.log(2), atol=1e-8)
    else:
        A, u = np.ones((1, 2)), np.ones((2, 1))
        law = stats.t(df)
        want = [by_scipy(law, A, u, np.array([a, -a]), np.full(2, 1.7)) for a in x[:3]]
        assert_allclose(got[:3], np.array(want) + 0.5 * np.log(2), atol=1e-8)


@pytest.mark.parametrize("narrow", [0.08, 1e-3, 1e-6])
def test_a_narrow_cell_at_the_place_of_a_wide_one(narrow):
    """(U₁ − U₂)/2 of Cauchy cells of scales 1 and `narrow` is Cauchy of scale (1 + narrow)/2."""
    x = np.array([0.0, 1e-5, -0.01, 0.3, 20.0, 1e4])
    got = cdp.Imaged(
        dist.StudentT(1.0, np.zeros(2), np.array([1.0, narrow])), cdp.totals([0, 0])
    ).log_prob(np.stack([x, -x], -1))
    want = stats.cauchy(scale=(1 + narrow) / 2).logpdf(x) - 0.5 * np.log(2)
    assert_allclose(got, want, atol=1e-9)


def test_many_cells_and_far_places():
    """A group of 40, where cells share cuts, among one of 2, and a free cell."""
    rng = np.random.default_rng(5)
    labels = np.array([0] * 40 + [1, 1, -1])
    inv = cdp.totals([str(i) if i >= 0 else None for i in labels], missing="free")
    scale = np.exp(rng.normal(size=43))
    x = np.asarray(inv.project(rng.standard_t(3, size=43) * scale))
    view = cdp.Imaged(dist.StudentT(3.0, np.zeros(43), scale), inv)
    A = inv.matrix.toarray()
    want = by_scipy(stats.t(3), A, A.T, x, scale) + 0.5 * np.log(40) + 0.5 * np.log(2)
    assert_allclose(view.log_prob(x), want, atol=1e-8)


@pytest.mark.parametrize("parameter", ["loc", "scale", "df", "total"])
@pytest.mark.parametrize("metric", ["l2", "l1"])
def test_gradients(inv, scale, costs, parameter, metric):
    z = np.array([1.0, -2.0, 0.5, 3.0])
    y = np.asarray(inv.embed(z))

    def density(args):
        # a location off the subspace: the total is fixed from outside
        base = dist.StudentT(args["df"], args["loc"], args["scale"])
        at = args["total"]
        view = cdp.Imaged(base, inv, metric=metric, weights=costs, total=at)
        return view.log_prob(inv.lift(at) + y)

    args = {
        "loc": jnp.linspace(0.0, 1.0, 6),
        "scale": jnp.asarray(scale),
        "df": jnp.asarray(4.0),
        "total": jnp.array([0.3, -0.2]),
    }
    value = jax.jit(density)
    got, h = jax.jit(jax.grad(density))(args)[parameter], 1e-5
    flat = np.atleast_1d(np.asarray(args[parameter]))
    want = []
    for e in h * np.eye(flat.size):
        shape = np.shape(args[parameter])
        up = value({**args, parameter: jnp.asarray((flat + e).reshape(shape))})
        down = value({**args, parameter: jnp.asarray((flat - e).reshape(shape))})
        want.append((up - down) / (2 * h))
    assert np.abs(np.asarray(want)).max() > 1e-3  # it depends on it
    assert_allclose(np.atleast_1d(got), want, rtol=2e-5, atol=2e-7)


def test_both_precisions(inv, scale):
    x = np.asarray(inv.embed(np.array([1.0, -2.0, 0.5, 3.0])))
    want = cdp.Imaged(dist.StudentT(3.0, np.zeros(6), scale), inv).log_prob(x)
    with jax.enable_x64(False):
        view = cdp.Imaged(dist.StudentT(3.0, np.zeros(6), scale), inv)
        got = view.log_prob(jnp.asarray(x, jnp.float32))
    assert got.dtype == jnp.float32
    assert_allclose(got, want, atol=3e-5)


def test_refusals(inv):
    view = cdp.Imaged(dist.Logistic(np.zeros(6), 1.0), inv)
    for what in ("entropy", "deviation"):
        with pytest.raises(UnsupportedError, match=f"`{what}` of the imaged view of logistic"):
            getattr(view, what)()
    overlapping = cdp.linear([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    with pytest.raises(UnsupportedError, match="log_prob_estimate"):
        cdp.Imaged(dist.Logistic(np.zeros(6), 1.0), overlapping).log_prob(np.zeros(6))
    with pytest.raises(UnsupportedError, match='Use metric="l2" with weights'):
        cdp.Imaged(dist.Laplace(np.zeros(6), 1.0), overlapping, metric="l1")
