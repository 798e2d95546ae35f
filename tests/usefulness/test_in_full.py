"""Summaries, decisions, information and the yardstick against independent computations."""

import numpy as np
import numpyro.distributions as dist
import scipy.linalg
import scipy.stats

import cdp_views as cdp
from cdp_views.deviation import LaplaceDeviation, NormalDeviation, SampledDeviation
from cdp_views.usefulness.decisions import wrong_side
from cdp_views.usefulness.information import against_independent
from cdp_views.usefulness.summary import summary

GROUPS = ["a"] * 3 + ["b"] * 2
SCALE = np.array([1.0, 2.0, 2.5, 1.5, 1.5])
TRUTH = np.array([0.0, 4.0, 30.0, 12.0, 700.0])


def covariances(inv):
    """(imaged, conditioned) from dense algebra."""
    A, D = inv.matrix.toarray(), np.diag(SCALE**2)
    P = np.eye(5) - A.T @ np.linalg.solve(A @ A.T, A)
    return P @ D @ P, D - D @ A.T @ np.linalg.solve(A @ D @ A.T, A @ D)


def test_divergence_and_total_correlation_against_dense_algebra():
    inv = cdp.totals(GROUPS)
    base = cdp.Conditioned(dist.Normal(np.zeros(5), SCALE), inv)
    imaged, conditioned = covariances(inv)
    K = scipy.linalg.null_space(inv.matrix.toarray())
    for view, S in ((cdp.Imaged, imaged), (cdp.Conditioned, conditioned)):
        found = against_independent(view(dist.Normal(np.zeros(5), SCALE), inv), base)
        mine, theirs = K.T @ S @ K, K.T @ conditioned @ K
        ratio = np.linalg.solve(theirs, mine)
        kl = 0.5 * (np.trace(ratio) - 3 - np.linalg.slogdet(ratio)[1])
        np.testing.assert_allclose(found["kl"], kl, atol=1e-6)
        every = []
        for i in range(3):
            for j in (3, 4):
                R = np.delete(np.delete(S, [i, j], 0), [i, j], 1)
                every.append(0.5 * (np.log(np.diag(R)).sum() - np.linalg.slogdet(R)[1]))
        np.testing.assert_allclose(found["total_correlation"], np.mean(every), atol=1e-5)
    free = cdp.Conditioned(dist.Normal(np.zeros(5), SCALE), cdp.linear(np.zeros((0, 5))))
    assert against_independent(free, None)["kl"] == 0
    assert np.isnan(against_independent(object(), None)["entropy"])


def test_decisions_against_scipy_and_draws():
    levels = [3.0, 12.0, 100.0]
    normal = NormalDeviation(np.array([0.5, 0, 0, -1, 0]), np.array([1.0, 2, 3, 4, 0]))
    laplace = LaplaceDeviation(np.array([0.5, 0, 0, -1, 0]), np.array([1.0, 2, 3, 4, 0]))
    random = np.random.default_rng(1)
    for law, family, draw in (
        (normal, scipy.stats.norm, random.normal),
        (laplace, scipy.stats.laplace, random.laplace),
    ):
        found = wrong_side(law, TRUTH, levels)
        spread = np.maximum([1.0, 2, 3, 4, 0], 1e-12)
        for k, level in enumerate(levels):
            below = family.cdf((level - TRUTH - law.bias) / spread)
            chance = np.where(level <= TRUTH, below, 1 - below)
            np.testing.assert_allclose(found["wrong_side"][k], chance.mean(), atol=1e-12)
            np.testing.assert_allclose(
                found["misallocated"][k], chance @ TRUTH / TRUTH.sum(), atol=1e-12
            )
        sample = SampledDeviation(law.bias + spread * draw(size=(20_000, 5)))
        drawn = wrong_side(sample, TRUTH, levels)
        for name in ("wrong_side", "misallocated"):
            z = (drawn[name] - found[name]) / np.maximum(drawn[f"{name}_stderr"], 1e-12)
            assert np.abs(z).max() < 5
        moved = wrong_side(sample, TRUTH + 1, levels)["wrong_side"]
        assert abs(moved[1] - found["wrong_side"][1]) > 5 * drawn["wrong_side_stderr"][1] > 0


def test_summary_of_draws_is_that_of_the_law_within_its_errors():
    law = NormalDeviation(np.zeros(5), SCALE)
    exact = summary(law, TRUTH)
    # Dependent cells, as under exact totals: standard errors must know.
    shared = np.random.default_rng(2).normal(size=(4_000, 1))
    drawn = summary(SampledDeviation(shared * SCALE), TRUTH)
    for name in ("mae", "rmse", "sd", "margin90_typical", "margin90_worst"):
        assert exact[f"{name}_stderr"] == 0 < drawn[f"{name}_stderr"]
        assert abs(drawn[name] - exact[name]) < 5 * drawn[f"{name}_stderr"]
    # All cells move together: the error of their mean is that of one, not 1/√5 of it.
    one = np.abs(shared).std() * SCALE.mean() / np.sqrt(4_000)
    np.testing.assert_allclose(drawn["mae_stderr"], one, rtol=1e-3)
    assert exact["queries"].tolist() == [1, 1, 2, 1, 0, 0]
    assert np.isnan(exact["relative_mae"][0]) and exact["bias_by_size"][0] == 0
    np.testing.assert_allclose(exact["relative_mae"][1], np.sqrt(2 / np.pi) * 2 / 4)
    kept = summary(law, TRUTH[2:], kept=np.array([False, False, True, True, True]))
    np.testing.assert_allclose(kept["sd"], SCALE[2:].mean())
