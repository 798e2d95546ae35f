"""`Restricted` keeps what exact totals say about the base; `Conditioned` does not."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cdp_views as cdp
from cdp_views._checks import UnsupportedError

INV = cdp.totals([0, 0, 0, 1, 1, 1])
TABLE = np.array([10.0, 20.0, 30.0, 4.0, 5.0, 6.0])
TOTAL = np.array([60.0, 15.0])
BASES = {
    "real": (lambda: dist.Normal(12.0, 5.0), stats.norm(12, 5)),
    "nonnegative": (lambda: dist.Gamma(2.0, 0.1), stats.gamma(2, scale=10)),
}


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("base", "law"), BASES.values(), ids=BASES)
def test_the_base_density_on_the_support(base, law, key):
    prior = cdp.Restricted(base(), INV, TOTAL)
    assert (prior.batch_shape, prior.event_shape) == ((), (6,))
    rows = jnp.asarray(np.stack([TABLE, TABLE + np.eye(6)[0], np.full(6, np.nan)]))
    got = jax.jit(lambda p, x: p.log_prob(x))(prior, rows)
    assert_allclose(got[0], law.logpdf(TABLE).sum(), rtol=1e-12)
    assert np.all(np.isneginf(got[1:]))
    starts = prior.sample(key, (3,))
    assert bool(jnp.all(prior.support(starts))) and np.all(np.isfinite(prior.log_prob(starts)))
    again = pickle.loads(pickle.dumps(prior))
    assert_allclose(again.log_prob(TABLE), got[0])


def test_total_mass_is_the_density_of_the_total():
    """One pair, d = 1: ∫ base along the line = density of the total × √(AAᵀ)."""
    inv = cdp.totals([0, 0])
    prior = cdp.Restricted(dist.Normal(1.0, 2.0), inv, np.array([5.0]))
    z = np.linspace(-30, 30, 4001)[:, None]
    mass = np.trapezoid(np.exp(prior.log_prob(2.5 + inv.embed(z))), z[:, 0])
    assert mass == pytest.approx(np.sqrt(2) * stats.norm(2, np.sqrt(8)).pdf(5.0), rel=1e-9)


def test_batches():
    prior = cdp.Restricted(dist.Normal(np.zeros((2, 1)), 1.0), INV, np.stack([TOTAL] * 3)[:, None])
    assert prior.batch_shape == (3, 2)
    assert prior.sample(jax.random.key(0)).shape == (3, 2, 6)


def test_a_bounded_base_is_refused():
    for base in (dist.Beta(1.0, 1.0), dist.Poisson(3.0)):
        with pytest.raises(UnsupportedError, match="needs a base on the real line or on"):
            cdp.Restricted(base, INV, TOTAL)
    with pytest.raises(ValueError, match="`total` must have one number per total"):
        cdp.Restricted(dist.Normal(0.0, 1.0), INV, np.ones(3))


@pytest.mark.slow
def test_exact_totals_are_evidence_about_the_base(key):
    """50 areas q ~ N(μ, 10), total known: the posterior of μ is N(total/50, 10²/50).

    The conditioned prior divides by the density of the total and so learns (nearly) nothing: the
    negative control.
    """
    rng = np.random.default_rng(3)
    q = rng.normal(21.3, 10, 50)
    q += 21.3 - q.mean()
    released, inv = q + rng.normal(0, 30, 50), cdp.totals([0] * 50)

    def model(restricted):
        mu = numpyro.sample("mu", dist.Normal(0.0, 100.0))
        base = dist.Normal(mu, 10.0).expand([50])
        total = inv.evaluate(q)
        prior = (
            cdp.Restricted(base, inv, total)
            if restricted
            else cdp.Conditioned(base, inv, total=total)
        )
        table = numpyro.sample("table", prior)
        numpyro.sample("released", dist.Normal(table, 30.0).to_event(1), obs=released)

    def posterior(restricted):
        mcmc = numpyro.infer.MCMC(
            numpyro.infer.NUTS(model), num_warmup=400, num_samples=1000, progress_bar=False
        )
        mcmc.run(key, restricted)
        return np.asarray(mcmc.get_samples()["mu"])

    kept, lost = posterior(True), posterior(False)
    sd = 10 / np.sqrt(50)
    assert abs(kept.mean() - 21.3) < 5 * sd / np.sqrt(300) + 0.01
    assert kept.std() == pytest.approx(sd, rel=0.15)
    assert lost.std() > 50
