"""Any base on two to six overlapping totals: constants and draws against importance sampling."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg
from scipy import special, stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64", "lightly_compiled")
slow = pytest.mark.slow
N, DRAWS, POINTS = 12, 10_000, 200_000
# With 2 or 3 among them the weights have no variance, far out along two cells.
DF = np.array([4.0, 5, 8] * 4)
BASES = {
    "laplace": (dist.Laplace, stats.laplace),
    "student-t": (lambda loc, scale: dist.StudentT(3.0, loc, scale), stats.t(3)),
    "several df": (lambda loc, scale: dist.StudentT(DF, loc, scale), stats.t(DF)),
    "logistic": (dist.Logistic, stats.logistic),
    "scale mixture": (
        lambda loc, scale: cdp.ScaleMixture(dist.Weibull(np.sqrt(2.0), 2.0), loc, scale=scale),
        stats.laplace,
    ),
}


def totals_of(k):
    """k totals, each of five to seven of twelve cells, and scales that differ."""
    rng = np.random.default_rng(k)
    rows = np.zeros((k, N))
    for row in rows:
        row[rng.choice(N, rng.integers(5, 8), replace=False)] = 1
    return rows, np.exp(0.3 * rng.normal(size=N))


class Weighted:
    """Points of ker A from a multivariate t with weights ∝ Π p: their mean is the constant."""

    def __init__(self, law, rows, scale):
        rng, basis = np.random.default_rng(5), scipy.linalg.null_space(rows)
        d = basis.shape[1]
        spread = 2.0 * scale**2
        cover = np.linalg.inv(basis.T @ (basis / spread[:, None]))
        df, root = 4.0, np.linalg.cholesky(cover)
        u = rng.standard_normal((POINTS, d)) / np.sqrt(rng.chisquare(df, POINTS) / df)[:, None]
        log_q = (
            special.gammaln((df + d) / 2) - special.gammaln(df / 2) - d / 2 * np.log(df * np.pi)
            - (df + d) / 2 * np.log1p(np.sum(u * u, 1) / df) - np.sum(np.log(np.diag(root)))
        )  # fmt: skip
        self.x = (u @ root.T) @ basis.T
        log_w = np.sum(law.logpdf(self.x / scale) - np.log(scale), 1) - log_q
        w = np.exp(log_w - log_w.max())
        self.log_mass = np.log(w.mean()) + log_w.max()
        self.error = w.std() / w.mean() / np.sqrt(POINTS)
        self.w = w / w.sum()

    def mean(self, f):
        value = f(self.x)
        middle = self.w @ value
        return middle, np.sqrt(self.w**2 @ (value - middle) ** 2)


@jax.jit
def draws(view, key):
    return view.sample(key, (DRAWS,))


def test_the_constant_of_two_totals_by_characteristic_functions():
    """∫ Π p over ker A = √det(AAᵀ) (2π)⁻² ∫∫ Π φ_i(s_i (Aᵀt)_i) dt, on a grid."""
    rows, scale = totals_of(2)
    df = np.array([2.0, 3, 6] * 4)
    view = cdp.Conditioned(dist.StudentT(df, np.zeros(N), scale), cdp.linear(rows))
    grid = np.linspace(-8, 8, 801)
    value = np.ones((grid.size, grid.size))
    for row, s, v in zip(rows.T, scale, df, strict=True):
        z = np.maximum(np.sqrt(v) * s * np.abs(row[0] * grid[:, None] + row[1] * grid), 1e-9)
        value *= special.kv(v / 2, z) * z ** (v / 2) / (special.gamma(v / 2) * 2 ** (v / 2 - 1))
    want = np.log(value.sum() * (grid[1] - grid[0]) ** 2 / (2 * np.pi) ** 2)
    want += 0.5 * np.linalg.slogdet(rows @ rows.T)[1]
    peak = np.sum(stats.t(df).logpdf(np.zeros(N)) - np.log(scale))
    assert view.log_normalizer_stderr < 1e-4
    assert abs(peak - float(view.log_prob(np.zeros(N))) - want) < 1e-4


FAST = [("student-t", 3), ("several df", 2)]
# Every base, and with few and with many totals where its law is its own; Laplace noise of every k
# has its Gamma law in test_overlapping.py.
SLOW = [
    ("laplace", 6), ("student-t", 5), ("several df", 6), ("logistic", 5), ("scale mixture", 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("base", "k"), [*FAST, *(pytest.param(*case, marks=slow) for case in SLOW)]
)
def test_constant_draws_and_acceptance(base, k, key):
    make, law = BASES[base]
    rows, scale = totals_of(k)
    view = cdp.Conditioned(make(np.zeros(N), scale), cdp.linear(rows))
    assert view.sampler == "exact"
    if base not in ("several df",):
        assert view.chances[0] > np.pi ** (-k / 2)
    want = Weighted(law, rows, scale)
    assert want.error < 0.05
    error = np.hypot(want.error, view.log_normalizer_stderr)
    peak = np.sum(law.logpdf(np.zeros(N)) - np.log(scale))
    assert abs(view.log_prob(np.zeros(N)) - (peak - want.log_mass)) < 5 * error
    x = np.asarray(draws(view, key))
    assert np.abs(x @ rows.T).max() < 1e-9

    def gap(factor):
        gaps = []
        for f in (lambda x: np.minimum(np.abs(x), 3), lambda x: np.tanh(x[:, :1] * x[:, 1:])):
            middle, theirs = want.mean(f)
            own = f(factor * x)
            gaps.append((own.mean(0) - middle) / np.hypot(theirs, own.std(0) / np.sqrt(DRAWS)))
        return np.abs(np.concatenate(gaps)).max()

    assert gap(1.0) < 5
    assert gap(1.15) > 5
