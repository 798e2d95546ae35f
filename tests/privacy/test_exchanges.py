"""Exchanges among many groups: the worst is found from the parts, as from all pairs."""

import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose

import cdp_views as cdp

RNG = np.random.default_rng(4)
GROUPS = np.repeat(np.arange(30), 4)
SCALE = RNG.uniform(1, 2, 120)


@pytest.mark.parametrize("base", [dist.Normal, dist.Laplace])
@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.Imaged])
def test_the_parts_find_the_worst_pair(view, base):
    inv = cdp.totals(GROUPS)
    law, nb = view(base(np.zeros(120), SCALE), inv), cdp.exchanges(inv)
    every = law.loss(nb.shortlist(law.exposure))
    found = cdp.privacy_loss(law, nb)
    if base is dist.Normal:
        assert_allclose(found.epsilon(1e-6), every.epsilon(1e-6).max(), rtol=1e-12)
        assert len(nb.worst(law.exposure, law.loss).indptr) == 2
    else:  # of 435 profiles any may be worst at some ε; pure ε tells them apart at once
        assert_allclose(found.pure_epsilon, every.sup.max(), rtol=1e-12)


def test_ten_thousand_groups():
    """All pairs would be fifty million; the worst is the sum of the two worst relocations."""
    inv = cdp.totals(np.repeat(np.arange(10_000), 3))
    scale = np.random.default_rng(0).uniform(1, 2, 30_000)
    view = cdp.Conditioned(dist.Normal(np.zeros(30_000), scale), inv)
    mu = np.sort(np.sqrt(np.sort(1 / scale.reshape(-1, 3) ** 2)[:, 1:].sum(1)))
    assert_allclose(cdp.privacy_loss(view, cdp.exchanges(inv)).mu, np.hypot(*mu[-2:]), rtol=1e-12)
