"""Effects that sum to zero: the model's scales and Gaussian give the max-entropy law exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import cdp_views as cdp
from cdp_views.models import sum_to_zero_effects

BLOCK = np.array([0, 0, 0, 1, 1])
UNIT = np.array([0, 1, 2, 3, 4, 4])
EFFECT = np.array([0.8, -0.5, -0.3, 0.4, -0.4])


def test_the_joint_density_is_that_of_an_analysis_of_variance(joint):
    y = np.array([1.0, 0.2, 0.1, -0.5, -1.4, -1.6])
    found, wanted = [], []
    for scale, sigma, size in ((0.5, 0.3, 1.0), (0.9, 0.5, 0.7)):
        values = {
            "mu": [0.3, -1.0], "scale": scale, "sigma": sigma, "s": [size, 2.0],
            "unit_free": EFFECT / scale,
        }  # fmt: skip
        found.append(joint(sum_to_zero_effects.model, values, y, UNIT, BLOCK, tails="laplace"))
        effect = np.array([size, size, size, 2.0, 2.0]) * EFFECT
        log_p = stats.halfnorm.logpdf(scale) + stats.lognorm.logpdf(sigma, 0.5, scale=np.exp(-1))
        log_p += stats.rayleigh.logpdf([size, 2.0]).sum() + stats.norm.logpdf([0.3, -1.0]).sum()
        # unit variances and sums of zero: independent precisions 1 - 1/n in each block
        free = EFFECT / scale
        log_p -= 0.5 * (2 / 3 * np.sum(free[:3] ** 2) + 1 / 2 * np.sum(free[3:] ** 2))
        mean = np.array([0.3, -1.0])[BLOCK[UNIT]] + effect[UNIT]
        wanted.append(log_p + stats.norm.logpdf(y, mean, sigma).sum())
    np.testing.assert_allclose(found[0] - found[1], wanted[0] - wanted[1], rtol=1e-9)


@pytest.mark.parametrize(("tails", "base"), [("laplace", dist.Laplace), ("student-t", None)])
def test_scales_integrated_out_are_the_shared_max_entropy_law(tails, base):
    """∫ h(s) N_V(x/(λs))/(λs)^d ds = MaxEntropy(base(0, λ), scales="shared"), by quadrature."""
    scale, inv, n = 0.6, cdp.totals([0, 0, 0]), 3
    with jax.enable_x64(True):
        law = dist.StudentT(4.0, np.zeros(n), scale) if base is None else base(np.zeros(n), scale)
        wanted = float(cdp.MaxEntropy(law, inv, scales="shared").log_prob(EFFECT[:3]))
        free = cdp.MaxEntropy(dist.Normal(np.zeros(n), 1.0), inv)

        @jax.jit
        def integral(log_s):
            s = jnp.exp(log_s)
            log_f = sum_to_zero_effects._mixing(tails, 4.0).log_prob(s) + log_s
            log_f += free.log_prob(EFFECT[:3] / (scale * s[:, None])) - 2 * jnp.log(scale * s)
            return jax.nn.logsumexp(log_f) + jnp.log(log_s[1] - log_s[0])

        found = float(integral(jnp.linspace(-6.0, 6.0, 2001)))
    assert abs(found - wanted) < 1e-6


def test_effects_sum_to_zero_and_have_one_variance_in_blocks_of_any_size(key):
    """Where `ZeroSumNormal` has variance 1 - 1/n: a half in a block of two."""
    many = 4000
    with jax.enable_x64(True):
        simulate = jax.vmap(
            lambda k: sum_to_zero_effects.simulate(k, UNIT, BLOCK, tails="normal")[0]
        )
        truth = jax.jit(simulate)(jax.random.split(key, many))
    effect = np.asarray(truth["effect"]) / np.asarray(truth["scale"])[:, None]
    assert effect.shape == (many, 5)
    assert np.max(np.abs([effect[:, b == BLOCK].sum(1) for b in (0, 1)])) < 1e-10
    variance, error = effect.var(axis=0), np.sqrt(2 / many)
    assert np.all(np.abs(variance - 1) < 5 * error)
    assert np.all(np.abs(variance - np.array([2 / 3, 2 / 3, 2 / 3, 1 / 2, 1 / 2])) > 5 * error)


def test_unknown_tails_are_named():
    with pytest.raises(ValueError, match="`tails` must be one of normal, laplace, student-t"):
        sum_to_zero_effects.simulate(jax.random.key(0), UNIT, BLOCK, tails="cauchy")  # pyright: ignore
