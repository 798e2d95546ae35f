"""Likelihoods of groups: they add up to the likelihood of the whole, and LOO reads them."""

import arviz_stats
import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp
from cdp_views.inference import log_likelihood_by_group, to_datatree

# Two groups of two, one of three, a cell of its own and a free one.
GROUPS = ["a", "b", "c", "a", "b", "c", "c", "alone", None]
INVARIANT = cdp.totals(GROUPS, missing="free")
SCALE = np.array([2.0, 1.0, 3.0, 2.0, 1.0, 2.5, 2.0, 1.0, 4.0])
RELEASED = np.array([100.0, 40.0, 7.0, 90.0, 30.0, 9.0, 12.0, 5.0, 60.0])


def draws(random, dtype=np.float64):
    x = random.normal(size=(2, 6, 9)) * SCALE
    with jax.enable_x64(True):
        return (RELEASED - np.asarray(INVARIANT.project(x))).astype(dtype)


LAWS = {
    "max-entropy": (lambda q, s, inv: cdp.MaxEntropy(dist.Normal(q, s), inv), SCALE),
    # here the scale is drawn too
    "imaged": (
        lambda q, s, inv: cdp.Imaged(dist.Laplace(q, s), inv),
        SCALE * (1.0 + np.arange(12.0).reshape(2, 6, 1)),
    ),
}


@pytest.mark.parametrize("view", LAWS)
def test_groups_add_up_to_the_whole(view):
    law, scale = LAWS[view]
    q = draws(np.random.default_rng(0))
    found = log_likelihood_by_group(law, q, released=RELEASED, scale=scale, invariant=INVARIANT)
    assert list(found["group"].values) == ["a", "b", "c", "cell 8"]
    with jax.enable_x64(True):
        whole = np.asarray(jax.jit(lambda q, s: law(q, s, INVARIANT).log_prob(RELEASED))(q, scale))
    np.testing.assert_allclose(found.sum("group"), whole, rtol=1e-9)


def conditioned(q, s, inv):
    return cdp.Conditioned(dist.Normal(q, s), inv)


def test_each_group_is_dense_algebra():
    """Conditioned normal noise: G(1/σ²) on a group's own subspace."""
    q = draws(np.random.default_rng(1), np.float32)  # rounded draws are moved back
    found = log_likelihood_by_group(
        conditioned, q,
        released=RELEASED, scale=SCALE, invariant=INVARIANT,
    )  # fmt: skip
    cells = [2, 5, 6]
    K = np.linalg.svd(np.ones((1, 3)))[2][1:].T
    H = K.T @ np.diag(1 / SCALE[cells] ** 2) @ K
    z = (RELEASED - q.astype(np.float64))[..., cells] @ K
    dense = -0.5 * np.einsum("...i,ij,...j", z, H, z) + 0.5 * np.linalg.slogdet(H)[1]
    dense -= np.log(2 * np.pi)
    np.testing.assert_allclose(found.sel(group="c"), dense, atol=1e-4)


def test_loo_runs_on_groups_and_on_cells():
    random = np.random.default_rng(3)
    level = random.normal(5, 0.1, size=(4, 250, 1))
    y = 5 + random.normal(size=30)
    found = log_likelihood_by_group(
        lambda q, s, _: dist.Normal(q, s), np.broadcast_to(level, (4, 250, 30)),
        released=y, scale=1.0, invariant=None,
    )  # fmt: skip
    assert found.dims == ("chain", "draw", "cell")
    np.testing.assert_allclose(found[0, 0], dist.Normal(level[0, 0], 1.0).log_prob(y), rtol=1e-5)
    tree = to_datatree({"q": np.broadcast_to(level, (4, 250, 30))}, log_likelihood=found)
    assert arviz_stats.loo(tree).n_data_points == 30
    q = np.repeat(RELEASED[None, None] - 0 * level, 1, axis=0)
    with jax.enable_x64(True):
        step = np.asarray(INVARIANT.project(np.linspace(-1, 1, 9)))
    grouped = log_likelihood_by_group(
        conditioned, q + (level - 5) * step,
        released=RELEASED, scale=SCALE, invariant=INVARIANT,
    )  # fmt: skip
    tree = to_datatree({"level": level[..., 0]}, log_likelihood=grouped)
    loo = arviz_stats.loo(tree, pointwise=True)
    assert list(loo.elpd_i["group"].values) == ["a", "b", "c", "cell 8"]


def test_what_cannot_be_split_or_does_not_fit():
    q = draws(np.random.default_rng(4))
    law = conditioned
    with pytest.raises(ValueError, match='total "b" is off by 2'):
        log_likelihood_by_group(
            law, q + 2.0 * (np.arange(9) == 4), released=RELEASED, scale=1.0, invariant=INVARIANT
        )
    with pytest.raises(ValueError, match=r"must have shape \(chain, draw, n\)"):
        log_likelihood_by_group(law, q[0], released=RELEASED, scale=1.0, invariant=INVARIANT)
    table = cdp.margins((3, 3), [(0,), (1,)])
    with pytest.raises(cdp.UnsupportedError, match="tie the cells together in 1 unit"):
        log_likelihood_by_group(
            law, np.broadcast_to(RELEASED, (1, 2, 9)), released=RELEASED, scale=1.0, invariant=table
        )
