"""Totals computed from the data against totals fixed in advance: dense algebra and closed forms."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats
from scipy.sparse import csr_array

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss
from cdp_views.precision.laplace_profile import independent_cells
from cdp_views.views._gaussian import _lengths
from cdp_views.views._suprema import along_fibre, student_supremum

LABELS = np.array([0, 1, 0, 1, 0, 0, 1])
WEIGHTS = np.array([1.0, 2, -1, 1, 0.5, 1, -3])
SIGMA = np.array([1.0, 0.5, 2, 1.5, 1, 3, 0.7])
INV = cdp.totals(LABELS, WEIGHTS)


def centre(kind, v):
    """How far the centre of the release moves with v, and Σ, by dense algebra."""
    A, D = INV.matrix.toarray(), np.diag(SIGMA**2)
    if kind == "conditioned":
        back = D @ A.T @ np.linalg.inv(A @ D @ A.T) @ A
        return v - back @ v, D - back @ D
    P = np.eye(7) - np.linalg.pinv(A) @ A
    return P @ v, P @ D @ P


@pytest.mark.parametrize("kind", ["conditioned", "imaged"])
def test_normal_noise_at_totals_fixed_in_advance(kind):
    make = {"conditioned": cdp.Conditioned, "imaged": cdp.Imaged}[kind]
    view = make(dist.Normal(np.zeros(7), SIGMA), INV, total=[3.0, -1.0])
    V = np.random.default_rng(0).normal(size=(4, 7))
    W = np.stack([np.eye(7)[0], np.ones(7), np.eye(7)[2] - 2 * np.eye(7)[6]])
    for v in V:
        u, covariance = centre(kind, v)
        want = np.sqrt(u @ np.linalg.pinv(covariance, rcond=1e-10) @ u)
        found = cdp.privacy_loss(view, cdp.differences(v))
        assert_allclose(found.mu, want, rtol=1e-9)
        want = np.sqrt(W @ u @ np.linalg.inv(W @ covariance @ W.T) @ W @ u)
        seen = cdp.privacy_loss(view, cdp.differences(v), query=W)
        assert_allclose(seen.mu, want, rtol=1e-9)
    assert found.kind == "exact" and found.regime == "fixed in advance, whatever the data are"
    assert "totals: fixed in advance" in str(found)


def test_what_keeps_the_totals_costs_the_same_in_both_regimes():
    nb = cdp.relocations(cdp.totals(LABELS))
    for make in (cdp.Conditioned, cdp.Imaged):
        base = dist.Normal(np.zeros(7), SIGMA)
        own = make(base, cdp.totals(LABELS))
        fixed = make(base, cdp.totals(LABELS), total=[0.0, 5.0])
        assert_allclose(cdp.privacy_loss(fixed, nb).mu, cdp.privacy_loss(own, nb).mu, rtol=1e-12)
        assert cdp.privacy_loss(own, nb).regime == "computed from the data and published with it"


def test_a_view_through_jit_remembers_its_regime():
    view = cdp.Imaged(dist.Normal(np.zeros(7), SIGMA), INV, total=INV.evaluate(np.zeros(7)))
    own = cdp.Imaged(dist.Normal(np.zeros(7), SIGMA), INV)
    assert jax.jit(lambda view: view)(view).fixed_totals
    assert not jax.jit(lambda view: view)(own).fixed_totals


SIZES, AWAY = [2, 3, 5, 10, 3], [0.0, 0.0, 0.0, 0.0, 1.7]
MANY = cdp.totals(np.repeat(np.arange(5), SIZES))


def log_f(n, s):
    """Log-density of the sum of n standard Laplace numbers (numerics: by Bessel functions)."""
    s = np.maximum(np.abs(s), 1e-300)
    if s < 1e-12:
        return special.gammaln(2 * n - 1) - 2 * special.gammaln(n) - (2 * n - 1) * np.log(2)
    power = (n - 0.5) * np.log(s) - 0.5 * np.log(np.pi) - special.gammaln(n)
    return power - (n - 0.5) * np.log(2) + np.log(special.kv(n - 0.5, s))


def test_conditioned_laplace_pays_for_a_total_that_it_did_not_choose():
    """1 + log f(0)/f(1) at the table's own total: 2 − ln 2 for two cells; imaged 1, as the base."""
    view = cdp.Conditioned(dist.Laplace(np.zeros(23), 1.0), MANY, total=AWAY)
    loss = cdp.privacy_loss(view, cdp.additions(23), table="this")
    table = loss.by_pair().set_index("group")
    assert_allclose(
        table.pure_epsilon.loc[[0, 1, 2, 3]],
        [2 - np.log(2), 1.152702, 1.070464, 1.029354],
        atol=5e-7,
    )
    for n, r, got in zip(SIZES, AWAY, table.pure_epsilon.loc[[0, 1, 2, 3, 4]], strict=True):
        extra = max(abs(log_f(n, r) - log_f(n, r - s)) for s in (1, -1))
        assert_allclose(got, 1 + extra, rtol=1e-9)
    assert (loss.pure_kind, loss.kind) == ("exact", "bound")
    assert_allclose(loss.pure_epsilon, table.pure_epsilon.max())
    assert "holds for this table" in loss.scope
    assert "Scope: holds for this table" in cdp.prior_to_posterior(loss).sentence
    anywhere = cdp.privacy_loss(view, cdp.additions(23))
    assert (anywhere.pure_epsilon, anywhere.pure_kind, anywhere.scope) == (2.0, "bound", "")
    imaged = cdp.Imaged(dist.Laplace(np.zeros(23), 1.0), MANY, total=AWAY)
    assert_allclose(cdp.privacy_loss(imaged, cdp.additions(23)).pure_epsilon, 1, rtol=1e-12)
    # by brute force on the line of two cells: density e^{−2|y|} against e^{−|y−1|−|y|}, normalised
    y = np.linspace(-30, 30, 6001)
    here, there = -2 * np.abs(y), -np.abs(y - 1) - np.abs(y)
    gap = (here - log_f(2, 0)) - (there - log_f(2, 1))
    assert_allclose(np.abs(gap).max(), table.pure_epsilon[0], rtol=1e-9)


def test_a_guarantee_does_not_depend_on_the_table():
    """What is calibrated, composed and told is the loss of every table, no function of a secret."""
    inv, nb = cdp.totals([0, 0]), cdp.additions(2)

    def view_at(table):
        return lambda s: cdp.Conditioned(dist.Laplace(np.array(table), s), inv, total=[7.0])

    tables = ([3.0, 4.0], [3.0, 5.0], [40.0, 40.0])
    for budget in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-9}):
        scales = [cdp.calibrate(view_at(table), nb, **budget) for table in tables]
        assert scales[0] == scales[1] == scales[2]
    # by brute force on the line (t, 7 − t): far from its total a table loses nearly 2/s, not 1/s
    view = view_at(tables[0])(1.3)
    loss, line = cdp.privacy_loss(view, nb), np.linspace(-200, 200, 400_001)

    def log_density(table):
        value = -(np.abs(line - table[0]) + np.abs(7 - line - table[1])) / 1.3
        return value - special.logsumexp(value)

    gap = np.abs(log_density([40.0, 40.0]) - log_density([41.0, 40.0])).max()
    assert 1.5 < gap <= loss.pure_epsilon
    assert cdp.compose([view, view], nb).pure_epsilon == pytest.approx(2 * loss.pure_epsilon)
    assert cdp.prior_to_posterior(loss).odds_factor >= np.exp(gap)
    here = cdp.privacy_loss(view, nb, table="this")
    assert here.pure_epsilon < 1.01 < gap  # the control: it would have been too small


def test_student_t_and_logistic_by_brute_force():
    """Three cells given their sum: the loss on a grid stays below its supremum and comes near."""
    x = np.linspace(-12, 12, 241)
    one, two = np.meshgrid(x, x)
    far = np.linspace(-400, 400, 161)
    with_far = np.stack([np.append(one, far), np.append(two, -far)])
    points = np.stack([*with_far, -with_far.sum(0)], axis=1)
    scale, v = np.array([1.0, 0.7, 2.0]), np.array([1.0, -1, 0])
    inv = cdp.totals([0, 0, 0])
    for base, law in (
        (dist.StudentT(3.0, np.zeros(3), scale), stats.t(3)),
        (dist.Logistic(np.zeros(3), scale), stats.logistic()),
    ):
        logs = [law.logpdf((points - s * v) / scale).sum(1) for s in (0, 1)]
        worst = np.abs(logs[0] - logs[1]).max()
        found = cdp.privacy_loss(cdp.Conditioned(base, inv), cdp.differences(v))
        assert found.pure_kind == "exact"
        assert worst <= found.pure_epsilon * (1 + 1e-12)
        assert_allclose(worst, found.pure_epsilon, rtol=2e-3)
        assert worst > 0.95 * found.pure_epsilon  # a supremum five per cent too small would fail


def test_imaged_student_t_is_below_its_bound():
    """Two cells: the image's density by integrating along the fibre, on the line it lives on."""
    scale = np.array([1.0, 10.0])
    s = np.tan(np.linspace(-1.5705, 1.5705, 20_001))
    step = np.gradient(s)
    z = np.concatenate([np.linspace(-8, 8, 161), [-60, 60]])
    density = [
        np.sum(
            stats.t.pdf((z[:, None] - k + s) / scale[0], 3)
            * stats.t.pdf((-z[:, None] + k + s) / scale[1], 3)
            * step,
            axis=1,
        )
        for k in (0, 1)
    ]
    worst = np.abs(np.log(density[0]) - np.log(density[1])).max()
    view = cdp.Imaged(dist.StudentT(3.0, np.zeros(2), scale), cdp.totals([0, 0]))
    found = cdp.privacy_loss(view, cdp.relocations(cdp.totals([0, 0])))
    assert found.pure_kind == "bound"
    assert_allclose(found.pure_epsilon, student_supremum(3, 0.2), rtol=1e-6)  # both in the wide one
    assert 0.8 * found.pure_epsilon < worst <= found.pure_epsilon


@pytest.mark.parametrize("seed", [0, 1])
def test_imaging_never_costs_more_than_the_base(seed):
    """[TV] Lemma 3.7, for totals fixed in advance and any v; conditioning can (above)."""
    rng = np.random.default_rng(seed)
    inv, scale = cdp.totals([0, 0, 0, 1, 1]), np.exp(rng.normal(size=5))
    V = rng.integers(-2, 3, (300, 5)).astype(float)
    V[0], nb = 1.0, csr_array(V)
    total = [1.0, 2.0]
    normal = cdp.Imaged(dist.Normal(np.zeros(5), scale), inv, total=total).loss(nb)
    assert np.all(normal.mu <= np.linalg.norm(V / scale, axis=1) * (1 + 1e-6))
    for base, most in (
        (dist.Laplace(np.zeros(5), scale), np.abs(V) / scale),
        (dist.Logistic(np.zeros(5), scale), np.abs(V) / scale),
        (dist.StudentT(3.0, np.zeros(5), scale), student_supremum(3, V / scale)),
    ):
        sup = cdp.Imaged(base, inv, total=total).loss(nb).sup
        assert np.all(sup <= most.sum(1) * (1 + 1e-6) + 1e-12)
        assert np.any(sup < most.sum(1) * 0.9)


def test_the_cheapest_way_along_the_fibre():
    rng = np.random.default_rng(1)
    labels, u, scale = np.array([0, 1, 0, 2, 1, 0]), rng.normal(size=6), rng.uniform(0.3, 4, 6)
    V = rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.7)

    def supremum(a, cells):
        return student_supremum(3.0, a / scale[cells])

    found = along_fibre(csr_array(V), u, labels, 2, supremum)
    w = np.linspace(-20, 20, 200_001)
    for v, got in zip(V, found, strict=True):
        want = supremum(v[[3]], [3]).sum()
        for g in (0, 1):
            cells = np.flatnonzero(labels == g)
            tried = supremum(v[cells][:, None] + w * u[cells][:, None], cells[:, None]).sum(0)
            want += tried.min()
        assert got <= want + 1e-9
        assert_allclose(got, want, atol=1e-3)
    assert np.any(found < [supremum(v, np.arange(6)).sum() - 1e-3 for v in V])


def test_a_changed_total_is_infinite_where_that_is_asked_for():
    view = cdp.Conditioned(dist.Normal(np.zeros(7), SIGMA), INV)
    with pytest.raises(ValueError, match=r"^`neighbours` adds or removes a record [^\n]+$"):
        cdp.privacy_loss(view, cdp.additions(7))
    with pytest.raises(ValueError, match="row 1 changes a published total"):
        cdp.privacy_loss(view, cdp.differences([[0, 1, 0, -2, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]))
    loss = cdp.privacy_loss(view, cdp.additions(7), changed_totals="infinite")
    assert loss.pure_epsilon == loss.mu == loss.epsilon(0.5) == np.inf
    assert loss.guess_rate == loss.delta(20.0) == 1
    assert loss.worst.cells == (0,) and loss.regime.startswith("computed")
    kept = cdp.differences([0, 1, 0, -2, 0, 0, 0])
    assert np.isfinite(cdp.privacy_loss(view, kept, changed_totals="infinite").mu)
    with pytest.raises(ValueError, match="`changed_totals` must be one of"):
        cdp.privacy_loss(view, kept, changed_totals="maybe")


def test_what_has_no_bound_is_refused(key):
    mixed = cdp.ScaleMixture(dist.Gamma(2.0, 1.0), np.zeros(3))
    inv = cdp.totals([0, 0, 0])
    nb = cdp.relocations(inv)
    with pytest.raises(UnsupportedError, match=r"`loss` of the imaged view .* Pass key="):
        cdp.privacy_loss(cdp.Imaged(mixed, inv), nb)
    student = cdp.Imaged(dist.StudentT(3.0, np.zeros(3), 1.0), inv, total=[1.0])
    with pytest.raises(UnsupportedError, match="no estimate for neighbours with other totals"):
        cdp.privacy_loss(student, cdp.additions(3), key=key)


def test_a_query_that_shows_an_exact_total():
    """Without noise: nothing where it does not see the difference, everything where it does."""
    base, inv = dist.Normal(np.zeros(5), np.array([1.0, 30, 1, 2, 1e3])), cdp.totals([0] * 5)
    view, v = cdp.Conditioned(base, inv), cdp.differences([1, 0, 0, 0, -1])
    total, part = np.ones((1, 5)), np.array([[1.0, 1, 0, 0, 0]])
    assert cdp.privacy_loss(view, v, query=total).mu == 0
    both = cdp.privacy_loss(view, v, query=np.vstack([total, part])).mu
    assert_allclose(both, cdp.privacy_loss(view, v, query=part).mu, rtol=1e-9)
    fixed = cdp.Conditioned(base, inv, total=[7.0])
    assert cdp.privacy_loss(fixed, cdp.differences(np.eye(5)[0]), query=total).mu == 0
    covariance = np.array([[1.0, 0, 1], [0, 0, 0], [1, 0, 1]])
    seen = np.array([[1.0, 1, 0, 1], [0, 0, 1e-12, 0.1], [1, 2, 0, 1]])
    found = _lengths(covariance, seen, np.ones(3), np.full((3, 4), 1e-10))
    assert_allclose(found, [1, np.inf, 0, np.inf], rtol=1e-12)


def test_too_many_pairs_to_try_lose_no_more_than_the_two_most_exposed_cells_of_the_base():
    """Any two cells of 400 groups with totals fixed in advance: not what pure ε alone proves."""
    scale = np.random.default_rng(0).uniform(1, 3, 2000)
    inv = cdp.totals(np.repeat(np.arange(400), 5))
    view = cdp.Imaged(dist.Laplace(np.zeros(2000), scale), inv, total=np.full(400, 3.0))
    loss = cdp.privacy_loss(view, cdp.replacements(inv))
    base = independent_cells(np.sort(1 / scale)[-2:])
    assert loss.kind == "bound"
    for epsilon in (0.0, 0.7, 1.5):
        assert loss.delta(epsilon) == pytest.approx(float(base(np.array(epsilon))), rel=1e-9)
    assert loss.guess_rate < BoundedLoss([loss.pure_epsilon]).guess_rate[0] - 0.1
