"""What offices do today: totals kept, whole numbers where promised, bias reported."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views.study.baselines import baseline, raked, remainder, rounded
from cdp_views.study.mechanisms import VIEWS

LABELS = np.array([0, 1, 0, 1, 0, 2])
TOTAL = np.array([9.0, 4, 7])
NOISY = np.random.default_rng(3).normal(2.0, 4.0, size=(200, 6))


def sums(x):
    return np.stack([x[:, g == LABELS].sum(axis=1) for g in range(3)], axis=1)


def closest(y, total):
    """The nearest point of the simplex by sorting (Held, Wolfe and Crowder 1974)."""
    u = np.sort(y)[::-1]
    tau = (np.cumsum(u) - total) / np.arange(1, y.size + 1)
    return np.maximum(y - tau[np.flatnonzero(u > tau)[-1]], 0)


@pytest.mark.parametrize("adjust", [raked, remainder, rounded])
def test_totals_are_kept(adjust):
    with jax.enable_x64(True):
        found = adjust(NOISY, TOTAL, LABELS)
    np.testing.assert_allclose(sums(found), np.tile(TOTAL, (200, 1)), atol=1e-9)
    assert np.abs(sums(NOISY) - TOTAL).max() > 1


def test_raked_keeps_proportions_and_remainder_all_but_the_last_cell():
    found = raked(NOISY, TOTAL, LABELS)
    above = np.maximum(NOISY, 0)
    ok = above[:, [0, 2]].min(axis=1) > 0.1
    np.testing.assert_allclose(found[ok, 0] / found[ok, 2], above[ok, 0] / above[ok, 2])
    np.testing.assert_array_equal(remainder(NOISY, TOTAL, LABELS)[:, :3], NOISY[:, :3])
    empty = raked(np.array([[-1.0, 0.0, -2.0]]), np.array([6.0]), np.zeros(3, dtype=int))
    np.testing.assert_array_equal(empty, [[2.0, 2.0, 2.0]])


def test_rounded_is_the_nearest_table_rounded_by_largest_remainders():
    with jax.enable_x64(True):
        found = rounded(NOISY, TOTAL, LABELS)
    assert (found >= 0).all() and (found == np.rint(found)).all()
    np.testing.assert_array_equal(sums(found), np.tile(TOTAL, (200, 1)))
    for y, z in zip(NOISY[:60], found, strict=False):
        for g, total in enumerate(TOTAL):
            near = closest(y[g == LABELS], total)
            rest = z[g == LABELS] - near
            assert np.abs(rest).max() < 1
            # Whoever was rounded up had at least the remainder of whoever was rounded down.
            up, down = near[rest > 1e-9] % 1, near[rest < -1e-9] % 1
            assert not up.size or not down.size or up.min() >= down.max() - 1e-9


def test_their_bias_is_reported_and_their_privacy_is_a_bound():
    frame = cdp.datasets.midwest()
    table = {"source": frame[frame["state"] == "WI"], "count": "popasian", "public": True}
    tree = cdp.Study(
        {"wisconsin": table},
        {"all": ()},
        views=("conditioned", "raked", "remainder", "rounded"),
        epsilon=0.05,
        delta=1e-6,
        draws=400,
    ).run()
    points = tree["points"].to_dataset()
    assert list(points["kind"].values) == ["exact", "bound", "bound", "bound"]
    np.testing.assert_allclose(points["scale"], points["scale"][1], rtol=0.02)
    data = tree["workloads"].to_dataset().isel(workload=0, repetition=0)
    small = data.sel(size="10-99")
    bias, error = small["bias_by_size"].values, small["bias_by_size_stderr"].values
    assert bias[0] == 0 and error[0] == 0
    # What keeps cells from being negative pushes small ones up.
    assert bias[1] > 5 * error[1] and bias[3] > 5 * error[3]
    # The remainder is unbiased; its last cell bears the noise of all 71 others.
    assert bias[2] == 0 == error[2]
    assert list(data["error_kind"].values) == ["exact", "estimate"] * 2
    ratio = float(data["margin90_worst"][2] / data["margin90_typical"][2])
    assert ratio == pytest.approx(np.sqrt(71), rel=0.1)


def test_the_law_of_the_remainder_is_that_of_its_draws():
    inv = cdp.totals(LABELS)
    scale = np.array([1.0, 2, 3, 1, 1, 4])
    law = baseline("remainder", VIEWS["unconstrained"](dist.Normal(np.zeros(6), scale), inv), inv)
    with jax.enable_x64(True):
        x = law.sample_noise(jax.random.key(0), (20_000,))
    variance = scale**2
    expected = variance.copy()
    expected[[3, 4, 5]] = variance[1], variance[0] + variance[2], 0
    np.testing.assert_allclose(law.variance, expected)
    size = np.sqrt(np.outer(law.variance, law.variance) / 20_000)
    covariance = law.covariance_product(np.eye(6))
    assert (np.abs(x.T @ x / 20_000 - covariance) <= 10 * size).all()
    assert np.abs(np.diag(variance) - covariance).max() > 10 * size.max()
    W = sparse.csr_array(np.array([[0.0, 1, 0, 2, 0, 1]]))
    # cells 1 and 3 move against each other: 1·x − 2·x
    np.testing.assert_allclose(law.deviation(W).sd, [2.0])


def test_what_they_need_is_said():
    table = {"t": {"source": cdp.datasets.lafferty_blocks(), "count": "count"}}
    given = {"views": ("rounded", "imaged"), "epsilon": 1.0, "delta": 1e-6}
    weights = {"source": table["t"]["source"].assign(w=1.0 + np.arange(13) % 2), "count": "count"}
    found = cdp.Study({"t": weights}, {"w": {"within": "state", "weights": "w"}}, **given).run()
    assert '"rounded" needs plain totals' in found["skipped"]["reason"].values[0]
    halves = table["t"]["source"].assign(count=lambda t: t["count"] + np.eye(13)[0] / 2)
    found = cdp.Study(
        {"t": {"source": halves, "count": "count"}}, {"state": "state"}, **given
    ).run()
    assert "needs totals that are whole numbers" in found["skipped"]["reason"].values[0]
