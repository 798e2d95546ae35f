"""A release read back in a NumPyro model: its law, and a parameter recovered from it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS

import cdp_views as cdp

from .conftest import COUNTS

VIEWS = ["max-entropy", "conditioned", "imaged"]
SPREAD = 40.0


def model(made):
    """Areas around an unknown mean, and what was released of them; as the docstring advises."""
    inv = made.invariant
    mu = numpyro.sample("mu", dist.Normal(500.0, 300.0))
    prior = dist.Normal(mu, SPREAD).expand((inv.n,))
    q = numpyro.sample("q", cdp.Restricted(prior, inv, made.invariants.to_numpy()))
    made.observe("release", q)


@pytest.mark.parametrize("view", VIEWS)
def test_observing_adds_the_density_of_the_release(make, view, precision):
    made = make(view=view)
    q = jnp.asarray(COUNTS + np.array([1.0, -1, 0, 0, 2, 0, 0, -2]))
    with handlers.trace() as trace:
        value = made.observe("release", q)
    site = trace["release"]
    assert site["is_observed"] and value.dtype == precision
    np.testing.assert_allclose(value, made.released, rtol=1e-6)
    seen = site["fn"].log_prob(site["value"])
    with jax.enable_x64(True):
        noise = np.asarray(made.released) - np.asarray(q)
        law = made.view(np.zeros(8)).covariance_matrix
    inverse, d = np.linalg.pinv(np.asarray(law), rcond=1e-10, hermitian=True), 6
    sizes = np.linalg.eigvalsh(np.asarray(law))[2:]
    exact = -0.5 * (noise @ inverse @ noise + np.sum(np.log(sizes)) + d * np.log(2 * np.pi))
    np.testing.assert_allclose(seen, exact, rtol=1e-8 if precision == jnp.float64 else 1e-3)


def test_counts_with_other_totals_are_impossible(make):
    assert make().view(COUNTS + 1.0).log_prob(make().released) == -np.inf


def test_the_density_can_be_traced_and_batched(make):
    made = make()
    q = jnp.asarray(COUNTS, float)
    one = jax.jit(lambda q: made.view(q).log_prob(made.released))(q)
    both = made.view(jnp.stack([q, q])).log_prob(made.released)
    np.testing.assert_allclose(both, [one, one], rtol=1e-6)


def test_float32_says_when_it_would_lose_the_noise():
    inv = cdp.totals(["US"] * 4)
    made = cdp.release(
        [80_000_000] * 4, inv, view="conditioned", noise="normal", epsilon=1, delta=1e-10,
        neighbours=cdp.relocations(inv),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="float32 rounds them in steps of 8"), handlers.trace():
        jax.eval_shape(lambda q: made.observe("release", q), jnp.zeros(4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "x64"), [("max-entropy", True), ("conditioned", False), ("imaged", False)]
)
def test_nuts_recovers_the_mean_from_the_files(view, x64, tmp_path, key, seeded):
    seeded(7)
    truth = np.rint(np.random.default_rng(5).normal(430.0, SPREAD, 12))
    inv = cdp.totals(["a"] * 5 + ["b"] * 7)
    scales = np.linspace(1, 2, 12)
    cdp.release(
        truth, inv, view=view, noise="normal", epsilon=0.2, delta=1e-6, scales=scales,
        neighbours=cdp.relocations(inv),
    ).save(tmp_path / "r.csv")  # fmt: skip
    made = cdp.read_release(tmp_path / "r.csv")
    with jax.enable_x64(True):
        noise = np.asarray(made.view(np.zeros(12)).covariance_matrix)
    # y ~ N(mu, τ² I + Σ), totals and all: the posterior of mu is Normal
    weight = np.linalg.solve(SPREAD**2 * np.eye(12) + noise, np.ones(12))
    precision = weight.sum() + 1 / 300**2
    mean, sd = (weight @ made.released + 500 / 300**2) / precision, precision**-0.5
    with jax.enable_x64(x64):
        mcmc = MCMC(NUTS(model), num_warmup=400, num_samples=1000, progress_bar=False)
        mcmc.run(key, made)
        draws = {name: np.asarray(x, dtype=np.float64) for name, x in mcmc.get_samples().items()}
    # 1000 draws of NUTS are worth at least 200 independent ones here: 5 standard errors
    assert abs(draws["mu"].mean() - mean) < 5 * sd / np.sqrt(200)
    assert 0.75 < draws["mu"].std() / sd < 1.3
    np.testing.assert_allclose(draws["q"][:, :5].sum(1), truth[:5].sum(), rtol=1e-5)


def test_cells_are_called_by_the_column_that_tells_them_apart(make):
    counties, states = list("abcdefgh"), ["x"] * 4 + ["y"] * 4
    made = make(names={"state": states, "county": counties})
    assert made.coords["cell"] == counties
    assert made.coords["state"] == (("cell",), states)
    twice = make(names={"state": states, "county": list("abcdabcd")})
    assert twice.coords["cell"][5] == "y / b"
    alike = make(names={"state": states})
    assert alike.coords["cell"][4:6] == ["y #5", "y #6"]


def test_what_is_observed_has_the_names_of_its_cells(make):
    made = make(noise="discrete-laplace", delta=0.0, names=list("abcdefgh"))
    assert made.observed.coords == made.coords and made.coords["cell"] == list("abcdefgh")
    assert repr(made.observed) == (
        "Observed(8 cells, 2 exact totals, conditioned view of discrete-laplace noise)"
    )
