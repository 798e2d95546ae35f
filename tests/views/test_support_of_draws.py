"""Own draws lie on their support, where all cells of a group may be small by chance."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

INVARIANTS = {
    "groups of three": cdp.totals([0, 0, 0, 1, 1, 1]),
    "two and five": cdp.totals([0, 0, 1, 1, 1, 1, 1]),
    "margins": cdp.margins((3, 4), [0, 1]),
    "overlapping": cdp.linear([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]),
}


@pytest.mark.parametrize("inv", INVARIANTS.values(), ids=INVARIANTS)
@pytest.mark.parametrize("view", [cdp.MaxEntropy, cdp.Conditioned, cdp.Imaged])
def test_equal_scales_around_zero(view, inv, key, precision):
    """With loc = 0 nothing hides the rounding of a draw whose cells happen to be nearly equal."""
    law = view(dist.Normal(jnp.zeros(inv.n), 1.0), inv)
    draws = law.sample(key, (20_000,))
    assert np.all(law.support(draws))
    assert not np.any(law.support(draws + 1e-3 * np.eye(inv.n)[0]))
