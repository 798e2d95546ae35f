"""Chances of imbalance: convolution, high-precision integrals and simulation as oracles."""

import jax
import mpmath as mp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.integrate import dblquad
from scipy.special import expn

from cdp_views.maxent import unbalanced_chance


def by_convolution(n):
    """n E exp(−S²/2) with the density of S convolved on a grid (Richardson in the step)."""

    def once(step):
        s = np.arange(0, 12, step)
        one = s * np.exp(-(s**2) / 2)
        density = one
        for _ in range(n - 2):
            density = np.convolve(density, one)[: len(s)] * step
        return n * np.sum(density * np.exp(-(s**2) / 2)) * step

    coarse, fine, finest = once(0.04), once(0.02), once(0.01)
    first, second = (4 * fine - coarse) / 3, (4 * finest - fine) / 3
    return (16 * second - first) / 15


@pytest.mark.parametrize("n", range(2, 11))
def test_rayleigh_against_convolution(n):
    want = by_convolution(n)
    assert unbalanced_chance(np.ones(n)).probability == pytest.approx(want, rel=1e-7)
    assert unbalanced_chance(np.full(n, 1e9)).probability == pytest.approx(want, rel=1e-7)


def test_rayleigh_of_three_cells_is_known():
    want = 1 - np.pi / (3 * np.sqrt(3))
    assert unbalanced_chance(np.ones(3)).probability == pytest.approx(want, abs=1e-15)


def test_a_tiny_chance_keeps_its_digits():
    with mp.workdps(60):

        def transform(z):  # E e^{izs}, the oscillating form
            z = mp.mpf(z)
            return 1 + 1j * z * mp.sqrt(mp.pi / 2) * mp.exp(-(z**2) / 2) * (
                1 + 1j * mp.erfi(z / mp.sqrt(2))
            )

        def integrand(z):
            return mp.re(transform(z) ** 19) * mp.exp(-(mp.mpf(z) ** 2) / 2)

        want = 20 * 2 * mp.quad(integrand, mp.linspace(0, 14, 57)) / mp.sqrt(2 * mp.pi)
    assert unbalanced_chance(np.ones(20)).probability == pytest.approx(float(want), rel=1e-11)


def test_unequal_sizes_against_quadrature():
    c = np.array([1.0, 2.5, 0.7])
    want = 0.0
    for i in range(3):
        a, b = np.delete(c, i) / c[i]
        want += dblquad(
            lambda x, y, a=a, b=b: (
                x * y * np.exp(-(x**2 + y**2) / 2) * np.exp(-((a * x + b * y) ** 2) / 2)
            ), 0, 12, 0, 12, epsabs=1e-12,
        )[0]  # fmt: skip
    assert unbalanced_chance(c).probability == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 20, 100])
def test_exponential_entries_are_the_papers_number_exactly(n):
    chance = unbalanced_chance(np.ones(n), "exponential")
    assert chance.probability == pytest.approx(n * 2.0 ** (1 - n), rel=1e-12)
    assert (chance.kind, chance.stderr) == ("exact", None)


@pytest.mark.parametrize("name", ["exponential", "rayleigh"])
def test_simulation_agrees_where_the_exact_number_is_known(name, key):
    c = np.array([1.0, 3.0, 2.0, 0.5, 1.5])
    samplers = {
        "exponential": dist.Exponential(1.0),
        "rayleigh": lambda key, shape: np.sqrt(2 * np.asarray(jax.random.exponential(key, shape))),
    }
    exact, seen = unbalanced_chance(c, name), unbalanced_chance(c, samplers[name], key=key)
    assert seen.kind == "estimate"
    assert abs(seen.probability - exact.probability) < 5 * seen.stderr
    # negative control: equal sizes have another chance, and this number of draws sees it
    other = unbalanced_chance(np.ones(5), name).probability
    assert abs(seen.probability - other) > 5 * seen.stderr


def lomax(shape):
    """1 + X is Pareto: the heavy-tailed entries of [L] §4.3."""
    return dist.TransformedDistribution(
        dist.Pareto(1.0, shape), dist.transforms.AffineTransform(-1.0, 1.0)
    )


def test_the_papers_lomax_bound_does_not_hold(key):
    """P = n E(1 + S)^{−α} = n/Γ(α) ∫ u^{α−1} e^{−u} (α e^u E_{α+1}(u))^{n−1} du, α = 3."""
    n, bound = 20, 2 * 20 * 2.0**-20
    u = np.geomspace(1e-9, 200, 200_001)
    integrand = u**2 / 2 * np.exp(-u) * (3 * np.exp(u) * expn(4, u)) ** (n - 1) * u
    exact = n * np.trapezoid(integrand, np.log(u))
    assert exact == pytest.approx(0.0300, abs=5e-5)
    seen = unbalanced_chance(np.ones(n), lomax(3.0), key=key)
    assert abs(seen.probability - exact) < 5 * seen.stderr
    assert seen.probability - 5 * seen.stderr > 500 * bound


def test_an_event_never_seen_is_not_called_impossible(key):
    chance = unbalanced_chance(np.ones(40), dist.Exponential(1.0), key=key, draws=1000)
    assert (chance.probability, chance.stderr) == (0.0, 1e-3)
    assert "estimate" in str(chance)


def test_bad_input_is_named(key):
    with pytest.raises(ValueError, match=r"^`size` must be a vector"):
        unbalanced_chance(5)
    with pytest.raises(ValueError, match=r"^`size` must be positive; got 0.0 at index 1"):
        unbalanced_chance([1.0, 0.0])
    with pytest.raises(ValueError, match=r"^`entries` must be one of"):
        unbalanced_chance([1.0, 1.0], "cauchy")
    with pytest.raises(ValueError, match=r"^`key` must be given"):
        unbalanced_chance([1.0, 1.0], dist.Exponential(1.0))
    with pytest.raises(ValueError, match=r"^`entries` must draw one number per cell"):
        unbalanced_chance([1.0, 1.0], dist.Exponential(np.ones(2)), key=key)
    with pytest.raises(ValueError, match=r"^`draws` must be at least 2"):
        unbalanced_chance([1.0, 1.0], dist.Exponential(1.0), key=key, draws=1)
