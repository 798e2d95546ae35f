"""The numbers of the real views, against dense algebra and the worked example."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

SIGMA = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
VIEWS = [cdp.Conditioned, cdp.Imaged, cdp.MaxEntropy]


def view_of(make, inv, sigma):
    return make(dist.Normal(jnp.zeros(inv.n), jnp.asarray(sigma)), inv)


@pytest.mark.parametrize(
    ("make", "squared"), list(zip(VIEWS, [1.25, 0.86244, 1.276892], strict=True))
)
def test_worked_example(make, squared):
    """n = 5, σ = (1, 2, 3, 4, 6), one total: squared μ of the worst relocation."""
    inv = cdp.totals(["WI"] * 5)
    loss = cdp.privacy_loss(view_of(make, inv, SIGMA), cdp.relocations(inv))
    assert loss.mu**2 == pytest.approx(squared, abs=5e-6)
    assert loss.worst.cells == (0, 1)
    assert loss.worst.group == "WI"
    assert loss.kind == "exact"


@pytest.mark.parametrize("make", VIEWS)
def test_against_dense_algebra_over_all_pairs(make):
    labels = ["b", "a", "b", "a", "b", "a", "b"]
    sigma = np.array([3.0, 1.5, 1.0, 2.0, 2.5, 1.0, 1.7])
    inv = cdp.totals(labels)
    with jax.enable_x64(True):
        view = view_of(make, inv, sigma)
        inverse = np.linalg.pinv(np.asarray(view.covariance_matrix), rcond=1e-10)
    pairs = [(i, j) for i, j in combinations(range(7), 2) if labels[i] == labels[j]]
    V = np.array([np.eye(7)[i] - np.eye(7)[j] for i, j in pairs])
    want = np.sqrt(np.einsum("mi,ij,mj->m", V, inverse, V).max())
    assert cdp.privacy_loss(view, cdp.relocations(inv)).mu == pytest.approx(want, rel=1e-9)
    assert cdp.privacy_loss(view, cdp.differences(V)).mu == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("make", VIEWS)
def test_numbers_do_not_depend_on_the_precision_of_jax(make):
    inv = cdp.totals(["WI"] * 5)
    numbers = []
    for x64 in (False, True):
        with jax.enable_x64(x64):
            view = make(dist.Normal(jnp.zeros(5), SIGMA), inv)
            loss = cdp.privacy_loss(view, cdp.relocations(inv))
            numbers.append((loss.mu, loss.epsilon(1e-10), loss.delta(1.0), loss.guess_rate))
    assert numbers[0] == numbers[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "bound"),
    [(cdp.Conditioned, "analytic"), (cdp.Imaged, "tail"), (cdp.MaxEntropy, "analytic")],
)
def test_calibrated_views_keep_the_budget(make, bound):
    inv = cdp.totals(["IL"] * 3 + ["WI"] * 4)
    shape = np.array([1.0, 2, 2, 1, 1, 3, 3])
    nb = cdp.relocations(inv)

    def family(scale):
        return view_of(make, inv, scale * shape)

    scale = cdp.calibrate(family, nb, epsilon=1.0, delta=1e-10, bound=bound)
    assert cdp.privacy_loss(family(scale), nb).delta(1.0) <= 1e-10
    assert bound == "tail" or cdp.privacy_loss(family(scale * (1 - 1e-6)), nb).delta(1.0) > 1e-10


@pytest.mark.parametrize("make", VIEWS)
def test_a_batch_is_refused(make):
    inv = cdp.totals(["WI"] * 3)
    batch = make(dist.Normal(jnp.zeros((2, 3)), jnp.ones((2, 1))), inv)
    with pytest.raises(
        ValueError, match=r"^`view` must be one release; got a batch of shape \(2,\)"
    ):
        cdp.privacy_loss(batch, cdp.relocations(inv))


def test_a_changed_total_is_refused():
    inv = cdp.totals(["WI", "WI", "IL", "IL"])
    view = view_of(cdp.Imaged, inv, np.ones(4))
    with pytest.raises(ValueError, match="row 0 changes a published total"):
        cdp.privacy_loss(view, cdp.differences([1, 0, -1, 0]))


@pytest.mark.slow
def test_a_million_cells_in_ten_thousand_groups():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10_000, 1_000_000)
    sigma = rng.uniform(1, 2, labels.size)
    inv = cdp.totals(labels)
    loss = cdp.privacy_loss(view_of(cdp.Conditioned, inv, sigma), cdp.relocations(inv))
    order = np.lexsort((sigma, labels))
    starts = np.searchsorted(labels[order], np.arange(10_000))
    pairs = sigma[order[starts]] ** -2 + sigma[order[starts + 1]] ** -2
    assert loss.mu**2 == pytest.approx(pairs.max(), rel=1e-6)  # the scales were float32
