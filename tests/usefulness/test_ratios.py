"""Ratios: linear over an exact total, else first order and draws, against NumPy."""

import jax
import numpy as np
import numpyro.distributions as dist
from scipy import sparse

import cdp_views as cdp
from cdp_views.usefulness.law import error_law
from cdp_views.usefulness.ratios import drawn_ratios, ratios

COUNTS = np.array([4.0, 30.0, 12.0, 700.0, 50.0, 0.0, 0.0])
GROUPS = ["a"] * 3 + ["b"] * 2 + ["c"] * 2
ABOVE = sparse.csr_array(np.eye(7))
BELOW = sparse.csr_array(np.equal.outer(GROUPS, GROUPS).astype(float))


def test_over_an_exact_total_a_ratio_is_linear():
    inv = cdp.totals(GROUPS)
    found = ratios(ABOVE, BELOW, COUNTS, inv)
    assert found.exact.all() and found.kept.tolist() == [True] * 5 + [False] * 2
    np.testing.assert_allclose(found.truth, [4 / 46, 30 / 46, 12 / 46, 700 / 750, 50 / 750])
    law = error_law(cdp.Conditioned(dist.Normal(COUNTS, 2.0), inv), found.linear, None, 0)
    np.testing.assert_allclose(law.sd, 2 * np.sqrt([2 / 3, 2 / 3, 2 / 3, 0.5, 0.5]) / found.total)
    assert law.kind == "exact"


def test_over_a_noisy_total_by_draws_and_to_first_order():
    found = ratios(ABOVE, BELOW, COUNTS, None)
    assert not found.exact.any()
    free = cdp.Conditioned(dist.Normal(COUNTS, 1.0), cdp.linear(np.zeros((0, 7))))
    drawn = drawn_ratios(free, found, jax.random.key(0), 8_000)
    noise = np.random.default_rng(1).normal(size=(400_000, 5))
    top, low = COUNTS[:5] + noise, (COUNTS[:5] + noise) @ BELOW.toarray()[:5, :5]
    margin = np.quantile(np.abs(top / low - found.truth), 0.9, axis=0)
    error = drawn.margin_stderr(0.9)
    assert (np.abs(drawn.margin(0.9) - margin) < 5 * error + 0.002 * margin).all()
    # Negative control: the numerator's own noise alone is not within.
    alone = 1.6449 / found.total
    assert (np.abs(drawn.margin(0.9) - alone) > 5 * error).any()
    law = error_law(free, found.linear, None, 0)
    np.testing.assert_allclose(law.sd, (top / low).std(axis=0), rtol=0.02)
