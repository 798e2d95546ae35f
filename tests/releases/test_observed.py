"""A released table in a model: joint densities against formulas, for every form of the latent."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy.stats import norm

import cdp_views as cdp

Y = np.array([12.0, 55, 33, 8, 92, 20])
TRUTH = np.array([14.0, 50, 36, 10, 88, 22])
MOVED = np.array([2.0, -5, 3, 2, -4, 2])


@pytest.fixture(scope="module")
def inv():
    return cdp.totals([0, 0, 0, 1, 1, 1])


def joint(model, values):
    with jax.enable_x64(True):
        values = {name: jnp.asarray(x) for name, x in values.items()}
        return float(log_density(model, (), {}, values)[0])


def differs_by_the_formula(seen, prior, formula, noise_site):
    """log joint(q₁) − log joint(q₂), where every normaliser cancels."""
    found, wanted = [], []
    for q in (TRUTH, Y - 0.5 * MOVED):
        values = {"q_noise": Y - q} if noise_site else {"q": q}
        found.append(joint(lambda: seen.latent("q", prior), values))
        wanted.append(formula(q))
    np.testing.assert_allclose(found[0] - found[1], wanted[0] - wanted[1], rtol=1e-9)


def log_laplace(x, scale):
    return -np.sum(np.abs(x)) / scale


@pytest.mark.parametrize("noise", ["laplace", "discrete-laplace"])
def test_prior_times_noise_on_the_real_line(inv, noise):
    seen = cdp.Observed(cdp.Mechanism("conditioned", noise, 3.0, inv), Y)
    differs_by_the_formula(
        seen, dist.Normal(30.0, 20.0),
        lambda q: log_laplace(Y - q, 3.0) + norm.logpdf(q, 30, 20).sum(), True,
    )  # fmt: skip


def test_prior_times_noise_on_the_positive_line(inv):
    seen = cdp.Observed(cdp.Mechanism("conditioned", "laplace", 3.0, inv), Y)
    differs_by_the_formula(
        seen, dist.Exponential(0.1), lambda q: log_laplace(Y - q, 3.0) - 0.1 * q.sum(), False
    )


def test_independent_noise_beside_exact_totals(inv):
    totals = np.asarray(inv.matrix @ TRUTH)
    y = Y + np.array([1.0, 2, -1, 0, 4, 1])
    seen = cdp.Observed(cdp.Mechanism("independent", "normal", 3.0, inv), y, totals)
    found, wanted = [], []
    for q in (TRUTH, TRUTH + np.array([1.0, -1, 0, 2, 0, -2])):
        found.append(joint(lambda: seen.latent("q", dist.Normal(30.0, 20.0)), {"q_noise": y - q}))
        wanted.append(norm.logpdf(y - q, 0, 3).sum() + norm.logpdf(q, 30, 20).sum())
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(inv.matrix @ seen.start, totals, rtol=1e-14)
    outside = joint(lambda: seen.latent("q", dist.Normal(30.0, 20.0)), {"q_noise": y - TRUTH + 1})
    assert outside == -np.inf


def test_noise_without_any_exact_total():
    free = cdp.linear(np.zeros((1, 6)))
    seen = cdp.Observed(cdp.Mechanism("independent", "discrete-normal", 2.0, free), Y)
    found = joint(lambda: seen.latent("q", dist.Normal(30.0, 20.0)), {"q_noise": Y - TRUTH})
    wanted = norm.logpdf(Y - TRUTH, 0, 2).sum() + norm.logpdf(TRUTH, 30, 20).sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_second_release_of_the_same_table_and_an_unknown_scale(inv):
    first = cdp.Observed(cdp.Mechanism("imaged", "normal", 3.0, inv), Y)
    second = cdp.Observed(cdp.Mechanism("max-entropy", "normal", 1.0, inv), Y + MOVED)

    def model():
        scale = numpyro.sample("scale", dist.HalfNormal(5.0))
        q = first.latent("q", dist.Normal(30.0, 20.0))
        second.observe("again", q, scale=scale)

    with jax.enable_x64(True):
        laws = [
            cdp.Imaged(dist.Normal(TRUTH, 3.0), inv),
            cdp.MaxEntropy(dist.Normal(TRUTH, 2.5), inv),
        ]
        wanted = sum(float(law.log_prob(y)) for law, y in zip(laws, (Y, Y + MOVED), strict=True))
        wanted += norm.logpdf(TRUTH, 30, 20).sum() + float(dist.HalfNormal(5.0).log_prob(2.5))
    found = joint(model, {"q_noise": Y - TRUTH, "scale": 2.5})
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("prior", [dist.Normal(30.0, 20.0), dist.Exponential(0.1)])
def test_a_scale_that_is_a_parameter_of_the_mechanism(inv, prior, key, precision):
    """It is traced there, which nothing that looks at numbers may stumble over."""

    def model():
        scale = numpyro.sample("scale", dist.HalfNormal(5.0))
        cdp.Observed(cdp.Mechanism("imaged", "normal", scale, inv), Y).latent("q", prior)

    found = numpyro.infer.util.initialize_model(key, model)
    assert np.isfinite(jax.jit(found.potential_fn)(found.param_info.z))


def test_the_chain_starts_near_the_release(inv, key):
    seen = cdp.Observed(cdp.Mechanism("conditioned", "normal", 2.0, inv), 1000 * Y)
    with jax.enable_x64(True):
        model = lambda: seen.latent("q", dist.LogNormal(10.0, 2.0))  # noqa: E731
        start = numpyro.infer.util.initialize_model(key, model).param_info.z
        q = numpyro.infer.util.constrain_fn(model, (), {}, start)["q"]
    assert np.max(np.abs(np.asarray(q) - 1000 * Y)) < 2 * 2 * np.sqrt(6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda inv: cdp.Mechanism("projected", "normal", 1.0, inv), "`view` must be one of"),
        (lambda inv: cdp.Mechanism("imaged", "cauchy", 1.0, inv), "`noise` must be one of"),
        (lambda inv: cdp.Mechanism("imaged", "normal", [1.0, 2.0], inv), r"shape \(6,\), one per"),
        (lambda inv: cdp.Mechanism("imaged", "normal", -1.0, inv), "`scale` must be positive"),
        (
            lambda inv: cdp.Observed(cdp.Mechanism("imaged", "normal", 1.0, inv), Y[:4]),
            r"`released` must have shape \(6,\)",
        ),
        (
            lambda inv: cdp.Observed(cdp.Mechanism("imaged", "normal", 1.0, inv), Y, [100.0, 121]),
            'total "1" sums to 120, stated as 121. Noise that keeps no total',
        ),
        (
            lambda inv: cdp.Observed(cdp.Mechanism("independent", "normal", 1.0, inv), Y),
            "`totals` must be given with independent noise",
        ),
    ],
)
def test_errors_teach(inv, make, message):
    with pytest.raises(ValueError, match=message):
        make(inv)
