"""Maximum entropy with Laplace cells: exact marginals, exact totals, an honest coupled share."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

pytestmark = pytest.mark.usefixtures("float64")
DRAWS = 100_000


def view_of(scale, n, weights=None):
    return cdp.MaxEntropy(dist.Laplace(np.zeros(n), scale), cdp.totals([0] * n, weights))


def draws_of(view, key, draws=DRAWS):
    return np.asarray(jax.jit(lambda view, key: view.sample_noise(key, (draws,)))(view, key))


UNEQUAL = {3: np.array([1.0, 1.3, 1.7]), 5: np.array([1.0, 1, 1, 1, 3]), 50: np.linspace(1, 3, 50)}
FAST = {(2, 0), (3, 0), (5, 1)}
CASES = [
    pytest.param(n, s, marks=() if (n, s) in FAST else pytest.mark.slow)
    for n, s in ((2, 0), (3, 0), (3, 1), (5, 1), (50, 1))  # equal scales again in ../mixture
]


@pytest.mark.parametrize(("n", "unequal"), CASES)
def test_every_cell_is_exactly_laplace(n, unequal, key):
    scale = UNEQUAL[n] if unequal else np.array(1.7)
    view = view_of(scale, n)
    draws = DRAWS if n < 50 else 20_000
    x = draws_of(view, key, draws)
    wide = np.broadcast_to(scale, n)
    size = np.abs(x).sum(-1)
    assert np.all(np.abs(x.sum(-1)) <= 1e-14 * n * size)
    for i in range(0, n, max(1, n // 5)):
        law = stats.laplace(scale=wide[i]).cdf
        assert stats.kstest(x[:, i], law).pvalue > 1e-6
        assert stats.kstest(1.06 * x[:, i], law).pvalue < (1e-6 if n < 50 else 1e-2)
    assert_allclose(view.variance, 2 * wide**2)


def test_draws_dropped_instead_of_coupled_are_not_laplace(key):
    """Negative control: `resample` keeps only balanced scales. Given them cells are N(0, s²)."""
    rng = np.random.default_rng(0)
    s = np.sqrt(2 * rng.exponential(size=(2 * DRAWS, 3)))
    kept = s[s.sum(-1) > 2 * s.max(-1)]
    assert_allclose(len(kept) / len(s), np.pi / (3 * np.sqrt(3)), atol=0.006)
    x = kept[:, 0] * rng.normal(size=len(kept))
    assert stats.kstest(x, "laplace").pvalue < 1e-6
    # the coupled ones alone put the balance right: their common scale is *one* cell's, unsorted
    other = s[s.sum(-1) <= 2 * s.max(-1)]
    both = np.append(x, other[:, 0] * rng.normal(size=len(other)))
    assert stats.kstest(both, "laplace").pvalue > 1e-6


def test_coupled_share(key):
    """P(the largest of n Rayleigh is at least the sum of the others), scales equal."""
    sizes = np.array([2, 3, 5, 10])
    want = np.array([1.0, 1 - np.pi / (3 * np.sqrt(3)), 0.0153713, 7.9e-8])
    assert_allclose(want[1], 0.3954, atol=5e-5)
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), sizes))
    inv = cdp.totals(labels)
    order = [int(np.argmax(np.asarray(inv.names) == g)) for g in range(4)]
    got = cdp.MaxEntropy(dist.Laplace(np.zeros(20), 1.7), inv).coupled_share(key, 20_000)
    assert got.shape == (4,)
    assert np.all(np.abs(got[order] - want) <= 5 * np.sqrt(want * (1 - want) / 20_000) + 1e-9)


def test_coupled_share_of_unequal_scales(key):
    """Kept draws balance in *every* order of s, so at least those out of balance in the worst
    order, largest c with largest s and the others in opposite order, are coupled."""
    scales = ([1.0, 1.3, 1.7], [1.0, 1.0, 1.0, 1.0, 3.0], [1.0, 2.0, 2.0, 2.5])
    inv = cdp.totals(np.repeat(np.arange(3), [3, 5, 4]))
    view = cdp.MaxEntropy(dist.Laplace(np.zeros(12), np.concatenate(scales)), inv)
    got, rng = view.coupled_share(key, 20_000), np.random.default_rng(0)
    for share, scale in zip(got, scales, strict=True):
        s = np.sort(np.sqrt(2 * rng.exponential(size=(20_000, len(scale)))), -1)
        c = np.sort(scale)
        worst = c[-1] * s[:, -1] >= (c[:-1] * s[:, -2::-1]).sum(-1)
        assert worst.mean() - 5 * np.sqrt(0.5 / 20_000) <= share < 1


def test_two_cells_always_share_one_scale(key):
    """So the law is exactly Laplace on the line."""
    view = view_of(np.array([1.0, 2.0]), 2, np.array([2.0, -1.0]))
    x = draws_of(view, key, 20_000)
    assert_allclose(x[:, 1], 2 * x[:, 0], rtol=1e-9)
    assert view.coupled_share(key).tolist() == [1.0]


def test_weights_and_scrambled_groups(noise_of, scale, key):
    """Two weighted totals at once: every marginal and every total."""
    inv = cdp.totals([0, 1, 0, 1, 0, 1], [2.0, -1, -3, 1.5, 1.5, 2])
    x = np.asarray(noise_of["max-entropy"](key, inv, jnp.asarray(scale), DRAWS))
    for i in range(6):
        assert stats.kstest(x[:, i], stats.laplace(scale=scale[i]).cdf).pvalue > 1e-6
    A = inv.matrix.toarray()
    assert np.all(np.abs(x @ A.T) <= 1e-13 * np.abs(x) @ np.abs(A).T)
    # given the scales each group is Gaussian of its own: groups are independent
    size = np.abs(x)
    assert abs(np.corrcoef(size[:, 0], size[:, 1])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_equal_weight_times_scale_has_a_covariance(key):
    """Exchangeable cells that sum to 0: Var 2λ², correlation −1/(n − 1)."""
    view = view_of(1.5, 5)
    want = 2 * 1.5**2 * (np.eye(5) * 1.25 - 0.25)
    assert_allclose(view.covariance_matrix, want, atol=1e-12)
    x = draws_of(view, key, 20_000)
    products = x[:, :, None] * x[:, None, :]
    assert np.all(np.abs(products.mean(0) - want) <= 5 * products.std(0) / np.sqrt(20_000))
    assert np.all(np.abs(x.mean(0)) <= 5 * x.std(0) / np.sqrt(20_000))


def test_free_and_constant_cells(key):
    inv = cdp.totals(["a", "b", None, "b", "c", "c", "b"], missing="free")
    scale = np.array([1.0, 2.0, 3.0, 1.5, 0.5, 0.5, 0.7])
    view = cdp.MaxEntropy(dist.Laplace(np.zeros(7), scale), inv)
    x = draws_of(view, key, 20_000)
    assert not np.any(x[:, 0])
    assert_allclose(view.variance, [0, *(2 * scale[1:] ** 2)])
    for i in range(1, 7):
        assert stats.kstest(x[:, i], stats.laplace(scale=scale[i]).cdf).pvalue > 1e-6
    assert_allclose(view.deviation().sd, np.sqrt(view.variance))


def test_what_has_no_closed_form_is_refused():
    view = view_of(np.array([1.0, 1.3, 1.7]), 3)
    for call, message in (
        (lambda: view.log_prob(np.zeros(3)), "`log_prob` of the max-entropy view of laplace noise"),
        (lambda: view.entropy(), "`entropy` of the max-entropy"),
        (lambda: view.loss(None), "`loss` of the max-entropy .* No guarantee is proved"),
        (lambda: view.covariance_product(np.ones(3)), "`covariance_product` of the max-entropy"),
        (
            lambda: view.covariance_matrix,
            "Estimate it from sample_noise draws, or use equal scales",
        ),
        (lambda: view.deviation(np.ones((1, 3))), "Pass key= to the evaluator"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            call()


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (
            [9.0, 1, 1, 1, 1, 1],
            r"scale of cell 0 is 0\.8182 of the sum in group a; it must stay below half",
        ),
        ([1.0, 1, 1, 1, 1, 2], r"cell 5 is 0\.5 of the sum in group b; it makes up exactly half"),
    ],
)
def test_scales_out_of_balance_name_the_cell(scale, message):
    inv = cdp.totals(["a", "b", "a", "b", "a", "b"])
    with pytest.raises(cdp.InfeasibleError, match=message):
        cdp.MaxEntropy(dist.Laplace(np.zeros(6), np.array(scale)), inv)
    pair = cdp.totals(["x", "x", "y", "y"])
    with pytest.raises(
        cdp.InfeasibleError, match=r"cell 1 .* group x; its two cells must have equal"
    ):
        cdp.MaxEntropy(dist.Laplace(np.zeros(4), np.array([1.0, 2.0, 1.0, 1.0])), pair)
