"""`NonnegativeTotals` as the support of a latent table, under NUTS, SVI and `Predictive`.

Gamma cells of one rate, given their sum c, are c · Dirichlet(concentrations): the exact posterior.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, autoguide

import cdp_views as cdp

GROUPS = np.array([0, 0, 0, 1, 1, 1])
TOTAL = np.array([60.0, 15.0])
SHAPE = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 4.0])  # small: the volume factor then matters
INV = cdp.totals(GROUPS)


def dirichlet(shape):
    """Mean and standard deviation of every cell."""
    whole = np.bincount(GROUPS, shape)[GROUPS]
    mean = TOTAL[GROUPS] * shape / whole
    return mean, mean * np.sqrt((whole - shape) / shape / (whole + 1))


def restricted(times=1.0):
    """Gamma cells whose totals are known."""
    base = dist.Gamma(times * jnp.asarray(SHAPE), 1.0)
    q = numpyro.sample("q", cdp.Restricted(base, INV, TOTAL))
    numpyro.sample("seen", dist.Normal(q, 1.0).to_event(1))


def improper():
    """The same density on the bare support, as a person writes it who has another prior."""
    space = cdp.NonnegativeTotals(INV, TOTAL)
    q = numpyro.sample("q", dist.ImproperUniform(space, (), (6,)))
    numpyro.factor("gamma", jnp.sum((SHAPE - 1) * jnp.log(q)))


def blind(model):
    """Without the data: the latent alone."""
    return numpyro.handlers.block(model, hide=["seen"])


@pytest.mark.slow
@pytest.mark.parametrize("model", [restricted, improper])
def test_nuts_finds_the_dirichlet(model, precision, key):
    mcmc = MCMC(NUTS(blind(model)), num_warmup=200, num_samples=1500, progress_bar=False)
    mcmc.run(key)
    q = np.asarray(mcmc.get_samples()["q"])
    assert q.dtype == precision and bool(jnp.all(cdp.NonnegativeTotals(INV, TOTAL)(q)))
    mean, sd = dirichlet(SHAPE)
    wrong, _ = dirichlet(SHAPE - 0.5)  # the negative control: half of Σ log shares forgotten
    far = 5 * sd / np.sqrt(500)  # 5 standard errors at 500 effective draws
    assert np.all(np.abs(q.mean(0) - mean) < far)
    assert np.any(np.abs(q.mean(0) - wrong) > far)
    assert_allclose(q.std(0), sd, rtol=0.2)
    if model is restricted and precision == jnp.float64:
        again = Predictive(model, mcmc.get_samples())(key)["seen"]
        assert again.shape == (1500, 6)
        assert_allclose(again.std(0), np.sqrt(sd**2 + 1), rtol=0.2)


@pytest.mark.slow
def test_svi_with_an_autoguide(key):
    with jax.enable_x64(True):
        model = blind(restricted)
        guide = autoguide.AutoMultivariateNormal(model)
        svi = SVI(model, guide, numpyro.optim.Adam(0.02), Trace_ELBO(8))
        fit = svi.run(key, 2000, 4.0, progress_bar=False)
        drawn = guide.sample_posterior(key, fit.params, 4.0, sample_shape=(2000,))
        q = np.asarray(drawn["q"])
        assert bool(jnp.all(cdp.NonnegativeTotals(INV, TOTAL)(q)))
    # a Gaussian of log shares: close to the Dirichlet, not equal
    mean, sd = dirichlet(4 * SHAPE)
    assert_allclose(q.mean(0), mean, atol=0.25 * sd.max())
    assert_allclose(q.std(0), sd, rtol=0.2)


def test_predictive_of_the_prior_keeps_totals_and_signs(precision, key):
    """Starting points of the prior (not draws of a law): what tracing and initialising need."""
    drawn = Predictive(restricted, num_samples=5)(key)
    assert drawn["q"].shape == drawn["seen"].shape == (5, 6) and drawn["q"].dtype == precision
    assert bool(jnp.all(cdp.NonnegativeTotals(INV, TOTAL)(drawn["q"])))
