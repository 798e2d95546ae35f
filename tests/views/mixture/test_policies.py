"""What each policy keeps and what it loses: marginal laws with controls, totals, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views.views import draws_in_chunks

LABELS = [0, 1, 0, 1, 0, 1, 1]
SCALE = np.array([1.3, 1.3, 1.0, 1.5, 1.2, 1.1, 1.0])
DRAWS = 30_000


def noise_of(view, key, draws=DRAWS):
    return np.asarray(jax.jit(lambda view, key: view.sample_noise(key, (draws,)))(view, key))


def keeps(x, inv):
    A = inv.matrix.toarray()
    return np.all(np.abs(x @ A.T) <= 1e-13 * np.abs(x) @ np.abs(A).T)


@pytest.mark.parametrize(
    ("base", "scales"),
    [
        ("laplace", "couple"),
        ("student-t", "couple"),
        ("student-t", "shared"),
        pytest.param("logistic", "couple", marks=pytest.mark.slow),
        pytest.param("logistic", "shared", marks=pytest.mark.slow),
        pytest.param("scale mixture", "couple", marks=pytest.mark.slow),
    ],
    indirect=["base"],
)
def test_every_cell_has_exactly_the_law_of_the_base(base, scales, key):
    make, law = base
    inv = cdp.totals(LABELS)
    view = cdp.MaxEntropy(make(np.zeros(7), SCALE), inv, scales=scales)
    x = noise_of(view, key)
    assert keeps(x, inv)
    for i in (0, 3, 6):
        assert stats.kstest(x[:, i] / SCALE[i], law.cdf).pvalue > 1e-4
        assert stats.kstest(1.1 * x[:, i] / SCALE[i], law.cdf).pvalue < 1e-4
    assert_allclose(view.variance, law.var() * SCALE**2, rtol=1e-9)
    error = view.deviation()
    assert_allclose(error.sd, law.std() * SCALE, rtol=1e-9)
    assert_allclose(error.margin(0.9), law.ppf(0.95) * SCALE, rtol=1e-9)


def test_resample_loses_the_marginals(laplace, key):
    """n = 3: given balance the scales crowd in the middle, and the KS test says so."""
    view = cdp.MaxEntropy(laplace[0](np.zeros(3), 1.0), cdp.totals([0, 0, 0]), scales="resample")
    x = noise_of(view, key, 100_000)
    assert keeps(x, view.invariant)
    assert stats.kstest(x[:, 0], "laplace").pvalue < 1e-4
    s = np.sqrt(2 * np.random.default_rng(0).exponential(size=(400_000, 3)))
    kept = s[s.sum(-1) > 2 * s.max(-1)][:, 0]
    want, error = np.sqrt(2 / np.pi) * kept.mean(), np.abs(x).std() / np.sqrt(len(x) / 3)
    assert abs(np.abs(x).mean() - want) < 5 * error  # 1.037: what the policy does draw
    assert abs(np.abs(x).mean() - 1) > 5 * error
    with pytest.raises(cdp.UnsupportedError, match="`variance` of the max-entropy"):
        view.variance  # noqa: B018
    with pytest.raises(cdp.UnsupportedError, match=r'`log_prob`.*Use scales="couple"'):
        view.log_prob(np.zeros(3))


def test_raise_raises_at_the_first_draw_out_of_balance(laplace, key):
    make, _ = laplace
    few = cdp.MaxEntropy(make(np.zeros(3), 1.0), cdp.totals(["a"] * 3), scales="raise")
    with pytest.raises(
        cdp.InfeasibleError, match=r"`scales` drawn for group a are out of balance in \d+ of 100"
    ):
        few.sample(key, (100,))
    many = cdp.MaxEntropy(make(np.zeros(40), 1.0), cdp.totals(["a"] * 40), scales="raise")
    x = np.asarray(many.sample(key, (500,)))
    assert np.all(np.isfinite(x)) and keeps(x, many.invariant)
    with pytest.raises(cdp.UnsupportedError, match="can only raise outside jit"):
        jax.jit(lambda k: many.sample(k, (2,)))(key)


@pytest.mark.parametrize("scales", ["resample", "raise"])
def test_pairs_have_no_balanced_draw(scales, laplace):
    with pytest.raises(cdp.InfeasibleError, match="has no draw in a group of two cells"):
        cdp.MaxEntropy(laplace[0](np.zeros(4), 1.0), cdp.totals([0, 0, 1, 1]), scales=scales)


def test_normal_noise_has_no_scales_to_draw(key):
    inv, base = cdp.totals([0, 0, 0]), dist.Normal(np.zeros(3), np.array([1.0, 1.5, 2.0]))
    want = cdp.MaxEntropy(base, inv).variance
    for scales in ("couple", "shared", "resample", "raise"):
        assert_allclose(cdp.MaxEntropy(base, inv, scales=scales).variance, want)


def test_a_law_without_variance_is_sampled_and_says_inf(key):
    """Student-t with df = 1.5."""
    for scales in ("couple", "shared"):
        base = dist.StudentT(1.5, np.zeros(4), 1.0)
        view = cdp.MaxEntropy(base, cdp.totals(["a", "a", "a", "alone"]), scales=scales)
        x = noise_of(view, key, 20_000)
        assert stats.kstest(x[:, 0], stats.t(1.5).cdf).pvalue > 1e-4
        assert not np.any(x[:, 3])
        assert np.asarray(view.variance).tolist() == [np.inf] * 3 + [0.0]
        assert view.deviation().sd.tolist() == [np.inf] * 3 + [0.0]
        assert np.all(np.isfinite(view.deviation().mae))
        with pytest.raises(cdp.UnsupportedError, match="student-t noise has no variance"):
            view.covariance_product(np.ones(4))


def test_one_law_of_scales_for_cells_that_share_one():
    """df may differ between groups under couple, nowhere under shared."""
    df = np.array([3.0, 7.0, 3.0, 7.0, 3.0, 7.0, 7.0])
    base, inv = dist.StudentT(df, np.zeros(7), SCALE), cdp.totals(LABELS)
    view = cdp.MaxEntropy(base, inv)
    assert_allclose(view.variance, df / (df - 2) * SCALE**2)
    x = noise_of(view, jax.random.key(1), 20_000)
    assert stats.kstest(x[:, 0] / SCALE[0], stats.t(3).cdf).pvalue > 1e-4
    assert stats.kstest(x[:, 1] / SCALE[1], stats.t(7).cdf).pvalue > 1e-4
    with pytest.raises(cdp.UnsupportedError, match="different law of its student-t scales"):
        cdp.MaxEntropy(base, inv, scales="shared")
    with pytest.raises(cdp.UnsupportedError, match="Give all cells of a group one df"):
        cdp.MaxEntropy(base, cdp.totals([0] * 7))
    mixed = cdp.ScaleMixture(dist.Gamma(np.arange(2.0, 9.0), 1.0), np.zeros(7))
    with pytest.raises(cdp.UnsupportedError, match="different law of its scale mixture scales"):
        cdp.MaxEntropy(mixed, inv)


def test_totals_that_overlap(key, laplace):
    """Couple takes one s for the whole table unless leverages are small; marginals stay exact."""
    A = np.array([[1.0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 0]])
    inv, scale = cdp.linear(A), SCALE[:7] ** 0.3
    for scales in ("couple", "shared"):
        view = cdp.MaxEntropy(laplace[0](np.zeros(7), scale), inv, scales=scales)
        x = noise_of(view, key, 3_000)
        assert keeps(x, inv)
        for i in (0, 3, 6):
            assert stats.kstest(x[:, i] / scale[i], "laplace").pvalue > 1e-4
            assert stats.kstest(1.25 * x[:, i] / scale[i], "laplace").pvalue < 1e-3
        assert_allclose(view.variance, 2 * scale**2, rtol=1e-9)
    for scales in ("resample", "raise"):
        with pytest.raises(cdp.UnsupportedError, match="need disjoint or nested totals"):
            cdp.MaxEntropy(laplace[0](np.zeros(7), scale), inv, scales=scales)


@pytest.mark.slow
def test_what_couple_keeps_on_overlapping_totals_is_feasible_in_every_order(laplace, key):
    """By brute force: kept scales, in random orders, have all leverages below one half."""
    n = 400
    A = np.zeros((2, n))
    A[0, :280], A[1, 120:] = 1, 1
    scale = 1 + np.random.default_rng(0).random(n)
    view = cdp.MaxEntropy(laplace[0](np.zeros(n), scale), cdp.linear(A))
    share = view.coupled_share(key, 500)
    assert 0 < share < 0.9
    s = np.asarray(view.mixing.sample(key, (200, n), float))
    kept = s[np.asarray(view._accept(jnp.asarray(s)))]
    assert len(kept) > 10
    rng = np.random.default_rng(1)
    for row in kept[:20]:
        for order in (rng.permutation(n), np.argsort(np.argsort(np.asarray(view.leverages)))):
            sorted_row = np.sort(row) if order is not None else row
            b = A * scale * sorted_row[order]
            q = np.linalg.qr(b.T)[0]
            assert np.sum(q * q, 1).max() < 0.5


def test_draws_in_chunks(laplace, key):
    view = cdp.MaxEntropy(laplace[0](np.full(7, 10.0), SCALE), cdp.totals(LABELS))
    x = draws_in_chunks(view, key, 25, chunk=10)
    assert x.shape == (25, 7) and len(np.unique(x[:, 0])) == 25
    noise = draws_in_chunks(view, key, 25, chunk=10, noise=True)
    assert_allclose(x - 10, noise, atol=1e-12)
    for bad in ({"draws": 0}, {"draws": 5, "chunk": 0}):
        with pytest.raises(ValueError, match="must be at least 1"):
            draws_in_chunks(view, key, **bad)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 5, 50])
def test_a_million_coupled_draws_are_laplace(n, key, laplace):
    """The issue's figure: not rejected at 1e-4, resample rejected at n = 3."""
    inv = cdp.totals([0] * n)
    view = cdp.MaxEntropy(laplace[0](np.zeros(n), 1.0), inv)
    x = draws_in_chunks(view, key, 100_000 if n == 50 else 1_000_000, chunk=20_000)
    assert stats.kstest(x[:, n // 2], "laplace").pvalue > 1e-4
    assert np.abs(x.sum(-1)).max() < 1e-12 * n
    if n == 3:
        view = cdp.MaxEntropy(laplace[0](np.zeros(n), 1.0), inv, scales="resample")
        x = draws_in_chunks(view, key, 1_000_000, chunk=20_000)
        assert stats.kstest(x[:, 1], "laplace").pvalue < 1e-4
