"""Real noise given totals and bounds: quadrature on a triangle, a truncated Gamma law far out."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

import cdp_views as cdp

pytestmark = pytest.mark.usefixtures("float64")
slow = pytest.mark.slow
LOC, SCALE, DRAWS = np.array([1.0, 3.0, 0.5]), 1.5, 10_000
V = np.array([[1.0, -1.0, 0.0], [0.0, 0.5, -0.5]])
INV = cdp.totals([0, 0, 0])
LAWS = {"laplace": (dist.Laplace, stats.laplace), "normal": (dist.Normal, stats.norm)}


class Triangle:
    """{y ≥ 0, Σ y = 4.5}, by 400 × 400 points of the midpoint rule in (y₀, y₁)."""

    def __init__(self, law, loc):
        side = (np.arange(600) + 0.5) / 600 * 4.5
        one, two = (a.ravel() for a in np.meshgrid(side, side))
        inside = one + two < 4.5
        self.y = np.stack([one, two, 4.5 - one - two], -1)[inside]
        self.w = np.exp(np.sum(law.logpdf((self.y - loc) / SCALE), -1))
        # a cell of the grid is √3 as large on the plane
        self.mass = self.w.sum() * np.sqrt(3) * (4.5 / 600) ** 2
        self.mean = self.w @ self.y / self.w.sum()


@pytest.mark.parametrize("base", ["laplace", pytest.param("normal", marks=slow)])
def test_a_triangle_by_rejection(base, key):
    make, law = LAWS[base]
    view = cdp.Conditioned(make(LOC, SCALE), INV & cdp.nonnegative(3))
    assert view.sampler == "exact" and 0 < view.log_chance_stderr < 0.05
    want = Triangle(law, LOC)
    density = np.sum(law.logpdf((want.y[::5000] - LOC) / SCALE), -1) - np.log(want.mass)
    got = view.log_prob(want.y[::5000])
    assert_allclose(got, density, atol=5 * view.log_chance_stderr + 0.005)
    flat = view.flat.log_prob(want.y[::5000])
    assert np.all(got - flat > 10 * view.log_chance_stderr)  # bounds cost something
    assert np.isneginf(view.log_prob(np.array([-0.5, 4.0, 1.0])))
    x = np.asarray(view.sample(key, (DRAWS,)))
    assert np.all(view.support(x)) and x.min() >= 0
    error = x.std(0) / np.sqrt(DRAWS)
    assert np.all(np.abs(x.mean(0) - want.mean) < 5 * error + 0.005)
    assert np.max(np.abs(LOC - want.mean) / error) > 20  # biased, and found to be
    # the normaliser is a function of the table: its change for a neighbour
    value, stderr = view.log_ratio(V)
    for v, r, e in zip(V, value, stderr, strict=True):
        exact = np.log(Triangle(law, LOC + v).mass / want.mass)
        assert abs(r - exact) < 5 * e + 0.003 and abs(r - exact) < abs(r + exact)


def test_what_a_release_within_bounds_gives_away(key):
    """Losses on a fine grid of outcomes: below the proved one, and near the estimates."""
    for name, (make, law) in LAWS.items():
        view = cdp.Conditioned(make(LOC, SCALE), INV & cdp.nonnegative(3))
        if name == "normal":
            with pytest.raises(cdp.UnsupportedError, match="nothing bounds it for all tables"):
                cdp.privacy_loss(view, cdp.differences(V))
        loss = cdp.privacy_loss(view, cdp.differences(V), table="this")
        assert loss.pure_kind == loss.kind == "bound"  # nothing is estimated without a key
        if name == "laplace":
            assert_allclose(loss.pure_epsilon, 2 * 2 / SCALE)
            anywhere = cdp.privacy_loss(view, cdp.relocations(INV))
            assert_allclose(anywhere.pure_epsilon, 2 * 2 / SCALE)
        estimate = view.loss_estimate(V, key) if name == "laplace" else None
        here, row = Triangle(law, LOC), 0
        for v in np.concatenate([V, -V]):
            if np.any(LOC + v < 0):
                continue
            there = Triangle(law, LOC + v)
            p, q = here.w / here.w.sum(), there.w / there.w.sum()
            assert np.abs(np.log(p / q)).max() < loss.pure_epsilon, name
            for one, other in ((p, q), (q, p)) if estimate else ():
                exact = np.sum(np.maximum(one - np.exp(0.3) * other, 0))
                error = estimate.delta_stderr(0.3)[row]
                assert abs(estimate.delta(0.3)[row] - exact) < 5 * error < 0.06
                assert np.log(one / other).max() < estimate.sup[row] + 0.02
                row += 1
            if estimate:  # both ways are not alike, and the difference is found
                both = estimate.delta(0.3)[row - 2 : row]
                assert row != 4 or abs(np.diff(both)[0]) > 5 * np.max(error)
        assert estimate is None or row == len(estimate.sup)
    with pytest.raises(cdp.UnsupportedError, match=r"Use view.loss_estimate\(differences, key\)"):
        cdp.privacy_loss(view, cdp.differences(V), key=key, table="this")
    with pytest.raises(ValueError, match="lead to no table within the bounds"):
        view.loss_estimate([[9.0, -9.0, 0.0]], key)


def test_parts_without_bounds_cost_once(key):
    inv = cdp.totals([0, 0, 0, 1, 1])
    loc, rows = np.append(LOC, [4.0, 4.0]), np.eye(5)[:3]
    view = cdp.Conditioned(dist.Laplace(loc, SCALE), inv & cdp.bounds(rows, np.zeros(3)))
    v = np.array([[1.0, -1, 0, 0, 0], [0, 0, 0, 1, -1], [1, -1, 0, 1, -1]])
    assert_allclose(
        [view.loss(sparse.csr_array(one[None])).sup[0] for one in v] * np.array(SCALE), [4, 2, 6]
    )
    # the bias through the evaluator: cells 0 to 2 as on the triangle, and none in the others
    found = cdp.utility(view, key=key, draws=DRAWS)
    bias = found.bias.to_numpy()
    error = found.sd.to_numpy() / np.sqrt(DRAWS)
    want = np.append(Triangle(stats.laplace, LOC).mean - LOC, [0, 0])
    assert np.all(np.abs(bias - want) < 5 * error + 0.005)
    assert np.abs(want / error).max() > 20


def corner(count):
    """All of the total in one cell: S = Σ of the others ~ Gamma(count − 1, 2/λ) on [0, c]."""
    loc, c = np.zeros(count), 6.0
    loc[0] = c
    law = stats.gamma(count - 1, scale=SCALE / 2)
    return loc, lambda s: law.cdf(s) / law.cdf(c)


@slow
@pytest.mark.parametrize("way", ["MCMC (Gibbs)", "MCMC (hit and run)"])
def test_many_empty_cells_by_markov_chains_that_say_so(way, key):
    loc, cdf = corner(16)
    rows = np.eye(16) if "Gibbs" in way else 2 * np.eye(16)
    view = cdp.Conditioned(
        dist.Laplace(loc, SCALE), cdp.totals([0] * 16) & cdp.bounds(rows, np.zeros(16))
    )
    assert view.sampler == way and view.r_hat < 1.05 and view.ess_per_sweep > 0.01
    x = np.asarray(jax.jit(lambda k: view.sample(k, (2000,)))(key))
    assert np.all(view.support(x))
    s = x[:, 1:].sum(1)
    assert stats.kstest(s, cdf).pvalue > 1e-6
    assert stats.kstest(1.2 * s, cdf).pvalue < 1e-6
    with pytest.raises(cdp.UnsupportedError, match="draws are MCMC"):
        view.log_prob(loc)
    value, error = view.log_ratio(np.eye(16)[:1] - np.eye(16)[1:2])
    assert np.isfinite(value) and error < 0.2


@slow
def test_a_corner_by_rejection_has_its_normaliser_in_closed_form():
    """Z = √m (λ/2)^{m−1} P(S ≤ c)/∫ exp(−Σ|x|/λ), m = 6."""
    loc, _ = corner(6)
    view = cdp.Conditioned(dist.Laplace(loc, SCALE), cdp.totals([0] * 6) & cdp.nonnegative(6))
    part = stats.gamma(5, scale=SCALE / 2).cdf(6.0)
    exact = np.log(np.sqrt(6) * (SCALE / 2) ** 5 * part) - float(view.flat.log_normalizer)
    assert abs(view.log_chance - exact) < 5 * view.log_chance_stderr < 0.3


def test_parts_are_kept_one_by_one(key):
    """Twelve groups of three: together they keep all bounds once in 10⁵ draws."""
    loc = np.tile(LOC, 12)
    inv = cdp.totals(np.repeat(np.arange(12), 3))
    view = cdp.Conditioned(dist.Laplace(loc, SCALE), inv & cdp.nonnegative(36))
    assert view.sampler == "exact" and view.chance > 0.2 and view.log_chance < -7
    x = np.asarray(view.sample(key, (2000,)))
    assert np.all(view.support(x))
    error = x.std(0) / np.sqrt(2000)
    assert np.all(np.abs(x.mean(0) - np.tile(Triangle(stats.laplace, LOC).mean, 12)) < 6 * error)


def test_refusals():
    region = INV & cdp.nonnegative(3)
    view = cdp.Conditioned(dist.Normal(LOC, SCALE), region)
    for what in ("mean", "variance", "exposure"):
        with pytest.raises(cdp.UnsupportedError, match=f"`{what}`|`loss` of normal noise"):
            getattr(view, what)
    with pytest.raises(cdp.UnsupportedError, match="`total` does not go with bounds"):
        cdp.Conditioned(dist.Normal(LOC, SCALE), region, total=[4.0])
    with pytest.raises(cdp.UnsupportedError, match="those of one concrete table"):
        cdp.Conditioned(dist.Normal(np.stack([LOC, LOC]), SCALE), region)
    with pytest.raises(ValueError, match="bounds that the true table itself breaks"):
        cdp.Conditioned(dist.Normal(np.array([-1.0, 2, 1]), SCALE), region)
    with pytest.raises(ValueError, match="leaves some cells no room"):
        cdp.Conditioned(dist.Normal(np.zeros(3), SCALE), region)
