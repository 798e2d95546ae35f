"""Audits: planted faults are found, honest mechanisms are left in peace, bad input is named."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

ACCUSED, CLEAR = "inconsistent with the claim", "no contradiction"
INV = cdp.totals(["a"] * 3)
NB = cdp.relocations(INV)
V = np.array([1.0, -1.0, 0.0])
DRAWS = 20_000


def generator(key):
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


def normal_sampler(scale):
    """Conditioned Normal noise on one total, in NumPy: μ = √2/scale for one record."""

    def sampler(key, loc, draws):
        x = scale * generator(key).normal(size=(draws, len(loc)))
        return loc + x - x.mean(axis=1, keepdims=True)

    return sampler


def laplace_sampler(scale):
    """Conditioned Laplace noise on one total, in NumPy: pure ε = 2/scale for one record."""

    def sampler(key, loc, draws):
        rng, n = generator(key), len(loc)
        size = rng.gamma(2 * n - 1, scale / 2, (draws, 1))
        parts = rng.dirichlet(np.ones(n), (2, draws))
        return loc + size * (parts[0] - parts[1])

    return sampler


def max_entropy_laplace(infeasible):
    """Max-entropy Laplace noise for n = 3, λ = 1, with a wrong way out for infeasible scales."""

    def sampler(key, loc, draws):
        rng = generator(key)
        size = 4 * draws if infeasible == "dropped" else draws
        sigma = rng.rayleigh(size=(size, 3))
        held = 2 * sigma.max(axis=1) < sigma.sum(axis=1)
        if infeasible == "dropped":
            sigma = sigma[held][:draws]
            held = np.ones(draws, bool)
        # three numbers of sum 0 and given variances: covariances by the cosine rule
        s2 = sigma**2
        cov = np.empty((draws, 3, 3))
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            cov[:, i, i] = s2[:, i]
            cov[:, i, j] = cov[:, j, i] = 0.5 * (s2[:, k] - s2[:, i] - s2[:, j])
        if infeasible == "coupled":
            shared = sigma[np.arange(draws), rng.integers(3, size=draws)] ** 2
            cov = np.where(
                held[:, None, None], cov, shared[:, None, None] * (1.5 * np.eye(3) - 0.5)
            )
        if infeasible == "independent":
            cov = np.where(held[:, None, None], cov, s2[:, :, None] * np.eye(3))
        values, vectors = np.linalg.eigh(cov)
        root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
        x = np.einsum("rij,rj->ri", root, rng.normal(size=(draws, 3)))
        exact = held[:, None] | (infeasible != "independent")
        return loc + x - np.where(exact, x.mean(axis=1, keepdims=True), 0)

    return sampler


class TestScale:
    """Noise 10 % too small."""

    def test_normal(self, key):
        claim = np.sqrt(2) / 50
        honest = cdp.audit(normal_sampler(50.0), NB, key=key, mu=claim, draws=DRAWS, invariant=INV)
        faulty = cdp.audit(normal_sampler(45.0), NB, key=key, mu=claim, draws=DRAWS, invariant=INV)
        assert honest.verdict == CLEAR and faulty.verdict == ACCUSED
        assert 0.85 * claim < honest.mu <= claim
        assert claim < faulty.mu <= claim / 0.9
        assert faulty.steps > 50 and faulty.p_value < 1e-9
        assert "cell 0" in str(faulty.worst)

    def test_laplace(self, key):
        audits = [
            cdp.audit(laplace_sampler(s), NB, key=key, epsilon=0.2, delta=0.0, difference=V)
            for s in (10.0, 9.0)
        ]
        assert [a.verdict for a in audits] == [CLEAR, ACCUSED]
        assert audits[0].epsilon <= 0.2 < audits[1].epsilon <= 0.2 / 0.9

    def test_a_view_against_its_own_statement(self, key):
        honest = cdp.Conditioned(dist.Normal(jnp.zeros(3), 10.0), INV)
        small = cdp.Conditioned(dist.Normal(jnp.zeros(3), 9.0), INV)
        found = cdp.audit(honest, NB, key=key, draws=DRAWS)
        assert found.verdict == CLEAR and found.broken_totals == 0
        assert found.claimed_mu == pytest.approx(np.sqrt(2) / 10)
        assert found.epsilon <= found.claimed_epsilon
        faulty = SimpleNamespace(
            sample=small.sample,
            **{k: getattr(honest, k) for k in ("log_prob", "loss", "exposure", "support", "loc")},
            invariant=INV,
        )
        assert cdp.audit(faulty, NB, key=key, draws=DRAWS).verdict == ACCUSED


class TestAccounting:
    """A claim for all cells computed from one cell's marginal."""

    def test_normal(self, key):
        # one cell of the max-entropy view has sd σ and so μ = 1/σ; the release has √(4/3)/σ
        sampler = normal_sampler(10.0 * np.sqrt(1.5))
        found = cdp.audit(sampler, NB, key=key, mu=0.1, draws=DRAWS)
        assert found.verdict == ACCUSED
        assert 0.1 < found.mu <= np.sqrt(4 / 3) / 10
        one = cdp.audit(sampler, NB, key=key, mu=0.1, draws=DRAWS, query=[[1, 0, 0]])
        assert one.verdict == CLEAR  # of one cell it is right

    def test_laplace(self, key):
        found = cdp.audit(laplace_sampler(10.0), NB, key=key, epsilon=0.1, delta=0.0, draws=DRAWS)
        assert found.verdict == ACCUSED


class TestCoupling:
    """Infeasible scales treated wrongly at n = 3, where 40 % are."""

    @pytest.mark.parametrize("infeasible", ["dropped", "clipped"])
    def test_marginals(self, key, infeasible):
        sampler = max_entropy_laplace(infeasible)
        found = cdp.audit(
            sampler,
            NB,
            key=key,
            invariant=INV,
            marginals=dist.Laplace(jnp.zeros(3), 1.0),
            draws=DRAWS,
        )
        assert found.verdict == ACCUSED and found.marginal_p_value < 1e-6
        assert found.broken_totals == 0

    def test_totals(self, key):
        found = cdp.audit(
            max_entropy_laplace("independent"), NB, key=key, invariant=INV, draws=2000
        )
        assert found.verdict == ACCUSED
        assert found.broken_totals == pytest.approx(4000 * 0.3954, abs=5 * np.sqrt(4000 * 0.24))
        assert "total" in found.findings[0]

    def test_done_right(self, key):
        found = cdp.audit(
            max_entropy_laplace("coupled"),
            NB,
            key=key,
            invariant=INV,
            draws=DRAWS,
            marginals=dist.Laplace(jnp.zeros(3), 1.0),
        )
        assert found.verdict == CLEAR


def test_nothing_claimed_is_not_called_clear(key):
    found = cdp.audit(normal_sampler(2.0), NB, key=key, draws=2000)
    assert found.verdict == "nothing claimed" and found.p_value is None
    assert "nothing" in str(found)


def test_a_sampler_at_large_counts_in_whole_numbers(key):
    loc = np.array([10**8, 3, 7])

    def sampler(key, loc, draws):  # integers: totals must hold exactly
        x = np.rint(5 * generator(key).normal(size=(draws, 3)))
        x[:, 2] = -x[:, 0] - x[:, 1]
        return (loc + x).astype(np.int64)

    found = cdp.audit(sampler, NB, key=key, loc=loc, invariant=INV, mu=10.0, draws=2000)
    assert found.verdict == CLEAR and found.broken_totals == 0

    def leaky(key, loc, draws):
        y = sampler(key, loc, draws)
        y[0, 0] += 1
        return y

    found = cdp.audit(leaky, NB, key=key, loc=loc, invariant=INV, mu=10.0, draws=2000)
    assert found.broken_totals == 2


def test_many_cells_are_watched_through_sums(key):
    nb = cdp.differences(np.eye(1, 200) - np.eye(1, 200, 1))
    claim = np.sqrt(2) / 10
    assert cdp.audit(normal_sampler(8.0), nb, key=key, mu=claim, draws=4000).verdict == ACCUSED
    assert cdp.audit(normal_sampler(10.0), nb, key=key, mu=claim, draws=4000).verdict == CLEAR


def test_several_thresholds_pay_for_each_other(key):
    one, four = (
        cdp.audit(normal_sampler(5.0), NB, key=key, mu=0.2, draws=4000, thresholds=t)
        for t in (1, 4)
    )
    assert one.verdict == four.verdict == ACCUSED
    assert four.mu < one.mu


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"draws": 10}, "`draws`"),
        ({"level": 1.0}, "`level`"),
        ({"steps": 0}, "`steps`"),
        ({"epsilon": 1.0}, "two claims"),
        ({"loc": np.zeros(2)}, "`loc`"),
        ({"difference": [0.0, 0, 0]}, "`difference`"),
        ({"invariant": cdp.totals(["a"] * 4)}, "`invariant`"),
        ({"delta": -1.0}, "`delta`"),
        ({"query": [[1.0, 2.0]]}, "`query`"),
    ],
)
def test_bad_input_is_named(key, changes, words):
    arguments = {"key": key, "mu": 0.5, "draws": 2000} | changes
    with pytest.raises(ValueError, match=words):
        cdp.audit(normal_sampler(2.0), NB, **arguments)


def test_other_bad_input(key):
    with pytest.raises(TypeError, match="`mechanism`"):
        cdp.audit(3.0, NB, key=key)
    with pytest.raises(TypeError, match="`neighbours`"):
        cdp.audit(normal_sampler(1.0), np.eye(3), key=key)
    with pytest.raises(ValueError, match="shape"):
        cdp.audit(lambda key, loc, draws: np.zeros((draws, 2)), NB, key=key, mu=1.0)
    with pytest.raises(ValueError, match="finite"):
        cdp.audit(lambda key, loc, draws: np.full((draws, 3), np.nan), NB, key=key, mu=1.0)
    view = cdp.Conditioned(dist.Normal(jnp.zeros(3), 10.0), INV)
    with pytest.raises(ValueError, match="changes a published total"):
        cdp.audit(view, NB, key=key, draws=2000, difference=[1.0, 0, 0])


@pytest.mark.slow
def test_honest_mechanisms_are_accused_no_more_often_than_the_level_says():
    runs, level = 30, 0.9
    claims = [
        (normal_sampler(10.0), {"mu": np.sqrt(2) / 10}),
        (laplace_sampler(10.0), {"epsilon": 0.2, "delta": 0.0}),
    ]
    for sampler, claim in claims:
        accused = [
            cdp.audit(
                sampler, NB, key=jax.random.key(i), draws=2000, level=level, difference=V, **claim
            ).verdict
            == ACCUSED
            for i in range(runs)
        ]
        # 30 tries at 0.1: more than 10 happen with chance 9e-5
        assert sum(accused) <= 10


@pytest.mark.slow
def test_default_draws_find_ten_percent_nearly_always():
    for sampler, claim in [
        (normal_sampler(9.0), {"mu": np.sqrt(2) / 10}),
        (laplace_sampler(9.0), {"epsilon": 0.2, "delta": 0.0}),
    ]:
        found = [
            cdp.audit(sampler, NB, key=jax.random.key(i), difference=V, **claim).verdict
            for i in range(12)
        ]
        assert found.count(ACCUSED) >= 11
